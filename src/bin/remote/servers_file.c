/* SPDX-License-Identifier: MIT
 *
 * Reads the files that give servers names.
 */
#include "bin/remote/servers_file.h"

#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

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

/* Takes `text`, also on failure. */
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
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u texts in a list", TEXTS_MAX);
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
        return tidings_fail(err, TIDINGS_E_LIMIT, "a text is longer than %u bytes",
                            SERVERS_TEXT_MAX);
    }
    memcpy(x->out + x->len, text, len);
    x->len += len;
    x->out[x->len] = '\0';
    return 0;
}

/* Remember, once, that this variable was put in. */
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

/* What is between "${" and "}". */
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

/* The string at `pointer` with its variables replaced; `*ret` stays NULL where there is none. */
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
        return tidings_fail(err, TIDINGS_E_PARSE, "'%s' must be a text", pointer + 1);
    }
    *ret = servers_file_expand(context, text, err);
    tidings_free(text);
    return *ret ? 0 : err->code;
}

static int servers_file_add_member(void *user, struct tidings_str key, struct tidings_str value)
{
    struct filling *f = user;
    if (strchr("{[n", value.ptr[0])) {
        return tidings_fail(f->err, TIDINGS_E_PARSE, "'%.60s' must be a text", key.ptr);
    }
    /* Some write numbers and booleans where texts belong. */
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

/* The list or object at `pointer`, where there is one. */
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
                            f.between ? "an object" : "a list, or a text");
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
                            "a server has either a 'command' or a 'url', a text");
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

struct telling {
    servers_fn fn;
    void *user;
    char line[512];
    size_t len;
};

static int add_word(void *user, struct tidings_str key, struct tidings_str value)
{
    struct telling *t = user;
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
    struct telling *t = user;
    bool is_launched = servers_file_has(value, "/command");
    char *text = tidings_json_string(value, is_launched ? "/command" : "/url");
    int n = snprintf(t->line, sizeof(t->line), "%s", text ? text : "");
    t->len = n > 0 && (size_t)n < sizeof(t->line) ? (size_t)n : strlen(t->line);
    if (is_launched) {
        char *args = tidings_json_get(value, "/args");
        if (args && args[0] == '"') { /* a single one */
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
    struct telling *t = calloc(1, sizeof(*t));
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
