/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: one line per change on standard output, flushed; or a command run for each, or
 * for each burst.
 */
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/file.h>
#include <tidings/json.h>

#include "cli/answer.h"
#include "cli/call.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"
#include "cli/watch_output.h"
#include "cli/watch_run.h"

/* -------------------------------------------------------------------------------------------------
 * The state that the parts of `tidings watch` share: the command and its options, the subscriptions
 * and the printed changes, and the progress that is saved for the next watch (--state).
 */

/* A position in the stream of changes. `cursor` applies to subscriptions that have received a
 * change; the others keep the cursor they started with. */
struct watch_progress {
    char cursor[WATCH_STATE_CURSOR];
    bool is_behind_cursor[WORDS_MAX];
};

/* The progress of this watch, so that the next one resumes there. Received changes are stamped with
 * `turn`. A position is safe when no waiting or running change has the same or a lower turn.
 */
struct watch_resume {
    struct watch_state_file file;
    struct watch_state state; /* as in the file; sorted by URI */
    uint64_t turn;
    struct watch_progress latest, waiting; /* last received; next to become safe */
    uint64_t waiting_turn;
    bool has_latest, has_waiting, is_unsaved;
};

struct watch {
    struct cli cli;
    /* options: */
    uint64_t left; /* changes until the end; 0: no end */
    uint64_t end_ms;
    uint64_t parallel, debounce_ms;
    const char *command, *state_path;
    struct subscribe_options subscribe;
    bool until_first, waits, reads, diffs, shows_cursor;
    bool has_parallel, has_debounce, batches, restarts, at_start, ends_with_nul;
    /* state: */
    struct tidings_client *client;
    struct jobs *jobs;           /* --exec */
    struct batch *batch;         /* --exec with --batch */
    struct content_cache *cache; /* --diff */
    char *uris[WORDS_MAX];
    bool are_globs[WORDS_MAX];  /* paths with wildcards */
    int refused[WORDS_MAX];     /* TIDINGS_E_*; 0: not refused */
    size_t count, answered;     /* URIs; those that the server has accepted or refused once */
    bool is_stranger;           /* the server does not know options of subscriptions */
    struct watch_resume resume; /* --state */
    bool is_lost;               /* changes were dropped without being handled */
    uint64_t begun_ms;
    bool has_watched;            /* the server accepted a subscription once */
    struct tidings_error absent; /* the first connection failed */
};

/* -------------------------------------------------------------------------------------------------
 * Reads and writes the file of `tidings watch --state`. The file is untrusted input: a user may
 * have truncated or edited it. The reader rejects the whole file unless it is exactly what the
 * writer produces.
 */

#define STATE_ANEW "name another file, or remove this one to start over"

void watch_state_deinit(struct watch_state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        tidings_free(s->marks[i].uri);
    }
    free(s->marks);
    tidings_free(s->server);
    *s = (struct watch_state){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

struct parsing_state {
    struct watch_state *state;
    bool is_bad;
};

static bool watch_state_has(const struct watch_state *s, const char *uri)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->marks[i].uri, uri) == 0) {
            return true;
        }
    }
    return false;
}

static int watch_state_on_mark(void *user, struct tidings_str key, struct tidings_str item)
{
    struct parsing_state *p = user;
    struct watch_state *s = p->state;
    char *uri = tidings_json_string(item, "/uri");
    char *cursor = tidings_json_string(item, "/cursor");
    (void)key;
    p->is_bad = p->is_bad || !uri || !uri[0] || !cursor || strlen(cursor) >= WATCH_STATE_CURSOR ||
                s->count == WATCH_STATE_MAX || watch_state_has(s, uri);
    if (!p->is_bad) {
        s->marks[s->count].uri = uri;
        memcpy(s->marks[s->count++].cursor, cursor, strlen(cursor) + 1);
        uri = NULL;
    }
    tidings_free(uri);
    tidings_free(cursor);
    return p->is_bad;
}

int watch_state_parse(struct tidings_str text, struct watch_state *ret, struct tidings_error *err)
{
    struct parsing_state p = {.state = ret};
    *ret = (struct watch_state){.marks = calloc(WATCH_STATE_MAX, sizeof(*ret->marks))};
    if (!ret->marks) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *version = tidings_json_get(text, "/watch");
    ret->server = tidings_json_string(text, "/server");
    p.is_bad = !version || strcmp(version, "1") != 0 || !ret->server ||
               tidings_json_each(text, "/subscriptions", watch_state_on_mark, &p) != 0 || p.is_bad;
    tidings_free(version);
    if (p.is_bad) {
        watch_state_deinit(ret);
        return tidings_fail(err, TIDINGS_E_PARSE, "it is not the state of a watch; " STATE_ANEW);
    }
    return 0;
}

void watch_state_write(FILE *out, const struct watch_state *s)
{
    fputs("{\"watch\":1,\"server\":", out);
    put_quoted(out, tidings_str(s->server ? s->server : ""));
    fputs(",\"subscriptions\":[", out);
    for (size_t i = 0; i < s->count; i++) {
        fputs(i > 0 ? ",{\"uri\":" : "{\"uri\":", out);
        put_quoted(out, tidings_str(s->marks[i].uri));
        fputs(",\"cursor\":", out);
        put_quoted(out, tidings_str(s->marks[i].cursor));
        fputc('}', out);
    }
    fputs("]}\n", out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int watch_state_fail(const char *path, int code, const char *why, struct tidings_error *err)
{
    return tidings_fail(err, code, "'%.160s': %.300s", path, why);
}

/* Returns true if the open file is still the file at the path. */
static bool watch_state_is_current(const char *path, int fd)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

static void watch_state_close(struct watch_state_file *f);

/* A process that replaces the file locks the new one first. The lock of a replaced file is
 * worthless. */
static int watch_state_lock(struct watch_state_file *f, struct tidings_error *err)
{
    for (;;) {
        struct stat st;
        f->lock = open(f->path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (f->lock < 0 || fstat(f->lock, &st) < 0) {
            return watch_state_fail(
                f->path, errno == ELOOP || errno == EACCES ? TIDINGS_E_DENIED : TIDINGS_E_IO,
                errno == ELOOP ? "it is a symbolic link; name the file itself" : strerror(errno),
                err);
        }
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
            return watch_state_fail(f->path, TIDINGS_E_DENIED,
                                    "other users can write this file; name another one", err);
        }
        if (flock(f->lock, LOCK_EX | LOCK_NB) < 0) {
            return watch_state_fail(f->path, TIDINGS_E_BUSY,
                                    "another watch uses it; name another file", err);
        }
        if (watch_state_is_current(f->path, f->lock)) {
            return 0;
        }
        watch_state_close(f);
    }
}

static int watch_state_open(struct watch_state_file *f, const char *path, struct watch_state *ret,
                            struct tidings_error *err)
{
    struct tidings_error why = {0};
    size_t len = 0;
    *f = (struct watch_state_file){.path = path, .lock = -1};
    *ret = (struct watch_state){0};
    if (watch_state_lock(f, err) < 0) {
        return err->code;
    }
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, WATCH_STATE_BYTES, &len, err);
    if (!text) {
        return err->code;
    }
    int rc = len > 0 ? watch_state_parse(tidings_strn(text, len), ret, &why) : 0;
    tidings_free(text);
    return rc < 0 ? watch_state_fail(path, rc, why.text, err) : 0;
}

static void watch_state_close(struct watch_state_file *f)
{
    if (f->lock >= 0) {
        close(f->lock);
    }
    f->lock = -1;
}

/* Writes the whole state and syncs it to disk. */
static bool watch_state_put(int fd, const struct watch_state *s)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (!out) {
        return false;
    }
    watch_state_write(out, s);
    bool is_good = ferror(out) == 0 && fflush(out) == 0 && fsync(fd) == 0;
    int errnum = errno;
    fclose(out);
    errno = errnum;
    return is_good;
}

/* Lock the file and read it into `ret`. A missing file is created, and nothing is read.
 * TIDINGS_E_BUSY: another watch uses the file; TIDINGS_E_DENIED: another user owns the file or can
 * write it. Close it in any case. */
static int watch_state_save(struct watch_state_file *f, const struct watch_state *s,
                            struct tidings_error *err)
{
    char beside[PATH_MAX];
    int n = snprintf(beside, sizeof(beside), "%s-new", f->path);
    if (n < 0 || (size_t)n >= sizeof(beside)) {
        return watch_state_fail(f->path, TIDINGS_E_IO, strerror(ENAMETOOLONG), err);
    }
    unlink(beside); /* left by a killed process or created by another program */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_good = fd >= 0 && watch_state_put(fd, s) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                   rename(beside, f->path) == 0;
    if (!is_good) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
            unlink(beside);
        }
        return watch_state_fail(f->path, TIDINGS_E_IO, strerror(errnum), err);
    }
    watch_state_close(f);
    f->lock = fd;
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * The progress of `tidings watch --state`. Cursors are saved after the output was flushed or the
 * command has finished, so a watch that is killed repeats changes but never loses them.
 *
 * A cursor covers the subscriptions that existed when the server wrote its message. In the legacy
 * era subscriptions are made one after the other, so each keeps its initial cursor until it
 * receives a change (docs/explanation/delivery.md, "Resume").
 */

#define ANEW "name another file with --state, or remove this one to start over"

static struct watch_mark *watch_resume_mark(struct watch *w, struct tidings_str uri)
{
    for (size_t i = 0; i < w->resume.state.count; i++) {
        if (tidings_str_eq(tidings_str(w->resume.state.marks[i].uri), uri)) {
            return &w->resume.state.marks[i];
        }
    }
    return NULL;
}

static void watch_resume_set(char out[WATCH_STATE_CURSOR], struct tidings_str cursor)
{
    memcpy(out, cursor.ptr, cursor.len);
    out[cursor.len] = '\0';
}

static bool watch_resume_is_cursor(struct tidings_str cursor)
{
    return cursor.len > 0 && cursor.len < WATCH_STATE_CURSOR && !memchr(cursor.ptr, 0, cursor.len);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* The marks of all URIs, in their order, without cursors. */
static int watch_resume_make(struct watch *w, struct watch_state *s, struct tidings_error *err)
{
    s->server = target_address(&w->cli, err);
    s->marks = calloc(w->count, sizeof(*s->marks));
    for (size_t i = 0; s->server && s->marks && i < w->count; i++) {
        size_t size = strlen(w->uris[i]) + 1;
        char *uri = tidings_alloc(size);
        if (!uri) {
            break;
        }
        s->marks[s->count++].uri = memcpy(uri, w->uris[i], size);
    }
    if (s->server && s->count == w->count) {
        return 0;
    }
    return err->code ? err->code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* Take over the saved cursors. A file for another server or for other URIs is rejected. */
static int watch_resume_take(struct watch *w, const struct watch_state *before,
                             struct tidings_error *err)
{
    struct watch_state *s = &w->resume.state;
    if (!before->server) {
        return 0; /* a new file */
    }
    if (strcmp(before->server, s->server) != 0) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "'%.80s' is of a watch of %.120s; " ANEW,
                            w->state_path, before->server);
    }
    for (size_t i = 0; i < before->count; i++) {
        struct watch_mark *mark = watch_resume_mark(w, tidings_str(before->marks[i].uri));
        if (!mark || before->count != s->count) {
            return tidings_fail(err, TIDINGS_E_EXISTS,
                                "'%.80s' is of a watch of other URIs, as %.120s; " ANEW,
                                w->state_path, before->marks[i].uri);
        }
        watch_resume_set(mark->cursor, tidings_str(before->marks[i].cursor));
    }
    return before->count == s->count
               ? 0
               : tidings_fail(err, TIDINGS_E_EXISTS, "'%.80s' is of a watch of no URI; " ANEW,
                              w->state_path);
}

static int watch_resume_begin(struct watch *w, struct tidings_error *err)
{
    struct watch_state before = {0};
    struct watch_resume *r = &w->resume;
    r->file.lock = -1;
    if (!w->state_path) {
        return 0;
    }
    int rc = watch_state_open(&r->file, w->state_path, &before, err);
    rc = rc == 0 ? watch_resume_make(w, &r->state, err) : rc;
    rc = rc == 0 ? watch_resume_take(w, &before, err) : rc;
    rc = rc == 0 ? watch_state_save(&r->file, &r->state, err) : rc; /* check that it is writable */
    watch_state_deinit(&before);
    return rc;
}

/* Where to resume, once the server is known. All of these do nothing without --state. */
static void watch_resume_end(struct watch *w)
{
    watch_state_deinit(&w->resume.state);
    if (w->state_path) {
        watch_state_close(&w->resume.file);
    }
}

/* The cursor for the URI of that number; NULL: none. */
static const char *watch_resume_since(const struct watch *w, size_t index)
{
    const struct watch_state *s = &w->resume.state;
    return index < s->count && s->marks[index].cursor[0] ? s->marks[index].cursor : NULL;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void watch_resume_watching(struct watch *w, struct tidings_str uri,
                                  struct tidings_str cursor)
{
    struct watch_mark *mark = watch_resume_mark(w, uri);
    if (mark && !mark->cursor[0] && watch_resume_is_cursor(cursor)) {
        watch_resume_set(mark->cursor, cursor);
        w->resume.is_unsaved = true;
    }
}

/* The server sent something for this subscribed URI (NULL: for none). */
static void watch_resume_advance(struct watch *w, const char *subscribed, struct tidings_str cursor)
{
    struct watch_resume *r = &w->resume;
    const struct tidings_client_info *info = tidings_client_info(w->client);
    bool for_all = info && info->era == TIDINGS_ERA_MODERN;
    if (!w->state_path || !watch_resume_is_cursor(cursor)) {
        return;
    }
    watch_resume_set(r->latest.cursor, cursor);
    for (size_t i = 0; i < r->state.count; i++) {
        bool is_it = subscribed && strcmp(r->state.marks[i].uri, subscribed) == 0;
        r->latest.is_behind_cursor[i] = r->latest.is_behind_cursor[i] || for_all || is_it;
    }
    r->has_latest = true;
}

/* Save the progress; `oldest` is the lowest turn of unfinished changes. */
static int watch_resume_turn(struct watch *w, uint64_t oldest, struct tidings_error *err)
{
    struct watch_resume *r = &w->resume;
    if (r->has_latest && !r->has_waiting) {
        r->waiting = r->latest;
        r->waiting_turn = r->turn++;
        r->has_waiting = true;
        r->has_latest = false;
    }
    if (r->has_waiting && oldest > r->waiting_turn) {
        for (size_t i = 0; i < r->state.count; i++) {
            if (r->waiting.is_behind_cursor[i]) {
                watch_resume_set(r->state.marks[i].cursor, tidings_str(r->waiting.cursor));
            }
        }
        r->has_waiting = false;
        r->is_unsaved = true;
    }
    if (!r->is_unsaved) {
        return 0;
    }
    r->is_unsaved = false;
    return watch_state_save(&r->file, &r->state, err);
}

/* -------------------------------------------------------------------------------------------------
 * Builds the options of a subscription from the flags of `tidings watch`.
 */

const char *const include_names[] = {"none", "metadata", "value", "patch", NULL};
const char *const match_names[] = {"auto", "literal", "container", "template",
                                   "glob", "regex",   NULL};
const char *const detail_names[] = {"full", "slim", NULL};

/* The object under construction: first the members that have their own flags, then the others. */
struct making_options {
    FILE *out;
    size_t count;
    const char *said[9];
};

static void subscribe_options_begin(struct making_options *m, const char *name)
{
    fprintf(m->out, "%s\"%s\":", m->count > 0 ? "," : "", name);
    m->said[m->count++] = name;
}

static void subscribe_options_put_name(struct making_options *m, const char *name, const char *text)
{
    subscribe_options_begin(m, name);
    put_quoted(m->out, tidings_str(text));
}

static void subscribe_options_put_time(struct making_options *m, const char *name, uint64_t ms)
{
    subscribe_options_begin(m, name);
    fprintf(m->out, "%" PRIu64, ms);
}

static void subscribe_options_put(struct making_options *m, const struct subscribe_options *o,
                                  enum match match, const char *filter)
{
    if (o->since) {
        subscribe_options_put_name(m, "since", o->since);
    }
    if (o->include != INCLUDE_NONE) {
        subscribe_options_put_name(m, "include", include_names[o->include]);
    }
    if (match != MATCH_AUTO) {
        subscribe_options_put_name(m, "match", match_names[match]);
    }
    if (o->has_window) {
        subscribe_options_put_time(m, "windowMs", o->window_ms);
    }
    if (o->has_rate) {
        subscribe_options_put_time(m, "rateMs", o->rate_ms);
    }
    if (o->has_detail) {
        subscribe_options_put_name(m, "detail", detail_names[o->detail]);
    }
    if (o->is_initial) {
        subscribe_options_begin(m, "initial");
        fputs("true", m->out);
    }
    if (filter) {
        subscribe_options_begin(m, "filter");
        fputs(filter, m->out);
    }
}

/* Unknown keywords of a JSON Schema are ignored, so a schema without a known keyword accepts
 * everything.
 */
static int subscribe_options_on_keyword(void *user, struct tidings_str key,
                                        struct tidings_str value)
{
    static const char *const known[] = {
        "$ref",
        "$schema",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "dependentRequired",
        "enum",
        "if",
        "items",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "properties",
        "propertyNames",
        "required",
        "type",
    };
    bool *is_known = user;
    (void)value;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *is_known = *is_known || tidings_str_eq(key, tidings_str(known[i]));
    }
    return 0;
}

static int subscribe_options_check_filter(const char *filter, struct tidings_error *err)
{
    bool is_known = filter[0] != '{' || strcmp(filter, "{}") == 0;
    tidings_json_each(tidings_str(filter), "", subscribe_options_on_keyword, &is_known);
    return is_known ? 0
                    : tidings_fail(err, TIDINGS_E_INVALID,
                                   "--filter: no keyword of JSON Schema is in it, so it would let "
                                   "everything pass; changes whose metadata has a value are "
                                   "subscribed to as 'URI?name=value'");
}

/* A member of --options, unless it has its own flag. */
static int subscribe_options_on_member(void *user, struct tidings_str key, struct tidings_str value)
{
    struct making_options *m = user;
    for (size_t i = 0; i < m->count && m->said[i]; i++) {
        if (tidings_str_eq(key, tidings_str(m->said[i]))) {
            return 0;
        }
    }
    fputs(ftell(m->out) > 1 ? "," : "", m->out);
    put_quoted(m->out, key);
    fprintf(m->out, ":%.*s", (int)value.len, value.ptr);
    return 0;
}

static int subscribe_options_check(const char *options, struct tidings_error *err)
{
    char *whole = options ? tidings_json_get(tidings_str(options), "") : NULL;
    bool is_object = !options || (whole && whole[0] == '{');
    tidings_free(whole);
    return is_object
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "--options takes a JSON object, such as '%s'",
                              "{\"windowMs\": 0}");
}

/* JSON text, to be released with tidings_free, in `*ret`; NULL: none. If the user's match mode is
 * MATCH_AUTO, `match` replaces it. */
static int subscribe_options_make(const struct subscribe_options *o, enum match match, char **ret,
                                  struct tidings_error *err)
{
    struct json_text t;
    struct making_options m = {0};
    *ret = NULL;
    int rc = subscribe_options_check(o->options, err);
    char *filter = rc == 0 && o->filter ? input_json(o->filter, err) : NULL;
    rc = filter ? subscribe_options_check_filter(filter, err) : rc;
    if (rc < 0 || (o->filter && !filter)) {
        tidings_free(filter);
        return err->code;
    }
    match = o->match != MATCH_AUTO ? (enum match)o->match : match;
    if (!json_text_begin(&t)) {
        tidings_free(filter);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m.out = t.out;
    fputc('{', t.out);
    subscribe_options_put(&m, o, match, filter);
    if (o->options) {
        (void)tidings_json_each(tidings_str(o->options), "", subscribe_options_on_member, &m);
    }
    fputc('}', t.out);
    tidings_free(filter);
    char *text = json_text_take(&t);
    if (text && strcmp(text, "{}") != 0) {
        *ret = tidings_json_get(tidings_str(text), "");
    }
    bool is_none = text && strcmp(text, "{}") == 0;
    free(text);
    return *ret || is_none ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* The names of the options that the server must support, as "--filter, --window"; "": none.
 */
static const char *subscribe_options_set(const struct subscribe_options *o, char out[128])
{
    const struct {
        bool is_given;
        const char *name;
    } all[] = {
        {o->since, "--since"},
        {o->include == INCLUDE_METADATA || o->include == INCLUDE_PATCH, "--include"},
        {o->filter, "--filter"},
        {o->has_window, "--window"},
        {o->has_rate, "--rate"},
        {o->has_detail, "--detail"},
        {o->match != MATCH_AUTO, "--match"},
        {o->options, "--options"},
    };
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].is_given) {
            len += (size_t)snprintf(out + len, 128 - len, "%s%s", len > 0 ? ", " : "", all[i].name);
        }
    }
    return out;
}

/* -------------------------------------------------------------------------------------------------
 * The server that `tidings watch` follows: subscribes, prints changes or runs commands for them,
 * and reports the state of the connection. Text from a server is untrusted: control characters
 * never reach the terminal.
 */

/* How long to wait for the first connection without --wait. */
#define PATIENCE_MS 10000

/* ---- changes --------------------------------------------------------------------------------- */

static void watch_say_not_run(struct tidings_str uri, int rc)
{
    fputs("tidings watch: the command is not run for ", stderr);
    put_text(stderr, uri);
    fputs(rc == TIDINGS_E_INVALID ? ": a NUL fits into no variable\n" : ": out of memory\n",
          stderr);
}

/* The change as --json prints it; free it. NULL: no memory. */
static char *watch_text(const struct tidings_update *u, const struct content *c)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    change_put_json(t.out, u, c);
    return json_text_take(&t);
}

static void watch_run_command(struct watch *w, const struct tidings_update *u,
                              const struct content *c)
{
    struct json_text time;
    char *input = watch_text(u, c), *when = NULL;
    if (input && json_text_begin(&time)) {
        put_time(time.out, u->received_ms);
        when = json_text_take(&time);
    }
    struct job_change change = {
        .uri = u->uri,
        .change = tidings_str(change_word(u)),
        .subscribed_uri = u->subscribed_uri,
        .version = u->version,
        .cursor = u->cursor,
        .time = tidings_str(when ? when : ""),
        .input = tidings_str(input ? input : ""),
        .turn = w->resume.turn,
    };
    int rc = when ? jobs_add(w->jobs, &change) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        watch_say_not_run(u->uri, rc);
    }
    free(when);
    free(input);
}

static void watch_gather(struct watch *w, const struct tidings_update *u, const struct content *c)
{
    char *line = w->cli.json ? watch_text(u, c) : NULL;
    if (line) {
        line[strlen(line) - 1] = '\0'; /* the list adds its own line feed */
    }
    struct batch_change change = {u->uri, line, u->cursor, u->truncated, w->resume.turn};
    int rc = batch_add(w->batch, &change);
    if (rc < 0 || (w->cli.json && !line)) {
        watch_say_not_run(u->uri, TIDINGS_E_NOMEM);
    }
    free(line);
}

static void watch_on_update(void *user, const struct tidings_update *u)
{
    struct watch *w = user;
    struct content c = {0};
    bool is_asked = w->is_stranger && w->subscribe.include == INCLUDE_VALUE;
    if (w->reads || w->diffs || is_asked) {
        content_read(w->cache, w->client, u, &c);
    }
    if (!w->reads && !is_asked) {
        tidings_free(c.contents);
        c.contents = NULL;
    }
    if (w->batch) {
        watch_gather(w, u, &c);
    } else if (w->jobs) {
        watch_run_command(w, u, &c);
    } else if (w->cli.json) {
        change_put_json(stdout, u, &c);
    } else {
        struct change_view view = {w->shows_cursor, w->reads, w->subscribe.include};
        change_put_lines(&w->cli, &view, u, &c);
    }
    content_release(&c);
    remote_say_mended(&w->cli, w->client);
    bool is_counted = !w->batch && !u->initial && w->left > 0;
    /* The reader of the output has gone: stop. */
    w->is_lost = fflush(stdout) != 0 || w->is_lost;
    if (!w->is_lost && u->subscription) {
        watch_resume_advance(w, tidings_subscription_uri(u->subscription), u->cursor);
    }
    if (w->is_lost || (is_counted && --w->left == 0)) {
        tidings_client_stop(w->client);
    }
}

/* The position of the log, although nothing that concerns us changed. */
static void watch_on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    struct watch *w = user;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/dev.tidings/bookmark"))) {
        char *cursor = text_at(params, "/_meta/dev.tidings~1cursor");
        watch_resume_advance(w, NULL, tidings_str(cursor ? cursor : ""));
        tidings_free(cursor);
    }
}

/* ---- state ----------------------------------------------------------------------------------- */

static void watch_say(const char *what, struct tidings_str uri, struct tidings_str reason)
{
    fprintf(stderr, "tidings watch: %s", what);
    put_text(stderr, uri);
    fputs(uri.len > 0 && reason.len > 0 ? ": " : "", stderr);
    put_text(stderr, reason);
}

/* The server accepted or refused one more URI. --at-start waits for all of them, so that no change
 * is missed in between. */
static void on_answered(struct watch *w)
{
    if (++w->answered == w->count && w->at_start && w->has_watched) {
        batch_start(w->batch);
    }
}

static void watch_note_refused(struct watch *w, struct tidings_str uri, int code)
{
    for (size_t i = 0; i < w->count; i++) {
        if (tidings_str_eq(tidings_str(w->uris[i]), uri)) {
            w->refused[i] = code;
        }
    }
}

/* The server accepted its first URI, or a later one. */
static void on_watching(struct watch *w, const struct tidings_state_event *e)
{
    w->has_watched = true;
    watch_note_refused(w, e->uri, 0);
    watch_resume_watching(w, e->uri, e->cursor);
    if (w->state_path && e->cursor.len == 0 && !e->again) {
        watch_say("the server has no cursors: changes while watch does not run are lost for ",
                  e->uri, tidings_strn("", 0));
        fputc('\n', stderr);
    }
    if (e->reason.len > 0 && !e->again) {
        watch_say("warning: ", e->uri, e->reason);
        fputc('\n', stderr);
    }
    if (!e->again) {
        on_answered(w);
    }
    if (w->cache && !e->again) {
        char *uri = strndup(e->uri.ptr, e->uri.len);
        if (uri) {
            content_begin(w->cache, w->client, uri);
        }
        free(uri);
    }
    if (!w->cli.quiet) {
        fputs("watching ", stderr);
        put_text(stderr, e->uri);
        fputs(e->again ? " again\n" : "\n", stderr);
    }
    if (w->subscribe.is_initial && w->is_stranger && !e->again) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        struct tidings_update first = {
            .uri = e->uri,
            .initial = true,
            .received_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
            .params = TIDINGS_STR("{}"),
        };
        watch_on_update(w, &first);
    }
}

/* Print a warning, once, about options that the server does not support. */
static void on_connected(struct watch *w)
{
    const struct tidings_client_info *info = tidings_client_info(w->client);
    char names[128];
    bool is_ours = info && strstr(info->capabilities, "\"dev.tidings/subscription-correlation\"");
    if (is_ours || w->is_stranger) {
        return;
    }
    w->is_stranger = true;
    if (*subscribe_options_set(&w->subscribe, names)) {
        fprintf(stderr, "tidings watch: the server knows no options of subscriptions: without %s\n",
                names);
    }
    for (size_t i = 0; i < w->count; i++) {
        if (w->are_globs[i]) {
            watch_say("the server knows no wildcards: to it this is the name of one resource: ",
                      tidings_str(w->uris[i]), tidings_strn("", 0));
            fputc('\n', stderr);
        }
    }
    if (w->subscribe.include == INCLUDE_VALUE) {
        fputs("tidings watch: the server sends no contents with changes: they are read\n", stderr);
    }
}

static void on_disconnected(struct watch *w, const struct tidings_state_event *e)
{
    uint64_t next = now_ms() - w->begun_ms + e->retry_ms;
    watch_say("disconnected: ", tidings_strn("", 0), e->reason);
    if (w->has_watched || w->waits || next < PATIENCE_MS) {
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
        return;
    }
    fputc('\n', stderr);
    tidings_fail(&w->absent, TIDINGS_E_IO, "no connection within %d seconds; --wait keeps trying",
                 PATIENCE_MS / 1000);
    tidings_client_stop(w->client);
}

static void watch_on_state(void *user, const struct tidings_state_event *e)
{
    struct watch *w = user;
    switch (e->state) {
    case TIDINGS_STATE_WATCHING:
        on_watching(w, e);
        break;
    case TIDINGS_STATE_DISCONNECTED:
        on_disconnected(w, e);
        break;
    case TIDINGS_STATE_REFUSED:
    case TIDINGS_STATE_LOST:
    case TIDINGS_STATE_GAP:
        if (e->state == TIDINGS_STATE_REFUSED) {
            watch_note_refused(w, e->uri, e->code ? e->code : TIDINGS_E_NOTFOUND);
            on_answered(w);
        }
        watch_say(e->state == TIDINGS_STATE_REFUSED ? "refused "
                  : e->state == TIDINGS_STATE_LOST  ? "lost "
                                                    : "missed changes of ",
                  e->uri, e->reason);
        fputc('\n', stderr);
        break;
    case TIDINGS_STATE_CONNECTED:
        on_connected(w);
        break;
    case TIDINGS_STATE_ENDED:
        break;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Save the progress. */
static int watch_write_down(struct watch *w, struct tidings_error *err)
{
    return watch_resume_turn(w,
                             w->batch  ? batch_oldest(w->batch)
                             : w->jobs ? jobs_oldest(w->jobs)
                                       : UINT64_MAX,
                             err);
}

/* Runs until stopped or failed. */
static int watch_loop(struct watch *w, struct tidings_error *err)
{
    struct pollfd fds[JOBS_PARALLEL_MAX + 1];
    for (;;) {
        int rc = tidings_client_step(w->client, 0, err), ms = -1;
        size_t count = w->jobs ? jobs_turn(w->jobs, fds + 1, &ms) : 0;
        if (w->batch) {
            batch_turn(w->batch, &fds[++count], &ms);
        }
        int written = w->is_lost ? 0 : watch_write_down(w, err);
        if (w->batch && w->left > 0 && batch_done(w->batch) >= w->left) {
            w->left = 0;
            w->is_lost = true;
            batch_drop(w->batch);
            return written;
        }
        rc = written < 0 ? written : rc;
        if (rc <= 0) {
            return rc;
        }
        fds[0] = (struct pollfd){.fd = tidings_client_fd(w->client), .events = POLLIN};
        poll(fds, (nfds_t)count + 1, ms);
    }
}

static int watch_subscribe(struct watch *w, struct tidings_error *err)
{
    struct tidings_subscribe_options on = {.fn = watch_on_update, .user = w};
    int rc = 0;
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        char *options = NULL;
        struct subscribe_options own = w->subscribe;
        const char *since = watch_resume_since(w, i);
        own.since = since ? since : own.since;
        rc = subscribe_options_make(&own, w->are_globs[i] ? MATCH_GLOB : MATCH_AUTO, &options, err);
        on.options = options;
        if (rc == 0) {
            rc = tidings_client_subscribe(w->client, w->uris[i], &on, err) ? 0 : err->code;
        }
        tidings_free(options);
    }
    return rc;
}

/* The status for the first refused URI, whose refusal was printed then. */
static int watch_refused_status(const struct watch *w)
{
    int code = 0;
    for (size_t i = 0; i < w->count && code == 0; i++) {
        code = w->refused[i];
    }
    return tidings_code_exit(code);
}

/* The exit status. */
static int watch_exit_status(struct watch *w, int rc, struct tidings_error *err)
{
    if (rc >= 0 && w->absent.code) {
        *err = w->absent;
        rc = err->code;
    } else if (rc >= 0 && remote_late && (w->left > 0 || !w->has_watched)) {
        const char *missing =
            w->has_watched ? "not all changes came that were wanted" : "nothing could be watched";
        tidings_fail(err, TIDINGS_E_TIMEOUT, "the time is over, and %s", missing);
        return command_fail("watch", err, NULL);
    }
    if (rc < 0) {
        bool wants_login = tidings_client_wants_credentials(w->client);
        bool is_said = rc == TIDINGS_E_INVALID && w->answered > 0; /* by the server */
        return command_fail("watch", err, is_said ? NULL : target_hint(&w->cli, err, wants_login));
    }
    int written = command_finish("watch");
    size_t failed = w->batch ? batch_failed(w->batch) : w->jobs ? jobs_failed(w->jobs) : 0;
    return written != 0 ? written : failed > 0 ? 1 : watch_refused_status(w);
}

/* Subscribe and follow until the end: the exit status. */
static int watch_follow(struct watch *w)
{
    struct tidings_error err = {0};
    struct answers answers = {.cli = &w->cli};
    w->client = target_open(&w->cli, &err);
    if (!w->client) {
        return command_fail("watch", &err, target_hint(&w->cli, &err, false));
    }
    w->begun_ms = now_ms();
    tidings_client_on_state(w->client, watch_on_state, w);
    tidings_client_on_notification(w->client, watch_on_notification, w);
    int rc = watch_resume_begin(w, &err);
    rc = rc == 0 ? answers_begin(&answers, w->client, &err) : rc;
    rc = rc == 0 ? watch_subscribe(w, &err) : rc;
    if (rc < 0) {
        watch_resume_end(w);
        tidings_client_destroy(w->client);
        answers_end(&answers);
        return command_fail("watch", &err, NULL);
    }
    remote_interruptible(w->client);
    remote_end_after(w->end_ms);
    rc = watch_loop(w, &err);
    if (w->jobs) {
        jobs_finish(w->jobs, &remote_caught);
    } else if (w->batch) {
        batch_finish(w->batch, &remote_caught);
    }
    /* Work that a signal interrupted is unfinished. */
    if (rc >= 0 && !remote_caught && !w->is_lost) {
        rc = watch_write_down(w, &err);
    }
    remote_interruptible(NULL);
    int status = watch_exit_status(w, rc, &err);
    watch_resume_end(w);
    tidings_client_destroy(w->client);
    answers_end(&answers);
    login_tokens_end();
    if (remote_caught && w->left > 0) { /* fewer changes than requested */
        signal(remote_caught, SIG_DFL);
        raise(remote_caught);
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

/* The meaning of an argument depends on the kind of pattern. A path that names an existing file is
 * always literal, unless a pattern is requested. */
static char *take_uri(const struct watch *w, const char *argument, bool *ret_is_glob,
                      struct tidings_error *err)
{
    bool is_auto = w->subscribe.match == MATCH_AUTO;
    if (w->subscribe.match == MATCH_REGEX) {
        char *copy = strdup(argument);
        if (!copy) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        return copy;
    }
    if (w->subscribe.match == MATCH_TEMPLATE) {
        return uri_of_pattern(argument, "{}*+#?&,", err);
    }
    if (w->subscribe.match == MATCH_GLOB || (is_auto && argument_is_glob(argument))) {
        *ret_is_glob = strcmp(argument, "**") != 0;
        return uri_of_pattern(argument, "*?[]", err);
    }
    return uri_of_argument(argument, err);
}

static bool is_taken(const struct watch *w, const char *uri)
{
    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->uris[i], uri) == 0) {
            return true;
        }
    }
    return false;
}

/* Skips duplicates. */
static int take_uris(struct watch *w)
{
    struct tidings_error err = {0};
    for (size_t i = 0; i < w->cli.arg_count; i++) {
        bool is_glob = false;
        char *uri = take_uri(w, w->cli.args[i], &is_glob, &err);
        if (!uri) {
            return command_fail("watch", &err, NULL);
        }
        if (is_taken(w, uri)) {
            free(uri);
        } else {
            w->are_globs[w->count] = is_glob;
            w->uris[w->count++] = uri;
        }
    }
    return 0;
}

/* Rejects options that lack a required option or exclude each other. */
static int check_options(const struct watch *w)
{
    const struct {
        bool is_given;
        const char *name;
    } of_batch[] = {
        {w->has_debounce, "--debounce"},
        {w->restarts, "--restart"},
        {w->at_start, "--at-start"},
        {w->ends_with_nul, "--null"},
    };
    if (w->batches && !w->command) {
        return command_misuse("watch", "goes with --exec:", "--batch");
    }
    if (w->batches && w->has_parallel) {
        return command_misuse("watch", "with --batch one command runs at a time; leave out",
                              "--jobs");
    }
    for (size_t i = 0; i < sizeof(of_batch) / sizeof(of_batch[0]); i++) {
        if (of_batch[i].is_given && !w->batches) {
            return command_misuse("watch", "goes with --exec and --batch:", of_batch[i].name);
        }
    }
    return 0;
}

static int watch_prepare(struct watch *w)
{
    struct tidings_error err = {0};
    struct batch_options batch = {
        .command = w->command,
        .debounce_ms = w->debounce_ms,
        .restarts = w->restarts,
        .ends_with_nul = w->ends_with_nul,
    };
    if (w->batches) {
        w->batch = batch_create(&batch);
    } else if (w->command) {
        w->jobs = jobs_create(w->command, (unsigned)w->parallel);
    }
    if (w->diffs) {
        w->cache = content_create();
    }
    if ((w->command && !w->jobs && !w->batch) || (w->diffs && !w->cache)) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        return command_fail("watch", &err, NULL);
    }
    return 0;
}

static int watch_run(struct cli *cli)
{
    struct watch *w = (struct watch *)cli;
    w->left = w->left == 0 && w->until_first ? 1 : w->left;
    int status = check_options(w);
    status = status == 0 ? take_uris(w) : status;
    status = status == 0 ? watch_prepare(w) : status;
    status = status == 0 ? watch_follow(w) : status;
    jobs_destroy(w->jobs);
    batch_destroy(w->batch);
    content_destroy(w->cache);
    for (size_t i = 0; i < w->count; i++) {
        free(w->uris[i]);
    }
    return status;
}

#define AT(member) offsetof(struct watch, member)

static const struct option options[] = {
    {.name = "count",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = AT(left),
     .metavar = "N",
     .help = "end after N changes; with --batch after N runs for changes",
     .min = 1},
    {.name = "until-first",
     .letter = '1',
     .kind = OPTION_FLAG,
     .offset = AT(until_first),
     .help = "the same as --count 1"},
    {.name = "timeout",
     .kind = OPTION_TIME,
     .offset = AT(end_ms),
     .metavar = "TIME",
     .help = "end the watch after that long, not the wait for an answer as elsewhere; status 75 if "
             "more changes were wanted",
     .min = 1,
     .max = 31536000000},
    {.name = "wait",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .offset = AT(waits),
     .help = "wait for the server without a limit, not only 10 seconds"},
    {.name = "read",
     .letter = 'r',
     .kind = OPTION_FLAG,
     .offset = AT(reads),
     .help = "the content with each change"},
    {.name = "diff",
     .letter = 'd',
     .kind = OPTION_FLAG,
     .offset = AT(diffs),
     .help = "differences to the previous content"},
    {.name = "exec",
     .letter = 'x',
     .kind = OPTION_TEXT,
     .offset = AT(command),
     .metavar = "COMMAND",
     .help = "run it for each change instead of printing"},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .offset = AT(parallel),
     .given = AT(has_parallel),
     .metavar = "N",
     .help = "at most N commands at once",
     .value = "4",
     .min = 1,
     .max = JOBS_PARALLEL_MAX},
    {.name = "batch",
     .letter = 'b',
     .kind = OPTION_FLAG,
     .offset = AT(batches),
     .help = "run it once for all that changed until it was quiet, with the URIs on its input"},
    {.name = "debounce",
     .kind = OPTION_TIME,
     .offset = AT(debounce_ms),
     .given = AT(has_debounce),
     .metavar = "TIME",
     .help = "with --batch: how long it has to be quiet",
     .value = "300ms",
     .min = 1,
     .max = 3600000},
    {.name = "restart",
     .kind = OPTION_FLAG,
     .offset = AT(restarts),
     .help = "with --batch: end the command that still runs, and start it again"},
    {.name = "at-start",
     .kind = OPTION_FLAG,
     .offset = AT(at_start),
     .help = "with --batch: run it once before the first change too"},
    {.name = "null",
     .letter = '0',
     .kind = OPTION_FLAG,
     .offset = AT(ends_with_nul),
     .help = "with --batch: NUL-terminated URIs instead of lines"},
    {.name = "include",
     .letter = 'i',
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.include),
     .metavar = "WHAT",
     .help = "extra data with each change",
     .choices = include_names,
     .value = "none"},
    {.name = "initial",
     .kind = OPTION_FLAG,
     .offset = AT(subscribe.is_initial),
     .help = "the present state first; it counts as no change"},
    {.name = "filter",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.filter),
     .metavar = "JSON",
     .help = "a JSON Schema that changes have to satisfy; @FILE reads it"},
    {.name = "window",
     .kind = OPTION_TIME,
     .offset = AT(subscribe.window_ms),
     .given = AT(subscribe.has_window),
     .metavar = "TIME",
     .help = "how long the server gathers changes before it tells the next",
     .max = 86400000},
    {.name = "rate",
     .kind = OPTION_TIME,
     .offset = AT(subscribe.rate_ms),
     .given = AT(subscribe.has_rate),
     .metavar = "TIME",
     .help = "at most one change of each resource in so long",
     .max = 86400000},
    {.name = "detail",
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.detail),
     .given = AT(subscribe.has_detail),
     .metavar = "HOW",
     .help = "detail of each change; slim: only the URI and the cursor",
     .choices = detail_names},
    {.name = "match",
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.match),
     .metavar = "KIND",
     .help = "kind of the URIs",
     .choices = match_names,
     .value = "auto"},
    {.name = "since",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.since),
     .metavar = "CURSOR",
     .help = "first print the changes after this cursor of a tidings server"},
    {.name = "state",
     .kind = OPTION_FILE,
     .offset = AT(state_path),
     .metavar = "FILE",
     .help = "save the cursor in FILE; resume from it"},
    {.name = "cursor",
     .kind = OPTION_FLAG,
     .offset = AT(shows_cursor),
     .help = "the cursor with each change, for --since"},
    {.name = "options",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.options),
     .metavar = "JSON",
     .help = "further options of the subscriptions, such as {\"order\": \"strict\"}"},
    {0},
};

const struct command command_watch = {
    .name = "watch",
    .args = "URI…",
    .help = "print changes of resources as they happen, or run a command",
    .about =
        "Print a line for every change of the resources: time, kind of change, URI. A URI may be "
        "a\npath: it then means the file of that name, or everything below the directory; or a "
        "path with\nwildcards: 'src/**/*.c' ('**' alone: everything the server has); or "
        "'app:///jobs?level=error':\nchanges with that metadata. --read, --diff, --include and "
        "--cursor add indented lines.\n\n"
        "--include, --initial, --filter, --window, --rate, --detail, --match and --since are "
        "options "
        "of\nthe subscription, which tidings servers support. With other servers, a warning names "
        "the options without effect.\n\n"
        "--json prints an object per line: time, change, uri, subscribedUri, version, cursor, and\n"
        "params, the parameters of the notification; with --read contents, with --diff before and\n"
        "after (sizes) and diff; error when it could not be read.\n\n"
        "--exec runs 'sh -c COMMAND' with TIDINGS_URI, TIDINGS_CHANGE, TIDINGS_VERSION, "
        "TIDINGS_TIME,\nTIDINGS_CURSOR, TIDINGS_SUBSCRIBED_URI, and that object on standard input. "
        "One at a time for\neach URI; changes during a run cause one more run, for the latest "
        "(TIDINGS_MERGED counts them).\n\n"
        "--batch runs it once for all changes until there are none for --debounce (but no "
        "later\nthan after 10 seconds): the URIs, each once, are on standard input, a line each "
        "(with --json\n"
        "those objects), and in the file that TIDINGS_URIS names; TIDINGS_COUNT and "
        "TIDINGS_MERGED\nsay how many URIs and changes. Changes during a run cause one more run. "
        "--restart ends it\ninstead: SIGTERM to its process group, SIGKILL after 5 seconds.\n",
    .options = options,
    .size = sizeof(struct watch),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .run = watch_run,
};
