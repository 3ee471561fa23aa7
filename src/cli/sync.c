/* SPDX-License-Identifier: MIT
 *
 * `tidings sync`: keeps a directory in sync with the resources below a URI. It subscribes first and
 * then makes a full pass, so that it misses no change in between; afterwards it follows the
 * changes. After an interruption, and after the server lost changes, it makes another full pass:
 * etags show which resources need no read.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/json.h>

#include "cli/folder.h"
#include "cli/mirror.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"

#define CHANGES_MAX 10000u   /* waiting changes; beyond it, a full pass runs */
#define RETRY_MS 5000        /* after a failed pass, unless the client reconnects first */
#define CALM_MS 60000        /* … after an oversized answer, which may end the connection */
#define AGAIN_MAX_MS 3600000 /* retries start after RETRY_MS and double up to this */

/* A resource to visit. */
struct visit {
    char *uri, *etag;
    char *failure; /* NULL, or why its contents are unknown */
    int64_t size;  /* -1: unknown */
    bool is_directory, is_gone;
};

struct visits {
    struct visit *items;
    size_t count, room;
};

struct sync {
    struct cli cli;
    bool once, forces, takes_control_files, is_dry;
    struct words excluded;
    uint64_t end_ms;
    /* state: */
    struct mirror mirror;
    char *base;
    struct visits ahead;   /* of a pass */
    struct visits changes; /* received updates */
    bool needs_pass, is_watching, is_in_step;
    bool is_single;                /* the URI is a resource itself */
    int64_t retry_ms;              /* monotonic: earliest next pass */
    int64_t calm_ms;               /* … even after a reconnect */
    int64_t again_ms, again_pause; /* time to retry failed work; 0: no failure */
    bool shows_progress;
    size_t done, counts[MIRROR_FAILED + 1];
};

/* ---- lists ----------------------------------------------------------------------------------- */

static void sync_release(struct visit *it)
{
    free(it->uri);
    tidings_free(it->etag);
    free(it->failure);
}

static void visits_clear(struct visits *s)
{
    for (size_t i = 0; i < s->count; i++) {
        sync_release(&s->items[i]);
    }
    free(s->items);
    *s = (struct visits){0};
}

/* Takes the members of `it`, except its URI: that is `uri`. */
static bool sync_add_visit(struct visits *s, struct tidings_str uri, struct visit it)
{
    it.uri = strndup(uri.ptr, uri.len);
    if (it.uri && s->count == s->room) {
        size_t room = s->room > 0 ? 2 * s->room : 256;
        struct visit *more = realloc(s->items, room * sizeof(*more));
        s->items = more ? more : s->items;
        s->room = more ? room : s->room;
    }
    if (!it.uri || s->count == s->room) {
        sync_release(&it);
        return false;
    }
    s->items[s->count++] = it;
    return true;
}

/* ---- updates --------------------------------------------------------------------------------- */

static void clear_progress(const struct sync *s)
{
    if (s->shows_progress) {
        fputs("\r\x1b[K", stderr);
    }
}

static void put_progress(const struct sync *s)
{
    char bar[] = "                              ";
    size_t total = s->ahead.count;
    if (s->shows_progress && total > 0) {
        memset(bar, '#', (sizeof(bar) - 1) * s->done / total);
        fprintf(stderr, "\r\x1b[K[%s] %zu/%zu", bar, s->done, total);
        fflush(stderr);
    }
}

static void on_deed(void *user, enum mirror_result deed, struct tidings_str uri, const char *reason)
{
    static const char *const names[] = {"created", "updated", "removed",
                                        "kept",    "refused", "failed"};
    struct sync *s = user;
    bool is_bad = deed >= MIRROR_KEPT;
    FILE *out = is_bad && !s->cli.json ? stderr : stdout;
    s->counts[deed]++;
    clear_progress(s);
    if (s->cli.json) {
        fprintf(out, "{\"action\":\"%s\",%s\"uri\":", names[deed],
                s->is_dry ? "\"dryRun\":true," : "");
        put_quoted(out, uri);
        if (reason) {
            fputs(",\"reason\":", out);
            put_quoted(out, tidings_str(reason));
        }
        fputs("}\n", out);
    } else if (is_bad || !s->cli.quiet) {
        fputs(s->is_dry && !is_bad ? "would be " : "", out);
        put_style(&s->cli, out, is_bad ? STYLE_BAD : STYLE_GOOD);
        fputs(names[deed], out);
        put_style(&s->cli, out, STYLE_PLAIN);
        fputc(' ', out);
        put_text(out, uri);
        fputs(reason ? ": " : "", out);
        put_text(out, tidings_str(reason ? reason : ""));
        fputc('\n', out);
    }
    fflush(out);
    put_progress(s);
}

/* Rewrite the state without obsolete lines; on failure the longer file stays in use. */
static void compact(struct sync *s)
{
    struct tidings_error err = {0};
    if (!s->is_dry && mirror_state_compact(&s->mirror.state, &err) < 0) {
        on_deed(s, MIRROR_FAILED, tidings_str(s->base), err.text);
    }
}

/* ---- full pass ------------------------------------------------------------------------------- */

static int64_t size_of(struct tidings_str item)
{
    char *text = tidings_json_get(item, "/size"), *end = NULL;
    long long size = text ? strtoll(text, &end, 10) : -1;
    bool is_known = text && *end == '\0' && size >= 0;
    tidings_free(text);
    return is_known ? size : -1;
}

static int sync_on_entry(void *user, const struct tidings_walk_entry *e)
{
    struct sync *s = user;
    struct visit it = {.is_directory = e->has_children, .size = size_of(e->item)};
    if (e->is_repeated) {
        return 0;
    }
    const char *why = e->failure ? e->failure->text : e->is_cut ? "it is too deep" : NULL;
    if (why && !(it.failure = strdup(why))) {
        return TIDINGS_E_NOMEM;
    }
    it.etag = tidings_json_string(e->item, "/_meta/dev.tidings~1etag");
    return sync_add_visit(&s->ahead, e->uri, it) ? 0 : TIDINGS_E_NOMEM;
}

/* For servers without directory listings: all resources whose URI has the prefix. */
static int sync_on_item(void *user, struct tidings_str item)
{
    struct sync *s = user;
    char *uri = tidings_json_string(item, "/uri");
    size_t len = uri ? strlen(uri) : 0;
    bool is_below = len > strlen(s->base) && strncmp(uri, s->base, strlen(s->base)) == 0;
    int rc = 0;
    s->is_single =
        s->is_single || (uri && len + 1 == strlen(s->base) && strncmp(uri, s->base, len) == 0);
    if (is_below && s->ahead.count >= MIRROR_MAX) {
        rc = TIDINGS_E_LIMIT;
    } else if (is_below) {
        struct visit it = {.etag = tidings_json_string(item, "/_meta/dev.tidings~1etag"),
                           .size = size_of(item),
                           .is_directory = uri[len - 1] == '/'};
        rc = sync_add_visit(&s->ahead, tidings_strn(uri, len), it) ? 0 : TIDINGS_E_NOMEM;
    }
    tidings_free(uri);
    return rc;
}

static int sync_list_all(struct sync *s, struct tidings_error *err)
{
    struct tidings_walk_limits limits = {.depth = LOCAL_DEPTH_MAX, .entries = MIRROR_MAX};
    int rc = tidings_client_walk(s->mirror.client, s->base, &limits, sync_on_entry, s, err);
    if (rc == TIDINGS_E_UNSUPPORTED) {
        visits_clear(&s->ahead);
        rc = tidings_client_list(s->mirror.client, TIDINGS_LISTING_RESOURCES, sync_on_item, s, err);
    }
    if (rc >= 0 && s->is_single && s->ahead.count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is a single resource, and nothing is below it: 'tidings read' "
                            "prints it, 'tidings watch --read' whenever it changes",
                            (int)strlen(s->base) - 1, s->base);
    }
    if (rc < 0 && !err->code) {
        tidings_fail(err, rc, "%s",
                     rc == TIDINGS_E_LIMIT ? "there are too many resources" : "out of memory");
    }
    return rc < 0 ? rc : 0;
}

static size_t not_done(const struct sync *s)
{
    return s->counts[MIRROR_KEPT] + s->counts[MIRROR_REFUSED] + s->counts[MIRROR_FAILED];
}

static int sync_mirror_one(struct sync *s, const struct visit *it, struct tidings_error *err)
{
    const struct mirror_item item = {.uri = tidings_str(it->uri),
                                     .etag = it->etag ? it->etag : "",
                                     .size = it->size,
                                     .is_directory = it->is_directory};
    return mirror_take(&s->mirror, &item, err);
}

static int sync_everything(struct sync *s, struct tidings_error *err)
{
    size_t before = not_done(s);
    s->needs_pass = s->is_in_step = false;
    s->done = 0;
    visits_clear(&s->ahead);
    visits_clear(&s->changes); /* the pass covers all earlier changes */
    mirror_begin(&s->mirror);
    int rc = sync_list_all(s, err);
    for (size_t i = 0; i < s->ahead.count && rc == 0; i++) {
        const struct visit *it = &s->ahead.items[i];
        rc = sync_mirror_one(s, it, err);
        if (rc == 0 && it->failure) {
            mirror_hold(&s->mirror, tidings_str(it->uri), it->failure);
        }
        s->done++;
        put_progress(s);
    }
    clear_progress(s);
    if (rc == 0) {
        mirror_end(&s->mirror);
        compact(s);
    }
    mirror_give_up(&s->mirror);
    if (s->mirror.is_broken) {
        s->calm_ms = now_ms() + CALM_MS;
    }
    visits_clear(&s->ahead);
    s->is_in_step = rc == 0;
    if (rc == 0 && !s->cli.quiet && s->is_dry) {
        fputs("tidings sync: nothing was changed (--dry-run)\n", stderr);
    } else if (rc == 0 && !s->cli.quiet) {
        size_t bad = not_done(s) - before;
        fprintf(stderr,
                bad > 0 ? "tidings sync: incomplete, %zu files and directories; %zu not as "
                          "the server has them\n"
                        : "tidings sync: in step, %zu files and directories\n",
                s->mirror.state.count, bad);
    }
    return rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void sync_on_update(void *user, const struct tidings_update *u)
{
    struct sync *s = user;
    bool is_gone = u->kind == TIDINGS_CHANGE_DELETED;
    bool is_directory = u->uri.len > 0 && u->uri.ptr[u->uri.len - 1] == '/';
    /* The contents of a new or changed directory may get no updates of their own. A deletion that
     * was inferred by comparison is not confirmed by the server. In both cases a full pass is
     * needed. */
    if (u->truncated || (is_directory && !is_gone) || (u->synthetic && is_gone) ||
        s->changes.count >= CHANGES_MAX ||
        !sync_add_visit(&s->changes, u->uri, (struct visit){.size = -1, .is_gone = is_gone})) {
        s->needs_pass = true;
    }
}

static void sync_on_state(void *user, const struct tidings_state_event *e)
{
    struct sync *s = user;
    if (e->state == TIDINGS_STATE_WATCHING || e->state == TIDINGS_STATE_GAP) {
        s->is_watching = true;
        s->needs_pass = true;
        s->retry_ms = s->calm_ms;
    } else if (e->state == TIDINGS_STATE_REFUSED) {
        fputs("tidings sync: refused ", stderr);
        put_text(stderr, e->uri);
        fputs(": ", stderr);
        put_text(stderr, e->reason);
        fputc('\n', stderr);
    } else if (e->state == TIDINGS_STATE_DISCONNECTED) {
        clear_progress(s);
        fputs("tidings sync: disconnected: ", stderr);
        put_text(stderr, e->reason);
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
    }
}

/* Handle the changes received so far, the oldest first. */
static int sync_follow_changes(struct sync *s, struct tidings_error *err)
{
    struct visits now = s->changes;
    int rc = 0;
    s->changes = (struct visits){0};
    for (size_t i = 0; i < now.count && rc == 0; i++) {
        struct tidings_str uri = tidings_str(now.items[i].uri);
        if (now.items[i].is_gone) {
            mirror_remove(&s->mirror, uri);
        } else {
            rc = sync_mirror_one(s, &now.items[i], err);
        }
    }
    s->needs_pass = s->needs_pass || s->mirror.needs_pass;
    if (mirror_state_is_long(&s->mirror.state)) {
        compact(s);
    }
    s->is_in_step = s->is_in_step && rc == 0;
    visits_clear(&now);
    return rc;
}

/* Returns true if a retry may help. A token file may be replaced; without one, an authorization
 * failure ends sync. */
static bool sync_may_recover(const struct sync *s, int code)
{
    return (code == TIDINGS_E_DENIED && s->cli.token_file) || code == TIDINGS_E_IO ||
           code == TIDINGS_E_CLOSED || code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_BUSY;
}

/* Schedule a retry: the cause may be fixed by then, such as a full disk or a denied directory. */
static void try_again(struct sync *s, bool is_pass, size_t failed)
{
    bool did_fail = s->counts[MIRROR_FAILED] > failed;
    if (is_pass) {
        int64_t pause = s->again_pause > 0 ? 2 * s->again_pause : RETRY_MS;
        s->again_pause = !did_fail ? 0 : pause < AGAIN_MAX_MS ? pause : AGAIN_MAX_MS;
        s->again_ms = did_fail ? now_ms() + s->again_pause : 0;
    } else if (did_fail && s->again_ms == 0) {
        s->again_ms = now_ms() + RETRY_MS;
    }
}

/* One step of the work. */
static int work(struct sync *s, struct tidings_error *err)
{
    int rc = 0;
    size_t failed = s->counts[MIRROR_FAILED];
    int64_t now = (int64_t)now_ms();
    s->needs_pass = s->needs_pass || (s->again_ms > 0 && now >= s->again_ms);
    bool is_pass = s->needs_pass && s->is_watching && now >= s->retry_ms;
    if (is_pass) {
        rc = sync_everything(s, err);
    }
    if (rc == 0 && !s->needs_pass) {
        rc = sync_follow_changes(s, err);
    }
    try_again(s, is_pass, failed);
    if (rc < 0 && sync_may_recover(s, rc)) {
        s->needs_pass = true;
        s->retry_ms = now_ms() + RETRY_MS;
        rc = 0;
    }
    return rc;
}

/* How long there is no work without new input; negative: no limit. */
static int idle_ms(const struct sync *s)
{
    int64_t at = s->needs_pass && s->is_watching ? s->retry_ms : s->again_ms > 0 ? s->again_ms : -1;
    int64_t left = at - (int64_t)now_ms();
    return at < 0 ? -1 : left < 0 ? 0 : left < AGAIN_MAX_MS ? (int)left : AGAIN_MAX_MS;
}

/* Runs until it is stopped. */
static int sync_until_stopped(struct sync *s, struct tidings_error *err)
{
    struct tidings_subscribe_options on = {.fn = sync_on_update, .user = s};
    if (!tidings_client_subscribe(s->mirror.client, s->base, &on, err)) {
        return err->code;
    }
    for (;;) {
        int rc = tidings_client_step(s->mirror.client, idle_ms(s), err);
        if (rc <= 0) {
            return rc;
        }
        rc = work(s, err);
        if (rc < 0) {
            return rc == TIDINGS_E_CANCELLED ? 0 : rc;
        }
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_mirror(struct sync *s, struct tidings_error *err)
{
    const char *dir = s->cli.args[1];
    int errnum =
        s->is_dry ? folder_open_existing(dir, &s->mirror.root) : folder_open(dir, &s->mirror.root);
    if (errnum) {
        s->mirror.root = -1;
        target_is_innocent();
        bool is_held = errnum == EWOULDBLOCK;
        return tidings_fail(err, is_held ? TIDINGS_E_BUSY : TIDINGS_E_IO, "%.160s: %s", dir,
                            is_held ? "another 'tidings sync' is at work there" : strerror(errnum));
    }
    int rc = s->is_dry ? mirror_state_read(&s->mirror.state, s->mirror.root, s->base, err)
                       : mirror_state_open(&s->mirror.state, s->mirror.root, s->base, err);
    if (rc == 0 && s->mirror.state.damaged > 0) {
        fprintf(stderr,
                "tidings sync: %zu lines of " MIRROR_STATE
                " are damaged: the files they told of count "
                "as yours\n",
                s->mirror.state.damaged);
    }
    return rc;
}

/* A directory inside the tree that it mirrors would be mirrored into itself without end. The state
 * file of this directory shows whether the server serves this very directory, or one of the same
 * name on its own machine. */
static int check_apart(struct sync *s, struct tidings_error *err)
{
    struct tidings_error why = {0};
    struct stat st;
    char *uri = NULL, *item = NULL;
    char *dir = uri_of_argument(s->cli.args[1], &why);
    if (dir && strncmp(dir, s->base, strlen(s->base)) == 0 &&
        asprintf(&uri, "%s" MIRROR_STATE, dir) > 0) {
        item = tidings_client_metadata(s->mirror.client, uri, &why);
        free(uri);
    }
    bool is_within = item && folder_stat(s->mirror.root, MIRROR_STATE, &st) == 0 &&
                     size_of(tidings_str(item)) == st.st_size;
    tidings_free(item);
    free(dir);
    return is_within
               ? tidings_fail(err, TIDINGS_E_INVALID,
                              "%.160s lies within the directory that it would be the mirror of",
                              s->cli.args[1])
               : 0;
}

/* The URI with a final slash. */
static char *base_of(const char *argument, struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    size_t len = uri ? strlen(uri) : 0;
    char *base = uri ? realloc(uri, len + 2) : NULL;
    if (!base) {
        free(uri);
        return NULL;
    }
    if (len == 0 || base[len - 1] != '/') {
        memcpy(base + len, "/", 2);
    }
    return base;
}

static int run_sync(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct sync *s = (struct sync *)cli;
    s->base = base_of(cli->args[0], err);
    s->shows_progress = is_terminal(stderr) && !cli->quiet && !cli->json;
    s->mirror = (struct mirror){.client = client,
                                .root = -1,
                                .forces = s->forces,
                                .takes_control_files = s->takes_control_files,
                                .is_dry = s->is_dry,
                                .excluded = s->excluded.items,
                                .excluded_count = s->excluded.count,
                                .max_message = cli->max_message << 20,
                                .report = on_deed,
                                .user = s};
    int rc = s->base ? open_mirror(s, err) : err->code;
    remote_end_after(s->end_ms);
    if (rc == 0) {
        tidings_client_on_state(client, sync_on_state, s);
        rc = tidings_client_connect(client, err);
    }
    if (rc == 0) {
        rc = check_apart(s, err);
    }
    if (rc == 0) {
        rc = s->once || s->is_dry ? sync_everything(s, err) : sync_until_stopped(s, err);
    }
    tidings_client_on_state(client, NULL, NULL);
    mirror_state_close(&s->mirror.state);
    if (s->mirror.root >= 0) {
        close(s->mirror.root);
    }
    visits_clear(&s->ahead);
    visits_clear(&s->changes);
    free(s->base);
    if (remote_late && !s->is_in_step) {
        rc = tidings_fail(err, TIDINGS_E_TIMEOUT, "timed out before everything was copied");
    }
    return rc < 0 ? rc : not_done(s) > 0 ? 1 : 0;
}

#define AT(member) offsetof(struct sync, member)

static const struct option options[] = {
    {.name = "once",
     .letter = '1',
     .kind = OPTION_FLAG,
     .offset = AT(once),
     .help = "exit when everything is copied, instead of following changes"},
    {.name = "dry-run",
     .letter = 'n',
     .kind = OPTION_FLAG,
     .offset = AT(is_dry),
     .help = "tell what would be done, do nothing, and end"},
    {.name = "exclude",
     .kind = OPTION_LIST,
     .offset = AT(excluded),
     .metavar = "GLOB",
     .help = "neither make nor remove what matches: a name at any depth, or with a '/' a path; may "
             "be repeated"},
    {.name = "force",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .offset = AT(forces),
     .help = "replace and remove files although they were changed here"},
    {.name = "control-files",
     .kind = OPTION_FLAG,
     .offset = AT(takes_control_files),
     .help =
         "write files too that other tools follow unasked (.git, .envrc, .vscode, .mcp.json …)"},
    {.name = "max-message",
     .kind = OPTION_NUMBER,
     .offset = AT(cli.max_message),
     .metavar = "MIB",
     .help = "largest message accepted, for large files of servers that give no parts",
     .value = "16",
     .min = 1,
     .max = 4096},
    {.name = "timeout",
     .kind = OPTION_TIME,
     .offset = AT(end_ms),
     .metavar = "TIME",
     .help = "end after that long, not the wait for an answer as elsewhere; status 75 if not "
             "everything is copied",
     .min = 1,
     .max = 31536000000},
    {0},
};

const struct command command_sync = {
    .name = "sync",
    .args = "URI DIR",
    .help = "keep a directory like what is below a resource",
    .about =
        "Make DIR like what is below the URI, then follow its changes. Only files that sync "
        "created are\nreplaced or removed, and only if no other program changed them; others are "
        "kept and reported.\nDIR/.tidings-sync records these files, so that a restart reads only "
        "differences.\nFiles that version control, shells, editors, agents and other "
        "tools follow without being asked\nare refused, unless --control-files is given.\n\n"
        "--json prints an object per file: action (created, updated, removed, kept, refused, "
        "failed),\nuri, and reason for the last three. They make the status 1.\n",
    .options = options,
    .size = sizeof(struct sync),
    .min_args = 2,
    .max_args = 2,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .may_be_asked = true,
    .ask = run_sync,
};
