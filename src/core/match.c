/* SPDX-License-Identifier: MIT
 *
 * The index is two hash tables from a key to a bucket, which lists the nodes of that key: one for
 * literals, one for containers. A changed URI is looked up as it is in the first, and each of its
 * prefixes that ends in a slash of the path (the scheme's own "x://" included) in the second; while
 * there are containers without a slash, also each prefix that ends before one.
 *
 * Invariant: a bucket is in its table exactly while it has a node. Canonical form is the caller's.
 */
#include "core/match.h"

#include <assert.h>

#include "base/mem.h"
#include "base/str.h"

struct bucket {
    struct list nodes;
    struct map *map; /* the table this bucket is in */
    struct tidings_str key;
    char text[];
};

void match_init(struct match *m)
{
    map_init(&m->literal);
    map_init(&m->container);
    m->count = 0;
    m->bare = 0;
}

void match_deinit(struct match *m)
{
    assert(m->count == 0);
    map_deinit(&m->literal);
    map_deinit(&m->container);
}

/* Where the path may end in a slash: after "scheme:", or at the second slash of "scheme://". */
static size_t first_slash(struct tidings_str uri)
{
    ptrdiff_t colon = str_find(uri, ':');
    size_t after = colon < 0 ? 0 : (size_t)colon + 1;
    return str_starts(str_skip(uri, after), STR("//")) ? after + 1 : after;
}

/* The part of a URI whose slashes count: without the query. */
static struct tidings_str before_query(struct tidings_str uri)
{
    ptrdiff_t question = str_find(uri, '?');
    return question < 0 ? uri : tidings_strn(uri.ptr, (size_t)question);
}

static bool is_bare(const struct match *m, const struct bucket *b)
{
    return b->map == &m->container && !str_ends(b->key, STR("/"));
}

static struct bucket *bucket_create(struct map *map, struct tidings_str key)
{
    struct bucket *b = mem_alloc(sizeof(*b) + key.len);
    if (!b) {
        return NULL;
    }
    list_init(&b->nodes);
    b->map = map;
    b->key = tidings_strn(b->text, key.len);
    memcpy(b->text, key.ptr, key.len);
    if (map_put(map, b->key, b, NULL) < 0) {
        mem_free(b);
        return NULL;
    }
    return b;
}

int match_add(struct match *m, struct match_node *node, enum match_kind kind,
              struct tidings_str uri, struct tidings_error *err)
{
    assert(!node->bucket);
    struct map *map = kind == MATCH_CONTAINER ? &m->container : &m->literal;
    struct bucket *b = map_find(map, uri);
    if (!b) {
        b = bucket_create(map, uri);
    }
    if (!b) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "subscription: out of memory");
    }
    list_append(&b->nodes, &node->link);
    node->bucket = b;
    m->count++;
    m->bare += is_bare(m, b);
    return 0;
}

void match_remove(struct match *m, struct match_node *node)
{
    struct bucket *b = node->bucket;
    if (!b) {
        return;
    }
    list_remove(&node->link);
    node->bucket = NULL;
    m->count--;
    m->bare -= is_bare(m, b);
    if (list_empty(&b->nodes)) {
        map_remove(b->map, b->key);
        mem_free(b);
    }
}

static void report(const struct map *map, struct tidings_str key, match_fn fn, void *user)
{
    struct bucket *b = map_find(map, key);
    if (!b) {
        return;
    }
    list_each(it, next, &b->nodes)
    {
        fn(user, list_entry(it, struct match_node, link));
    }
}

void match_find(const struct match *m, struct tidings_str changed, match_fn fn, void *user)
{
    report(&m->literal, changed, fn, user);
    if (m->container.count == 0) {
        return;
    }
    struct tidings_str path = before_query(changed);
    size_t first = first_slash(changed);
    for (size_t at = first; at < path.len; at++) {
        if (path.ptr[at] != '/') {
            continue;
        }
        if (m->bare > 0 && at > first && path.ptr[at - 1] != '/') {
            report(&m->container, tidings_strn(path.ptr, at), fn, user);
        }
        report(&m->container, tidings_strn(path.ptr, at + 1), fn, user);
    }
    if (m->bare > 0 && !str_ends(path, STR("/"))) {
        report(&m->container, path, fn, user);
    }
    if (path.len < changed.len) {
        report(&m->container, changed, fn, user); /* itself, where the loop did not get to */
    }
}
