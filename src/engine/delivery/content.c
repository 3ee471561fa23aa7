/* SPDX-License-Identifier: MIT
 *
 * The table of contents that were read for subscribers: by change, baseline and class of principals
 * with the same rights. The oldest entries are dropped first.
 */
#include "engine/delivery/content.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job_read.h"
#include "engine/catalog/provider.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/dialect.h"
#include "engine/protocol/tasks.h"
#include "engine/worker.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * The value of a patch update, if the provider makes no patches itself: an object
 *
 *     {"etag": E, "baseline": B, "patch": {…}}        B: the last version sent
 *     {"etag": E, "full": true, "value": …}           none was sent, or no patch is possible
 *     {"etag": E, "full": true, "contents": […]}      not JSON
 *     {"baseline": B, "deleted": true}                if it is created again, patches start at B
 */

struct change;

/* -------------------------------------------------------------------------------------------------
 * One entry of the table of contents: the content of one change, read or being read.
 */

/* The key of an entry. Compared as bytes, so it has no padding. */
struct change_content_key {
    const struct change *change;
    const struct baseline *from;
    uintptr_t shape;                  /* enum change_content_shape */
    const struct access_class *class; /* principals with the same view; NULL: full access */
};

enum change_content_shape {
    SHAPE_CONTENTS,   /* an array of content elements, as resources/read returns them */
    SHAPE_PATCH,      /* engine/delivery/content.h */
    SHAPE_DATA,       /* the contents as members `title` and `data` (dialect_rules.has_data) … */
    SHAPE_DATA_PATCH, /* … and the same for a patch */
    SHAPE_TASK,       /* the object of a task, as read */
};

struct change_content {
    struct list link;
    struct change_content_key key;
    struct worker *worker;
    const struct change *change;       /* a reference */
    const struct principal *principal; /* a reference to one principal of the class, or NULL */
    struct baseline *from, *to;        /* of a patch: references, or NULL */
    enum change_content_state state;
    bool is_too_large, is_whole; /* of a patch: too large; requested without a baseline */
    struct tidings_str etag;     /* of the version after the patch */
    struct arena arena;
    struct buf out;
    struct jw w;
    struct tidings_read read;
};

/* -------------------------------------------------------------------------------------------------
 * Creates, shares and frees baselines, and moves the chains of subscriptions along them.
 */

/* ---- baselines ------------------------------------------------------------------------------- */

static void baselines_init(struct baselines *all, const struct worker *worker)
{
    map_init(&all->by_name);
    all->bytes = 0;
    all->worker = worker;
}

/* No reference may be left. */
static void baselines_deinit(struct baselines *all)
{
    map_deinit(&all->by_name);
}

static struct tidings_str name_of(const struct baseline *b)
{
    return tidings_strn(b->name, b->uri_len + 1 + b->etag_len);
}

static struct baseline *baseline_create(struct baselines *all, struct tidings_str uri,
                                        struct tidings_str etag)
{
    struct baseline *b = mem_zalloc(sizeof(*b) + uri.len + 1 + etag.len);
    if (!b) {
        return NULL;
    }
    char *at = b->name;
    b->all = all;
    b->uri_len = str_pack(&at, uri).len;
    *at++ = '\0';
    b->etag_len = str_pack(&at, etag).len;
    return b;
}

/* Two of the same name do not differ in content: the first content is kept. */
static void keep_content(struct baseline *b, struct tidings_str content)
{
    if (b->content || content.len == 0 || content.len > BASELINES_MAX_BYTES - b->all->bytes) {
        return;
    }
    b->content = str_dup(content);
    if (b->content) {
        b->content_len = content.len;
        b->all->bytes += content.len;
    }
}

struct baseline *baseline_get(struct baselines *all, struct tidings_str uri,
                              struct tidings_str etag, struct tidings_str content)
{
    struct baseline *made = baseline_create(all, uri, etag);
    struct baseline *b = made ? map_find(&all->by_name, name_of(made)) : NULL;
    if (b) {
        mem_free(made);
    } else if (made && map_put(&all->by_name, name_of(made), made, NULL) == 0) {
        b = made;
    } else {
        mem_free(made);
        return NULL;
    }
    b->refs++;
    keep_content(b, content);
    return b;
}

/* Accepts NULL. */
static struct baseline *baseline_ref(struct baseline *b)
{
    if (b) {
        b->refs++;
    }
    return b;
}

void baseline_unref(struct baseline *b)
{
    if (b && --b->refs == 0) {
        map_remove(&b->all->by_name, name_of(b));
        b->all->bytes -= b->content_len;
        mem_free(b->content);
        mem_free(b);
    }
}

/* ---- holding: the provider that makes patches keeps the versions of chains ------------------- */

/* A reference held by a chain. Accepts NULL. */
static struct baseline *baseline_pin(struct baseline *b)
{
    const struct worker *worker = b ? b->all->worker : NULL;
    if (b && b->patch_bases++ == 0 && worker) {
        struct tidings_provider *p = catalog_mount(worker->catalog, baseline_uri(b));
        bool holds = p && p->ops->patch && p->ops->hold;
        b->holder = p;
        b->pinned = holds ? p->ops->hold(p, baseline_uri(b), baseline_etag(b)) : NULL;
    }
    return baseline_ref(b);
}

static void baseline_release(struct baseline *b)
{
    if (b && --b->patch_bases == 0 && b->pinned) {
        b->holder->ops->release(b->holder, b->pinned);
        b->pinned = NULL;
    }
    baseline_unref(b);
}

/* ---- chains ---------------------------------------------------------------------------------- */

struct patch_base *patch_base_create(void)
{
    struct patch_base *patch_base = mem_zalloc(sizeof(*patch_base));
    if (patch_base) {
        map_init(&patch_base->many);
    }
    return patch_base;
}

void patch_base_destroy(struct patch_base *patch_base)
{
    if (!patch_base) {
        return;
    }
    size_t pos = 0;
    struct baseline *b;
    while ((b = map_next(&patch_base->many, &pos)) != NULL) {
        baseline_release(b);
    }
    map_deinit(&patch_base->many);
    baseline_release(patch_base->one);
    mem_free(patch_base);
}

static bool is_one(const struct patch_base *patch_base, struct tidings_str uri)
{
    return patch_base->one && str_eq(baseline_uri(patch_base->one), uri);
}

struct baseline *patch_base_at(const struct patch_base *patch_base, struct tidings_str uri)
{
    return is_one(patch_base, uri) ? patch_base->one : map_find(&patch_base->many, uri);
}

void patch_base_move(struct patch_base *patch_base, struct tidings_str uri, struct baseline *to)
{
    struct baseline *old = NULL;
    if (is_one(patch_base, uri) || (!patch_base->one && !map_find(&patch_base->many, uri))) {
        old = patch_base->one;
        patch_base->one = baseline_pin(to);
    } else if (!to ||
               (!map_find(&patch_base->many, uri) && patch_base->many.count >= PATCH_BASE_MAX)) {
        old = map_remove(&patch_base->many, uri);
    } else if (map_put(&patch_base->many, baseline_uri(to), to, (void **)&old) == 0) {
        (void)baseline_pin(to); /* the key of the map is in `to` */
    } else {
        old = map_remove(&patch_base->many, uri);
    }
    baseline_release(old);
}

/* -------------------------------------------------------------------------------------------------
 * Writes the value of a patch update as a JSON object.
 */

/* JSON that the server wrote itself: it adds at most this many levels around a quoted value. */
#define CONTENTS_DEPTH 16u

static bool is_json(struct tidings_str mime_type)
{
    struct tidings_str type =
        str_trim(str_cut(mime_type, ';', &(struct tidings_str){0}, NULL), " ");
    return str_eq_nocase(type, STR("application/json")) || str_ends(type, STR("+json"));
}

/* Returns the first element that is JSON. */
static struct json *find_json(struct json *contents)
{
    for (size_t i = 0; i < jv_count(contents); i++) {
        struct json *element = jv_at(contents, i);
        if (jv_get(element, "text") && is_json(jv_str(jv_get(element, "mimeType")))) {
            return element;
        }
    }
    return NULL;
}

/* Writes the members of a patch. Returns false if no patch is possible or its start is unknown. */
static bool put_patch(struct jw *w, const struct baseline *from, struct tidings_str etag,
                      struct json *to)
{
    struct json *before = NULL, *patch = NULL;
    if (!from || (!from->content && !str_eq(baseline_etag(from), etag))) {
        return false;
    }
    if (from->content) {
        (void)jv_parse(tidings_strn(from->content, from->content_len), JSON_MAX_DEPTH, &before,
                       NULL);
    }
    bool known = merge_diff(before ? before : to, to, &patch) == 1;
    if (known) {
        jw_put_string(w, STR("baseline"), baseline_etag(from));
        jw_key(w, STR("patch"));
        jw_value(w, patch);
    }
    jv_unref(patch);
    jv_unref(before);
    return known;
}

static void patches_put_json(struct jw *w, const struct baseline *from, struct tidings_str etag,
                             struct json *to)
{
    if (!put_patch(w, from, etag, to)) {
        jw_put_bool(w, STR("full"), true);
        jw_key(w, STR("value"));
        jw_value(w, to);
    }
}

/* Writes the patch from `from` (NULL: nothing) to the result of a read: an array of content
 * elements, the server's own JSON. *ret_to: a reference to the version sent with it, or NULL.
 * Errors stay in `out`. */
static void patch_write(struct buf *out, struct baselines *all, struct tidings_str uri,
                        const struct baseline *from, struct tidings_str contents,
                        struct baseline **ret_to)
{
    struct json *root = NULL, *value = NULL;
    struct jw w;
    *ret_to = NULL;
    if (jv_parse(contents, CONTENTS_DEPTH, &root, NULL) < 0) {
        out->failed = TIDINGS_E_NOMEM;
        return;
    }
    struct json *element = find_json(root);
    struct json *own = element ? element : jv_at(root, 0);
    struct tidings_str etag = jv_str(jv_get(jv_get(own, "_meta"), "dev.tidings/etag"));
    struct tidings_str text = jv_str(jv_get(element, "text"));
    bool is_value = element && jv_parse(text, JSON_MAX_DEPTH, &value, NULL) == 0;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("etag"), etag);
    if (is_value) {
        patches_put_json(&w, from, etag, value);
        *ret_to = out->failed ? NULL : baseline_get(all, uri, etag, text);
    } else {
        jw_put_bool(&w, STR("full"), true);
        jw_put_raw(&w, STR("contents"), contents);
    }
    jw_end_object(&w);
    jv_unref(value);
    jv_unref(root);
}

static void patch_write_deleted(struct buf *out, const struct change *change,
                                const struct baseline *from)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (change->etag.len > 0) {
        jw_put_string(&w, STR("etag"), change->etag);
    }
    if (from) {
        jw_put_string(&w, STR("baseline"), baseline_etag(from));
    }
    jw_put_bool(&w, STR("deleted"), true);
    jw_end_object(&w);
}

/* ---------------------------------------------------------------------------------------------- */

#define CONTENTS_MAX 256u
#define CONTENTS_MAX_BYTES (8u << 20)
#define CONTENT_ESCAPE 6u /* one byte may become six */

void change_content_init(struct change_contents *v, const struct worker *worker)
{
    list_init(&v->entries);
    map_init(&v->by_key);
    v->count = v->bytes = 0;
    baselines_init(&v->baselines, worker);
    v->patches = 0;
}

static struct tidings_str key_text(const struct change_content_key *key)
{
    return tidings_strn((const char *)key, sizeof(*key));
}

static void change_content_free(struct change_contents *v, struct change_content *e)
{
    list_remove(&e->link);
    map_remove(&v->by_key, key_text(&e->key));
    v->count -= e->state != CHANGE_CONTENT_READING;
    v->bytes -= e->out.len;
    change_unref(e->change);
    principal_unref(e->principal);
    baseline_unref(e->from);
    baseline_unref(e->to);
    arena_deinit(&e->arena);
    buf_deinit(&e->out);
    mem_free(e);
}

void change_content_deinit(struct change_contents *v)
{
    while (!list_empty(&v->entries)) {
        change_content_free(v, list_entry(v->entries.next, struct change_content, link));
    }
    map_deinit(&v->by_key);
    baselines_deinit(&v->baselines);
}

/* Drops the oldest entries, down to the limit. */
static void change_content_trim(struct change_contents *v)
{
    list_each (it, next, &v->entries) {
        if (v->count <= CONTENTS_MAX && v->bytes <= CONTENTS_MAX_BYTES) {
            return;
        }
        struct change_content *e = list_entry(it, struct change_content, link);
        if (e->state != CHANGE_CONTENT_READING &&
            it != v->entries.prev) { /* the newest is in use */
            change_content_free(v, e);
        }
    }
}

static struct change_content *change_content_find(struct change_contents *v,
                                                  struct change_content_key key)
{
    return map_find(&v->by_key, key_text(&key));
}

/* Adds an entry that is being read. NULL when out of memory. */
static struct change_content *change_content_add(struct worker *worker, struct change_contents *v,
                                                 const struct principal *principal,
                                                 const struct change *change,
                                                 struct change_content_key key)
{
    struct change_content *e = mem_zalloc(sizeof(*e));
    if (!e) {
        return NULL;
    }
    e->key = key;
    if (map_put(&v->by_key, key_text(&e->key), e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    e->worker = worker;
    e->change = change_ref(change);
    e->principal = key.class ? principal_ref(principal) : NULL;
    e->state = CHANGE_CONTENT_READING;
    arena_init(&e->arena, 1u << 16);
    buf_init(&e->out, worker->limits->max_value_bytes * CONTENT_ESCAPE + 4096);
    list_append(&v->entries, &e->link);
    return e;
}

/* The entry has been read, or cannot be read. */
static void change_content_conclude(struct change_contents *v, struct change_content *e,
                                    bool is_ready)
{
    e->state = is_ready && !e->out.failed ? CHANGE_CONTENT_READY : CHANGE_CONTENT_NONE;
    if (e->state == CHANGE_CONTENT_NONE) {
        buf_deinit(&e->out);
    }
    v->count++;
    v->bytes += e->out.len;
}

/* -------------------------------------------------------------------------------------------------
 * Reads the content of a change, or makes a patch of it, for the first subscription that needs it;
 * other subscriptions with the same view share the result.
 */

static const struct access_class *class_of(const struct principal *principal)
{
    return access_is_full(principal) ? NULL : principal->class;
}

static void wake_waiting(struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber->waits_content) {
            subscriber->waits_content = false;
            subscriber_mark_dirty(subscriber);
        }
    }
    change_content_trim(&worker->delivery->contents);
}

static bool change_content_leads(const struct principal *principal, const struct change *change)
{
    return change_names_destination(change, change->kind, !filters_show_from(principal, change));
}

/* Returns true if there is nothing to read for `principal`. */
static bool change_content_is_gone(const struct principal *principal, const struct change *change)
{
    return change->kind == TIDINGS_CHANGE_DELETED && !change_content_leads(principal, change);
}

/* The URI to read. */
static struct tidings_str change_content_uri(const struct principal *principal,
                                             const struct change *change)
{
    return change_content_leads(principal, change) ? change->to : change->uri;
}

/* ---- contents -------------------------------------------------------------------------------- */

static void on_content_read(struct job *job)
{
    struct change_content *e = job->user;
    if (job->code >= 0) {
        jw_end_array(&e->w);
    }
    change_content_conclude(&e->worker->delivery->contents, e, job->code >= 0);
    wake_waiting(e->worker);
}

static void content_ask(struct change_content *e)
{
    struct worker *worker = e->worker;
    jw_init(&e->w, &e->out);
    jw_begin_array(&e->w);
    struct catalog_hit hit;
    struct tidings_str uri = change_content_uri(e->principal, e->change);
    if (!catalog_find(worker->catalog, uri, &e->arena, &hit)) {
        change_content_conclude(&e->worker->delivery->contents, e, false);
        return;
    }
    job_init(&e->read.base, worker, on_content_read, e, uri);
    e->read.w = &e->w;
    e->read.principal = e->principal;
    e->read.own_only = true;
    e->read.max_bytes = worker->limits->max_value_bytes;
    job_read(&e->read, &hit);
}

/* Gets the content of the changed resource; starts reading it if no entry exists. */
static enum change_content_state change_content_get(struct worker *worker,
                                                    const struct principal *principal,
                                                    const struct change *change,
                                                    struct tidings_str *ret_json)
{
    *ret_json = STR_EMPTY;
    if (change_content_is_gone(principal, change)) {
        return CHANGE_CONTENT_NONE;
    }
    struct change_content_key key = {.change = change, .class = class_of(principal)};
    struct change_content *e = change_content_find(&worker->delivery->contents, key);
    if (!e) {
        change_content_trim(&worker->delivery->contents);
        e = change_content_add(worker, &worker->delivery->contents, principal, change, key);
        if (!e) {
            return CHANGE_CONTENT_NONE;
        }
        content_ask(e);
    }
    if (e->state == CHANGE_CONTENT_READY) {
        *ret_json = buf_str(&e->out);
    }
    return e->state;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static int take_task(struct tidings_read *read, const struct read_element *element,
                     struct tidings_error *err)
{
    struct change_content *e = read->base.user;
    return buf_puts(&e->out, element->bytes) < 0
               ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
               : 0;
}

static void discard_task(struct tidings_read *read)
{
    struct change_content *e = read->base.user;
    buf_clear(&e->out);
}

static const struct read_receiver task_receiver = {take_task, discard_task};

static void on_task_read(struct job *job)
{
    struct change_content *e = job->user;
    change_content_conclude(&e->worker->delivery->contents, e, job->code >= 0 && e->out.len > 2);
    wake_waiting(e->worker);
}

static void ask_task(struct change_content *e)
{
    struct worker *worker = e->worker;
    struct catalog_hit hit;
    if (!catalog_find(worker->catalog, e->change->uri, &e->arena, &hit)) {
        change_content_conclude(&worker->delivery->contents, e, false);
        return;
    }
    buf_init(&e->out, TASK_TEXT_MAX);
    job_init(&e->read.base, worker, on_task_read, e, e->change->uri);
    e->read.receiver = &task_receiver;
    e->read.principal = e->principal;
    e->read.max_bytes = TASK_TEXT_MAX;
    job_read(&e->read, &hit);
}

/* Gets the task's current state with its whole result, however large: an update sends only this. */
static enum change_content_state change_content_get_task(struct worker *worker,
                                                         const struct principal *principal,
                                                         const struct change *change,
                                                         struct tidings_str *ret_json)
{
    struct change_content_key key = {
        .change = change, .shape = SHAPE_TASK, .class = class_of(principal)};
    struct change_content *e = change_content_find(&worker->delivery->contents, key);
    *ret_json = STR_EMPTY;
    if (change->kind == TIDINGS_CHANGE_DELETED) {
        return CHANGE_CONTENT_NONE;
    }
    if (!e) {
        change_content_trim(&worker->delivery->contents);
        e = change_content_add(worker, &worker->delivery->contents, principal, change, key);
        if (!e) {
            return CHANGE_CONTENT_NONE;
        }
        ask_task(e);
    }
    *ret_json = e->state == CHANGE_CONTENT_READY ? buf_str(&e->out) : STR_EMPTY;
    return e->state;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Returns the mount that makes patches of `uri` itself, or NULL. */
static struct tidings_provider *find_patching(const struct worker *worker, struct tidings_str uri)
{
    struct tidings_provider *p = catalog_mount(worker->catalog, uri);
    return p && p->ops->patch ? p : NULL;
}

static int take_patch(struct tidings_read *read, const struct read_element *element,
                      struct tidings_error *err)
{
    struct change_content *e = read->base.user;
    e->etag = arena_dup(&e->arena, element->about->etag);
    e->is_too_large = element->bytes.len > e->worker->limits->max_value_bytes;
    int rc = e->is_too_large ? 0 : buf_puts(&e->out, element->bytes);
    return rc < 0 || !e->etag.ptr ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

static void discard_patch(struct tidings_read *read)
{
    struct change_content *e = read->base.user;
    buf_clear(&e->out);
}

static const struct read_receiver patch_receiver = {take_patch, discard_patch};

static void ask_patch(struct change_content *e);

static void patch_read(struct job *job)
{
    struct change_content *e = job->user;
    struct change_contents *v = &e->worker->delivery->contents;
    bool is_notified = job->code >= 0;
    if (job->code == TIDINGS_E_INVALID && e->from && !e->is_whole) {
        e->is_whole = true; /* that version is gone */
        ask_patch(e);
        return;
    }
    if (is_notified) {
        e->to = baseline_get(&v->baselines, change_content_uri(e->principal, e->change), e->etag,
                             STR_EMPTY);
    } else {
        e->to = baseline_ref(e->from);
        buf_clear(&e->out);
        if (change_content_is_gone(e->principal, e->change)) {
            patch_write_deleted(&e->out, e->change, e->from);
            is_notified = true;
        }
    }
    v->patches++;
    change_content_conclude(&e->worker->delivery->contents, e, is_notified && !e->is_too_large);
    wake_waiting(e->worker);
}

static void ask_patch(struct change_content *e)
{
    struct worker *worker = e->worker;
    struct tidings_str uri = change_content_uri(e->principal, e->change);
    struct catalog_hit hit = {.provider = find_patching(worker, uri)};
    if (!hit.provider) { /* unmounted in between */
        change_content_conclude(&e->worker->delivery->contents, e, false);
        return;
    }
    memset(&e->read, 0, sizeof(e->read));
    job_init(&e->read.base, worker, patch_read, e, uri);
    e->read.receiver = &patch_receiver;
    e->read.max_bytes = worker->limits->max_read_bytes;
    e->read.principal = e->principal;
    e->read.is_patch = true;
    e->read.patch_from = e->from && !e->is_whole ? baseline_etag(e->from) : STR_EMPTY;
    job_read(&e->read, &hit);
}

/* Makes a patch here, by comparing the contents with the baseline, for a provider that makes none.
 */
static enum change_content_state
make_patch(struct worker *worker, const struct principal *principal, const struct change *change,
           struct change_content_key key, struct baseline *from, struct change_content **ret)
{
    bool is_deleted = change->kind == TIDINGS_CHANGE_DELETED;
    struct tidings_str contents = STR_EMPTY;
    enum change_content_state state =
        is_deleted ? CHANGE_CONTENT_READY
                   : change_content_get(worker, principal, change, &contents);
    if (state != CHANGE_CONTENT_READY) {
        return state;
    }
    struct change_content *e =
        change_content_add(worker, &worker->delivery->contents, principal, change, key);
    if (!e) {
        return CHANGE_CONTENT_NONE;
    }
    e->from = baseline_ref(from);
    if (is_deleted) {
        patch_write_deleted(&e->out, change, from);
        e->to = baseline_ref(from);
    } else {
        patch_write(&e->out, &worker->delivery->contents.baselines, change->uri, from, contents,
                    &e->to);
    }
    worker->delivery->contents.patches++;
    change_content_conclude(&e->worker->delivery->contents, e, true);
    *ret = e;
    return e->state;
}

/* Gets the changes since `from` (NULL: everything), as an object (engine/delivery/content.h, or the
 * provider's own). *ret_to, unless it is being read: the version sent with it; borrowed. NULL: no
 * patch can start from it. */
static enum change_content_state
change_content_get_patch(struct worker *worker, const struct principal *principal,
                         const struct change *change, struct baseline *from,
                         struct tidings_str *ret_json, struct baseline **ret_to)
{
    struct change_content_key key = {
        .change = change, .from = from, .shape = SHAPE_PATCH, .class = class_of(principal)};
    struct change_content *e = change_content_find(&worker->delivery->contents, key);
    *ret_json = STR_EMPTY;
    *ret_to = NULL;
    if (!e) {
        change_content_trim(&worker->delivery->contents);
        if (!find_patching(worker, change->uri)) {
            enum change_content_state state = make_patch(worker, principal, change, key, from, &e);
            if (!e) {
                return state;
            }
        } else if ((e = change_content_add(worker, &worker->delivery->contents, principal, change,
                                           key)) != NULL) {
            e->from = baseline_ref(from);
            ask_patch(e);
        } else {
            *ret_to = from;
            return CHANGE_CONTENT_NONE;
        }
    }
    if (e->state != CHANGE_CONTENT_READING) {
        *ret_json = buf_str(&e->out);
        *ret_to = e->to;
    }
    return e->state;
}

/* ---- for subscriptions ----------------------------------------------------------------------- */

static struct patch_base *patch_base_of(const struct subscription *sub)
{
    return sub->extra ? sub->extra->patch_base : NULL;
}

/* Legacy clients of a profile with dialect_rules.has_data get `title` and `data`. */
static bool wants_data(const struct subscription *sub)
{
    const struct subscriber *subscriber = sub->subscriber;
    return sub->group->id_len == 0 && dialect_rules(subscriber->worker->self)->has_data &&
           !(subscriber->ops && subscriber->ops->on_update);
}

/* Turns the contents or patch `*json` into members `title` and `data`, once for all subscriptions
 * with the same view. */
static enum change_content_state change_content_get_data(struct worker *worker,
                                                         const struct principal *principal,
                                                         const struct change *change,
                                                         struct change_content_key key,
                                                         struct tidings_str *json)
{
    struct change_content *e = change_content_find(&worker->delivery->contents, key);
    if (!e) {
        change_content_trim(&worker->delivery->contents);
        e = change_content_add(worker, &worker->delivery->contents, principal, change, key);
        if (!e) {
            *json = STR_EMPTY;
            return CHANGE_CONTENT_NONE;
        }
        e->from = baseline_ref((struct baseline *)(uintptr_t)key.from);
        if (json->len > 0) {
            dialect_put_data(&e->out, *json);
        } else { /* deleted: only the metadata, unless it would reveal the new URI */
            buf_puts(&e->out, STR("\"data\":{\"deleted\":true"));
            if (change->to.len == 0) {
                buf_putc(&e->out, ',');
                buf_puts(&e->out, worker->principals->rules
                                      ? change_metadata_without_version(change)
                                      : change->metadata_json);
            }
            buf_putc(&e->out, '}');
        }
        change_content_conclude(&e->worker->delivery->contents, e, true);
    }
    *json = buf_str(&e->out);
    return e->state;
}

enum change_content_state change_content_for(const struct subscription *sub,
                                             const struct change *change,
                                             struct tidings_str *ret_json, struct baseline **ret_to)
{
    struct worker *worker = sub->subscriber->worker;
    const struct patch_base *patch_base = patch_base_of(sub);
    struct baseline *from = patch_base ? patch_base_at(patch_base, change->uri) : NULL;
    *ret_to = NULL;
    if (sub->is_task) {
        return change_content_get_task(worker, sub->subscriber->principal, change, ret_json);
    }
    enum change_content_state state =
        patch_base ? change_content_get_patch(worker, sub->subscriber->principal, change, from,
                                              ret_json, ret_to)
                   : change_content_get(worker, sub->subscriber->principal, change, ret_json);
    bool is_there = state == CHANGE_CONTENT_READY ||
                    (state == CHANGE_CONTENT_NONE &&
                     change_content_is_gone(sub->subscriber->principal, change));
    if (!is_there || !wants_data(sub)) {
        return state;
    }
    struct change_content_key key = {.change = change,
                                     .from = from,
                                     .shape = patch_base ? SHAPE_DATA_PATCH : SHAPE_DATA,
                                     .class = class_of(sub->subscriber->principal)};
    return change_content_get_data(worker, sub->subscriber->principal, change, key, ret_json);
}

void change_content_written(const struct subscription *sub, const struct change *change,
                            struct baseline *to)
{
    struct patch_base *patch_base = patch_base_of(sub);
    if (!patch_base) {
        return;
    }
    if (!change_content_leads(sub->subscriber->principal, change)) {
        patch_base_move(patch_base, change->uri, to);
        return;
    }
    patch_base_move(patch_base, change->uri, NULL);
    if (!sub->is_literal) { /* it may cover the new URI too */
        patch_base_move(patch_base, change->to, to);
    }
}

void change_content_skipped(const struct subscription *sub, const struct change *change)
{
    struct patch_base *patch_base = patch_base_of(sub);
    if (!patch_base || !filters_is_own(sub, change)) {
        return;
    }
    struct worker *worker = sub->subscriber->worker;
    const struct baseline *at = patch_base_at(patch_base, change->uri);
    if (!find_patching(worker, change->uri) || change->etag.len == 0) {
        patch_base_move(patch_base, change->uri, NULL);
    } else if (!at || str_cmp(baseline_etag(at), change->etag) < 0) { /* newer only */
        struct baseline *own = baseline_get(&worker->delivery->contents.baselines, change->uri,
                                            change->etag, STR_EMPTY);
        patch_base_move(patch_base, change->uri, own);
        baseline_unref(own);
    }
}
