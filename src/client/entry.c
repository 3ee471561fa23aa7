/* SPDX-License-Identifier: MIT
 *
 * Creates a client from an entry of a host's server file (.mcp.json): JSON with an address and
 * header fields, or with a command, its arguments and variables. The content of an entry is
 * bounded, and errors name members of the wrong kind.
 */
#include <string.h>
#include <unistd.h>

#include <tidings/client.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "formats/json.h"

#define ENTRY_WORDS 256u          /* arguments, variables */
#define ENTRY_MAX (1u << 20)      /* bytes of an entry */
#define ENTRY_TEXT_MAX (1u << 17) /* bytes of a variable or header field */

struct entry_words {
    char *items[ENTRY_WORDS + 2]; /* NULL at the end */
    size_t count;
};

static void entry_words_deinit(struct entry_words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        mem_free(w->items[i]);
    }
}

static bool entry_is_text(const struct json *value)
{
    struct tidings_str text = jv_str(value);
    return jv_is(value, JV_STRING) && (text.len == 0 || !memchr(text.ptr, '\0', text.len));
}

static int entry_add(struct entry_words *w, struct tidings_str text, const char *member,
                     struct tidings_error *err)
{
    if (w->count > ENTRY_WORDS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the server's '%s' has more than %u members",
                            member, ENTRY_WORDS);
    }
    w->items[w->count] = str_dup(text);
    if (!w->items[w->count]) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    w->count++;
    return 0;
}

/* An array of strings. */
static int entry_read_list(struct entry_words *w, const struct json *entry, const char *member,
                           struct tidings_error *err)
{
    struct json *list = jv_get(entry, member);
    int rc = 0;
    if (list && !jv_is(list, JV_ARRAY)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the server's '%s' is not an array of strings",
                            member);
    }
    for (size_t i = 0; rc == 0 && i < jv_count(list); i++) {
        rc = entry_is_text(jv_at(list, i))
                 ? entry_add(w, jv_str(jv_at(list, i)), member, err)
                 : tidings_fail(err, TIDINGS_E_INVALID,
                                "the server's '%s' has something else than "
                                "strings",
                                member);
    }
    return rc;
}

/* An object of strings, each as NAME, `between`, value. */
static int entry_read_pairs(struct entry_words *w, const struct json *entry, const char *member,
                            const char *between, struct tidings_error *err)
{
    struct json *object = jv_get(entry, member), *value;
    struct tidings_str key;
    int rc = 0;
    if (object && !jv_is(object, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the server's '%s' is not an object", member);
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(object, at, &key, &value)) != NULL;) {
        struct buf line;
        if (key.len == 0 || memchr(key.ptr, '\0', key.len) || memchr(key.ptr, '=', key.len) ||
            !entry_is_text(value)) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "the server's '%s' has an invalid name or value", member);
        }
        buf_init(&line, ENTRY_TEXT_MAX);
        buf_puts(&line, key);
        buf_puts(&line, tidings_str(between));
        buf_puts(&line, jv_str(value));
        rc = line.failed ? tidings_fail(err, line.failed, "the server's '%s' is too long", member)
                         : entry_add(w, buf_str(&line), member, err);
        buf_deinit(&line);
    }
    return rc;
}

/* The variables of the entry, then those of `before` that it does not name: programs use the first
 * of two variables with the same name. The strings are borrowed, mem_free the list. */
static const char **entry_environment(const struct entry_words *own, const char *const *before)
{
    size_t count = 0, n = 0;
    while (before[count]) {
        count++;
    }
    const char **all = mem_alloc((own->count + count + 1) * sizeof(*all));
    for (size_t i = 0; all && i < own->count; i++) {
        all[n++] = own->items[i];
    }
    for (size_t i = 0; all && i < count; i++) {
        size_t name = strcspn(before[i], "=") + 1;
        bool is_named = false;
        for (size_t k = 0; k < own->count; k++) {
            is_named = is_named || strncmp(own->items[k], before[i], name) == 0;
        }
        if (!is_named) {
            all[n++] = before[i];
        }
    }
    if (all) {
        all[n] = NULL;
    }
    return all;
}

static struct tidings_client *
entry_launch(const struct json *entry, struct tidings_client_options *o, struct tidings_error *err)
{
    struct entry_words words = {.count = 0}, variables = {.count = 0};
    struct tidings_client *c = NULL;
    const struct json *directory = jv_get(entry, "cwd");
    int rc = entry_add(&words, jv_str(jv_get(entry, "command")), "command", err);
    rc = rc == 0 ? entry_read_list(&words, entry, "args", err) : rc;
    rc = rc == 0 ? entry_read_pairs(&variables, entry, "env", "=", err) : rc;
    if (rc == 0 && directory && !entry_is_text(directory)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the server's 'cwd' is not a path");
    }
    char *folder = rc == 0 && directory ? str_dup(jv_str(directory)) : NULL;
    const char **all =
        rc == 0 ? entry_environment(&variables, o->env ? o->env : (const char *const *)environ)
                : NULL;
    if (rc == 0 && (!all || (directory && !folder))) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (rc == 0) {
        o->env = all;
        o->directory = folder ? folder : o->directory;
        c = tidings_client_launch((const char *const *)words.items, o, err);
    }
    mem_free(all);
    mem_free(folder);
    entry_words_deinit(&variables);
    entry_words_deinit(&words);
    return c;
}

static struct tidings_client *
entry_reach(const struct json *entry, struct tidings_client_options *o, struct tidings_error *err)
{
    struct entry_words lines = {.count = 0};
    struct tidings_client *c = NULL;
    int rc = entry_read_pairs(&lines, entry, "headers", ": ", err);
    for (size_t i = 0; rc == 0 && o->headers && o->headers[i]; i++) {
        rc = entry_add(&lines, tidings_str(o->headers[i]), "headers", err);
    }
    char *url = rc == 0 ? str_dup(jv_str(jv_get(entry, "url"))) : NULL;
    if (rc == 0 && !url) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (rc == 0) {
        o->headers = (const char *const *)lines.items;
        c = tidings_client_create(url, o, err);
    }
    mem_free(url);
    entry_words_deinit(&lines);
    return c;
}

struct tidings_client *tidings_client_create_entry(struct tidings_str text,
                                                   const struct tidings_client_options *options,
                                                   struct tidings_error *err)
{
    struct tidings_client_options o = options ? *options : (struct tidings_client_options){0};
    struct tidings_client *c = NULL;
    struct json *entry = NULL;
    if (text.len > ENTRY_MAX) {
        tidings_fail(err, TIDINGS_E_LIMIT, "the entry of a server is above %u bytes", ENTRY_MAX);
        return NULL;
    }
    if (json_parse_lenient(text, &entry, NULL, err) < 0) {
        return NULL;
    }
    const struct json *url = jv_get(entry, "url"), *command = jv_get(entry, "command");
    if ((url && command) || (!url && !command)) {
        tidings_fail(err, TIDINGS_E_INVALID, "a server has either 'url' or 'command'");
    } else if (!entry_is_text(url ? url : command) || jv_str(url ? url : command).len == 0) {
        tidings_fail(err, TIDINGS_E_INVALID, "the server's '%s' is not a string",
                     url ? "url" : "command");
    } else {
        c = url ? entry_reach(entry, &o, err) : entry_launch(entry, &o, err);
    }
    jv_unref(entry);
    return c;
}
