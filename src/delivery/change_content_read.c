/* SPDX-License-Identifier: MIT
 *
 * Reads the content behind a change, or makes a patch of it, when the first subscription asks; the
 * others that are told the same get what was read.
 */
#include "access/access.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "delivery/change_content_private.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/listen.h"
#include "delivery/patches.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"
#include "handler/task.h"
#include "store/change.h"

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

/* Is there nothing to be read for `principal`? */
static bool change_content_is_gone(const struct principal *principal, const struct change *change)
{
    return change->kind == TIDINGS_CHANGE_DELETED && !change_content_leads(principal, change);
}

/* Where it is to be read. */
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

/* The content of what changed; asks for it when nobody has. */
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

/* A task as it is when it is asked for, whole: however large its result, that is all there is to
 * tell. */
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

/* The mount that makes patches of `uri` itself, or NULL. */
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
    bool is_told = job->code >= 0;
    if (job->code == TIDINGS_E_INVALID && e->from && !e->is_whole) {
        e->is_whole = true; /* that version is gone */
        ask_patch(e);
        return;
    }
    if (is_told) {
        e->to = baseline_get(&v->baselines, change_content_uri(e->principal, e->change), e->etag,
                             STR_EMPTY);
    } else {
        e->to = baseline_ref(e->from);
        buf_clear(&e->out);
        if (change_content_is_gone(e->principal, e->change)) {
            patch_write_deleted(&e->out, e->change, e->from);
            is_told = true;
        }
    }
    v->patches++;
    change_content_conclude(&e->worker->delivery->contents, e, is_told && !e->is_too_large);
    wake_waiting(e->worker);
}

static void ask_patch(struct change_content *e)
{
    struct worker *worker = e->worker;
    struct tidings_str uri = change_content_uri(e->principal, e->change);
    struct catalog_hit hit = {.provider = find_patching(worker, uri)};
    if (!hit.provider) { /* it was there a moment ago */
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

/* A patch made here, by comparing the contents with the baseline, for a provider that makes none.
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

/* What became of it since `from` (NULL: everything), as an object (delivery/patches.h, or what the
 * provider says). *ret_to, unless it is being read: what has been told once this is; borrowed,
 * NULL: nothing that a patch can begin at. */
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

static struct chain *chain_of(const struct subscription *sub)
{
    return sub->extra ? sub->extra->chain : NULL;
}

/* Legacy clients of a profile with dialect_rules.has_data get `title` and `data`. */
static bool wants_data(const struct subscription *sub)
{
    const struct subscriber *subscriber = sub->subscriber;
    return sub->listen->id_len == 0 && dialect_rules(subscriber->worker->self)->has_data &&
           !(subscriber->ops && subscriber->ops->on_update);
}

/* Turns the contents or patch `*json` into members `title` and `data`, once for all who are told
 * the same. */
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
        } else { /* gone: all that is known of it, unless that would say where it is */
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
    const struct chain *chain = chain_of(sub);
    struct baseline *from = chain ? chain_at(chain, change->uri) : NULL;
    *ret_to = NULL;
    if (sub->is_task) {
        return change_content_get_task(worker, sub->subscriber->principal, change, ret_json);
    }
    enum change_content_state state =
        chain ? change_content_get_patch(worker, sub->subscriber->principal, change, from, ret_json,
                                         ret_to)
              : change_content_get(worker, sub->subscriber->principal, change, ret_json);
    bool is_there = state == CHANGE_CONTENT_READY ||
                    (state == CHANGE_CONTENT_NONE &&
                     change_content_is_gone(sub->subscriber->principal, change));
    if (!is_there || !wants_data(sub)) {
        return state;
    }
    struct change_content_key key = {.change = change,
                                     .from = from,
                                     .shape = chain ? SHAPE_DATA_PATCH : SHAPE_DATA,
                                     .class = class_of(sub->subscriber->principal)};
    return change_content_get_data(worker, sub->subscriber->principal, change, key, ret_json);
}

void change_content_written(const struct subscription *sub, const struct change *change,
                            struct baseline *to)
{
    struct chain *chain = chain_of(sub);
    if (!chain) {
        return;
    }
    if (!change_content_leads(sub->subscriber->principal, change)) {
        chain_move(chain, change->uri, to);
        return;
    }
    chain_move(chain, change->uri, NULL);
    if (!sub->is_literal) { /* it may cover where it is now, too */
        chain_move(chain, change->to, to);
    }
}

void change_content_skipped(const struct subscription *sub, const struct change *change)
{
    struct chain *chain = chain_of(sub);
    if (!chain || !filters_is_own(sub, change)) {
        return;
    }
    struct worker *worker = sub->subscriber->worker;
    const struct baseline *at = chain_at(chain, change->uri);
    if (!find_patching(worker, change->uri) || change->etag.len == 0) {
        chain_move(chain, change->uri, NULL);
    } else if (!at || str_cmp(baseline_etag(at), change->etag) < 0) { /* never back */
        struct baseline *own = baseline_get(&worker->delivery->contents.baselines, change->uri,
                                            change->etag, STR_EMPTY);
        chain_move(chain, change->uri, own);
        baseline_unref(own);
    }
}
