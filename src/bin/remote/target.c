/* SPDX-License-Identifier: MIT
 *
 * Finds the server that a command means: a URL, or a name in one of the files.
 */
#include "bin/remote/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/file.h>

#include "bin/cli/output.h"
#include "bin/cli/process.h"
#include "bin/cli/suggest.h"
#include "bin/cli/user_file.h"
#include "bin/remote/consent.h"
#include "bin/remote/login_tokens.h"
#include "bin/remote/trust.h"
#include "bin/remote/verbose.h"

#define TOKEN_MAX 16384u

/* ---- files ----------------------------------------------------------------------------------- */

/* Called for each file of names that may be used, the first that wins first. Not 0: no more. */
typedef int (*file_fn)(void *user, const struct servers_context *context, struct tidings_str file);

struct search {
    const char *command; /* for messages */
    file_fn fn;
    void *user;
    struct tidings_error *err; /* for what is wrong with the user's own file; NULL: it is told */
    bool is_project;           /* the file at hand is not the user's own */
    bool is_own_only;          /* no file of a project is looked at */
    bool is_silent;            /* nothing is told of files that cannot be used */
};

static const char *environment(const char *name)
{
    return getenv(name);
}

/* Files that cannot be used were told of: the process looks for names more than once. */
static bool was_told;

/* What cannot be used is told and passed over, but for the user's own: going on would have another
 * file answer for a name that is in it. */
static int target_read_file(struct search *l, const char *path, const char *folder)
{
    struct servers_context context = {path, folder, environment, NULL};
    struct tidings_error err = {0};
    size_t len = 0;
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, SERVERS_FILE_MAX, &len, &err);
    if (!text && err.code == TIDINGS_E_NOTFOUND) {
        return 0;
    }
    if (!text && l->err && !l->is_project) {
        *l->err = err;
        return err.code;
    }
    if (!text) {
        if (!l->is_silent && !was_told) {
            fprintf(stderr, "tidings %s: not used: %s\n", l->command, err.text);
        }
        return 0;
    }
    int rc = l->fn(l->user, &context, tidings_strn(text, len));
    tidings_free(text);
    return rc;
}

/* Does the folder hold a repository? */
static bool is_root(const char *folder)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/.git", folder);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

static int target_read_project_files(struct search *l)
{
    static const char *const names[] = {".mcp.json", ".vscode/mcp.json"};
    const char *home = getenv("HOME");
    char folder[PATH_MAX], path[PATH_MAX];
    if (!getcwd(folder, sizeof(folder))) {
        return 0;
    }
    l->is_project = true;
    for (;;) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            int n =
                snprintf(path, sizeof(path), "%s/%s", strcmp(folder, "/") ? folder : "", names[i]);
            int rc = n > 0 && (size_t)n < sizeof(path) ? target_read_file(l, path, folder) : 0;
            if (rc != 0) {
                return rc;
            }
        }
        char *slash = strrchr(folder, '/');
        if (!slash || folder[1] == '\0' || is_root(folder) || (home && strcmp(folder, home) == 0)) {
            return 0;
        }
        slash[slash == folder ? 1 : 0] = '\0';
    }
}

static int target_search_files(struct search *l)
{
    const char *home = getenv("HOME");
    struct tidings_error none = {0};
    char path[PATH_MAX];
    int rc = 0;
    if (user_file_path(path, "XDG_CONFIG_HOME", "/.config", "servers.json", &none) == 0) {
        rc = target_read_file(l, path, home ? home : "/");
    }
    if (rc != 0) {
        return rc;
    }
    rc = l->is_own_only ? 0 : target_read_project_files(l);
    was_told = was_told || (!l->is_own_only && !l->is_silent);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct naming {
    const struct cli *cli;
    const char *name;
    struct target *target;
    struct tidings_error *err;
    struct search *search;
};

static void say_launch(const struct cli *cli, const struct target *target, const char *path)
{
    fprintf(stderr, "tidings %s: launching, as %.200s says:", cli->command->name, path);
    for (size_t i = 0; i < target->command.count; i++) {
        fputc(' ', stderr);
        put_text(stderr, tidings_str(target->command.items[i]));
    }
    fputc('\n', stderr);
}

static int target_find_name(void *user, const struct servers_context *context,
                            struct tidings_str file)
{
    struct naming *n = user;
    struct tidings_error why = {0};
    int rc = servers_find(context, file, n->name, n->target, &why);
    if (rc == TIDINGS_E_NOTFOUND) {
        return 0;
    }
    if (rc < 0) {
        *n->err = why;
        return rc;
    }
    if (n->search->is_project) {
        rc = consent_check(n->cli, context->path, n->name, n->target, n->err);
    }
    if (rc < 0) {
        target_is_innocent(); /* no server was asked */
        return rc;
    }
    if (n->search->is_project && !n->target->url && !n->cli->quiet && is_terminal(stderr)) {
        say_launch(n->cli, n->target, context->path);
    }
    return 1;
}

bool target_is_name(const char *text)
{
    return !strchr(text, ':') && !strchr(text, '/') && text[0] != '\0';
}

/* "localhost:7920", "[::1]:7920/path" */
static bool is_host_and_port(const char *text)
{
    size_t len = text[0] == '['
                     ? strspn(text + 1, "0123456789abcdefABCDEF:.") + 1
                     : strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789.-");
    len += text[0] == '[' && text[len] == ']' ? 1 : 0;
    size_t digits = text[len] == ':' ? strspn(text + len + 1, "0123456789") : 0;
    char end = text[len] == ':' ? text[len + 1 + digits] : '?';
    long port = digits > 0 && digits < 6 ? strtol(text + len + 1, NULL, 10) : 0;
    bool is_bracket_closed = text[0] != '[' || (len > 1 && text[len - 1] == ']');
    return len > 0 && is_bracket_closed && port > 0 && port < 65536 && (end == '\0' || end == '/');
}

bool target_is_address(const char *text)
{
    static const char *const schemes[] = {"http://", "https://", "ws://",      "wss://",
                                          "tcp://",  "tls://",   "http+unix:", "unix:"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0) {
            return true;
        }
    }
    return is_host_and_port(text);
}

static int take_address(struct target *target, const char *text, struct tidings_error *err)
{
    bool is_short = is_host_and_port(text) && !strstr(text, "://");
    bool has_path = strchr(text, '/') != NULL;
    size_t size = strlen(text) + sizeof("http:///mcp");
    target->url = tidings_alloc(size);
    if (!target->url) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    snprintf(target->url, size, "%s%s%s", is_short ? "http://" : "", text,
             is_short && !has_path ? "/mcp" : "");
    return 0;
}

static int target_resolve(const struct cli *cli, const char *text, struct target *target,
                          struct tidings_error *err)
{
    struct naming n = {.cli = cli, .name = text, .target = target, .err = err};
    struct search l = {
        .command = cli->command->name, .fn = target_find_name, .user = &n, .err = err};
    n.search = &l;
    l.is_own_only = cli->origin == TARGET_DEFAULT;
    if (!target_is_name(text)) {
        return take_address(target, text, err);
    }
    int rc = target_search_files(&l);
    if (rc == 0) {
        char near[64];
        bool has_near = target_suggest(text, near, sizeof(near));
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "no server is known by the name '%.80s'%s%s%s",
                            text, has_near ? ", did you mean '" : "", has_near ? near : "",
                            has_near ? "'?" : "");
    }
    if (rc > 0 && cli->is_careful && !target->url) {
        rc = tidings_fail(err, TIDINGS_E_DENIED, "'%.80s' would be launched", text);
    }
    return rc < 0 ? rc : 0;
}

struct telling {
    target_fn fn;
    void *user;
    struct target_source source;
    struct search search;
};

static void target_tell(void *user, const struct servers_entry *entry)
{
    struct telling *t = user;
    t->fn(t->user, &t->source, entry);
}

static int tell_file(void *user, const struct servers_context *context, struct tidings_str file)
{
    struct telling *t = user;
    struct tidings_error err = {0};
    t->source = (struct target_source){context->path, t->search.is_project};
    if (servers_each(context, file, target_tell, t, &err) < 0) {
        fprintf(stderr, "tidings %s: %s\n", t->search.command, err.text);
    }
    return 0;
}

void target_each(const char *command, target_fn fn, void *user)
{
    struct telling t = {.fn = fn, .user = user};
    t.search = (struct search){.command = command, .fn = tell_file, .user = &t};
    target_search_files(&t.search);
}

/* ---- known names ----------------------------------------------------------------------------- */

struct knowing {
    struct tidings_str name;
    const struct search *search;
    const char *path;
    bool is_cautious;
    bool is_there, is_known;
};

static void know_entry(void *user, const struct servers_entry *entry)
{
    struct knowing *k = user;
    if (k->is_there || !tidings_str_eq(entry->name, k->name)) {
        return;
    }
    k->is_there = k->is_known = true;
    if (k->search->is_project && k->is_cautious) {
        char digest[TIDINGS_DIGEST_MAX];
        struct tidings_error err = {0};
        tidings_digest(entry->text, digest);
        const struct trusted t = {tidings_str(k->path), entry->name, tidings_str(digest), {0}};
        k->is_known = trust_find(&t, &err) > 0;
    }
}

static int know_file(void *user, const struct servers_context *context, struct tidings_str file)
{
    struct knowing *k = user;
    struct tidings_error err = {0};
    k->path = context->path;
    if (servers_each(context, file, know_entry, k, &err) < 0) {
        k->is_there = k->is_known = !k->search->is_project || !k->is_cautious;
    }
    return k->is_there ? 1 : 0;
}

static bool target_find(const char *command, const char *name, bool is_cautious, bool is_own_only)
{
    struct tidings_error err = {0};
    struct knowing k = {.name = tidings_str(name), .is_cautious = is_cautious};
    struct search l = {
        .command = command, .fn = know_file, .user = &k, .err = &err, .is_own_only = is_own_only};
    k.search = &l;
    return target_search_files(&l) < 0 || k.is_known;
}

bool target_knows(const char *command, const char *name, bool is_cautious)
{
    return target_find(command, name, is_cautious, false);
}

bool target_has_default(const char *command)
{
    return target_find(command, "default", false, true);
}

#define SUGGESTED_MAX 256u
struct suggesting {
    char *names[SUGGESTED_MAX + 1];
    size_t count;
};

static void suggest_entry(void *user, const struct servers_entry *entry)
{
    struct suggesting *g = user;
    if (g->count < SUGGESTED_MAX && servers_name_is_plain(entry->name)) {
        char *name = strndup(entry->name.ptr, entry->name.len);
        g->names[g->count] = name;
        g->count += name ? 1 : 0;
    }
}

static int suggest_file(void *user, const struct servers_context *context, struct tidings_str file)
{
    struct tidings_error err = {0};
    (void)servers_each(context, file, suggest_entry, user, &err);
    return 0;
}

bool target_suggest(const char *name, char *out, size_t size)
{
    struct suggesting g = {0};
    struct search l = {.fn = suggest_file, .user = &g, .is_silent = true};
    target_search_files(&l);
    const char *near = suggest(name, (const char *const *)g.names);
    int n = near ? snprintf(out, size, "%s", near) : -1;
    for (size_t i = 0; i < g.count; i++) {
        free(g.names[i]);
    }
    return n > 0 && (size_t)n < size;
}

/* ---- a client -------------------------------------------------------------------------------- */

/* The token of the file as it was last read: the process has one. */
static char token_read[TOKEN_MAX + 1];

static int read_token(const char *path, struct tidings_error *err)
{
    size_t len = 0;
    char *text = tidings_file_read(path, TIDINGS_FILE_NAMED, TOKEN_MAX, &len, err);
    if (!text) {
        return err->code;
    }
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        text[--len] = '\0';
    }
    if (len > 0) {
        memcpy(token_read, text, len + 1);
    }
    explicit_bzero(text, len);
    tidings_free(text);
    return len > 0 ? 0
                   : tidings_fail(err, TIDINGS_E_INVALID, "%.160s: there is no token in it", path);
}

/* Whoever renews a token replaces the file, so it is read for each request. One that cannot be read
 * is about to be replaced: the token before counts. */
static char *on_token(void *user)
{
    const struct cli *cli = user;
    struct tidings_error err = {0};
    (void)read_token(cli->token_file, &err);
    size_t size = strlen(token_read) + 1;
    char *token = tidings_alloc(size);
    return token ? memcpy(token, token_read, size) : NULL;
}

static int take_token(const struct cli *cli, struct tidings_client_options *options,
                      struct tidings_error *err)
{
    /* Whoever listens where nobody said that a server is does not get it, nor an address in a line
     * that nobody has sent off yet. */
    bool is_unsent = cli->is_careful && cli->origin == TARGET_NAMED && !target_is_name(cli->target);
    bool is_hidden = cli->origin == TARGET_NOWHERE || is_unsent;
    const char *variable = is_hidden ? NULL : getenv("TIDINGS_TOKEN");
    if (cli->token || !cli->token_file) {
        options->token = cli->token ? cli->token : variable && *variable ? variable : NULL;
        return 0;
    }
    options->token = token_read; /* is checked, and then asked for */
    options->on_token = on_token;
    options->token_user = (void *)(uintptr_t)cli;
    return read_token(cli->token_file, err);
}

/* Those of the file and those of the line, NULL at the end; freed with free. */
static const char **all_headers(const struct cli *cli, const struct target *target,
                                struct tidings_error *err)
{
    size_t count = target->headers.count + cli->headers.count;
    const char **all = calloc(count + 1, sizeof(*all));
    if (!all) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = i < target->headers.count ? target->headers.items[i]
                                           : cli->headers.items[i - target->headers.count];
        const char *colon = strchr(all[i], ':');
        if (!colon || colon == all[i] || strpbrk(all[i], "\r\n")) {
            tidings_fail(err, TIDINGS_E_INVALID, "a header is 'Name: value', not '%.80s'", all[i]);
            free(all);
            return NULL;
        }
    }
    return all;
}

/* What the file says of its environment holds for this process, which has nothing else to do. */
static void set_environment(const struct target *target)
{
    for (size_t i = 0; i < target->env.count; i++) {
        char *equals = strchr(target->env.items[i], '=');
        if (equals && equals != target->env.items[i]) {
            *equals = '\0';
            setenv(target->env.items[i], equals + 1, 1);
            *equals = '=';
        }
    }
}

/* What a launched server says besides, when nobody wants to hear it. */
static void target_discard(void *user, struct tidings_str bytes)
{
    (void)user;
    (void)bytes;
}

struct tidings_client *target_open(const struct cli *cli, struct tidings_error *err)
{
    static const char *const versions[] = {NULL, TIDINGS_PROTOCOL_MODERN, TIDINGS_PROTOCOL_LEGACY,
                                           TIDINGS_PROTOCOL_VERSIONS};
    struct target target = {0};
    struct tidings_client *client = NULL;
    struct tidings_error why = {0};
    struct tidings_client_options options = {
        .timeout_ms = (uint32_t)cli->timeout_ms,
        .ca_file = cli->ca_file,
        .cert_file = cli->cert_file,
        .key_file = cli->key_file,
        .max_bytes = (size_t)cli->max_message << 20,
        .version = versions[cli->era],
        .on_stderr = cli->quiet ? target_discard : NULL,
        .list_changes = cli->list_changes,
        .on_wire = cli->verbose ? verbose_tell : NULL,
        .traceparent = getenv("TRACEPARENT"), /* of OpenTelemetry, for what runs other programs */
        .tracestate = getenv("TRACESTATE"),
    };
    const char **headers = NULL;
    if (!cli->launch) {
        target_resolve(cli, cli->target, &target, &why);
    }
    bool is_resolved = why.code == 0;
    if (is_resolved) {
        headers = all_headers(cli, &target, &why);
    }
    if (why.code == 0) {
        options.headers = headers;
        options.directory = target.directory;
        set_environment(&target);
        take_token(cli, &options, &why);
        if (why.code == 0 && !cli->is_careful && cli->origin != TARGET_NOWHERE) {
            (void)login_tokens_use(cli, target.url, &options, &why);
        }
        if (options.token || options.key_file || (headers && headers[0])) {
            process_has_secrets();
        }
    }
    if (is_resolved && why.code != 0) {
        target_is_innocent();
    }
    if (why.code == 0) {
        if (!target.url) {
            setenv("TIDINGS_LAUNCHED", "1", 1); /* a server of ours need not greet */
        }
        const char *const *launch = cli->launch ? (const char *const *)cli->launch
                                                : (const char *const *)target.command.items;
        client = target.url ? tidings_client_create(target.url, &options, &why)
                            : tidings_client_launch(launch, &options, &why);
    }
    if (client && cli->log > 0) {
        (void)tidings_client_on_log(client, (enum tidings_log_level)(cli->log - 1), verbose_log,
                                    NULL, NULL);
    }
    if (!client) {
        *err = why;
    }
    free(headers);
    target_deinit(&target);
    return client;
}

char *target_address(const struct cli *cli, struct tidings_error *err)
{
    struct target target = {0};
    struct json_text t;
    char *text = NULL;
    if (!cli->launch && target_resolve(cli, cli->target, &target, err) < 0) {
        target_deinit(&target);
        return NULL;
    }
    char *const *launch = cli->launch ? cli->launch : (char *const *)target.command.items;
    if (!target.url && json_text_begin(&t)) {
        for (size_t i = 0; launch[i]; i++) {
            fputs(i > 0 ? "," : "[", t.out);
            put_quoted(t.out, tidings_str(launch[i]));
        }
        fputc(']', t.out);
        text = json_text_take(&t);
    }
    const char *found = target.url ? target.url : text;
    char *ret = found ? tidings_alloc(strlen(found) + 1) : NULL;
    if (ret) {
        memcpy(ret, found, strlen(found) + 1);
    } else {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    free(text);
    target_deinit(&target);
    return ret;
}
