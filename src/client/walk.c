/* SPDX-License-Identifier: MIT
 *
 * Listing everything below a resource (tidings_client_walk), without trust in its shape: the graph
 * of a server may be infinite or go in circles. Depth first, and the children of one resource are
 * listed before it is told, so that the program hears whether they could be, and may ask whatever
 * it likes meanwhile.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/json_text.h"
#include "client/list.h"
#include "client/state.h"

#define DEPTH 32u
#define ENTRIES 100000u

/* A resource on the way. */
struct walk_node {
    struct list link; /* of those that are still to be told; the next first */
    char *uri, *item, *parent;
    uint32_t depth;
    bool has_children;
};

struct walk {
    struct tidings_client *client;
    uint32_t max_depth, max_entries;
    struct list_budget budget; /* of all lists together */
    struct list ahead;
    size_t ahead_count;
    struct map entered; /* URIs whose children were told */
    uint32_t told;
    /* while listing: */
    struct list children;
    const char *parent;
    uint32_t depth;
    struct tidings_error why;
};

static void walk_node_free(struct walk_node *p)
{
    mem_free(p->uri);
    mem_free(p->item);
    mem_free(p->parent);
    mem_free(p);
}

static void walk_free_all(struct list *list)
{
    list_each (it, next, list) {
        list_remove(it);
        walk_node_free(list_entry(it, struct walk_node, link));
    }
}

/* Said outright, or by what only directories have. */
static bool may_have_children(struct json *item)
{
    struct json *list = jv_get(jv_get(item, "capabilities"), "list");
    if (jv_is(list, JV_TRUE) || jv_is(list, JV_FALSE)) {
        return jv_is(list, JV_TRUE);
    }
    return str_eq(jv_str(jv_get(item, "mimeType")), STR("inode/directory")) ||
           str_ends(jv_str(jv_get(item, "uri")), STR("/"));
}

static int take_child(void *user, struct json *item)
{
    struct walk *w = user;
    struct tidings_str uri = jv_str(jv_get(item, "uri"));
    if (uri.len == 0) {
        return 0;
    }
    if (w->told + w->ahead_count >= w->max_entries) {
        return tidings_fail(&w->why, TIDINGS_E_LIMIT, "there are more than %u entries",
                            w->max_entries);
    }
    struct walk_node *p = mem_zalloc(sizeof(*p));
    if (p) {
        p->uri = str_dup(uri);
        p->item = json_text_of(w->client, item, NULL);
        p->parent = str_dup(tidings_str(w->parent));
    }
    if (!p || !p->uri || !p->item || !p->parent) {
        if (p) {
            walk_node_free(p);
        }
        return tidings_fail(&w->why, TIDINGS_E_NOMEM, "out of memory");
    }
    p->depth = w->depth;
    p->has_children = may_have_children(item);
    list_append(&w->children, &p->link);
    w->ahead_count++;
    return 0;
}

/* Its children come next. */
static int walk_enter(struct walk *w, const char *uri, uint32_t depth)
{
    char *key = str_dup(tidings_str(uri));
    if (!key || map_put(&w->entered, tidings_str(key), key, NULL) < 0) {
        mem_free(key);
        return tidings_fail(&w->why, TIDINGS_E_NOMEM, "out of memory");
    }
    struct tidings_error err = {0};
    w->parent = uri;
    w->depth = depth;
    w->why.code = 0;
    int rc = list_children(w->client, uri, take_child, w, &w->budget, &err);
    if (rc < 0 && w->why.code == 0) {
        w->why = err;
    }
    list_splice(&w->children, &w->ahead); /* before the others */
    list_splice(&w->ahead, &w->children);
    return rc;
}

/* Is it the server's word on this resource alone? Where it said nothing, as when an HTTP status is
 * all that came, the others would fare no better. */
static bool is_passable(const struct walk *w, int code)
{
    return tidings_client_last_error(w->client) &&
           (code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_GONE || code == TIDINGS_E_INVALID ||
            code == TIDINGS_E_DENIED || code == TIDINGS_E_UNSUPPORTED || code == TIDINGS_E_BUSY ||
            code == TIDINGS_E_INTERNAL);
}

/* 0, or what the walk ends with. */
static int walk_visit(struct walk *w, struct walk_node *p, tidings_walk_fn fn, void *user)
{
    struct tidings_walk_entry e = {
        .uri = tidings_str(p->uri),
        .item = tidings_str(p->item),
        .parent = tidings_str(p->parent),
        .depth = p->depth,
        .has_children = p->has_children,
        .is_repeated = map_find(&w->entered, tidings_str(p->uri)) != NULL,
        .is_cut = p->has_children && p->depth >= w->max_depth,
    };
    struct tidings_error failure;
    w->told++;
    if (e.has_children && !e.is_repeated && !e.is_cut) {
        int rc = walk_enter(w, p->uri, p->depth + 1);
        if (rc < 0 && !is_passable(w, rc)) {
            return rc;
        }
        failure = w->why;
        e.failure = rc < 0 ? &failure : NULL;
    }
    return fn(user, &e);
}

int tidings_client_walk(struct tidings_client *c, const char *uri,
                        const struct tidings_walk_limits *limits, tidings_walk_fn fn, void *user,
                        struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (limits && RESERVED_CHECK(limits, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct walk w = {.client = c,
                     .max_depth = limits && limits->depth ? limits->depth : DEPTH,
                     .max_entries = limits && limits->entries ? limits->entries : ENTRIES};
    /* One for what is in each, one for each that is in something, one that tells the end. */
    w.budget.left =
        w.max_entries < UINT32_MAX / 4 ? 3 * w.max_entries + LIST_MAX_PAGES : UINT32_MAX;
    list_init(&w.ahead);
    list_init(&w.children);
    map_init(&w.entered);
    int rc = walk_enter(&w, uri, 1);
    rc = rc > 0 ? 0 : rc;
    while (rc == 0 && !list_empty(&w.ahead)) {
        struct walk_node *p = list_entry(w.ahead.next, struct walk_node, link);
        list_remove(&p->link);
        w.ahead_count--;
        rc = walk_visit(&w, p, fn, user);
        walk_node_free(p);
    }
    walk_free_all(&w.ahead);
    char *key;
    for (size_t at = 0; (key = map_next(&w.entered, &at)) != NULL;) {
        mem_free(key);
    }
    map_deinit(&w.entered);
    if (rc < 0 && w.why.code == rc) {
        tidings_fail(err, rc, "%s", w.why.text);
    }
    return rc;
}
