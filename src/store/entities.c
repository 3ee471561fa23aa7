/* SPDX-License-Identifier: MIT
 *
 * Entities: opening their store, batches, and reading. Strings that a read returns are copied into
 * the caller's arena, because rows are valid only until the next call.
 */
#include "store/entities.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * The digest of a write request, which tells whether an idempotency key is reused for the same
 * request. The length precedes each part, so that different requests never hash the same bytes.
 */

#define VALUE_MAX (256u << 20)

static void put_number(struct sha256 *s, int64_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    sha256_put(s, bytes, sizeof(bytes));
}

static void entities_digest_put_text(struct sha256 *s, struct tidings_str text)
{
    put_number(s, (int64_t)text.len);
    sha256_put(s, text.ptr, text.len);
}

static int entities_digest_put_value(struct sha256 *s, const struct json *value)
{
    struct buf text;
    struct jw w;
    buf_init(&text, VALUE_MAX);
    jw_init(&w, &text);
    if (value) {
        jw_value(&w, value);
    }
    entities_digest_put_text(s, buf_str(&text));
    int rc = text.failed;
    buf_deinit(&text);
    return rc;
}

int entity_digest(const struct entity_write *writes, size_t count, char out[ENTITY_DIGEST_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char checksum[SHA256_BYTES];
    struct sha256 s;
    int rc = 0;
    sha256_init(&s);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct entity_write *w = &writes[i];
        put_number(&s, w->op);
        entities_digest_put_text(&s, w->id);
        entities_digest_put_text(&s, w->type);
        entities_digest_put_text(&s, w->type_version);
        rc = entities_digest_put_value(&s, w->value);
        rc = rc == 0 ? entities_digest_put_value(&s, w->patch) : rc;
        put_number(&s, w->has_parent);
        entities_digest_put_text(&s, w->parent);
        entities_digest_put_text(&s, w->changed_by);
        put_number(&s, w->baseline);
        put_number(&s, w->valid_from);
        put_number(&s, w->must_be_new);
        put_number(&s, w->must_exist);
        put_number(&s, w->rebase);
    }
    sha256_end(&s, checksum);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[checksum[i] >> 4];
        out[2 * i + 1] = digits[checksum[i] & 15];
    }
    out[2 * SHA256_BYTES] = '\0';
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Held versions of entities: an array for each entity, by time; most have one or two.
 */

struct hold {
    int64_t from;
    size_t count;
};

struct holds {
    struct hold *at; /* ascending */
    size_t count, cap;
    int64_t offered; /* TIMELINE_NEVER: none */
    size_t id_len;
    char id[];
};

void entity_holds_init(struct entity_holds *h)
{
    map_init(&h->by_id);
}

static void holds_free(struct holds *x)
{
    mem_free(x->at);
    mem_free(x);
}

void entity_holds_deinit(struct entity_holds *h)
{
    size_t pos = 0;
    struct holds *x;
    while ((x = map_next(&h->by_id, &pos)) != NULL) {
        holds_free(x);
    }
    map_deinit(&h->by_id);
}

/* The first one that begins at or after `from`. */
static size_t entity_holds_find(const struct holds *x, int64_t from)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->at[middle].from < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct holds *x, size_t i, int64_t from)
{
    return i < x->count && x->at[i].from == from;
}

static struct holds *find_or_make(struct entity_holds *h, struct tidings_str id)
{
    struct holds *x = map_find(&h->by_id, id);
    if (x) {
        return x;
    }
    x = mem_zalloc(sizeof(*x) + id.len);
    if (!x) {
        return NULL;
    }
    memcpy(x->id, id.ptr, id.len);
    x->id_len = id.len;
    x->offered = TIMELINE_NEVER;
    if (map_put(&h->by_id, tidings_strn(x->id, x->id_len), x, NULL) < 0) {
        mem_free(x);
        return NULL;
    }
    return x;
}

static void entity_holds_drop_if_empty(struct entity_holds *h, struct holds *x)
{
    if (x->count == 0) {
        map_remove(&h->by_id, tidings_strn(x->id, x->id_len));
        holds_free(x);
    }
}

int entity_holds_add(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = find_or_make(h, id);
    if (!x) {
        return TIDINGS_E_NOMEM;
    }
    size_t i = entity_holds_find(x, from);
    if (is_at(x, i, from)) {
        x->at[i].count++;
        return 0;
    }
    if (x->count == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 2;
        struct hold *more = mem_realloc(x->at, cap * sizeof(*more));
        if (!more) {
            entity_holds_drop_if_empty(h, x);
            return TIDINGS_E_NOMEM;
        }
        x->at = more;
        x->cap = cap;
    }
    memmove(&x->at[i + 1], &x->at[i], (x->count - i) * sizeof(x->at[0]));
    x->at[i] = (struct hold){.from = from, .count = 1};
    x->count++;
    return 0;
}

void entity_holds_remove(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = map_find(&h->by_id, id);
    size_t i = x ? entity_holds_find(x, from) : 0;
    if (!x || !is_at(x, i, from) || --x->at[i].count > 0) {
        return;
    }
    x->count--;
    memmove(&x->at[i], &x->at[i + 1], (x->count - i) * sizeof(x->at[0]));
    entity_holds_drop_if_empty(h, x);
}

int64_t entity_holds_oldest(const struct entity_holds *h, struct tidings_str id)
{
    const struct holds *x = map_find(&h->by_id, id);
    return x ? x->at[0].from : TIMELINE_FOREVER;
}

void entity_holds_offer(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = map_find(&h->by_id, id);
    if (x) {
        x->offered = from;
    }
}

bool entity_holds_has(const struct entity_holds *h, struct tidings_str id, int64_t from)
{
    const struct holds *x = map_find(&h->by_id, id);
    return x && (x->offered == from || is_at(x, entity_holds_find(x, from), from));
}

/* ---------------------------------------------------------------------------------------------- */

int entities_open(struct store *store, struct entities **ret, struct tidings_error *err)
{
    struct entities *e = mem_zalloc(sizeof(*e));
    if (!e) {
        store->ops->destroy(store);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    e->store = store;
    list_init(&e->types);
    map_init(&e->by_label);
    map_init(&e->newest);
    entity_holds_init(&e->holds);
    entity_read_cache_init(&e->read_cache);
    int rc = store_is_shared(store) ? entity_recent_create(&e->recent, err) : 0;
    rc = rc == 0 ? entity_types_load(e, err) : rc;
    if (rc < 0) {
        entities_close(e);
        return rc;
    }
    entity_types_warn(e);
    *ret = e;
    return 0;
}

void entities_close(struct entities *e)
{
    if (e) {
        entity_types_clear(e);
        entity_holds_deinit(&e->holds);
        entity_read_cache_clear(&e->read_cache);
        entity_recent_destroy(e->recent);
        e->store->ops->destroy(e->store);
        mem_free(e);
    }
}

struct store *entities_store(struct entities *e)
{
    return e->store;
}

int64_t entities_now(struct entities *e)
{
    const struct store_ops *ops = e->store->ops;
    return ops->now ? ops->now(e->store) : clock_wall_ms();
}

uint64_t entities_position(struct entities *e)
{
    return e->store->ops->position(e->store);
}

/* ---- holding --------------------------------------------------------------------------------- */

int entities_hold(struct entities *e, struct tidings_str id, int64_t from)
{
    return entity_holds_add(&e->holds, id, from);
}

void entities_release(struct entities *e, struct tidings_str id, int64_t from)
{
    entity_holds_remove(&e->holds, id, from);
}

/* ---- batches --------------------------------------------------------------------------------- */

int entities_begin(struct entities *e, struct tidings_error *err)
{
    e->has_added_types = false;
    int rc = e->store->ops->begin(e->store, err);
    e->in_batch = rc == 0;
    return rc;
}

bool entities_begin_unlocked(struct entities *e)
{
    const struct store_ops *ops = e->store->ops;
    e->has_added_types = false;
    e->in_batch = ops->begin_unlocked && ops->begin_unlocked(e->store);
    return e->in_batch;
}

/* The types match the rows, even if those cannot be read now. If a commit is in doubt, the follower
 * of the store reports its types. */
static void end_added_types(struct entities *e, bool is_committed)
{
    if (e->has_added_types) {
        e->has_added_types = false;
        entity_types_end_batch(e, is_committed);
    }
}

int entities_commit(struct entities *e, struct tidings_error *err)
{
    int rc = e->store->ops->commit(e->store, err);
    e->in_batch = false;
    end_added_types(e, rc == 0);
    return rc;
}

void entities_rollback(struct entities *e)
{
    e->store->ops->rollback(e->store);
    e->in_batch = false;
    end_added_types(e, false);
}

int entity_forget(struct entities *e, struct tidings_str id, int64_t end, struct tidings_error *err)
{
    int64_t held = entity_holds_oldest(&e->holds, id);
    return e->store->ops->forget(e->store, id, end < held ? end : held, err);
}

/* ---- strings --------------------------------------------------------------------------------- */

bool entity_version_keep(struct entity_version *v, struct arena *arena)
{
    struct tidings_str *texts[] = {&v->id,    &v->type,       &v->type_version, &v->parent,
                                   &v->value, &v->changed_by, &v->principal,    &v->previous};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = arena_dup(arena, *texts[i]);
        if (!texts[i]->ptr) {
            return false;
        }
    }
    return true;
}

int entity_text(const struct json *v, struct arena *arena, struct tidings_str *ret,
                struct tidings_error *err)
{
    struct buf out;
    struct jw w;
    buf_init(&out, ENTITY_VALUE_MAX);
    jw_init(&w, &out);
    jw_value(&w, v);
    int rc = out.failed == TIDINGS_E_LIMIT
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "the value has more than %u bytes",
                                ENTITY_VALUE_MAX)
                 : 0;
    if (rc == 0) {
        struct tidings_str copy = {0};
        copy = out.failed ? copy : arena_dup(arena, buf_str(&out));
        rc = copy.ptr ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        *ret = copy.ptr ? copy : *ret;
    }
    buf_deinit(&out);
    return rc;
}

int entity_diff(struct tidings_str from, struct tidings_str to, struct arena *arena,
                struct tidings_str *ret, struct tidings_error *err)
{
    struct json *a = NULL, *b = NULL, *patch = NULL;
    int rc = jv_parse(from, JSON_MAX_DEPTH, &a, err);
    rc = rc == 0 ? jv_parse(to, JSON_MAX_DEPTH, &b, err) : rc;
    *ret = STR_EMPTY;
    if (rc == 0) {
        rc = merge_diff(a, b, &patch);
        rc = rc < 0    ? tidings_fail(err, rc, "out of memory")
             : rc == 1 ? entity_text(patch, arena, ret, err)
                       : 0;
    }
    jv_unref(patch);
    jv_unref(b);
    jv_unref(a);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

void entities_set_read_cache(struct entities *e, size_t max_bytes)
{
    e->read_cache.max_bytes = max_bytes;
}

void entities_set_unreachable(struct entities *e, bool is_unreachable)
{
    e->is_unreachable = is_unreachable;
}

void entities_note_followed(struct entities *e, const struct entity_version *v)
{
    entity_read_cache_drop(&e->read_cache, v->id);
    if (v->value.len > 0 && !v->deleted) {
        entity_recent_put(e->recent, v);
    } else {
        entity_recent_drop(e->recent, v->id, TIMELINE_FOREVER);
    }
}

void entities_drop_cached(struct entities *e)
{
    entity_read_cache_clear(&e->read_cache);
    entity_recent_clear(e->recent);
}

const struct recent_version *entities_recent(const struct entities *e, struct tidings_str id)
{
    return entity_recent_find(e->recent, id);
}

/* Finds the current version in the cache while the store is unreachable, without waiting for it. */
static int find_current(struct entities *e, struct tidings_str id, struct entity_version *ret,
                        struct tidings_error *err)
{
    bool keeps = e->read_cache.max_bytes > 0 && !e->in_batch;
    const struct entity_version *known =
        keeps && e->is_unreachable ? entity_read_cache_find(&e->read_cache, id) : NULL;
    int rc = known ? 1 : e->store->ops->find(e->store, id, TIMELINE_FOREVER, ret, err);
    known = keeps && rc == TIDINGS_E_BUSY ? entity_read_cache_find(&e->read_cache, id) : known;
    if (known) {
        *ret = *known;
        return 1;
    }
    if (rc == 1) { /* older versions are no longer read */
        entity_recent_drop(e->recent, id, ret->from);
    }
    if (keeps && rc == 1) {
        entity_read_cache_put(&e->read_cache, ret);
    }
    return rc;
}

int entities_find(struct entities *e, struct tidings_str id, int64_t at, struct arena *arena,
                  struct entity_version *ret, struct tidings_error *err)
{
    int rc = at == TIMELINE_FOREVER ? find_current(e, id, ret, err)
                                    : e->store->ops->find(e->store, id, at, ret, err);
    if (rc == 1 && !entity_version_keep(ret, arena)) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return rc;
}

int entities_patch_from(struct entities *e, struct tidings_str id, int64_t baseline,
                        struct arena *arena, struct entity_patch *ret, struct tidings_error *err)
{
    *ret = (struct entity_patch){.patch = STR_EMPTY};
    int rc = entities_find(e, id, TIMELINE_FOREVER, arena, &ret->version, err);
    struct entity_version base;
    rc = rc == 1 ? e->store->ops->find(e->store, id, baseline, &base, err) : rc;
    if (rc != 1 || base.from != baseline) {
        return rc < 0 ? rc : 0;
    }
    ret->type = arena_dup(arena, base.type);
    ret->type_version = arena_dup(arena, base.type_version);
    rc = ret->type.ptr && ret->type_version.ptr
             ? entity_diff(base.value, ret->version.value, arena, &ret->patch, err)
             : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    entity_holds_offer(&e->holds, id, ret->version.from);
    return rc < 0 ? rc : 1;
}

int entities_history(struct entities *e, struct tidings_str id, int64_t first, entity_version_fn fn,
                     void *user, struct tidings_error *err)
{
    return e->store->ops->history(e->store, id, first, fn, user, err);
}

int entities_list(struct entities *e, const struct entity_scope *scope, struct tidings_str after,
                  entity_version_fn fn, void *user, struct tidings_error *err)
{
    return e->store->ops->list(e->store, scope, after, fn, user, err);
}

static int entity_aging_step(struct entities *e, struct tidings_error *err);

int entities_idle(struct entities *e, struct tidings_error *err)
{
    int rc = e->store->ops->idle(e->store, err);
    return rc != 0 ? rc : entity_aging_step(e, err);
}

void entities_each_type(struct entities *e, entity_type_fn fn, void *user)
{
    list_each (it, next, &e->types) {
        if (!fn(user, &list_entry(it, struct entity_type, link)->row)) {
            break;
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * Removes old versions of entities that are no longer written: visits all entities in turn, a few
 * at a time, and starts over after a while. A write removes old versions of its own entity
 * (store/entities_write.c).
 */

#define AT_A_TIME 64u
#define AGAIN_MS 60000

struct aging_pass {
    struct entities *e;
    struct arena arena;
    struct {
        struct tidings_str id;
        int64_t max_age_ms;
    } found[AT_A_TIME];
    size_t count, seen;
    struct tidings_str last;
    bool failed;
};

static bool has_age(struct entities *e)
{
    bool found = false;
    list_each (it, next, &e->types) {
        found = found || list_entry(it, struct entity_type, link)->keeping.max_age_ms > 0;
    }
    return found;
}

static bool entities_aging_take(void *user, const struct entity_version *v)
{
    struct aging_pass *a = user;
    const struct entity_type *t = entity_types_find(a->e, v->type, v->type_version);
    a->seen++;
    if (v->id.len > ENTITY_ID_MAX) {
        return true; /* not an entity */
    }
    a->last = arena_dup(&a->arena, v->id);
    a->failed = !a->last.ptr;
    if (!a->failed && t && t->keeping.max_age_ms > 0) {
        a->found[a->count].id = a->last;
        a->found[a->count++].max_age_ms = t->keeping.max_age_ms;
    }
    return !a->failed && a->seen < AT_A_TIME;
}

static int entities_aging_forget(struct aging_pass *a, int64_t now, struct tidings_error *err)
{
    int rc = entities_begin(a->e, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        rc = entity_forget(a->e, a->found[i].id, now - a->found[i].max_age_ms, err);
    }
    if (rc < 0) {
        entities_rollback(a->e);
        return rc;
    }
    return entities_commit(a->e, err);
}

/* Removes versions that are too old, from a few entities. 1: there are more to visit. */
static int entity_aging_step(struct entities *e, struct tidings_error *err)
{
    int64_t now = entities_now(e);
    bool is_begun = e->aged[0] != '\0';
    if ((!is_begun && now < e->aging_ms) || !has_age(e)) {
        return 0;
    }
    struct aging_pass a = {.e = e};
    const struct entity_scope everything = {.deleted = true};
    arena_init(&a.arena, AT_A_TIME * (ENTITY_ID_MAX + 16u));
    int rc = e->store->ops->list(e->store, &everything, tidings_str(e->aged), entities_aging_take,
                                 &a, err);
    rc = rc == 0 && a.failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : rc;
    rc = rc == 0 && a.count > 0 ? entities_aging_forget(&a, now, err) : rc;
    bool is_over = rc < 0 || a.seen < AT_A_TIME;
    if (is_over) {
        e->aging_ms = now + AGAIN_MS;
        e->aged[0] = '\0';
    } else {
        memcpy(e->aged, a.last.ptr, a.last.len);
        e->aged[a.last.len] = '\0';
    }
    arena_deinit(&a.arena);
    return rc < 0 ? rc : !is_over;
}
