/* SPDX-License-Identifier: MIT */
#include "bin/remote/target.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/file.h>

#include "bin/cli/output.h"
#include "bin/cli/process.h"
#include "bin/remote/consent.h"

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
};

static const char *environment(const char *name)
{
    return getenv(name);
}

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
        fprintf(stderr, "tidings %s: not used: %s\n", l->command, err.text);
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
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    bool has_base = base && base[0] == '/';
    if (has_base || (home && home[0] == '/')) {
        int n = snprintf(path, sizeof(path), "%s%s/tidings/servers.json", has_base ? base : home,
                         has_base ? "" : "/.config");
        int rc =
            n > 0 && (size_t)n < sizeof(path) ? target_read_file(l, path, home ? home : "/") : 0;
        if (rc != 0) {
            return rc;
        }
    }
    return target_read_project_files(l);
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

static bool target_is_name(const char *text)
{
    return !strchr(text, ':') && !strchr(text, '/') && text[0] != '\0';
}

static int target_resolve(const struct cli *cli, const char *text, struct target *target,
                          struct tidings_error *err)
{
    struct naming n = {.cli = cli, .name = text, .target = target, .err = err};
    struct search l = {
        .command = cli->command->name, .fn = target_find_name, .user = &n, .err = err};
    n.search = &l;
    if (!target_is_name(text)) {
        size_t size = strlen(text) + 1;
        target->url = tidings_alloc(size);
        if (!target->url) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        memcpy(target->url, text, size);
        return 0;
    }
    int rc = target_search_files(&l);
    if (rc == 0) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "no server is known by the name '%.80s'",
                            text);
    }
    return rc < 0 ? rc : 0;
}

struct telling {
    target_fn fn;
    void *user;
    struct target_place place;
    struct search search;
};

static void target_tell(void *user, const struct servers_entry *entry)
{
    struct telling *t = user;
    t->fn(t->user, &t->place, entry);
}

static int tell_file(void *user, const struct servers_context *context, struct tidings_str file)
{
    struct telling *t = user;
    struct tidings_error err = {0};
    t->place = (struct target_place){context->path, t->search.is_project};
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
    const char *variable = getenv("TIDINGS_TOKEN");
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
        if (options.token || options.key_file || (headers && headers[0])) {
            process_has_secrets();
        }
    }
    if (is_resolved && why.code != 0) {
        target_is_innocent();
    }
    if (why.code == 0) {
        const char *const *launch = cli->launch ? (const char *const *)cli->launch
                                                : (const char *const *)target.command.items;
        client = target.url ? tidings_client_create(target.url, &options, &why)
                            : tidings_client_launch(launch, &options, &why);
    }
    if (!client) {
        *err = why;
    }
    free(headers);
    target_deinit(&target);
    return client;
}

static bool is_innocent;

void target_is_innocent(void)
{
    is_innocent = true;
}

const char *target_hint(const struct cli *cli, int code)
{
    bool by_name = cli->target && target_is_name(cli->target);
    if (is_innocent) {
        is_innocent = false;
        return NULL;
    }
    switch (code) {
    case TIDINGS_E_INVALID:
        return by_name ? NULL : "a server is a URL such as http://127.0.0.1:7777/mcp, or a name";
    case TIDINGS_E_NOTFOUND:
        return by_name ? "'tidings servers' lists the names that are known"
                       : "check the address and the URIs; 'tidings ls' lists what a server has";
    case TIDINGS_E_DENIED:
        return cli->launch
                   ? "check that the program can be run"
                   : "a token is given by --token-file or TIDINGS_TOKEN; certificates by --cacert, "
                     "--cert";
    case TIDINGS_E_TIMEOUT:
        return "--timeout gives it more time";
    case TIDINGS_E_IO:
        return cli->launch ? "check that the program can be run"
                           : "check that the server runs and the address is right";
    default:
        return NULL;
    }
}
