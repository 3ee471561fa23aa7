/* SPDX-License-Identifier: MIT
 *
 * The provider of published resources: serves what is published below one prefix. Everything works
 * on references to immutable items, on whichever thread is asked; nothing waits, also for the disk
 * not.
 */
#include "provider/published.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "provider/published_private.h"

/* Greater than every byte of a canonical URI: "x:///a/" and this is behind all below it. */
#define BEHIND '\x7f'
#define URI_ROOM (4u * 4096u)
#define NAMES_MAX 10000u
#define CHILDREN_MAX 64u /* that ride in the read of a container … */
#define CHILDREN_BYTES (256u * 1024u)

struct mounted {
    struct published *store;
};

static struct published *store_of(struct tidings_provider *p)
{
    return ((struct mounted *)tidings_provider_state(p))->store;
}

void published_bind(struct tidings_provider *p, struct published *store)
{
    ((struct mounted *)tidings_provider_state(p))->store = store;
}

/* A reference to what is published as `uri`, or NULL. */
static struct published_item *published_find(struct tidings_provider *p, struct tidings_str uri)
{
    struct shared_value *value = shared_map_find(store_of(p)->shared, uri);
    if (value && !published_is_there(published_item_of(value))) {
        shared_value_unref(value);
        value = NULL;
    }
    return value ? published_item_of(value) : NULL;
}

/* The first item behind `after` that begins with `below`, or NULL. */
static struct published_item *next_below(struct published *store, struct tidings_str after,
                                         struct tidings_str below)
{
    struct shared_value *value = shared_map_next(store->shared, after);
    while (value && !published_is_there(published_item_of(value)) &&
           str_starts(value->key, below)) {
        struct shared_value *next = shared_map_next(store->shared, value->key);
        shared_value_unref(value);
        value = next;
    }
    if (value && !str_starts(value->key, below)) {
        shared_value_unref(value);
        value = NULL;
    }
    return value ? published_item_of(value) : NULL;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* `uri` with a '/' at its end into `out`; false when no container is there. */
static bool find_container(struct tidings_provider *p, struct tidings_str uri, struct buf *out)
{
    buf_puts(out, uri);
    if (uri.ptr[uri.len - 1] != '/') {
        buf_putc(out, '/');
    }
    if (out->failed || str_eq(buf_str(out), tidings_provider_prefix(p))) {
        return !out->failed;
    }
    struct published_item *item = next_below(store_of(p), buf_str(out), buf_str(out));
    shared_value_unref(item ? &item->value : NULL);
    return item != NULL;
}

static void describe_container(struct tidings_str uri, struct tidings_resource *row)
{
    *row = (struct tidings_resource){0};
    row->uri = uri;
    row->name = published_name(uri);
    row->mime_type = STR("inode/directory");
    row->listable = true;
}

/* Direct children of the container `parent`, each once: 1 to go on, else the end. `item` is NULL
 * for a container. */
typedef int (*child_fn)(void *user, const struct tidings_resource *row,
                        const struct published_item *item, struct tidings_error *err);

static int each_child(struct published *store, struct tidings_str parent, struct tidings_str after,
                      child_fn fn, void *user, struct tidings_error *err)
{
    struct buf at;
    int rc = 1;
    buf_init(&at, URI_ROOM);
    buf_puts(&at, after.len > 0 ? after : parent);
    if (after.len > 0 && after.ptr[after.len - 1] == '/') {
        buf_putc(&at, BEHIND);
    }
    while (rc > 0 && !at.failed) {
        struct published_item *item = next_below(store, buf_str(&at), parent);
        if (!item) {
            break;
        }
        struct tidings_str key = item->value.key;
        ptrdiff_t slash =
            str_find(str_cut(str_skip(key, parent.len), '?', &(struct tidings_str){0}, NULL), '/');
        struct tidings_resource row = item->about;
        buf_clear(&at);
        if (slash >= 0) {
            key = tidings_strn(key.ptr, parent.len + (size_t)slash + 1);
            describe_container(key, &row);
        }
        rc = fn(user, &row, slash >= 0 ? NULL : item, err);
        buf_puts(&at, key);
        if (slash >= 0) {
            buf_putc(&at, BEHIND);
        }
        shared_value_unref(&item->value);
    }
    if (rc >= 0 && at.failed) {
        rc = tidings_fail(err, at.failed, "out of memory");
    }
    buf_deinit(&at);
    return rc < 0 ? rc : 0;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* Whole: the core cuts out what was asked for. */
static int read_item(struct tidings_read *read, const struct published_item *item,
                     struct tidings_error *err)
{
    if (item->is_damaged) {
        tidings_read_explain(read, STR("{\"reason\":\"damaged\"}"));
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "what is stored of it is damaged: publish it again");
    }
    if (tidings_read_unchanged(read, item->about.etag)) {
        return 0;
    }
    return item->is_text ? tidings_read_text(read, &item->about, item->content, err)
                         : tidings_read_blob(read, &item->about, item->content, err);
}

struct names_read {
    const struct tidings_read *read;
    struct buf text;
    size_t count;
};

static int published_put_name(void *user, const struct tidings_resource *row,
                              const struct published_item *item, struct tidings_error *err)
{
    struct names_read *n = user;
    (void)item;
    (void)err;
    if (!tidings_read_shows(n->read, row->uri)) {
        return 1;
    }
    if (n->count++ >= NAMES_MAX) {
        return 0;
    }
    buf_puts(&n->text, published_name(row->uri));
    buf_puts(&n->text, row->listable ? STR("/\n") : STR("\n"));
    return 1;
}

/* The first children, as far as they fit. */
struct children_read {
    struct tidings_read *read;
    size_t count, room;
};

static int give_child(void *user, const struct tidings_resource *row,
                      const struct published_item *item, struct tidings_error *err)
{
    struct children_read *g = user;
    if (!item || item->is_damaged || !tidings_read_wants(g->read, row->uri, row->mime_type) ||
        item->content.len > g->room) {
        return 1;
    }
    g->room -= item->content.len;
    int rc = item->is_text ? tidings_read_text(g->read, row, item->content, err)
                           : tidings_read_blob(g->read, row, item->content, err);
    return rc < 0 ? rc : ++g->count < CHILDREN_MAX;
}

static int read_container(struct tidings_provider *p, struct tidings_read *read,
                          struct tidings_str uri, struct tidings_error *err)
{
    struct names_read n = {.read = read};
    struct tidings_resource row;
    describe_container(uri, &row);
    buf_init(&n.text, tidings_read_max_bytes(read));
    int rc = each_child(store_of(p), uri, STR_EMPTY, published_put_name, &n, err);
    if (rc == 0 && n.text.failed) {
        rc = tidings_fail(err, n.text.failed, "the names do not fit");
    }
    if (rc == 0) {
        rc = tidings_read_text(read, &row, buf_str(&n.text), err);
    }
    size_t room = tidings_read_max_bytes(read) - n.text.len;
    struct children_read g = {.read = read, .room = room < CHILDREN_BYTES ? room : CHILDREN_BYTES};
    if (rc == 0) {
        rc = each_child(store_of(p), uri, STR_EMPTY, give_child, &g, err);
    }
    buf_deinit(&n.text);
    return rc;
}

static void published_read(struct tidings_provider *p, struct tidings_read *read,
                           struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct published_item *item = published_find(p, uri);
    int rc;
    if (item) {
        rc = read_item(read, item, &err);
        shared_value_unref(&item->value);
    } else {
        struct buf container;
        buf_init(&container, URI_ROOM);
        rc = find_container(p, uri, &container)
                 ? read_container(p, read, buf_str(&container), &err)
                 : tidings_fail(&err, TIDINGS_E_NOTFOUND, "nothing is published as '%.*s'",
                                STR_ARG(uri));
        buf_deinit(&container);
    }
    tidings_read_done(read, rc < 0 ? rc : 0, &err);
}

/* ---- stat, list, children -------------------------------------------------------------------- */

static void published_stat(struct tidings_provider *p, struct tidings_stat *stat,
                           struct tidings_str uri)
{
    struct published_item *item = published_find(p, uri);
    if (item) {
        tidings_stat_done(stat, 0, &item->about, NULL);
        shared_value_unref(&item->value);
        return;
    }
    struct tidings_error err = {0};
    struct tidings_resource row;
    struct buf container;
    buf_init(&container, URI_ROOM);
    if (find_container(p, uri, &container)) {
        describe_container(buf_str(&container), &row);
        tidings_stat_done(stat, 0, &row, NULL);
    } else {
        tidings_fail(&err, TIDINGS_E_NOTFOUND, "nothing is published as '%.*s'", STR_ARG(uri));
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, &err);
    }
    buf_deinit(&container);
}

static void published_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct tidings_error err = {0};
    struct published *store = store_of(p);
    struct tidings_str prefix = tidings_provider_prefix(p), after = tidings_list_after(list);
    struct published_item *item = next_below(store, after.len > 0 ? after : prefix, prefix);
    int rc = 1;
    while (item && rc > 0) {
        rc = tidings_list_add(list, &item->about, &err);
        struct published_item *next = next_below(store, item->value.key, prefix);
        shared_value_unref(&item->value);
        item = next;
    }
    shared_value_unref(item ? &item->value : NULL);
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static int add_child(void *user, const struct tidings_resource *row,
                     const struct published_item *item, struct tidings_error *err)
{
    (void)item;
    return tidings_list_add(user, row, err);
}

static void published_children(struct tidings_provider *p, struct tidings_list *list,
                               struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct buf container;
    buf_init(&container, URI_ROOM);
    int rc = find_container(p, uri, &container)
                 ? each_child(store_of(p), buf_str(&container), tidings_list_after(list), add_child,
                              list, &err)
                 : tidings_fail(&err, TIDINGS_E_NOTFOUND, "'%.*s' has no children", STR_ARG(uri));
    buf_deinit(&container);
    tidings_list_done(list, rc, &err);
}

/* ---- complete -------------------------------------------------------------------------------- */

struct completing {
    struct tidings_complete *complete;
    size_t skip; /* the prefix is no part of a path */
};

static int published_suggest(void *user, const struct tidings_resource *row,
                             const struct published_item *item, struct tidings_error *err)
{
    struct completing *c = user;
    struct tidings_str path = str_skip(row->uri, c->skip);
    (void)item;
    (void)err;
    return str_starts(path, tidings_complete_value(c->complete))
               ? tidings_complete_add(c->complete, path)
               : 1;
}

/* The `path` of "prefix{+path}", one container at a time, as it is spelled in URIs. */
static void published_complete(struct tidings_provider *p, struct tidings_complete *complete,
                               struct tidings_str uri_template)
{
    struct tidings_error err = {0};
    struct tidings_str prefix = tidings_provider_prefix(p);
    struct tidings_str typed = tidings_complete_value(complete);
    struct completing c = {.complete = complete, .skip = prefix.len};
    struct buf parent;
    buf_init(&parent, URI_ROOM);
    (void)uri_template;
    while (typed.len > 0 && typed.ptr[typed.len - 1] != '/') {
        typed.len--;
    }
    buf_puts(&parent, prefix);
    buf_puts(&parent, typed);
    int rc = 0;
    if (parent.failed == TIDINGS_E_NOMEM) {
        rc = tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    } else if (!parent.failed && str_eq(tidings_complete_name(complete), STR("path"))) {
        rc = each_child(store_of(p), buf_str(&parent), STR_EMPTY, published_suggest, &c, &err);
    }
    buf_deinit(&parent);
    tidings_complete_done(complete, rc, &err);
}

/* ---- write ----------------------------------------------------------------------------------- */

static void published_written(void *user, int rc, const char *etag, const struct tidings_error *err)
{
    if (rc == TIDINGS_E_UNKNOWN) {
        tidings_write_explain(user, STR("{\"reason\":\"outcomeUnknown\"}"));
    } else if (rc == TIDINGS_E_IO || rc == TIDINGS_E_FULL || rc == TIDINGS_E_NOMEM) {
        tidings_write_explain(user, STR("{\"reason\":\"storage\"}"));
    }
    tidings_write_done(user, rc, tidings_str(etag), err);
}

static void published_write(struct tidings_provider *p, struct tidings_write *write,
                            struct tidings_str uri)
{
    struct publication pub = {
        .content = tidings_write_bytes(write),
        .metadata = tidings_write_metadata(write),
        .traceparent = tidings_write_traceparent(write),
        .if_match = tidings_write_if_match(write),
        .if_absent = tidings_write_if_absent(write),
    };
    const struct published_shares *shares = store_of(p)->shares;
    pub.owner = shares ? shares->owner_of(write, &pub.is_operator) : NULL;
    pub.about = (struct tidings_resource){0};
    pub.about.uri = uri;
    if (tidings_write_is_removal(write)) {
        published_remove_then(store_of(p), p, &pub, published_written, write);
        return;
    }
    pub.about.mime_type = tidings_write_mime_type(write);
    published_put_then(store_of(p), p, &pub, published_written, write);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int published_open(struct tidings_provider *p, struct tidings_str config,
                          struct tidings_error *err)
{
    struct tidings_str prefix = tidings_provider_prefix(p);
    (void)config;
    return prefix.len > 0 && prefix.ptr[prefix.len - 1] == '/'
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "the prefix must end in '/'");
}

static void published_close(struct tidings_provider *p)
{
    (void)p; /* the store is the server's */
}

const struct tidings_provider_ops provider_published_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "published",
    .size = sizeof(struct mounted),
    .flags = TIDINGS_PROVIDER_TAKES_METADATA,
    .open = published_open,
    .read = published_read,
    .list = published_list,
    .stat = published_stat,
    .children = published_children,
    .complete = published_complete,
    .write = published_write,
    .close = published_close,
};
