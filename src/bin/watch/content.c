/* SPDX-License-Identifier: MIT
 *
 * Keeps the contents that `tidings watch` saw, and prints what differs from them.
 */
#include "bin/watch/content.h"

#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/watch/diff.h"

struct seen {
    char *uri;
    char *text; /* NULL: its size alone is known */
    size_t len;
    uint64_t turn; /* the oldest is forgotten first */
};

struct content_kept {
    struct seen *seen;
    size_t count, room, bytes;
    uint64_t turn;
};

/* ---- what was seen --------------------------------------------------------------------------- */

struct content_kept *content_create(void)
{
    return calloc(1, sizeof(struct content_kept));
}

static void content_forget(struct content_kept *k, struct seen *s)
{
    k->bytes -= s->text ? s->len : 0;
    free(s->uri);
    tidings_free(s->text);
    *s = k->seen[--k->count];
}

void content_destroy(struct content_kept *k)
{
    while (k && k->count > 0) {
        content_forget(k, &k->seen[k->count - 1]);
    }
    if (k) {
        free(k->seen);
    }
    free(k);
}

static struct seen *content_find(struct content_kept *k, struct tidings_str uri)
{
    for (size_t i = 0; i < k->count; i++) {
        if (tidings_str_eq(tidings_str(k->seen[i].uri), uri)) {
            return &k->seen[i];
        }
    }
    return NULL;
}

static void forget_oldest(struct content_kept *k)
{
    struct seen *oldest = k->seen;
    for (size_t i = 1; i < k->count; i++) {
        oldest = k->seen[i].turn < oldest->turn ? &k->seen[i] : oldest;
    }
    content_forget(k, oldest);
}

static bool content_make_room(struct content_kept *k, size_t bytes)
{
    while (k->count > 0 && (k->count >= CONTENT_COUNT_MAX || k->bytes + bytes > CONTENT_KEPT_MAX)) {
        forget_oldest(k);
    }
    if (k->count == k->room) {
        size_t room = k->room > 0 ? 2 * k->room : 64;
        struct seen *more = realloc(k->seen, room * sizeof(*more));
        if (!more) {
            return false;
        }
        k->seen = more;
        k->room = room;
    }
    return true;
}

/* Takes `text`, which may be NULL. Without memory it is forgotten: the next difference is not told.
 */
static void content_keep(struct content_kept *k, struct tidings_str uri, char *text, size_t len)
{
    struct seen *old = content_find(k, uri);
    if (old) {
        content_forget(k, old);
    }
    if (text && len > CONTENT_TEXT_MAX) {
        tidings_free(text);
        text = NULL;
    }
    char *copy = content_make_room(k, text ? len : 0) ? strndup(uri.ptr, uri.len) : NULL;
    if (!copy) {
        tidings_free(text);
        return;
    }
    k->seen[k->count++] = (struct seen){copy, text, len, ++k->turn};
    k->bytes += text ? len : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The text of a content, or NULL and the number of its bytes. False: it has neither. */
static bool content_text_of(struct tidings_str content, char **ret_text, size_t *ret_len)
{
    *ret_text = tidings_json_text(content, "/text", ret_len);
    if (*ret_text && strlen(*ret_text) != *ret_len) {
        tidings_free(*ret_text); /* with a NUL in it it is none that can be told by lines */
        *ret_text = NULL;
        return true;
    }
    if (*ret_text) {
        return true;
    }
    char *bytes = tidings_json_bytes(content, "/blob", ret_len);
    bool has_bytes = bytes != NULL;
    tidings_free(bytes);
    return has_bytes;
}

static int content_keep_content(void *user, struct tidings_str key, struct tidings_str content)
{
    struct content_kept *k = user;
    char *uri = tidings_json_string(content, "/uri");
    char *text = NULL;
    size_t len = 0;
    (void)key;
    if (uri && content_text_of(content, &text, &len)) {
        content_keep(k, tidings_str(uri), text, len);
    }
    tidings_free(uri);
    return 0;
}

void content_begin(struct content_kept *k, struct tidings_client *client, const char *uri)
{
    struct tidings_error err = {0};
    char *result = tidings_client_read(client, uri, &err);
    if (result) {
        tidings_json_each(tidings_str(result), "/contents", content_keep_content, k);
    }
    tidings_free(result);
}

static char *difference(struct tidings_str before, struct tidings_str after)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = out ? diff_write(out, before, after) : TIDINGS_E_NOMEM;
    if ((out && fclose(out) != 0) || rc != 1) {
        free(text);
        return NULL;
    }
    return text;
}

static void content_compare(struct content_kept *k, const struct tidings_update *u,
                            struct tidings_str content, struct content *c)
{
    struct seen *old = content_find(k, u->uri);
    bool is_new = !old && u->kind == TIDINGS_CHANGE_CREATED;
    char *text = NULL;
    size_t len = 0;
    c->has_before = old || is_new;
    c->before = old ? old->len : 0;
    c->has_after = content_text_of(content, &text, &len);
    c->after = len;
    if (text && (is_new || (old && old->text))) {
        struct tidings_str before = old ? tidings_strn(old->text, old->len) : tidings_strn("", 0);
        c->difference = difference(before, tidings_strn(text, len));
    }
    if (c->has_after) {
        content_keep(k, u->uri, text, len);
    }
}

void content_read(struct content_kept *k, struct tidings_client *client,
                  const struct tidings_update *u, struct content *c)
{
    *c = (struct content){0};
    if (u->kind == TIDINGS_CHANGE_DELETED) {
        struct seen *old = k ? content_find(k, u->uri) : NULL;
        if (old) {
            c->has_before = true;
            c->before = old->len;
            content_forget(k, old);
        }
        return;
    }
    char *uri = strndup(u->uri.ptr, u->uri.len);
    char *result = uri ? tidings_client_read(client, uri, &c->err) : NULL;
    char *first = result && k ? tidings_json_get(tidings_str(result), "/contents/0") : NULL;
    if (first) {
        content_compare(k, u, tidings_str(first), c);
    }
    c->contents = result ? tidings_json_get(tidings_str(result), "/contents") : NULL;
    tidings_free(first);
    tidings_free(result);
    free(uri);
}

void content_release(struct content *c)
{
    tidings_free(c->contents);
    free(c->difference);
    *c = (struct content){0};
}
