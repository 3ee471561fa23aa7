/* SPDX-License-Identifier: MIT
 *
 * Lists, all pages of them, and what a server says of one resource. Pages come from strangers:
 * their number is bounded, and a cursor that was given before ends the list as an error.
 */
#include "client/list.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/write.h"

#define MAX_PAGES 10000u
#define MAX_ITEMS 1000000u

struct listing {
    struct tidings_client *client;
    const char *method, *member; /* where the elements are */
    const char *uri;             /* of whose children; NULL: none */
    json_item_fn fn;
    void *user;
    size_t items;
    struct map cursors; /* those that were given */
};

static void drop_cursors(struct listing *l)
{
    char *cursor;
    for (size_t at = 0; (cursor = map_next(&l->cursors, &at)) != NULL;) {
        mem_free(cursor);
    }
    map_deinit(&l->cursors);
}

static int put_params(struct buf *out, const struct listing *l, const char *cursor)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (l->uri) {
        jw_put_string(&w, STR("uri"), tidings_str(l->uri));
    }
    if (cursor) {
        jw_put_string(&w, STR("cursor"), tidings_str(cursor));
    }
    jw_end_object(&w);
    return out->failed;
}

/* The elements of one page: 0, or what ended it. */
static int take_page(struct listing *l, struct json *result, struct tidings_error *err)
{
    struct json *items = jv_get(result, l->member);
    if (!jv_is(items, JV_ARRAY)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the answer to %s has no %s", l->method,
                            l->member);
    }
    for (size_t i = 0; i < jv_count(items); i++) {
        if (l->items++ >= MAX_ITEMS) {
            return tidings_fail(err, TIDINGS_E_LIMIT, "the list has more than %u elements",
                                MAX_ITEMS);
        }
        int rc = l->fn(l->user, jv_at(items, i));
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* 1: *ret_cursor is the next page, which is kept in `l`; 0: there is none. */
static int next_cursor(struct listing *l, struct json *result, const char **ret_cursor,
                       struct tidings_error *err)
{
    struct json *next = jv_get(result, "nextCursor");
    if (!jv_is(next, JV_STRING)) {
        return 0;
    }
    if (map_find(&l->cursors, jv_str(next))) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the pages of %s go in a circle", l->method);
    }
    char *cursor = str_dup(jv_str(next));
    if (!cursor || map_put(&l->cursors, tidings_str(cursor), cursor, NULL) < 0) {
        mem_free(cursor);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *ret_cursor = cursor;
    return 1;
}

static int list_all(struct listing *l, struct tidings_error *err)
{
    const char *cursor = NULL;
    int rc = 1;
    map_init(&l->cursors);
    for (unsigned page = 0; rc == 1; page++) {
        struct buf params;
        if (page >= MAX_PAGES) {
            rc = tidings_fail(err, TIDINGS_E_LIMIT, "the list has more than %u pages", MAX_PAGES);
            break;
        }
        buf_init(&params, l->client->settings.max_bytes);
        struct tidings_error why = {.code = put_params(&params, l, cursor)};
        struct json *result =
            why.code == 0 ? ask(l->client, l->method, buf_str(&params), &why) : NULL;
        buf_deinit(&params);
        rc = result ? take_page(l, result, err) : tidings_fail(err, why.code, "%s", why.text);
        rc = rc == 0 ? next_cursor(l, result, &cursor, err) : rc == 1 ? 2 : rc;
        jv_unref(result);
    }
    drop_cursors(l);
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

struct texts {
    struct tidings_client *client;
    tidings_client_item_fn fn;
    void *user;
    int ended; /* what the function returned */
};

static int give_text(void *user, struct json *item)
{
    struct texts *t = user;
    size_t len;
    char *text = json_text_of(t->client, item, &len);
    if (text) {
        t->ended = t->fn(t->user, tidings_strn(text, len));
    }
    mem_free(text);
    return t->ended != 0 ? STOP_LISTING : 0;
}

static int list_texts(struct listing *l, tidings_client_item_fn fn, void *user,
                      struct tidings_error *err)
{
    struct texts t = {.client = l->client, .fn = fn, .user = user};
    l->fn = give_text;
    l->user = &t;
    int rc = list_all(l, err);
    return t.ended != 0 ? t.ended : rc < 0 ? rc : (int)l->items;
}

int tidings_client_list(struct tidings_client *c, enum tidings_listing list,
                        tidings_client_item_fn fn, void *user, struct tidings_error *err)
{
    static const struct {
        const char *method, *member;
    } kinds[] = {
        [TIDINGS_LISTING_RESOURCES] = {"resources/list", "resources"},
        [TIDINGS_LISTING_TEMPLATES] = {"resources/templates/list", "resourceTemplates"},
        [TIDINGS_LISTING_TOOLS] = {"tools/list", "tools"},
        [TIDINGS_LISTING_PROMPTS] = {"prompts/list", "prompts"},
    };
    if ((unsigned)list >= sizeof(kinds) / sizeof(kinds[0])) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no such list");
    }
    struct listing l = {.client = c, .method = kinds[list].method, .member = kinds[list].member};
    return list_texts(&l, fn, user, err);
}

/* A server that does not know the parameter would answer with the whole list. */
static int check_children(struct tidings_client *c, struct tidings_error *err)
{
    int rc = tidings_client_connect(c, err);
    if (rc < 0) {
        return rc;
    }
    return c->info.children ? 0
                            : tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                                           "the server does not list what is below a resource");
}

int list_children(struct tidings_client *c, const char *uri, json_item_fn fn, void *user,
                  struct tidings_error *err)
{
    struct listing l = {.client = c, .member = "resources", .uri = uri, .fn = fn, .user = user};
    int rc = check_children(c, err);
    l.method = c->info.children;
    return rc < 0 ? rc : list_all(&l, err);
}

int tidings_client_children(struct tidings_client *c, const char *uri, tidings_client_item_fn fn,
                            void *user, struct tidings_error *err)
{
    struct listing l = {.client = c, .member = "resources", .uri = uri};
    int rc = check_children(c, err);
    l.method = c->info.children;
    return rc < 0 ? rc : list_texts(&l, fn, user, err);
}

/* ---- metadata -------------------------------------------------------------------------------- */

struct search {
    struct tidings_client *client;
    struct tidings_str uri;
    char *found;
};

static int search(void *user, struct json *item)
{
    struct search *s = user;
    if (!str_eq(jv_str(jv_get(item, "uri")), s->uri)) {
        return 0;
    }
    s->found = json_text_of(s->client, item, NULL);
    return STOP_LISTING;
}

static char *search_list(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct search s = {.client = c, .uri = tidings_str(uri)};
    struct listing l = {
        .client = c, .method = "resources/list", .member = "resources", .fn = search, .user = &s};
    if (list_all(&l, err) >= 0 && !s.found) {
        tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.80s' is not in the server's list", uri);
    }
    return s.found;
}

char *tidings_client_metadata(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct listing l = {.uri = uri};
    struct buf params;
    struct tidings_error why = {0};
    buf_init(&params, c->settings.max_bytes);
    why.code = put_params(&params, &l, NULL);
    struct json *result =
        why.code == 0 ? ask(c, "resources/metadata", buf_str(&params), &why) : NULL;
    buf_deinit(&params);
    struct json *resource = jv_get(result, "resource");
    char *text = resource ? json_text_of(c, resource, NULL) : NULL;
    bool is_answered = result != NULL;
    jv_unref(result);
    if (!text && (is_answered || why.code == TIDINGS_E_UNSUPPORTED)) {
        return search_list(c, uri, err);
    }
    if (!text) {
        tidings_fail(err, why.code, "%s", why.text);
    }
    return text;
}
