/* SPDX-License-Identifier: MIT
 *
 * The provider of published resources: serves the resources below one prefix. Everything works on
 * references to immutable items, on the calling thread; it never waits, not even for the disk.
 */
#include "sources/published.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "sources/mime.h"

/* -------------------------------------------------------------------------------------------------
 * Putting, removing and reserving published resources. Each is one step in the shared map: under
 * its lock, conditions and limits are checked and the change is announced. No other thread can
 * change the same URI then, so announcements come in the order of the changes. With a commit thread
 * the order is that of its jobs (sources/published_durable.c).
 */

#define ETAG_SEED_A 0x74696469u
#define ETAG_SEED_B 0x6e677321u
#define NO_GLOBS "" /* the built-in media types suffice: publishers may set another one */

/* The slices of a description, to treat them all alike. */
#define ABOUT_SLICES(X)                                                                            \
    X(uri) X(name) X(title) X(description) X(mime_type) X(icons) X(audience) X(meta)

struct published *published_create(const uint64_t *max_count, const uint64_t *max_bytes,
                                   struct tidings_error *err)
{
    struct published *store = mem_zalloc(sizeof(*store));
    if (!store) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    store->max_count = max_count;
    store->max_bytes = max_bytes;
    list_init(&store->pending);
    store->shared = shared_map_create(err);
    store->mime = store->shared ? mime_load(NO_GLOBS) : NULL;
    if (!store->mime) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        published_destroy(store);
        return NULL;
    }
    return store;
}

void published_destroy(struct published *store)
{
    if (store) {
        shared_map_destroy(store->shared);
        mime_destroy(store->mime);
        mem_free(store);
    }
}

/* Returns the last segment of a URI, or the whole URI if it has none. */
static struct tidings_str published_name(struct tidings_str uri)
{
    struct tidings_str path = str_cut(uri, '?', &(struct tidings_str){0}, NULL);
    while (path.len > 0 && path.ptr[path.len - 1] == '/') {
        path.len--;
    }
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : uri;
}

/* ---- items ----------------------------------------------------------------------------------- */

static void item_disown(struct published_item *item)
{
    if (item->owner) {
        item->shares->release(item->owner);
        item->owner = NULL;
    }
}

static void item_destroy(struct shared_value *value)
{
    item_disown(published_item_of(value));
    mem_free(published_item_of(value));
}

void published_set_shares(struct published *store, const struct published_shares *shares)
{
    store->shares = shares;
    struct shared_value *value = shares ? NULL : shared_map_next(store->shared, STR_EMPTY);
    while (value) {
        struct published_item *item = published_item_of(value);
        if (item->owner) {
            item->shares->give(item->shares->user, item->owner, item->memory);
        }
        item_disown(item);
        struct shared_value *next = shared_map_next(store->shared, value->key);
        shared_value_unref(value);
        value = next;
    }
}

/* Sets defaults for everything that the publisher omitted. */
static void published_store_complete(const struct published *store, const struct publication *p,
                                     bool is_text, struct tidings_resource *about)
{
    *about = p->about;
    about->etag = STR_EMPTY;
    about->listable = false;
    about->size = (int64_t)p->content.len;
    about->has_size = true;
    if (about->name.len == 0) {
        about->name = published_name(about->uri);
    }
    if (about->mime_type.len == 0) {
        about->mime_type = mime_find(store->mime, published_name(about->uri));
    }
    if (about->mime_type.len == 0) {
        about->mime_type = is_text ? STR("text/plain") : STR("application/octet-stream");
    }
    if (about->modified_ms == 0) {
        about->modified_ms = clock_wall_ms();
    }
}

void published_make_etag(struct tidings_str content, struct tidings_str mime_type,
                         char out[PUBLISHED_ETAG_SIZE])
{
    (void)snprintf(out, PUBLISHED_ETAG_SIZE, "%zx-%016llx%016llx", content.len,
                   (unsigned long long)str_hash(content, ETAG_SEED_A),
                   (unsigned long long)str_hash(content, str_hash(mime_type, ETAG_SEED_B)));
}

struct published_item *published_item_create(const struct published *store,
                                             const struct publication *p)
{
    struct tidings_resource about;
    bool is_text = str_is_utf8(p->content);
    published_store_complete(store, p, is_text, &about);
    size_t extra = p->content.len;
#define ADD_LENGTH(field) extra += about.field.len;
    ABOUT_SLICES(ADD_LENGTH)
#undef ADD_LENGTH
    struct published_item *item = mem_zalloc(sizeof(*item) + extra);
    if (!item) {
        return NULL;
    }
    char *at = (char *)(item + 1);
    item->about = about;
#define COPY_SLICE(field) item->about.field = str_pack(&at, about.field);
    ABOUT_SLICES(COPY_SLICE)
#undef COPY_SLICE
    item->content = str_pack(&at, p->content);
    item->memory = sizeof(*item) + extra;
    item->is_text = is_text;
    if (store->shares && p->owner) {
        item->shares = store->shares;
        item->owner = p->owner;
        item->is_operators = p->is_operator;
        item->shares->hold(item->owner);
    }
    published_make_etag(p->content, about.mime_type, item->etag);
    item->about.etag = tidings_str(item->etag);
    item->value = (struct shared_value){.key = item->about.uri, .destroy = item_destroy, .refs = 1};
    return item;
}

bool published_is_same(const struct published_item *a, const struct published_item *b)
{
#define DIFFERS(field) || !str_eq(a->about.field, b->about.field)
    return !(a->about.not_subscribable != b->about.not_subscribable ||
             a->about.has_priority != b->about.has_priority ||
             (a->about.has_priority && a->about.priority != b->about.priority)
                 ABOUT_SLICES(DIFFERS)) &&
           str_eq(a->content, b->content);
#undef DIFFERS
}

/* ---- one step -------------------------------------------------------------------------------- */

static int check_conditions(const struct published_step *s, const struct published_item *old)
{
    if (old && old->is_reserved) {
        return tidings_fail(s->err, TIDINGS_E_EXISTS, "'%.*s' is registered by the program",
                            STR_ARG(s->uri));
    }
    if (s->if_absent && old) {
        return tidings_fail(s->err, TIDINGS_E_CONFLICT, "'%.*s' already exists (etag '%s')",
                            STR_ARG(s->uri), old->etag);
    }
    if (s->if_match.len == 0) {
        return 0;
    }
    if (!old) {
        return tidings_fail(s->err, TIDINGS_E_CONFLICT, "'%.*s' does not exist", STR_ARG(s->uri));
    }
    if (!str_eq(s->if_match, STR("*")) && !str_eq(s->if_match, old->about.etag)) {
        return tidings_fail(s->err, TIDINGS_E_CONFLICT, "'%.*s' has another etag by now, '%s'",
                            STR_ARG(s->uri), old->etag);
    }
    return 0;
}

/* Checks the share of the owner, for a replacement of `old`. The counters stay unchanged. */
static int published_check_share(const struct published_step *s, const struct published_item *old)
{
    const struct published_shares *shares = s->store->shares;
    const struct published_item *fresh = s->fresh;
    bool is_program = !fresh->owner || fresh->is_operators;
    if (!shares) {
        return 0;
    }
    if (old) {
        shares->give(shares->user, old->owner, old->memory);
    }
    bool fits = shares->take(shares->user, fresh->owner, is_program, fresh->memory, s->err);
    if (fits) {
        shares->give(shares->user, fresh->owner, fresh->memory);
    }
    if (old) {
        (void)shares->take(shares->user, old->owner, true, old->memory, NULL);
    }
    return fits ? 0 : TIDINGS_E_LIMIT;
}

static int check_limits(const struct published_step *s, const struct published_item *old)
{
    const struct published *store = s->store;
    if (!old && store->count >= *store->max_count) {
        return tidings_fail(s->err, TIDINGS_E_LIMIT,
                            "%llu resources are published, as many as may be; see published-max",
                            (unsigned long long)store->count);
    }
    uint64_t others = store->bytes - (old ? old->memory : 0);
    if (s->fresh->memory > *store->max_bytes || others > *store->max_bytes - s->fresh->memory) {
        return tidings_fail(s->err, TIDINGS_E_LIMIT,
                            "%zu bytes do not fit: others take %llu of %llu; see published-bytes",
                            s->fresh->memory, (unsigned long long)others,
                            (unsigned long long)*store->max_bytes);
    }
    return published_check_share(s, old);
}

int published_check(const struct published_step *s, const struct published_item *old)
{
    if (!s->fresh && !old) {
        return tidings_fail(s->err, TIDINGS_E_NOTFOUND, "nothing is published as '%.*s'",
                            STR_ARG(s->uri));
    }
    int rc = check_conditions(s, old);
    if (rc < 0 || !s->fresh || (old && !old->is_damaged && published_is_same(old, s->fresh))) {
        return rc < 0 ? rc : !s->fresh;
    }
    rc = check_limits(s, old);
    return rc < 0 ? rc : 1;
}

void published_count(struct published_step *s, const struct published_item *old, bool is_undone)
{
    uint64_t bytes = (s->fresh ? s->fresh->memory : 0) - (old ? old->memory : 0);
    uint64_t count = (uint64_t)(s->fresh != NULL) - (uint64_t)(old != NULL);
    s->created = s->fresh && !old;
    s->store->count += is_undone ? -count : count;
    s->store->bytes += is_undone ? -bytes : bytes;
    const struct published_item *came = is_undone ? old : s->fresh,
                                *went = is_undone ? s->fresh : old;
    const struct published_shares *shares = s->store->shares;
    if (shares && went) {
        shares->give(shares->user, went->owner, went->memory);
    }
    if (shares && came) {
        (void)shares->take(shares->user, came->owner, true, came->memory, NULL);
    }
}

struct tidings_change published_change(const struct published_step *s,
                                       const struct published_item *old)
{
    const struct published_item *about = s->fresh ? s->fresh : old;
    struct tidings_change change = {
        .uri = s->uri,
        .kind = !s->fresh ? TIDINGS_CHANGE_DELETED
                : old     ? TIDINGS_CHANGE_UPDATED
                          : TIDINGS_CHANGE_CREATED,
        .metadata = s->metadata,
        .traceparent = s->traceparent,
        .not_subscribable = about && about->about.not_subscribable,
    };
    if (s->fresh) {
        change.etag = s->fresh->about.etag;
        change.size = s->fresh->about.size;
        change.modified_ms = s->fresh->about.modified_ms;
        change.has_size = true;
    }
    return change;
}

/* Without a commit thread: all of it is one step. */
static int published_store_decide(void *user, const struct shared_value *value)
{
    struct published_step *s = user;
    const struct published_item *old = value ? published_item_of(value) : NULL;
    int rc = published_check(s, old);
    if (rc <= 0) {
        return rc < 0 ? rc : SHARED_MAP_KEEP;
    }
    struct tidings_change change = published_change(s, old);
    if (s->mount) {
        /* An announcement without space causes a resync: nothing to undo. */
        (void)tidings_provider_changed(s->mount, &change, NULL);
    }
    published_count(s, old, false);
    return s->fresh ? SHARED_MAP_REPLACE : SHARED_MAP_REMOVE;
}

/* Performs the step. Takes the reference to `s->fresh`. `done` NULL: the outcome is returned. */
static int published_store_apply(struct published_step *s, char etag[PUBLISHED_ETAG_SIZE],
                                 published_done_fn done, void *user)
{
    if (s->store->commit_thread) {
        return published_submit(s, etag, done, user);
    }
    struct shared_value *fresh = s->fresh ? &s->fresh->value : NULL;
    int rc = shared_map_update(s->store->shared, s->uri, fresh, published_store_decide, s);
    if (rc == TIDINGS_E_NOMEM) {
        tidings_fail(s->err, rc, "out of memory");
    }
    rc = rc < 0 ? rc : s->created;
    if (rc >= 0 && etag) {
        memcpy(etag, s->fresh->etag, sizeof(s->fresh->etag));
    }
    if (done) {
        done(user, rc, rc >= 0 && s->fresh ? s->fresh->etag : "", s->err);
    }
    shared_value_unref(fresh);
    return rc;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static int check_request(const struct published *store, const struct publication *p,
                         struct tidings_error *err)
{
    struct tidings_str uri = p->about.uri;
    if (uri.len == 0 || uri.ptr[uri.len - 1] == '/') {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' cannot be published: a URI that ends in '/' is a container",
                            STR_ARG(uri));
    }
    if (p->content.len > *store->max_bytes) { /* before it is copied */
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "%zu bytes do not fit: all together may have %llu; see published-bytes",
                            p->content.len, (unsigned long long)*store->max_bytes);
    }
    return 0;
}

static int published_store_put(struct published_step *s, const struct publication *p,
                               char etag[PUBLISHED_ETAG_SIZE], published_done_fn done, void *user)
{
    int rc = check_request(s->store, p, s->err);
    s->fresh = rc == 0 ? published_item_create(s->store, p) : NULL;
    if (rc == 0 && !s->fresh) {
        rc = tidings_fail(s->err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        if (done) {
            done(user, rc, "", s->err);
        }
        return rc;
    }
    s->uri = s->fresh->about.uri;
    s->if_match = p->if_match;
    s->if_absent = p->if_absent;
    s->metadata = p->metadata;
    s->traceparent = p->traceparent;
    return published_store_apply(s, etag, done, user);
}

int published_put(struct published *store, struct tidings_provider *mount,
                  const struct publication *p, char etag[PUBLISHED_ETAG_SIZE],
                  struct tidings_error *err)
{
    struct published_step s = {.store = store, .mount = mount, .err = err};
    return published_store_put(&s, p, etag, NULL, NULL);
}

void published_put_then(struct published *store, struct tidings_provider *mount,
                        const struct publication *p, published_done_fn done, void *user)
{
    struct tidings_error err = {0, ""};
    struct published_step s = {.store = store, .mount = mount, .err = &err};
    (void)published_store_put(&s, p, NULL, done, user);
}

static struct published_step published_store_removal(struct published *store,
                                                     struct tidings_provider *mount,
                                                     const struct publication *p,
                                                     struct tidings_error *err)
{
    return (struct published_step){
        .store = store,
        .mount = mount,
        .uri = p->about.uri,
        .if_match = p->if_match,
        .metadata = p->metadata,
        .traceparent = p->traceparent,
        .err = err,
    };
}

int published_remove(struct published *store, struct tidings_provider *mount,
                     const struct publication *p, struct tidings_error *err)
{
    struct published_step s = published_store_removal(store, mount, p, err);
    return published_store_apply(&s, NULL, NULL, NULL);
}

void published_remove_then(struct published *store, struct tidings_provider *mount,
                           const struct publication *p, published_done_fn done, void *user)
{
    struct tidings_error err = {0, ""};
    struct published_step s = published_store_removal(store, mount, p, &err);
    (void)published_store_apply(&s, NULL, done, user);
}

/* ---- what is not ours ------------------------------------------------------------------------ */

static int decide_reserve(void *user, const struct shared_value *value)
{
    struct published_step *s = user;
    if (value && published_item_of(value)->is_coming) { /* its commit may fail */
        return tidings_fail(s->err, TIDINGS_E_BUSY, "the store is still writing '%.*s': try again",
                            STR_ARG(s->uri));
    }
    if (value && !published_item_of(value)->is_reserved) {
        return tidings_fail(s->err, TIDINGS_E_EXISTS, "'%.*s' is published", STR_ARG(s->uri));
    }
    return value ? SHARED_MAP_KEEP : SHARED_MAP_REPLACE;
}

static int decide_release(void *user, const struct shared_value *value)
{
    (void)user;
    return value && published_item_of(value)->is_reserved ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

struct published_item *published_item_empty(struct tidings_str uri)
{
    struct published_item *item = mem_zalloc(sizeof(*item) + uri.len);
    if (item) {
        char *at = (char *)(item + 1);
        item->about.uri = str_pack(&at, uri);
        item->value =
            (struct shared_value){.key = item->about.uri, .destroy = item_destroy, .refs = 1};
    }
    return item;
}

int published_reserve(struct published *store, struct tidings_str uri, struct tidings_error *err)
{
    struct published_item *item = published_item_empty(uri);
    if (!item) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    item->is_reserved = true;
    struct published_step s = {.store = store, .uri = item->about.uri, .err = err};
    int rc = shared_map_update(store->shared, s.uri, &item->value, decide_reserve, &s);
    if (rc == TIDINGS_E_NOMEM) {
        tidings_fail(err, rc, "out of memory");
    }
    shared_value_unref(&item->value);
    return rc < 0 ? rc : 0;
}

bool published_is_mute(struct published *store, struct tidings_str uri)
{
    struct shared_value *value = shared_map_find(store->shared, uri);
    bool is_mute = value && published_item_of(value)->about.not_subscribable;
    shared_value_unref(value);
    return is_mute;
}

void published_release(struct published *store, struct tidings_str uri)
{
    (void)shared_map_update(store->shared, uri, NULL, decide_release, NULL);
}

int published_each(struct published *store, published_each_fn fn, void *user)
{
    int rc = 0;
    struct shared_value *value = shared_map_next(store->shared, STR_EMPTY);
    while (value) {
        rc = published_is_there(published_item_of(value)) ? fn(user, value->key) : 0;
        struct shared_value *next = rc == 0 ? shared_map_next(store->shared, value->key) : NULL;
        shared_value_unref(value);
        value = next;
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

/* Greater than every byte of a canonical URI: "x:///a/" followed by this sorts after all
 * children. */
#define BEHIND '\x7f'
#define URI_ROOM (4u * 4096u)
#define NAMES_MAX 10000u
#define CHILDREN_MAX 64u /* in the read of a container … */
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

/* Returns a reference to the resource published as `uri`, or NULL. */
static struct published_item *published_find(struct tidings_provider *p, struct tidings_str uri)
{
    struct shared_value *value = shared_map_find(store_of(p)->shared, uri);
    if (value && !published_is_there(published_item_of(value))) {
        shared_value_unref(value);
        value = NULL;
    }
    return value ? published_item_of(value) : NULL;
}

/* Returns the first item after `after` that begins with `below`, or NULL. */
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

/* Writes `uri` with a trailing '/' to `out`. Returns false if no such container exists. */
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

/* Calls for the direct children of the container `parent`, each once: 1 to continue, otherwise the
 * end. `item` is NULL for a container. */
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

/* Whole: the core cuts out the requested part. */
static int read_item(struct tidings_read *read, const struct published_item *item,
                     struct tidings_error *err)
{
    if (item->is_damaged) {
        tidings_read_explain(read, STR("{\"reason\":\"damaged\"}"));
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "the stored content is damaged; publish it again");
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

/* The first children that fit. */
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
    size_t skip; /* the prefix is not part of a path */
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

/* Completes the `path` of "prefix{+path}", one container at a time, as it is spelled in URIs. */
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
    (void)p; /* the server owns the store */
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
