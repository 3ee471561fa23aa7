/* SPDX-License-Identifier: MIT
 *
 * Finds the server of a command: a URL, or a name from one of the files.
 */
#include "cli/target.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/file.h>
#include <tidings/json.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/trust.h"

/* -------------------------------------------------------------------------------------------------
 * Reads the files that name servers.
 */

static void texts_deinit(struct texts *t)
{
    for (size_t i = 0; i < t->count; i++) {
        tidings_free(t->items[i]);
    }
    free(t->items);
    *t = (struct texts){0};
}

void target_deinit(struct target *target)
{
    tidings_free(target->url);
    tidings_free(target->directory);
    tidings_free(target->entry);
    texts_deinit(&target->command);
    texts_deinit(&target->env);
    texts_deinit(&target->headers);
    texts_deinit(&target->variables);
    *target = (struct target){0};
}

/* Takes `text`, even on failure. */
static int texts_add(struct texts *t, char *text, struct tidings_error *err)
{
    if (text && !t->items) {
        t->items = calloc(TEXTS_MAX + 1, sizeof(*t->items));
    }
    if (!text || !t->items) {
        tidings_free(text);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (t->count == TEXTS_MAX) {
        tidings_free(text);
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u strings in a list", TEXTS_MAX);
    }
    t->items[t->count++] = text;
    return 0;
}

/* ---- variables ------------------------------------------------------------------------------- */

struct expanding {
    const struct servers_context *context;
    char *out;
    size_t len;
};

static int servers_file_put(struct expanding *x, const char *text, size_t len,
                            struct tidings_error *err)
{
    if (len >= SERVERS_TEXT_MAX - x->len) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a string is longer than %u bytes",
                            SERVERS_TEXT_MAX);
    }
    memcpy(x->out + x->len, text, len);
    x->len += len;
    x->out[x->len] = '\0';
    return 0;
}

/* Record each variable that was replaced, once. */
static int note_variable(const struct servers_context *context, const char *name,
                         struct tidings_error *err)
{
    struct texts *all = context->variables;
    for (size_t i = 0; all && i < all->count; i++) {
        if (strcmp(all->items[i], name) == 0) {
            return 0;
        }
    }
    size_t size = strlen(name) + 1;
    char *copy = all ? tidings_alloc(size) : NULL;
    if (copy) {
        memcpy(copy, name, size);
    }
    return all ? texts_add(all, copy, err) : 0;
}

/* Replace the variable between "${" and "}". */
static int servers_file_put_variable(struct expanding *x, const char *text, size_t len,
                                     struct tidings_error *err)
{
    char name[256];
    const char *value, *instead = memmem(text, len, ":-", 2);
    if (len > 6 && memcmp(text, "input:", 6) == 0) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "'${%.*s}' is asked for by the editor; write ${env:NAME} and set the "
                            "variable",
                            (int)(len < 80 ? len : 80), text);
    }
    size_t name_len = instead ? (size_t)(instead - text) : len;
    size_t skip = name_len > 4 && memcmp(text, "env:", 4) == 0 ? 4 : 0;
    snprintf(name, sizeof(name), "%.*s", (int)(name_len - skip), text + skip);
    bool is_folder = strcmp(name, "workspaceFolder") == 0;
    if (is_folder) {
        value = x->context->folder;
    } else if (strcmp(name, "userHome") == 0) {
        value = x->context->variable("HOME");
    } else {
        value = name_len - skip < sizeof(name) ? x->context->variable(name) : NULL;
    }
    if (value && (*value || !instead)) {
        int rc = is_folder ? 0 : note_variable(x->context, name, err);
        return rc < 0 ? rc : servers_file_put(x, value, strlen(value), err);
    }
    if (instead) {
        return servers_file_put(x, instead + 2, len - name_len - 2, err);
    }
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "the variable '%.80s' is not set", name);
}

static int put_expanded(struct expanding *x, const char *text, struct tidings_error *err)
{
    int rc = 0;
    while (rc == 0 && *text) {
        const char *open = strstr(text, "${");
        const char *close = open ? strchr(open, '}') : NULL;
        if (!close) {
            return servers_file_put(x, text, strlen(text), err);
        }
        rc = servers_file_put(x, text, (size_t)(open - text), err);
        if (rc == 0) {
            rc = servers_file_put_variable(x, open + 2, (size_t)(close - open) - 2, err);
        }
        text = close + 1;
    }
    return rc;
}

/* A copy of `text` with its variables replaced, freed with tidings_free; NULL with `err`. */
static char *servers_file_expand(const struct servers_context *context, const char *text,
                                 struct tidings_error *err)
{
    char *out = tidings_alloc(SERVERS_TEXT_MAX);
    if (!out) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    struct expanding x = {context, out, 0};
    out[0] = '\0';
    char *result = NULL;
    if (put_expanded(&x, text, err) == 0) {
        result = tidings_alloc(x.len + 1);
        if (result) {
            memcpy(result, out, x.len + 1);
        } else {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    tidings_free(out);
    return result;
}

/* ---- one server ------------------------------------------------------------------------------ */

struct filling {
    const struct servers_context *context;
    struct texts *texts;
    const char *between; /* "NAME" between "value" */
    struct tidings_error *err;
};

/* The string at `pointer` with its variables replaced; `*ret` stays NULL if there is none. */
static int take_string(const struct servers_context *context, struct tidings_str entry,
                       const char *pointer, char **ret, struct tidings_error *err)
{
    char *raw = tidings_json_get(entry, pointer);
    if (!raw) {
        return 0;
    }
    tidings_free(raw);
    char *text = tidings_json_string(entry, pointer);
    if (!text) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%s' must be a string", pointer + 1);
    }
    *ret = servers_file_expand(context, text, err);
    tidings_free(text);
    return *ret ? 0 : err->code;
}

static int servers_file_add_member(void *user, struct tidings_str key, struct tidings_str value)
{
    struct filling *f = user;
    if (strchr("{[n", value.ptr[0])) {
        return tidings_fail(f->err, TIDINGS_E_PARSE, "'%.60s' must be a string", key.ptr);
    }
    /* Some files contain numbers and booleans instead of strings. */
    char *text = tidings_json_string(value, "");
    char *expanded = servers_file_expand(f->context, text ? text : value.ptr, f->err);
    tidings_free(text);
    if (!expanded || !f->between) {
        return expanded ? texts_add(f->texts, expanded, f->err) : f->err->code;
    }
    size_t size = key.len + strlen(f->between) + strlen(expanded) + 1;
    char *both = tidings_alloc(size);
    if (both) {
        snprintf(both, size, "%s%s%s", key.ptr, f->between, expanded);
    }
    tidings_free(expanded);
    return texts_add(f->texts, both, f->err);
}

/* The list or object at `pointer`, if any. */
static int take_texts(struct filling f, struct tidings_str entry, const char *pointer)
{
    char *raw = tidings_json_get(entry, pointer);
    char first = raw ? raw[0] : '\0';
    bool is_single = first == '"' && !f.between;
    int rc = is_single ? servers_file_add_member(&f, tidings_strn("", 0), tidings_str(raw)) : 0;
    tidings_free(raw);
    if (first == '\0' || is_single) {
        return rc;
    }
    if (first != (f.between ? '{' : '[')) {
        return tidings_fail(f.err, TIDINGS_E_PARSE, "'%s' must be %s", pointer + 1,
                            f.between ? "an object" : "a list, or a string");
    }
    return tidings_json_each(entry, pointer, servers_file_add_member, &f);
}

static int take_launch(const struct servers_context *context, struct tidings_str entry,
                       struct target *target, struct tidings_error *err)
{
    struct filling arguments = {context, &target->command, NULL, err};
    struct filling env = {context, &target->env, "=", err};
    char *program = NULL;
    int rc = take_string(context, entry, "/command", &program, err);
    if (rc == 0) {
        rc = texts_add(&target->command, program, err);
    }
    if (rc == 0) {
        rc = take_texts(arguments, entry, "/args");
    }
    if (rc == 0) {
        rc = take_texts(env, entry, "/env");
    }
    char *file = tidings_json_get(entry, "/envFile");
    if (rc == 0 && file) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                          "'envFile' is not read here; put its variables into 'env' or set them");
    }
    tidings_free(file);
    return rc < 0 ? rc : take_string(context, entry, "/cwd", &target->directory, err);
}

static bool servers_file_has(struct tidings_str entry, const char *pointer)
{
    char *text = tidings_json_string(entry, pointer);
    bool is_text = text != NULL;
    tidings_free(text);
    return is_text;
}

static int take_entry(const struct servers_context *context, struct tidings_str entry,
                      struct target *target, struct tidings_error *err)
{
    struct filling headers = {context, &target->headers, ": ", err};
    if (servers_file_has(entry, "/command") == servers_file_has(entry, "/url")) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "a server has either a 'command' or a 'url', a string");
    }
    if (servers_file_has(entry, "/command")) {
        return take_launch(context, entry, target, err);
    }
    int rc = take_string(context, entry, "/url", &target->url, err);
    return rc < 0 ? rc : take_texts(headers, entry, "/headers");
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The object that names the servers, compact JSON text; NULL with `err`. Empty when there is none.
 */
static char *servers_file_read_file(const struct servers_context *context, struct tidings_str file,
                                    struct tidings_error *err)
{
    struct tidings_error why = {0};
    if (file.len > SERVERS_FILE_MAX) {
        tidings_fail(err, TIDINGS_E_LIMIT, "%s: larger than %u bytes", context->path,
                     SERVERS_FILE_MAX);
        return NULL;
    }
    char *all = tidings_json_compact(file, &why);
    if (!all) {
        tidings_fail(err, why.code, "%.120s: %.120s", context->path, why.text);
        return NULL;
    }
    char *servers = tidings_json_get(tidings_str(all), "/mcpServers");
    if (!servers) {
        servers = tidings_json_get(tidings_str(all), "/servers");
    }
    tidings_free(all);
    if (!servers || servers[0] != '{') {
        tidings_free(servers);
        tidings_fail(err, TIDINGS_E_PARSE, "%s: no object 'mcpServers' or 'servers' in it",
                     context->path);
        return NULL;
    }
    return servers;
}

struct seeking {
    const struct servers_context *context;
    struct tidings_str name;
    struct target *target;
    struct tidings_error *err;
};

static int servers_file_seek(void *user, struct tidings_str key, struct tidings_str value)
{
    struct seeking *s = user;
    if (!tidings_str_eq(key, s->name)) {
        return 0;
    }
    struct tidings_error why = {0};
    struct servers_context context = *s->context;
    context.variables = &s->target->variables;
    s->target->entry = tidings_json_get(value, "");
    int rc = s->target->entry ? take_entry(&context, value, s->target, &why)
                              : tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        return tidings_fail(s->err, rc == TIDINGS_E_NOTFOUND ? TIDINGS_E_INVALID : rc,
                            "%.80s: server '%.40s': %s", s->context->path, s->name.ptr, why.text);
    }
    return 1;
}

int servers_find(const struct servers_context *context, struct tidings_str file, const char *name,
                 struct target *target, struct tidings_error *err)
{
    struct seeking s = {context, tidings_str(name), target, err};
    char *servers = servers_file_read_file(context, file, err);
    if (!servers) {
        return err->code;
    }
    int rc = tidings_json_each(tidings_str(servers), "", servers_file_seek, &s);
    tidings_free(servers);
    if (rc == 0) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "%s: no server '%.80s'", context->path, name);
    }
    return rc < 0 ? rc : 0;
}

struct server_listing {
    servers_fn fn;
    void *user;
    char line[512];
    size_t len;
};

static int add_word(void *user, struct tidings_str key, struct tidings_str value)
{
    struct server_listing *t = user;
    char *text = tidings_json_string(value, "");
    (void)key;
    int n = snprintf(t->line + t->len, sizeof(t->line) - t->len, " %s", text ? text : value.ptr);
    tidings_free(text);
    t->len += n > 0 ? (size_t)n : 0;
    if (t->len >= sizeof(t->line)) {
        t->len = sizeof(t->line) - 1;
    }
    return 0;
}

static int servers_file_tell(void *user, struct tidings_str key, struct tidings_str value)
{
    struct server_listing *t = user;
    bool is_launched = servers_file_has(value, "/command");
    char *text = tidings_json_string(value, is_launched ? "/command" : "/url");
    int n = snprintf(t->line, sizeof(t->line), "%s", text ? text : "");
    t->len = n > 0 && (size_t)n < sizeof(t->line) ? (size_t)n : strlen(t->line);
    if (is_launched) {
        char *args = tidings_json_get(value, "/args");
        if (args && args[0] == '"') { /* a single server */
            add_word(t, tidings_strn("", 0), tidings_str(args));
        } else {
            tidings_json_each(value, "/args", add_word, t);
        }
        tidings_free(args);
    }
    const struct servers_entry entry = {key,
                                        is_launched ? "command"
                                        : text      ? "url"
                                                    : "unusable",
                                        tidings_str(t->line), value};
    t->fn(t->user, &entry);
    tidings_free(text);
    return 0;
}

int servers_each(const struct servers_context *context, struct tidings_str file, servers_fn fn,
                 void *user, struct tidings_error *err)
{
    struct server_listing *t = calloc(1, sizeof(*t));
    char *servers = t ? servers_file_read_file(context, file, err) : NULL;
    int rc = 0;
    if (!t) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (!servers) {
        rc = err->code;
    } else {
        t->fn = fn;
        t->user = user;
        rc = tidings_json_each(tidings_str(servers), "", servers_file_tell, t);
    }
    tidings_free(servers);
    free(t);
    return rc < 0 ? rc : 0;
}

bool servers_name_is_plain(struct tidings_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return name.len > 0 && name.ptr[0] != '-';
}

/* ---------------------------------------------------------------------------------------------- */

#define TOKEN_MAX 16384u

/* ---- files ----------------------------------------------------------------------------------- */

/* Called for each usable file of names, in order of precedence. Not 0: stop. */
typedef int (*file_fn)(void *user, const struct servers_context *context, struct tidings_str file);

struct search {
    const char *command; /* for messages */
    file_fn fn;
    void *user;
    struct tidings_error *err; /* for errors in the user's own file; NULL: print them */
    bool is_project;           /* this file is not the user's own */
    bool is_own_only;          /* ignore the files of projects */
    bool is_silent;            /* print no warnings about unusable files */
};

static const char *environment(const char *name)
{
    return getenv(name);
}

/* Warnings about unusable files were printed: the process looks for names more than once. */
static bool was_told;

/* An unusable file is reported and skipped, except the user's own: if it were skipped, another file
 * could answer for a name that is in it. */
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

/* Returns true if the folder contains a repository. */
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
        target_is_innocent(); /* no server failed */
        return rc;
    }
    if (n->search->is_project && !n->target->url && !n->cli->quiet && is_terminal(stderr)) {
        say_launch(n->cli, n->target, context->path);
    }
    return 1;
}

/* Returns true if the argument has the form of a name. */
static bool target_is_name(const char *text)
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

/* Returns true if the argument is an address, or a host and a port. */
static bool target_is_address(const char *text)
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

static bool target_suggest(const char *name, char *out, size_t size);

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

/* Returns true if there is a server of that name. With `is_cautious`, a server of a project counts
 * only after the user agreed to it. Also returns true if the user's own file is unusable, because
 * then the name is undecided; opening the server reports the reason. */
static bool target_knows(const char *command, const char *name, bool is_cautious)
{
    return target_find(command, name, is_cautious, false);
}

/* Returns true if the user's own file has a server named `default`, or is unusable. */
static bool target_has_default(const char *command)
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

/* The known name nearest to an unknown one. */
static bool target_suggest(const char *name, char *out, size_t size)
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

/* The token of the file, as last read: each process has one. */
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

/* The job that renews a token replaces the file, so it is read for each request. If the file is
 * unreadable, it is about to be replaced, and the previous token is used. */
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
    /* Two targets do not get the token: the default address, where any program may listen, and an
     * address in a command line that the user has not submitted yet. */
    bool is_unsent = cli->is_careful && cli->origin == TARGET_NAMED && !target_is_name(cli->target);
    bool is_hidden = cli->origin == TARGET_NOWHERE || is_unsent;
    const char *variable = is_hidden ? NULL : getenv("TIDINGS_TOKEN");
    if (cli->token || !cli->token_file) {
        options->token = cli->token ? cli->token : variable && *variable ? variable : NULL;
        return 0;
    }
    options->token = token_read; /* is validated; later requests call on_token */
    options->on_token = on_token;
    options->token_user = (void *)(uintptr_t)cli;
    return read_token(cli->token_file, err);
}

/* The headers of the file and of the command line, NULL at the end; release with free. */
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

/* The environment in the file applies to this process, which has no other work. */
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

/* Discards the standard error of a launched server. */
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
        .on_wire = cli->verbose ? verbose_print : NULL,
        .traceparent = getenv("TRACEPARENT"), /* OpenTelemetry, set by the parent program */
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
            setenv("TIDINGS_LAUNCHED", "1", 1); /* a tidings server prints no greeting then */
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

/* -------------------------------------------------------------------------------------------------
 * The server of a command without -t and "--". The first argument is the server if it is an
 * address, a host and a port, or a known name; otherwise it belongs to the command, which uses the
 * default server.
 *
 * A project's file comes with a checkout. So its `default` entry is ignored. If the user has set a
 * default, a project's name overrides it only after the user agreed to that server (trust.h),
 * because the first argument may be meant for the default server.
 */

static bool target_is_server(const char *command, const char *word, bool is_cautious)
{
    return word[0] == '\0' || target_is_address(word) ||
           (target_is_name(word) && target_knows(command, word, is_cautious));
}

void target_choose(struct cli *cli)
{
    const char *variable = getenv("TIDINGS_SERVER");
    bool has_variable = variable && *variable, has_own = false;
    if (cli->launch || cli->target) {
        return;
    }
    if (!has_variable) {
        has_own = target_has_default(cli->command->name);
    }
    if (cli->arg_count > 0 &&
        target_is_server(cli->command->name, cli->args[0], has_variable || has_own)) {
        cli->target = cli->args[0];
        cli->arg_count--;
        memmove(cli->args, cli->args + 1, cli->arg_count * sizeof(*cli->args));
        return;
    }
    cli->origin = has_variable ? TARGET_VARIABLE : has_own ? TARGET_DEFAULT : TARGET_NOWHERE;
    cli->target = has_variable ? variable : has_own ? "default" : "127.0.0.1:7777";
}

const char *target_choice_text(const struct cli *cli, char out[TARGET_TEXT_MAX])
{
    char near[64], why[160] = "";
    const char *first = cli->arg_count > 0 ? cli->args[0] : NULL;
    bool is_name = first && target_is_name(first);
    bool has_near = is_name && target_suggest(first, near, sizeof(near));
    if (has_near && strcmp(near, first) == 0) {
        snprintf(why, sizeof(why),
                 "; '%.40s' is one of a project's file: 'tidings servers --trust'", first);
    } else if (is_name) {
        snprintf(why, sizeof(why), "; no server is called '%.40s'%s%s%s", first,
                 has_near ? ", but one is '" : "", has_near ? near : "", has_near ? "'" : "");
    }
    switch (cli->origin) {
    case TARGET_NAMED:
        snprintf(out, TARGET_TEXT_MAX, "the server is '%.80s'",
                 cli->launch ? cli->launch[0] : cli->target);
        break;
    case TARGET_VARIABLE:
        snprintf(out, TARGET_TEXT_MAX, "the server is '%.60s' (TIDINGS_SERVER)%s", cli->target,
                 why);
        break;
    case TARGET_DEFAULT:
        snprintf(out, TARGET_TEXT_MAX, "the server is your 'default'%s", why);
        break;
    case TARGET_NOWHERE:
        snprintf(out, TARGET_TEXT_MAX, "the server is %.40s, since none was named%s", cli->target,
                 why);
        break;
    }
    return out;
}

const char *target_hint_with(const struct cli *cli, const char *hint)
{
    static char text[2 * TARGET_TEXT_MAX];
    char choice[TARGET_TEXT_MAX];
    if (cli->origin == TARGET_NAMED) {
        return hint;
    }
    snprintf(text, sizeof(text), "%s%s%s", hint ? hint : "", hint ? "; " : "",
             target_choice_text(cli, choice));
    return text;
}

/* -------------------------------------------------------------------------------------------------
 * Hints for users about failures of the client.
 */

static bool is_innocent;

void target_is_innocent(void)
{
    is_innocent = true;
}

/* Returns true if TLS failed. Errors that the server sends over HTTP do not count. */
static bool is_about_certificate(const struct tidings_error *err)
{
    return strstr(err->text, "certificate") && !strstr(err->text, "(HTTP ");
}

/* Without the source of the server's name. */
static const char *plain_hint(const struct cli *cli, const struct tidings_error *err,
                              bool wants_login)
{
    bool by_name = cli->target && target_is_name(cli->target);
    switch (err->code) {
    case TIDINGS_E_INVALID:
        return by_name ? NULL : "a server is a URL such as http://127.0.0.1:7777/mcp, or a name";
    case TIDINGS_E_NOTFOUND:
        if (strcmp(cli->command->name, "watch") == 0 && !by_name) {
            return "'tidings ls' lists what a server has; --match glob waits for resources that do "
                   "not exist yet";
        }
        return by_name ? "'tidings servers' lists the names that are known"
                       : "check the address and the URIs; 'tidings ls' lists what a server has";
    case TIDINGS_E_DENIED:
        return wants_login || !cli->target ? login_tokens_hint(cli)
               : is_about_certificate(err) ? "--cacert FILE trusts a certificate authority; "
                                             "--cert and --key show your own"
                                           : NULL;
    case TIDINGS_E_TIMEOUT:
        return "--timeout gives it more time";
    case TIDINGS_E_IO:
        return cli->launch ? "check that the program can be run"
                           : "check that the server runs and the address is right";
    default:
        return NULL;
    }
}

const char *target_hint(const struct cli *cli, const struct tidings_error *err, bool wants_login)
{
    if (is_innocent) {
        is_innocent = false;
        return NULL;
    }
    return target_hint_with(cli, plain_hint(cli, err, wants_login));
}
