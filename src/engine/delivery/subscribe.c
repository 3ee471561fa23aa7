/* SPDX-License-Identifier: MIT
 *
 * Starts the watches of new subscriptions, creates the subscriptions, and starts their first
 * updates.
 */
#include "engine/delivery/subscribe.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job_read.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/content.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/dialect.h"
#include "engine/worker.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * The change number from which a resuming subscription gets changes: the number that its cursor
 * represents at this node, or unknown.
 */

/* A cursor from before this epoch, and the number here that it represents. */
struct resuming {
    const struct subscribe_item *item;
    const struct log_cursor *cursor;
    uint64_t kept;  /* for stored resources */
    bool is_ours;   /* it is of this epoch after all: a number */
    uint64_t since; /* the lowest of all */
};

static bool resume_files(struct resuming *r, const struct tidings_provider *p)
{
    const struct worker *worker = r->item->owner->worker;
    size_t found = 0;
    for (size_t i = 0; i < r->item->scope_count; i++) {
        uint64_t since = 0;
        if (catalog_mount(worker->catalog, r->item->scopes[i]) != p) {
            continue;
        }
        if (!hub_resume_files(worker->hub, r->item->scopes[i], r->cursor, &since)) {
            return false;
        }
        r->since = since < r->since ? since : r->since;
        found++;
    }
    return found > 0;
}

/* Changes announced through the store have positions like stored resources, but a crash of the
 * store loses more of them. */
static bool resume_announced(struct resuming *r)
{
    uint64_t since; /* same as `kept`: both are by position */
    return r->is_ours || hub_resume(r->item->owner->worker->hub, r->cursor, false, &since);
}

static bool resume_mount(struct resuming *r, const struct tidings_provider *p)
{
    bool is_stored = p->is_durable || (p->nodes == MOUNT_OWNED && resume_announced(r));
    if (is_stored) {
        r->since = r->kept < r->since ? r->kept : r->since;
    }
    return is_stored || (p->has_history && resume_files(r, p));
}

/* Registered resources: the program announces their changes, with a shared store to every node.
 * Changes before this epoch are unknown. */
static bool resume_registered(struct resuming *r)
{
    if (r->is_ours || !hub_is_shared(r->item->owner->worker->hub) || !resume_announced(r)) {
        return false;
    }
    r->since = r->kept < r->since ? r->kept : r->since;
    return true;
}

/* Returns true if the changes since the cursor are known for everything that could match. They are
 * unknown for mounts without stored changes or history. */
static bool subscribe_cursor_resume(struct resuming *r)
{
    const struct catalog *c = r->item->owner->worker->catalog;
    struct tidings_str fixed = pattern_prefix(r->item->kind, r->item->uri);
    const struct tidings_provider *p = catalog_mount(c, fixed);
    bool is_registered = entries_find(&c->resources, fixed) || (!p && c->templates.count > 0);
    if ((is_registered && !resume_registered(r)) || (p && !resume_mount(r, p))) {
        return false;
    }
    if (r->item->kind == PATTERN_LITERAL) {
        return p || is_registered;
    }
    size_t found = p || is_registered;
    for (size_t i = 0; i < c->mount_count; i++) {
        if (c->mounts[i] != p && str_starts(c->mounts[i]->prefix, fixed)) {
            if (!resume_mount(r, c->mounts[i])) {
                return false;
            }
            found++;
        }
    }
    struct entries_position at = entries_after(&c->resources, fixed);
    const struct catalog_entry *next = entries_next(&c->resources, &at);
    bool has_more = next && str_starts(next->about->uri, fixed);
    return has_more ? resume_registered(r) : found > 0;
}

void subscribe_item_open_since(struct subscribe_item *w, const struct principal *principal)
{
    static const struct log_cursor unknown = {.seq = UINT64_MAX};
    struct options *o = &w->options;
    bool is_sealed = o->sealed.len > 0;
    if ((o->given & OPTION_SINCE) &&
        (is_sealed ? !cursor_seal_open(w->owner->worker, principal, o->sealed, &o->since)
                   : !access_is_full(principal))) {
        o->since = unknown;
    }
}

/* Awaits the cursors of other nodes, which may be ahead of this one or may have started since. */
static void subscribe_batch_await(const struct subscribe_batch *s,
                                  struct hub_watch_request *request)
{
    for (size_t i = 0; hub_is_shared(request->hub) && i < s->count; i++) {
        const struct options *o = &s->items[i].options;
        if (s->is_resumed || o->given & OPTION_SINCE) {
            hub_watch_request_await(request, &o->since);
        }
    }
    for (size_t i = 0; i < s->await_count; i++) {
        hub_watch_request_await(request, &s->await[i]);
    }
}

/* A cursor from before this epoch covers stored resources, and files with a stored history; nothing
 * else. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq)
{
    const struct log_cursor *c = &w->options.since;
    if (cursor_has_gap(c, cursor_order(w->as_requested))) {
        return SINCE_UNKNOWN; /* its `truncated` update was not sent yet */
    }
    const struct worker *worker = w->owner->worker;
    uint64_t since = c->seq;
    bool is_ours = c->epoch == worker->epoch;
    bool is_known =
        is_ours ? since <= seq : c->has_position && hub_resume(worker->hub, c, true, &since);
    if (is_known && (!is_ours || (since < worker->delivery->positions.first && c->gap == 0))) {
        struct resuming r = {
            .item = w, .cursor = c, .kept = since, .is_ours = is_ours, .since = UINT64_MAX};
        is_known = subscribe_cursor_resume(&r);
        since = r.since;
    }
    return is_known ? since : SINCE_UNKNOWN;
}

/* -------------------------------------------------------------------------------------------------
 * Waits until this node has followed the store to its current position, with a watch request
 * without scopes (hub_watch_request): the answer arrives when everything up to `await` has its
 * number.
 *
 * The position of the cursor is not enough. A cursor means that everything up to it was sent.
 * Changes held in a window or queue therefore keep it below the change that its own message
 * reports, and a read value may be newer than its change. But every reported change is committed,
 * so the node queries the store.
 */

struct at_least {
    struct log_cursor cursor;
    bool is_full; /* the client may see numbers */
    void (*done)(void *user, int code, const struct tidings_error *err);
    void *user;
};

/* Accepts cursors that end in `~lost` too: the changes they count as sent were sent. */
static bool at_least_read(struct worker *worker, const struct principal *principal,
                          struct tidings_str text, struct log_cursor *ret)
{
    return cursor_is_sealed(text) ? cursor_seal_open(worker, principal, text, ret)
                                  : access_is_full(principal) && cursor_parse(text, ret);
}

static int at_least_check(const struct worker *worker, const struct log_cursor *c,
                          struct tidings_error *err)
{
    uint64_t number;
    bool is_ours = c->epoch == worker->epoch && c->seq <= worker->last_seq;
    return is_ours || (c->has_position && hub_resume(worker->hub, c, true, &number))
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "this server does not know the cursor in 'dev.tidings/atLeast'; read "
                              "without it");
}

static void at_least_end(struct at_least *a, int code, const struct tidings_error *err)
{
    a->done(a->user, code, err);
    mem_free(a);
}

static void at_least_answered(struct hub_watch_request *request, struct worker *worker)
{
    struct at_least *a = request->user;
    struct tidings_error err = {0};
    uint64_t reached = hub_applied(worker->hub);
    int rc = 0;
    if (request->newest_code == TIDINGS_E_CLOSED) {
        rc = tidings_fail(&err, TIDINGS_E_CLOSED, "%s", request->newest_err.text);
    } else if (request->newest_code < 0) {
        rc = tidings_fail(&err, TIDINGS_E_BUSY,
                          "the store cannot be reached, so this node does not know whether it has "
                          "come to the cursor; try again later");
    } else if (reached >= request->await) {
        rc = at_least_check(worker, &a->cursor, &err);
    } else if (a->is_full) {
        rc = tidings_fail(&err, TIDINGS_E_TIMEOUT,
                          "this node has come to position %llu and not to %llu within %u ms; try "
                          "again later",
                          (unsigned long long)reached, (unsigned long long)request->await,
                          HUB_AWAIT_MS);
    } else {
        rc = tidings_fail(&err, TIDINGS_E_TIMEOUT,
                          "this node has not come to the cursor within %u ms; try again later",
                          HUB_AWAIT_MS);
    }
    hub_watch_request_free(request);
    at_least_end(a, rc, &err);
}

static void at_least_dropped(struct hub_watch_request *request)
{
    struct tidings_error err;
    int rc = tidings_fail(&err, TIDINGS_E_CLOSED, "the server is ending");
    at_least_end(request->user, rc, &err);
}

void at_least_await(struct worker *worker, const struct principal *principal,
                    struct tidings_str cursor,
                    void (*done)(void *user, int code, const struct tidings_error *err), void *user)
{
    struct tidings_error err = {0};
    struct log_cursor c = {0};
    if (!at_least_read(worker, principal, cursor, &c)) {
        int rc = tidings_fail(&err, TIDINGS_E_INVALID,
                              "'dev.tidings/atLeast' must be a cursor that you were given");
        done(user, rc, &err);
        return;
    }
    if (c.epoch == worker->epoch || !c.has_position || !hub_is_shared(worker->hub)) {
        done(user, at_least_check(worker, &c, &err), &err);
        return;
    }
    struct at_least *a = mem_zalloc(sizeof(*a));
    struct hub_watch_request *request = a ? hub_watch_request_create(worker, NULL, 0) : NULL;
    if (!request) {
        mem_free(a);
        done(user, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return;
    }
    *a = (struct at_least){
        .cursor = c, .is_full = access_is_full(principal), .done = done, .user = user};
    request->done = at_least_answered;
    request->dropped = at_least_dropped;
    request->user = a;
    request->asks_newest = true;
    hub_watch_request_await(request, &c);
    hub_watch_request_send(request);
}

/* -------------------------------------------------------------------------------------------------
 * Where the patches of a subscription start. If the provider makes patches itself, it is asked for
 * the client's version before anything is watched, so that an invalid version needs no cleanup.
 * Otherwise, if the version is unknown, the first update has the full content.
 */

void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri)
{
    struct subscribe_batch *s = w->owner;
    struct tidings_provider *p = catalog_mount(s->worker->catalog, uri);
    struct tidings_error err;
    char of[URI_MAX];
    size_t len = sizeof(of);
    int rc = p && p->ops->patches_of ? p->ops->patches_of(p, uri, of, &len, &err) : 0;
    if (rc < 0) {
        subscribe_item_refuse(w, rc, "%s", err.text);
        job_explain(&w->stat.base, STR("{\"reason\":\"not_subscribable\"}"));
    }
    if (rc <= 0) {
        return;
    }
    struct options *o = &w->options;
    if (o->given & OPTION_INCLUDE && o->include != OPTION_INCLUDE_PATCH) {
        subscribe_item_refuse(w, TIDINGS_E_INVALID,
                              "option 'include' must be 'patch' here, or absent");
    } else if (!(o->given & OPTION_BASELINE)) {
        subscribe_item_refuse(
            w, TIDINGS_E_INVALID,
            "'baseline' is required here: the etag of the version you have (of an entity: "
            "its validFrom, as 2024-01-01T10:00:00.000Z)");
        job_explain(&w->stat.base, STR("{\"reason\":\"baseline_required\"}"));
    } else {
        o->include = OPTION_INCLUDE_PATCH;
        o->given |= OPTION_INCLUDE;
        w->subject = arena_dup(&s->arena, tidings_strn(of, len));
        if (!w->subject.ptr) {
            subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        }
    }
}

void subscribe_item_check_baseline(struct subscribe_item *w)
{
    if (w->refused || !(w->options.given & OPTION_BASELINE)) {
        return;
    }
    if (w->options.include != OPTION_INCLUDE_PATCH) {
        subscribe_item_refuse(w, TIDINGS_E_INVALID, "option 'baseline' goes with include: 'patch'");
    } else if (w->kind != PATTERN_LITERAL) {
        subscribe_item_refuse(w, TIDINGS_E_INVALID,
                              "option 'baseline' needs a single resource; for other URIs the first "
                              "update has the full content");
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct baseline_read {
    struct tidings_read read;
    struct subscribe_item *item;
    void (*done)(struct subscribe_item *w);
    struct buf text;
};

static int subscribe_baseline_take(struct tidings_read *read, const struct read_element *element,
                                   struct tidings_error *err)
{
    struct baseline_read *a = read->base.user;
    (void)buf_puts(&a->text, element->bytes);
    return buf_check(&a->text, "the version", "subscribe without baseline", err);
}

static void discard_state(struct tidings_read *read)
{
    struct baseline_read *a = read->base.user;
    buf_clear(&a->text);
}

/* Uses the provider's own spelling from now on. */
static void keep_spelling(struct subscribe_item *w, struct tidings_str text)
{
    struct json *object = NULL;
    (void)jv_parse(text, JSON_MAX_DEPTH, &object, NULL);
    struct tidings_str baseline = jv_str(jv_get(object, "baseline"));
    if (baseline.len > 0) {
        w->options.baseline = arena_dup(&w->owner->arena, baseline);
    }
    jv_unref(object);
    if (!w->options.baseline.ptr) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
    }
}

static void subscribe_baseline_on_read(struct job *job)
{
    struct baseline_read *a = job->user;
    struct subscribe_item *w = a->item;
    if (job->code < 0) {
        subscribe_item_refuse(w, job->code, "%s", job->err.text);
        job_explain(&w->stat.base, job_details(job));
    } else {
        keep_spelling(w, buf_str(&a->text));
    }
    void (*done)(struct subscribe_item *) = a->done;
    buf_deinit(&a->text);
    mem_free(a);
    done(w);
}

bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w))
{
    static const struct read_receiver receiver = {subscribe_baseline_take, discard_state};
    struct worker *worker = w->owner->worker;
    struct catalog_hit hit = {.provider = w->stat.base.provider};
    bool asks = w->options.include == OPTION_INCLUDE_PATCH && w->kind == PATTERN_LITERAL &&
                w->options.given & OPTION_BASELINE && hit.provider && hit.provider->ops->patch;
    struct baseline_read *a = asks && !w->refused ? mem_zalloc(sizeof(*a)) : NULL;
    if (!a) {
        if (asks && !w->refused) {
            subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        }
        return false;
    }
    a->item = w;
    a->done = done;
    buf_init(&a->text, worker->limits->max_read_bytes + 4096);
    job_init(&a->read.base, worker, subscribe_baseline_on_read, a, w->uri);
    a->read.receiver = &receiver;
    a->read.principal = w->owner->principal;
    a->read.is_patch = true;
    a->read.patch_from = w->options.baseline;
    a->read.max_bytes = worker->limits->max_read_bytes;
    job_read(&a->read, &hit);
    return true;
}

/* The first baseline of its patches. NULL when out of memory. */
static struct patch_base *subscribe_item_begin_patch_base(const struct subscribe_item *w)
{
    struct baselines *all = &w->owner->worker->delivery->contents.baselines;
    struct patch_base *patch_base = patch_base_create();
    if (patch_base && w->options.given & OPTION_BASELINE) {
        struct baseline *first = baseline_get(all, w->uri, w->options.baseline, STR_EMPTY);
        patch_base_move(patch_base, w->uri, first);
        baseline_unref(first);
    }
    return patch_base;
}

/* ---------------------------------------------------------------------------------------------- */

/* URIs and strings derived from them: patterns, scopes, conditions. */
#define ARENA_PER_ITEM (8u * URI_MAX)

struct subscribe_batch *subscribe_batch_create(struct subscription_group *group, size_t count)
{
    struct subscribe_batch *s = mem_zalloc(sizeof(*s) + count * sizeof(s->items[0]));
    if (!s) {
        return NULL;
    }
    s->worker = group->subscriber->worker;
    s->principal = principal_ref(group->subscriber->principal);
    s->rules = option_rules_ref(s->worker->delivery->rules);
    s->count = count;
    arena_init(&s->arena, (count + 1) * ARENA_PER_ITEM);
    s->pending.group = group;
    s->pending.is_subscribing = true;
    list_append(&group->pending, &s->pending.link);
    return s;
}

void subscribe_batch_free(struct subscribe_batch *s)
{
    list_remove(&s->pending.link);
    for (size_t i = 0; i < s->count; i++) {
        job_free_stat(&s->items[i].stat);
        filter_release(s->items[i].filter);
        jv_unref(s->items[i].kept);
        mem_free(s->items[i].hooked);
        client_account_give_back(s->items[i].counted, CLIENT_ACCOUNT_BROAD);
    }
    principal_unref(s->principal);
    client_account_release(s->client);
    option_rules_unref(s->rules);
    arena_deinit(&s->arena);
    mem_free(s);
}

bool subscribe_batch_set_channel(struct subscribe_batch *s, struct channel *channel)
{
    struct client_account *client = channel_account(channel);
    if (client) {
        subscribe_batch_set_client(s, client);
        client_account_release(client);
    }
    return client != NULL;
}

void subscribe_batch_set_client(struct subscribe_batch *s, struct client_account *client)
{
    struct subscriber *subscriber = s->pending.group->subscriber;
    s->client = client_account_ref(client);
    if (!subscriber->account) {
        subscriber->account = client_account_ref(client);
    }
}

void subscribe_item_refuse(struct subscribe_item *w, int code, const char *fmt, ...)
{
    char text[sizeof(w->stat.base.err.text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    w->refused = true;
    mem_free(w->stat.base.details); /* belongs to an earlier error */
    w->stat.base.details = NULL;
    tidings_fail(&w->stat.base.err, code, "%s", text);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void release_scopes(struct subscribe_batch *s, const struct subscribe_item *w,
                           const struct hub_watch_request *request)
{
    for (size_t i = 0; i < w->scope_count; i++) {
        const struct hub_watch_item *item = &request->items[w->first_item + i];
        if (item->watched) {
            hub_unwatch(s->worker->hub, item->scope);
        }
    }
}

/* The origin whose changes it excludes, in the arena; empty: none. ptr is NULL when out of
 * memory. */
static struct tidings_str own_origin(struct subscribe_batch *s, const struct subscribe_item *w)
{
    struct buf text;
    buf_init(&text, ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX);
    principal_put_origin(s->principal, w->options.echo ? STR_EMPTY : w->options.origin, &text);
    struct tidings_str own = arena_dup(&s->arena, buf_str(&text));
    own.ptr = text.failed ? NULL : own.ptr;
    buf_deinit(&text);
    return own;
}

/* Adds the rarely used fields, in one block. Returns false when out of memory. */
static bool add_extra(struct subscribe_batch *s, struct subscribe_item *w,
                      const struct hub_watch_request *request)
{
    struct tidings_str origin = own_origin(s, w);
    size_t text = origin.len, scopes = 0, scope_text = 0;
    for (size_t i = 0; i < w->condition_count; i++) {
        text += w->conditions[i].key.len + w->conditions[i].value.len;
    }
    bool resource_io_scope = w->scope_count == 1 && str_eq(w->scopes[0], w->uri);
    for (size_t i = 0; i < w->scope_count && !resource_io_scope; i++) {
        const struct hub_watch_item *item = &request->items[w->first_item + i];
        scopes += item->watched;
        scope_text += item->watched ? item->scope.len : 0;
    }
    struct subscription *sub = w->sub;
    sub->watched = resource_io_scope && request->items[w->first_item].watched;
    bool patches = w->options.include == OPTION_INCLUDE_PATCH;
    if (text == 0 && scopes == 0 && w->condition_count == 0 && !w->filter && !s->filter &&
        !w->covers_provider && !patches && !w->counted) {
        return true;
    }
    struct subscription_extra *x =
        mem_zalloc(sizeof(*x) + w->condition_count * sizeof(x->conditions[0]) + text);
    struct tidings_str *kept = scopes ? mem_zalloc(scopes * sizeof(*kept) + scope_text) : NULL;
    struct patch_base *patch_base = patches ? subscribe_item_begin_patch_base(w) : NULL;
    if (!x || !origin.ptr || (scopes && !kept) || (patches && !patch_base)) {
        mem_free(x);
        mem_free(kept);
        patch_base_destroy(patch_base);
        return false;
    }
    x->patch_base = patch_base;
    x->broad = w->counted;
    w->counted = NULL;
    char *at = (char *)&x->conditions[w->condition_count];
    for (size_t i = 0; i < w->condition_count; i++) {
        x->conditions[i].key = str_pack(&at, w->conditions[i].key);
        x->conditions[i].value = str_pack(&at, w->conditions[i].value);
    }
    x->condition_count = w->condition_count;
    x->origin = str_pack(&at, origin);
    x->claimed = origin.len > 0 ? w->options.origin.len : 0;
    x->schema = w->filter;
    w->filter = NULL;
    x->filter = s->filter;
    x->filter_user = s->filter_user;
    x->covers_provider = w->covers_provider;
    at = scopes > 0 ? (char *)(kept + scopes) : NULL;
    for (size_t i = 0; i < w->scope_count && scopes > 0; i++) {
        const struct hub_watch_item *item = &request->items[w->first_item + i];
        if (item->watched) {
            kept[x->scope_count++] = str_pack(&at, item->scope);
        }
    }
    x->scopes = kept;
    subscription_set_extra(sub, x);
    return true;
}

/* Moves the subscriber's cursor back before there is a stream: until then no response says that the
 * changes were sent. */
static void keep_pending(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    if (!subscriber->sink && sub->since == SINCE_UNKNOWN) {
        resync_flag(sub, 1);
    } else if (!subscriber->sink && sub->since < subscriber->cursor) {
        subscriber->cursor = sub->since;
    }
}

static struct subscription *subscribe_item_make_sub(struct subscribe_batch *s,
                                                    const struct subscribe_item *w, uint64_t since,
                                                    struct tidings_error *err);

static bool subscribe_item_is_too_many(struct subscribe_batch *s, struct subscribe_item *w);

/* The watch has started: creates the subscription, or releases the watch. */
static void subscribe_establish(struct subscribe_batch *s, struct subscribe_item *w,
                                const struct hub_watch_request *request)
{
    struct subscription_group *group = s->pending.group;
    struct subscription *old = subscription_group_find_sub(group, w->as_requested);
    uint64_t pending_from = old ? subscription_pending_from(old) : 0;
    /* It was subscribed without a break: the next stream still replays from its start. */
    uint64_t since = old && old->since < request->seq ? old->since : request->seq;
    if (old) {
        subscriber_hand_over(old);
        subscription_destroy(old); /* subscribing again replaces the options */
    }
    bool is_named =
        w->condition_count == 0 && (w->kind == PATTERN_LITERAL || w->kind == PATTERN_CONTAINER);
    if (is_named &&
        !access_subscribes(group->subscriber->principal, w->uri)) { /* may have changed */
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
    }
    if (w->refused || s->withdrawn || subscribe_item_is_too_many(s, w)) {
        release_scopes(s, w, request);
        return;
    }
    struct tidings_error err = {.code = TIDINGS_E_NOMEM, .text = "out of memory"};
    w->sub = subscribe_item_make_sub(s, w, since, &err);
    if (!w->sub || !add_extra(s, w, request) || (w->options.bookmarks && !bookmark_want(w->sub))) {
        if (w->sub) {
            subscription_destroy(w->sub);
            w->sub = NULL;
        }
        release_scopes(s, w, request);
        subscribe_item_refuse(w, err.code, "%s", err.text);
        return;
    }
    struct subscription *sub = w->sub;
    sub->is_absolute = catalog_is_absolute(s->worker->catalog, w->as_requested);
    sub->is_slim = w->options.is_slim;
    sub->wants_metadata = sub->is_slim ? w->options.include == OPTION_INCLUDE_METADATA
                                       : w->options.include != OPTION_INCLUDE_NONE;
    sub->wants_content = w->options.include >= OPTION_INCLUDE_VALUE || w->is_task;
    sub->is_task = w->is_task;
    sub->broad = w->broad;
    sub->needs_baseline = w->subject.len > 0;
    sub->is_strict = w->options.is_strict;
    sub->since_pending = w->options.given & OPTION_SINCE;
    /* A client with a cursor has the state as of that cursor; an absent resource has no state. */
    sub->initial_pending = w->options.initial && !sub->since_pending && !w->is_awaited;
    if (sub->since_pending) {
        sub->since = subscribe_item_since(w, request->seq);
        group->subscriber->was_truncated =
            group->subscriber->was_truncated || w->options.since.gap > 0;
        keep_pending(sub);
    }
    if (s->is_resumed) { /* changes in the log are replayed with those of the whole session */
        sub->since = subscribe_item_since(w, request->seq);
        sub->since_pending = sub->since == SINCE_UNKNOWN;
        sub->is_resumed = true;
        group->subscriber->was_truncated =
            group->subscriber->was_truncated || w->options.since.gap > 0;
        keep_pending(sub);
    }
    subscription_set_period(sub, &w->options);
    if (pending_from > 0) { /* pending updates of the old subscription */
        resync_flag(sub, pending_from);
    }
}

/* The client's position when it is notified of its subscriptions: not above its pending updates. An
 * unknown cursor is returned unchanged, so that resuming with it is detected again. */
static struct log_cursor subscribe_cursor_at(const struct subscribe_batch *s, uint64_t seq)
{
    const struct subscriber *subscriber = s->pending.group ? s->pending.group->subscriber : NULL;
    uint64_t at =
        subscriber && subscriber_written(subscriber) < seq ? subscriber_written(subscriber) : seq;
    for (size_t i = 0; i < s->count; i++) {
        const struct subscribe_item *w = &s->items[i];
        if (!w->sub || !(w->options.given & OPTION_SINCE)) {
            continue;
        }
        uint64_t since = subscribe_item_since(w, seq);
        if (since == SINCE_UNKNOWN) {
            return w->options.since;
        }
        at = since < at ? since : at;
    }
    return subscriber ? subscriber_cursor_at(subscriber, at) : delivery_cursor(s->worker, at);
}

static void subscribe_finish(struct subscribe_batch *s, const struct hub_watch_request *request)
{
    struct subscription_group *group = s->pending.group;
    for (size_t i = 0; group && request && i < s->count; i++) {
        if (!s->items[i].refused) {
            subscribe_establish(s, &s->items[i], request);
        }
    }
    if (group && s->wants_list) {
        group->is_watching_lists = false;
    }
    struct log_cursor at = subscribe_cursor_at(s, request ? request->seq : s->worker->last_seq);
    if (s->done) {
        s->done(s, &at);
    }
    if (s->pending.group) {
        initial_state_begin(s->pending.group);
    }
    subscribe_batch_free(s);
}

/* ---- watching -------------------------------------------------------------------------------- */

/* Stores the scopes watched for list_changed, in one block. */
static void keep_list_scopes(struct subscription_group *group,
                             const struct hub_watch_request *request, size_t from)
{
    size_t text = 0, n = 0;
    for (size_t i = from; i < request->count; i++) {
        if (request->items[i].watched) {
            text += request->items[i].scope.len;
            n++;
        }
    }
    struct subscription_group_scopes *kept =
        n > 0 ? mem_zalloc(sizeof(*kept) + n * sizeof(kept->at[0]) + text) : NULL;
    char *at = kept ? (char *)&kept->at[n] : NULL;
    for (size_t i = from; i < request->count; i++) {
        if (!request->items[i].watched) {
            continue;
        }
        if (kept) {
            kept->at[kept->count++] = str_pack(&at, request->items[i].scope);
        } else {
            hub_unwatch(group->subscriber->worker->hub, request->items[i].scope);
        }
    }
    group->list_scopes = kept;
}

/* The sources with changing lists are watched now. */
static void lists_watched(struct subscription_group *group)
{
    if (!group->subscriber->sink) {
        list_changed_unwatch(group); /* its stream ended during the request */
    } else if (group->has_listed && group->list_scopes) {
        /* Nothing was watched when it called resources/list: the list may have changed. */
        list_changed_mark(group, LIST_RESOURCES, group->subscriber->worker->last_seq);
    }
}

static void release_all(struct hub_watch_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        if (request->items[i].watched) {
            hub_unwatch(request->hub, request->items[i].scope);
        }
    }
}

/* If one scope cannot be watched, the whole item is rejected. Exception: mounts that the item only
 * spans may have nothing to watch, unless that is true for all of them and nothing else matches. */
static void check_watched(struct subscribe_batch *s, struct subscribe_item *w,
                          const struct hub_watch_request *request)
{
    bool is_idle = w->needs_watch && w->scope_count > 0;
    for (size_t i = 0; i < w->scope_count; i++) {
        const struct hub_watch_item *item = &request->items[w->first_item + i];
        bool passes_over = w->broad || i > 0;
        is_idle = is_idle && item->code == TIDINGS_E_NOTFOUND;
        if ((item->code < 0 && !(passes_over && item->code == TIDINGS_E_NOTFOUND)) ||
            (is_idle && i + 1 == w->scope_count)) {
            release_scopes(s, w, request);
            w->refused = true;
            w->stat.base.err = item->err;
            return;
        }
    }
}

static void subscribe_on_watched(struct hub_watch_request *request, struct worker *worker)
{
    (void)worker;
    struct subscribe_batch *s = request->user;
    struct subscription_group *group = s->pending.group;
    if (!group) {
        release_all(request);
    } else {
        size_t items = 0;
        for (size_t i = 0; i < s->count; i++) {
            if (!s->items[i].refused) {
                items += s->items[i].scope_count;
                check_watched(s, &s->items[i], request);
            }
        }
        if (s->wants_list) {
            keep_list_scopes(group, request, items);
            list_changed_want(group, LIST_RESOURCES);
            lists_watched(group);
        }
    }
    subscribe_finish(s, request);
    hub_watch_request_free(request);
}

/* The hub stopped before it could answer. */
static void subscribe_on_dropped(struct hub_watch_request *request)
{
    struct subscribe_batch *s = request->user;
    if (s->dropped) {
        s->dropped(s);
    }
    subscribe_batch_free(s);
}

static size_t collect_scopes(struct subscribe_batch *s, struct tidings_str *ret)
{
    const struct catalog *catalog = s->worker->catalog;
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        w->first_item = n;
        for (size_t k = 0; k < w->scope_count && !w->refused; k++, n++) {
            if (ret) {
                ret[n] = w->scopes[k];
            }
        }
    }
    for (size_t i = 0; s->wants_list && i < catalog->mount_count; i++) {
        const struct tidings_provider_ops *ops = catalog->mounts[i]->ops;
        if (!ops->list || (ops->flags & TIDINGS_PROVIDER_FIXED_LIST)) {
            continue; /* a watch would reveal no change of its list */
        }
        if (ret) {
            ret[n] = catalog->mounts[i]->prefix;
        }
        n++;
    }
    return n;
}

static void subscribe_batch_count_broad(struct subscribe_batch *s);

static void subscribe_batch_compile_filters(struct subscribe_batch *s);

void subscribe_batch_watch(struct subscribe_batch *s)
{
    struct hub_watch_request *request = NULL;
    subscribe_batch_compile_filters(s);
    subscribe_batch_count_broad(s);
    size_t n = collect_scopes(s, NULL);
    struct tidings_str *scopes = mem_alloc((n + 1) * sizeof(*scopes));
    if (scopes) {
        collect_scopes(s, scopes);
        request = hub_watch_request_create(s->worker, scopes, n);
        mem_free(scopes);
    }
    if (!request) {
        for (size_t i = 0; i < s->count; i++) {
            subscribe_item_refuse(&s->items[i], TIDINGS_E_NOMEM, "out of memory");
        }
        subscribe_finish(s, NULL);
        return;
    }
    request->done = subscribe_on_watched;
    request->dropped = subscribe_on_dropped;
    request->user = s;
    subscribe_batch_await(s, request);
    hub_watch_request_send(request);
}

/* -------------------------------------------------------------------------------------------------
 * Resources and templates with the program's own watch hook, among those that a pattern covers.
 */

#define HOOKED_MAX 10000u /* hooked scopes per subscription */

static bool is_hooked(const struct subscribe_item *w, const struct watch_hook *hook)
{
    bool is_there = w->scope_count > 0 && str_eq(w->scopes[0], hook->text);
    return !is_there && watch_hook_matches(hook, w->kind, w->uri);
}

void subscribe_item_add_hooked(struct subscribe_item *w)
{
    const struct watch_hooks *hooks = &w->owner->worker->catalog->hooks;
    size_t found = 0, text = 0;
    for (size_t i = 0; i < hooks->count && found <= HOOKED_MAX; i++) {
        bool is = is_hooked(w, hooks->at[i]);
        found += is;
        text += is ? hooks->at[i]->text.len : 0;
    }
    if (found > HOOKED_MAX) {
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "this covers more than %u resources that are watched one by one; name "
            "something narrower",
            HOOKED_MAX);
    }
    if (found == 0 || w->refused) {
        return;
    }
    size_t count = w->scope_count;
    struct tidings_str *scopes = mem_alloc((count + found) * sizeof(*scopes) + text);
    if (!scopes) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    char *at = (char *)(scopes + count + found);
    for (size_t i = 0; i < count; i++) {
        scopes[i] = w->scopes[i];
    }
    for (size_t i = 0; i < hooks->count; i++) {
        if (is_hooked(w, hooks->at[i])) {
            scopes[count++] = str_pack(&at, hooks->at[i]->text);
        }
    }
    w->hooked = w->scopes = scopes;
    w->scope_count = count;
}

/* -------------------------------------------------------------------------------------------------
 * Cost and count limits of items: rejections that name the limit reached, and compilation of
 * filters and regexes, charged to their client.
 */

static void subscribe_item_explain(struct subscribe_item *w, const struct refusal *why)
{
    char data[REFUSAL_JSON];
    w->stat.base.details = str_dup(refusal_json(why, data));
}

static void subscribe_item_explain_limit(struct subscribe_item *w, enum limit limit, uint64_t value)
{
    const struct refusal why = {.limit = limit, .value = value};
    subscribe_item_explain(w, &why);
}

/* Explains a rejection by the cost limits of a client's patterns. */
static void explain_steps(struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct subscription_group *group = s->pending.group;
    struct refusal why =
        client_account_refusal(s->worker->limit_counters, group ? group->subscriber->account : NULL,
                               1, loop_now_ms(s->worker->loop));
    subscribe_item_explain(w, &why);
}

static bool has_steps(const struct subscribe_batch *s)
{
    const struct subscription_group *group = s->pending.group;
    return !group ||
           client_account_steps_left(group->subscriber->account, loop_now_ms(s->worker->loop)) > 0;
}

/* Takes the share of all subscriptions that a new one holds, or rejects the item. */
static void subscribe_item_take_share(const struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct subscriber *subscriber = s->pending.group->subscriber;
    const struct share_taker who = {subscriber->account, subscriber->principal,
                                    !subscriber->principal};
    char sentence[REFUSAL_SENTENCE];
    struct refusal why;
    if (!share_take(s->worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS,
                    s->worker->limits->max_all_subscriptions, 1, &who, &why)) {
        subscribe_item_refuse(w, TIDINGS_E_BUSY, "%s", refusal_sentence(&why, sentence));
        subscribe_item_explain(w, &why);
    }
}

/* Returns true if the item is rejected, for instance because there are too many or its client has
 * no steps left for a regex. Otherwise its subscriber holds the share that subscribe_item_make_sub
 * takes. */
static bool subscribe_item_is_too_many(struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct worker_limits *limits = s->worker->limits;
    const struct subscriber *subscriber = s->pending.group->subscriber;
    if (subscriber->subscription_count >= limits->max_subscriptions) {
        subscribe_item_refuse(w, TIDINGS_E_LIMIT, "at most %zu subscriptions are allowed",
                              limits->max_subscriptions);
        subscribe_item_explain_limit(w, LIMIT_SUBSCRIPTIONS, limits->max_subscriptions);
        limit_hit(s->worker->limit_counters, LIMIT_SUBSCRIPTIONS);
    } else if (w->kind == PATTERN_REGEX && !has_steps(s)) {
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "the patterns of this client have used up what they may cost in a second; try "
            "again");
        explain_steps(s, w);
    } else {
        subscribe_item_take_share(s, w);
    }
    return w->refused;
}

/* Creates its subscription; compiling a regex is charged to its client. */
static struct subscription *subscribe_item_make_sub(struct subscribe_batch *s,
                                                    const struct subscribe_item *w, uint64_t since,
                                                    struct tidings_error *err)
{
    struct subscription_group *group = s->pending.group;
    const struct match_regexes *regexes = &s->worker->delivery->match.regexes;
    uint64_t before = regexes->compiled;
    struct subscription *sub =
        subscription_create(group, w->as_requested, w->uri, w->kind, since, err);
    if (regexes->compiled != before) {
        client_account_spend(group->subscriber->account, regexes->compiled - before,
                             loop_now_ms(s->worker->loop));
    }
    return sub;
}

/* Runs before anything is watched, so that a bad filter costs other clients nothing. */
static void subscribe_batch_compile_filters(struct subscribe_batch *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        struct tidings_error err;
        if (!w->refused && w->options.filter &&
            filter_acquire(&s->worker->delivery->filters, w->options.filter,
                           s->pending.group ? s->pending.group->subscriber->account : NULL,
                           &w->filter, &err) < 0) {
            subscribe_item_refuse(w, err.code, "%s", err.text);
            if (err.code == TIDINGS_E_LIMIT && !has_steps(s)) {
                explain_steps(s, w);
            }
        }
    }
}

/* Counts those that make room themselves: a new subscription replaces the old one. */
static size_t replaced_broad(const struct subscribe_batch *s)
{
    const struct subscription_group *group = s->pending.group;
    size_t n = 0;
    for (size_t i = 0; group && i < s->count; i++) {
        const struct subscription *old =
            subscription_group_find_sub(group, s->items[i].as_requested);
        n += s->items[i].broad && old && old->broad;
    }
    return n;
}

/* Broad items count for their client until they end; those beyond its limit are rejected. */
static void subscribe_batch_count_broad(struct subscribe_batch *s)
{
    size_t most = s->worker->limits->max_broad + replaced_broad(s);
    for (size_t i = 0; s->client && i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        if (w->refused || !w->broad) {
            continue;
        }
        if (client_account_take_within(s->client, CLIENT_ACCOUNT_BROAD, most)) {
            w->counted = s->client;
            continue;
        }
        struct tidings_str name = client_account_name(s->client);
        limit_hit(s->worker->limit_counters, LIMIT_BREADTH);
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "this covers whole mounts; at most %zu such subscriptions are allowed for '%.*s' "
            "(--max-breadth), name something narrower",
            most, STR_ARG(name));
    }
}

/* -------------------------------------------------------------------------------------------------
 * The conditions of a query, `?type=error&level=high`: values that the metadata of a change must
 * have. Conditions that no change can satisfy are rejected at once, so that the client does not
 * wait in vain.
 */

#define CONDITIONS_MAX 8u

static struct tidings_str subscribe_query_decode(struct subscribe_item *w, struct tidings_str text)
{
    struct buf out;
    buf_init(&out, URI_MAX);
    struct tidings_str copy = {NULL, 0};
    if (uri_decode(&out, text, NULL) == 0) {
        copy = arena_dup(&w->owner->arena, buf_str(&out));
    }
    buf_deinit(&out);
    return copy;
}

/* Reads the attributes that the metadata of a change must have: ?type=error&level=high. */
static void read_conditions(struct subscribe_item *w, struct tidings_str query)
{
    w->conditions = arena_alloc(&w->owner->arena, CONDITIONS_MAX * sizeof(*w->conditions));
    if (!w->conditions) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    while (query.len > 0 && !w->refused) {
        struct tidings_str value;
        bool has_value = false;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        struct tidings_str key = str_cut(pair, '=', &value, &has_value);
        if (!has_value || key.len == 0 || w->condition_count == CONDITIONS_MAX) {
            subscribe_item_refuse(w, TIDINGS_E_INVALID,
                                  "a query is 'key=value' pairs joined by '&', at most %u",
                                  CONDITIONS_MAX);
            return;
        }
        struct subscription_condition *c = &w->conditions[w->condition_count++];
        c->key = subscribe_query_decode(w, key);
        c->value = subscribe_query_decode(w, value);
        if (!c->key.ptr || !c->value.ptr) {
            subscribe_item_refuse(w, TIDINGS_E_INVALID, "the query has a bad percent-encoding");
        }
    }
}

/* Returns true if the server itself sets this key for every change, whatever its source. */
static bool is_said_of_all(struct tidings_str key)
{
    static const char *const keys[] = {"change_type", "updated_at", "timestamp",
                                       "size",        "checksum",   "version"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof(keys) / sizeof(keys[0]); i++) {
        found = str_eq(key, tidings_str(keys[i]));
    }
    return found;
}

/* Returns true if only providers whose changes carry no metadata announce changes at or below
 * `uri`. */
static bool is_bare(const struct catalog *c, struct tidings_str uri)
{
    const struct tidings_provider *own = catalog_mount(c, uri);
    bool is_bare = own && (own->ops->flags & TIDINGS_PROVIDER_BARE_CHANGES);
    for (size_t i = 0; is_bare && i < c->mount_count; i++) {
        const struct tidings_provider *p = c->mounts[i];
        is_bare = !uri_is_within(p->prefix, uri) || (p->ops->flags & TIDINGS_PROVIDER_BARE_CHANGES);
    }
    struct buf below;
    buf_init(&below, URI_MAX * 3);
    buf_puts(&below, uri);
    if (uri.ptr[uri.len - 1] != '/') {
        buf_putc(&below, '/');
    }
    struct entries_position at = entries_after(&c->resources, buf_str(&below));
    const struct catalog_entry *next = is_bare ? entries_next(&c->resources, &at) : NULL;
    is_bare = is_bare && !below.failed && !entries_find(&c->resources, uri) &&
              !(next && str_starts(next->about->uri, buf_str(&below)));
    buf_deinit(&below);
    return is_bare;
}

/* Rejects a query that no change can satisfy, unless changes announced by clients may match it
 * (engine/delivery/notify.h). */
static void refuse_impossible(struct subscribe_item *w)
{
    struct subscribe_batch *s = w->owner;
    struct tidings_str type = STR_EMPTY;
    bool is_named = false;
    for (size_t i = 0; i < w->condition_count && !w->refused; i++) {
        const struct subscription_condition *c = &w->conditions[i];
        if (!str_eq(c->key, STR("change_type"))) {
            is_named = is_named || !is_said_of_all(c->key);
            continue;
        }
        bool is_kind = false;
        for (int kind = 0; kind <= TIDINGS_CHANGE_MOVED; kind++) {
            is_kind =
                is_kind ||
                str_eq(c->value, tidings_str(tidings_change_name((enum tidings_change_kind)kind)));
        }
        if (!is_kind || (type.len > 0 && !str_eq(type, c->value))) {
            subscribe_item_refuse(
                w, TIDINGS_E_INVALID,
                "no change can match this: change_type is one of created, updated, "
                "deleted, moved");
        }
        type = c->value;
    }
    if (is_named && !w->refused && !s->worker->self->allow_write &&
        is_bare(s->worker->catalog, w->uri)) {
        subscribe_item_refuse(
            w, TIDINGS_E_INVALID,
            "no change can match this: changes of '%.*s' carry no metadata, which "
            "a query selects by",
            STR_ARG_MAX(w->uri, 256));
    }
}

void subscribe_item_read_conditions(struct subscribe_item *w, struct tidings_str query)
{
    read_conditions(w, query);
    refuse_impossible(w);
}
