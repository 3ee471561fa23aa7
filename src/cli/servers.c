/* SPDX-License-Identifier: MIT
 *
 * `tidings servers`: lists the servers with names, and which servers of project files the user
 * approved (trust.h).
 */
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "cli/output.h"
#include "cli/target.h"
#include "cli/trust.h"

#define SEEN_MAX 1000u

struct servers {
    struct cli cli;
    const char *trust, *forget;
    bool lists_trusted;
};

/* Sorted strings, for lookup. */
struct keys {
    char *items[SEEN_MAX];
    size_t count;
};

struct listing {
    const struct cli *cli;
    struct keys seen;    /* printed names: a later one is hidden */
    struct keys trusted; /* "digest name file", the newest that fit */
};

static void keys_clear(struct keys *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->items[i]);
    }
}

static bool is_seen(struct listing *l, struct tidings_str name)
{
    struct keys *k = &l->seen;
    for (size_t i = 0; i < k->count; i++) {
        if (tidings_str_eq(tidings_str(k->items[i]), name)) {
            return true;
        }
    }
    if (k->count < SEEN_MAX && (k->items[k->count] = strndup(name.ptr, name.len)) != NULL) {
        k->count++;
    }
    return false;
}

/* ---- trusted servers ------------------------------------------------------------------------- */

static char *servers_key_of(const struct trusted *e)
{
    char *key = NULL;
    int n = asprintf(&key, "%.*s %.*s %.*s", (int)e->digest.len, e->digest.ptr, (int)e->name.len,
                     e->name.ptr, (int)e->file.len, e->file.ptr);
    return n < 0 ? NULL : key;
}

static void servers_collect(void *user, const struct trusted *entry)
{
    struct keys *k = user;
    if (k->count < SEEN_MAX && (k->items[k->count] = servers_key_of(entry)) != NULL) {
        k->count++;
    }
}

static int servers_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_trusted(const struct listing *l, const struct target_source *source,
                       const struct servers_entry *entry)
{
    char digest[TIDINGS_DIGEST_MAX];
    tidings_digest(entry->text, digest);
    const struct trusted t = {tidings_str(source->path), entry->name, tidings_str(digest), {0}};
    char *key = source->is_project && l->trusted.count > 0 ? servers_key_of(&t) : NULL;
    bool is_there = key && bsearch(&key, l->trusted.items, l->trusted.count,
                                   sizeof(l->trusted.items[0]), servers_by_text);
    free(key);
    return !source->is_project || is_there;
}

/* Returns true if its use needs consent. */
static bool is_asked(const struct servers_entry *entry)
{
    return strcmp(entry->kind, "command") == 0 ||
           memmem(entry->text.ptr, entry->text.len, "${", 2) != NULL;
}

/* An entry that was approved, or no longer is. */
static void put_trusted(const struct cli *cli, const char *action, const struct trusted *e)
{
    if (cli->json) {
        fputs("{\"name\":", stdout);
        put_quoted(stdout, e->name);
        fputs(",\"file\":", stdout);
        put_quoted(stdout, e->file);
        printf(",\"action\":\"%s\",\"digest\":", action);
        put_quoted(stdout, e->digest);
        if (e->since.len > 0) {
            fputs(",\"since\":", stdout);
            put_quoted(stdout, e->since);
        }
        fputs("}\n", stdout);
        return;
    }
    fprintf(stdout, "%s ", action);
    put_text(stdout, e->name);
    fputs(" of ", stdout);
    put_text(stdout, e->file);
    fputs(e->since.len > 0 ? " since " : "", stdout);
    put_text(stdout, e->since);
    fputc('\n', stdout);
}

static void put_listed(void *user, const struct trusted *entry)
{
    put_trusted(user, "trusted", entry);
}

static void put_forgotten(void *user, const struct trusted *entry)
{
    put_trusted(user, "forgotten", entry);
}

struct trusting {
    const struct cli *cli;
    const char *name;
    bool is_found;
    struct tidings_error err;
};

/* The first entry of the name is the effective one. */
static void trust_one(void *user, const struct target_source *source,
                      const struct servers_entry *entry)
{
    struct trusting *t = user;
    char digest[TIDINGS_DIGEST_MAX];
    struct timespec now;
    if (t->is_found || !tidings_str_eq(entry->name, tidings_str(t->name))) {
        return;
    }
    t->is_found = true;
    if (!source->is_project) {
        tidings_fail(&t->err, TIDINGS_E_INVALID, "'%.60s' is your own, of %.160s: it is used as is",
                     t->name, source->path);
        return;
    }
    tidings_digest(entry->text, digest);
    const struct trusted e = {tidings_str(source->path), entry->name, tidings_str(digest), {0}};
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = trust_find(&e, &t->err);
    if (rc == 0) {
        rc = trust_add(&e, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, &t->err);
    }
    if (rc >= 0) {
        put_trusted(t->cli, "trusted", &e);
    }
}

static int change_trust(struct servers *s)
{
    struct tidings_error err = {0};
    if (s->lists_trusted) {
        trust_each(put_listed, s, &err);
    } else if (s->forget) {
        int rc = trust_forget(tidings_str(s->forget), put_forgotten, s, &err);
        if (rc == 0) {
            tidings_fail(&err, TIDINGS_E_NOTFOUND, "no trusted entry has the name '%.80s'",
                         s->forget);
        }
    } else {
        struct trusting t = {.cli = &s->cli, .name = s->trust};
        target_each("servers", trust_one, &t);
        err = t.err;
        if (!t.is_found) {
            tidings_fail(&err, TIDINGS_E_NOTFOUND, "no server is known by the name '%.80s'",
                         s->trust);
        }
    }
    return err.code ? command_fail("servers", &err, NULL) : command_finish("servers");
}

/* ---- the list -------------------------------------------------------------------------------- */

static void servers_show(void *user, const struct target_source *source,
                         const struct servers_entry *entry)
{
    struct listing *l = user;
    bool is_quiet = l->cli->quiet && !l->cli->json;
    if (is_seen(l, entry->name) || (is_quiet && !servers_name_is_plain(entry->name))) {
        return;
    }
    bool may_be_used = is_quiet || is_trusted(l, source, entry);
    if (l->cli->json) {
        fputs("{\"name\":", stdout);
        put_quoted(stdout, entry->name);
        printf(",\"%s\":", entry->kind);
        put_quoted(stdout, entry->what);
        fputs(",\"file\":", stdout);
        put_quoted(stdout, tidings_str(source->path));
        printf(",\"trusted\":%s}\n", may_be_used ? "true" : "false");
        return;
    }
    put_style(l->cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, entry->name);
    put_style(l->cli, stdout, STYLE_PLAIN);
    if (!is_quiet) {
        put_gap(stdout, used, 18);
        used = put_text(stdout, entry->what);
        put_gap(stdout, used, 44);
        put_style(l->cli, stdout, STYLE_DIM);
        put_text(stdout, tidings_str(source->path));
        fputs(may_be_used || !is_asked(entry) ? "" : " (not trusted yet)", stdout);
        put_style(l->cli, stdout, STYLE_PLAIN);
    }
    fputc('\n', stdout);
}

static int servers_run(struct cli *cli)
{
    struct servers *s = (struct servers *)cli;
    struct tidings_error err = {0};
    if ((s->trust != NULL) + (s->forget != NULL) + s->lists_trusted > 1) {
        return command_misuse("servers", "--trust, --forget and --trusted exclude one another",
                              NULL);
    }
    if (s->trust || s->forget || s->lists_trusted) {
        return change_trust(s);
    }
    struct listing *l = calloc(1, sizeof(*l));
    if (!l) {
        return tidings_code_exit(TIDINGS_E_NOMEM);
    }
    l->cli = cli;
    if ((!cli->quiet || cli->json) && trust_each(servers_collect, &l->trusted, &err) < 0 &&
        err.code != TIDINGS_E_NOTFOUND) {
        fprintf(stderr, "tidings servers: %s\n", err.text);
    }
    qsort(l->trusted.items, l->trusted.count, sizeof(l->trusted.items[0]), servers_by_text);
    target_each("servers", servers_show, l);
    if (l->seen.count == 0 && !cli->quiet) {
        put_wrapped(stderr,
                    "tidings servers: none; 'tidings help servers' says where names come from", 0);
        fputc('\n', stderr);
    }
    keys_clear(&l->seen);
    keys_clear(&l->trusted);
    free(l);
    return command_finish("servers");
}

#define AT(member) offsetof(struct servers, member)

static const struct option options[] = {
    {.name = "trust",
     .kind = OPTION_TEXT,
     .offset = AT(trust),
     .metavar = "NAME",
     .help = "agree to use the server of that name as the project's file has it now"},
    {.name = "forget",
     .kind = OPTION_TEXT,
     .offset = AT(forget),
     .metavar = "NAME",
     .help = "revoke the trust in that name, in all files"},
    {.name = "trusted",
     .kind = OPTION_FLAG,
     .offset = AT(lists_trusted),
     .help = "list what was agreed to"},
    {0},
};

const struct command command_servers = {
    .name = "servers",
    .help = "list the servers that are known by name",
    .about =
        "List the names that may stand for SERVER, what each stands for, and the file that says "
        "so:\n\n"
        "  your own, ~/.config/tidings/servers.json (or in $XDG_CONFIG_HOME)\n"
        "  the project's, .mcp.json and .vscode/mcp.json, in this directory and those above it, up "
        "to the one with .git, or your home\n\n"
        "They hold {\"mcpServers\": {NAME: …}} or {\"servers\": {NAME: …}}, each with 'command', "
        "'args',\n'env', 'cwd', or with 'url', 'headers'. ${VAR}, ${VAR:-text} and ${env:VAR} are "
        "replaced.\nYour own names win. Nothing is launched but what you name; files of others,\n"
        "or that others can write, are not used.\n\n"
        "A project's server that launches a program, gets variables of yours or would be sent "
        "your\n"
        "token is used after you agreed, once: you are asked on a terminal, elsewhere it is "
        "refused.\n"
        "One that changes is asked for again. --trust NAME agrees without a question, --forget "
        "NAME\n"
        "takes it back, --trusted lists all (~/.local/state/tidings/trusted, or in "
        "$XDG_STATE_HOME).\n\n"
        "--quiet prints the names alone, for scripts: those of letters, digits, '.', '_' and '-'.\n"
        "--json prints one object per line: name, url or command, file, trusted; with --trust,\n"
        "--forget and --trusted name, file, action (trusted, forgotten), digest, since.\n",
    .options = options,
    .size = sizeof(struct servers),
    .run = servers_run,
};
