/* SPDX-License-Identifier: MIT
 *
 * Finds changes that a server did not report, by comparing watched resources with their previous
 * state. A literal URI is read; for patterns and containers, the client uses the server's list and
 * the metadata of each resource in it.
 */
#include "client/comparison.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "client/client_internal.h"
#include "client/events.h"
#include "client/requests.h"
#include "client/subscriptions.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * Digests of resources, by URI.
 */

static struct snapshot *snapshot_create(void)
{
    struct snapshot *v = mem_zalloc(sizeof(*v));
    if (v) {
        map_init(&v->entries);
    }
    return v;
}

/* NULL is fine */
static void snapshot_destroy(struct snapshot *v)
{
    struct snapshot_entry *e;
    if (!v) {
        return;
    }
    for (size_t at = 0; (e = map_next(&v->entries, &at)) != NULL;) {
        mem_free(e);
    }
    map_deinit(&v->entries);
    mem_free(v);
}

/* NULL: out of memory */
static struct snapshot_entry *snapshot_find(const struct snapshot *v, struct tidings_str uri)
{
    return map_find(&v->entries, uri);
}

/* The entry of `uri`, created if needed; NULL: out of memory. */
static struct snapshot_entry *snapshot_add(struct snapshot *v, struct tidings_str uri)
{
    struct snapshot_entry *e = snapshot_find(v, uri);
    if (e) {
        return e;
    }
    e = mem_zalloc(sizeof(*e) + uri.len);
    if (!e) {
        return NULL;
    }
    memcpy(e->text, uri.ptr, uri.len);
    e->uri = (struct tidings_str){e->text, uri.len};
    if (map_put(&v->entries, e->uri, e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    return e;
}

static void snapshot_remove(struct snapshot *v, struct tidings_str uri)
{
    mem_free(map_remove(&v->entries, uri));
}

static int snapshot_put(struct snapshot *v, struct tidings_str uri, const struct json *value,
                        size_t max_bytes)
{
    struct buf text;
    struct jw w;
    struct sha256 s;
    buf_init(&text, 2 * max_bytes);
    jw_init(&w, &text);
    jw_value(&w, value);
    struct snapshot_entry *e = text.failed ? NULL : snapshot_add(v, uri);
    if (e) {
        sha256_init(&s);
        sha256_put(&s, buf_str(&text).ptr, text.len);
        sha256_end(&s, e->digest);
        e->is_known = true;
    }
    buf_deinit(&text);
    return e ? 0 : TIDINGS_E_NOMEM;
}

/* ---------------------------------------------------------------------------------------------- */

static void comparison_ask_page(struct tidings_client *c, struct tidings_str cursor);

enum kind {
    KIND_LITERAL,
    KIND_LIST,
    KIND_OPAQUE, /* only the server knows what it covers */
};

static enum kind kind_of(const struct watch *w)
{
    if (w->options && strstr(w->options, "\"match\"")) {
        return KIND_OPAQUE;
    }
    bool is_pattern = strpbrk(w->uri, "*[{") || str_ends(tidings_str(w->uri), STR("/"));
    return !is_pattern ? KIND_LITERAL : strchr(w->uri, '?') ? KIND_OPAQUE : KIND_LIST;
}

/* An answer that is too large for the client may end the connection. */
static bool can_compare(const struct watch *w)
{
    return kind_of(w) != KIND_OPAQUE && w->broken_comparisons < COMPARISON_MAX_BROKEN;
}

static void drop_snapshot(struct tidings_client *c, struct snapshot **v)
{
    c->comparison.entries -= *v ? (*v)->entries.count : 0;
    snapshot_destroy(*v);
    *v = NULL;
}

static bool comparison_has_room(const struct tidings_client *c, const struct snapshot *v)
{
    return v->entries.count < COMPARISON_MAX_ENTRIES && c->comparison.entries < COMPARISON_MAX_ALL;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void comparison_notify(struct tidings_client *c, const struct watch *w,
                              struct tidings_str uri, const char *change)
{
    struct buf text;
    struct jw j;
    struct json *root = NULL;
    bool is_gap = !change;
    buf_init(&text, 8 * (uri.len + strlen(w->uri)) + 1024);
    jw_init(&j, &text);
    jw_begin_object(&j);
    jw_put_string(&j, STR("method"), STR("notifications/resources/updated"));
    jw_key(&j, STR("params"));
    jw_begin_object(&j);
    jw_put_string(&j, STR("uri"), uri);
    jw_put_string(&j, STR("subscribedUri"), tidings_str(w->uri));
    jw_key(&j, STR("_meta"));
    jw_begin_object(&j);
    jw_put_string(&j, STR("dev.tidings/change"), tidings_str(is_gap ? "updated" : change));
    if (is_gap) {
        jw_put_bool(&j, STR("dev.tidings/truncated"), true);
    }
    jw_end_object(&j);
    jw_end_object(&j);
    jw_end_object(&j);
    if (!text.failed && jv_parse(buf_str(&text), JSON_MAX_DEPTH, &root, NULL) == 0) {
        c->info.public.found = ++c->comparison.found;
        events_put_found(c, root, text.len);
        jv_unref(root);
    }
    buf_deinit(&text);
}

static void notify_gap_because(struct tidings_client *c, const struct watch *w,
                               struct tidings_str reason)
{
    struct tidings_state_event e = {
        .state = TIDINGS_STATE_GAP, .uri = tidings_str(w->uri), .reason = reason};
    events_put_state(c, &e);
    comparison_notify(c, w, tidings_str(w->uri), NULL);
}

static void notify_gap(struct tidings_client *c, const struct watch *w)
{
    notify_gap_because(c, w,
                       STR("the server cannot replay changes, and the content cannot be compared"));
}

void comparison_missed(struct tidings_client *c, const char *why)
{
    char reason[sizeof(((struct tidings_error *)NULL)->text) + 64];
    if (c->has_gap) {
        return; /* the program will read the resources anyway when it gets the gap */
    }
    (void)snprintf(reason, sizeof(reason), "the server sent what cannot be read: %s", why);
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_accepted && !w->is_ending) {
            c->has_gap = true;
            notify_gap_because(c, w, tidings_str(reason));
        }
    }
}

/* NULL: no change. */
static const char *change_of(const struct watch *w, const struct snapshot_entry *old,
                             const struct snapshot_entry *fresh)
{
    bool is_again = w->comparison_reason == COMPARISON_RESUME;
    if (!fresh) {
        /* It was reported and is in no list: it is gone, or never was in one. */
        return old->is_known ? "deleted" : is_again ? "updated" : NULL;
    }
    if (!old->is_known || old->updated_at > 0) {
        return is_again ? "updated" : NULL;
    }
    bool is_other = memcmp(old->digest, fresh->digest, SHA256_BYTES) != 0;
    return is_other || (is_again && w->snapshot->may_lack_notification) ? "updated" : NULL;
}

/* Returns their number; reports them unless `is_counted`. */
static size_t differences(struct tidings_client *c, const struct watch *w, bool is_counted)
{
    struct snapshot_entry *e;
    size_t n = 0;
    const struct snapshot *old = w->snapshot, *fresh = c->comparison.fresh;
    for (size_t at = 0; (e = map_next(&old->entries, &at)) != NULL;) {
        const char *change = change_of(w, e, snapshot_find(fresh, e->uri));
        n += change ? 1 : 0;
        if (change && !is_counted) {
            comparison_notify(c, w, e->uri, change);
        }
    }
    for (size_t at = 0; (e = map_next(&fresh->entries, &at)) != NULL;) {
        bool is_new = !snapshot_find(old, e->uri);
        n += is_new ? 1 : 0;
        if (is_new && !is_counted) {
            comparison_notify(c, w, e->uri, "created");
        }
    }
    return n;
}

/* ---- one look -------------------------------------------------------------------------------- */

static void schedule(struct tidings_client *c)
{
    if (!loop_timer_is_running(&c->comparison.next)) {
        loop_timer_start(&c->comparison.next, 0, 0);
    }
}

/* Updates during the comparison may be newer than the state that was read. */
static void carry_over(struct tidings_client *c, const struct watch *w)
{
    struct snapshot_entry *e;
    for (size_t at = 0; w->snapshot && (e = map_next(&w->snapshot->entries, &at)) != NULL;) {
        struct snapshot_entry *fresh = e->updated_at >= c->comparison.began
                                           ? snapshot_find(c->comparison.fresh, e->uri)
                                           : NULL;
        if (fresh) {
            fresh->updated_at = e->updated_at;
            loop_timer_start(&c->comparison.quiet, COMPARISON_QUIET_MS, 0);
        }
    }
}

static void comparison_finish(struct tidings_client *c)
{
    struct comparison *m = &c->comparison;
    struct watch *w = m->watch;
    if (w->snapshot && w->comparison_reason != COMPARISON_FIRST) {
        bool is_vague = w->comparison_reason == COMPARISON_RESUME &&
                        w->snapshot->may_lack_notification && kind_of(w) == KIND_LIST;
        if (is_vague || differences(c, w, true) > COMPARISON_MAX_CHANGES) {
            notify_gap(c, w);
        } else {
            (void)differences(c, w, false);
        }
    }
    carry_over(c, w);
    drop_snapshot(c, &w->snapshot);
    w->snapshot = m->fresh;
    w->snapshot->read_at = clock_monotonic_ms();
    w->comparison_reason = COMPARISON_NONE;
    w->broken_comparisons = 0;
    m->fresh = NULL;
    m->watch = NULL;
    schedule(c);
}

/* Nothing to compare with next time either. */
static void comparison_fail(struct tidings_client *c)
{
    struct comparison *m = &c->comparison;
    struct watch *w = m->watch;
    if (w->comparison_reason == COMPARISON_RESUME) {
        notify_gap(c, w);
    }
    if (w->comparison_reason != COMPARISON_VERIFY) {
        drop_snapshot(c, &w->snapshot);
    }
    w->comparison_reason = COMPARISON_NONE;
    drop_snapshot(c, &m->fresh);
    m->watch = NULL;
    schedule(c);
}

static bool comparison_put(struct tidings_client *c, struct tidings_str uri,
                           const struct json *value)
{
    struct snapshot *v = c->comparison.fresh;
    size_t before = v->entries.count;
    bool ok = comparison_has_room(c, v) && snapshot_put(v, uri, value, c->settings.max_bytes) == 0;
    c->comparison.entries += v->entries.count - before;
    return ok;
}

static void comparison_on_read(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct comparison *m = &c->comparison;
    struct watch *w = m->watch;
    struct json *contents = jv_get(a->result, "contents");
    m->request = 0;
    bool is_absent =
        a->error && (a->why.code == TIDINGS_E_NOTFOUND || a->why.code == TIDINGS_E_GONE);
    if (contents ? comparison_put(c, tidings_str(w->uri), contents) : is_absent && w->snapshot) {
        comparison_finish(c);
    } else {
        comparison_fail(c); /* a URI that cannot be read may be a server-specific pattern */
    }
}

/* Returns true if the pages of a list together take too long. */
static bool is_late(const struct tidings_client *c)
{
    return clock_monotonic_ms() - c->comparison.began >
           (uint64_t)PAGES_MAX_ANSWERS * c->settings.timeout_ms;
}

static void on_page(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct comparison *m = &c->comparison;
    struct json *items = jv_get(a->result, "resources");
    struct json *next = jv_get(a->result, "nextCursor");
    bool ok = jv_is(items, JV_ARRAY);
    m->request = 0;
    for (size_t i = 0; ok && i < jv_count(items); i++) {
        struct tidings_str uri = jv_str(jv_get(jv_at(items, i), "uri"));
        ok = uri.len == 0 || !watch_matches(m->watch, uri) ||
             comparison_put(c, uri, jv_at(items, i));
    }
    ok = ok && (!jv_is(next, JV_STRING) || (++m->pages < COMPARISON_MAX_PAGES && !is_late(c) &&
                                            page_cursors_next(&m->cursors, jv_str(next)) == 0));
    if (!ok) {
        comparison_fail(c);
    } else if (jv_is(next, JV_STRING)) {
        comparison_ask_page(c, jv_str(next));
    } else {
        comparison_finish(c);
    }
}

static void comparison_request(struct tidings_client *c, const char *method, const char *key,
                               struct tidings_str value, response_fn fn)
{
    struct buf params;
    struct jw j;
    struct tidings_error err = {0};
    buf_init(&params, 8 * value.len + 64);
    jw_init(&j, &params);
    jw_begin_object(&j);
    if (value.len > 0) {
        jw_put_string(&j, tidings_str(key), value);
    }
    jw_end_object(&j);
    struct request_options a = {.method = method, .params = buf_str(&params), .fn = fn, .user = c};
    int64_t id = params.failed ? params.failed : requests_start(c, &a, &err);
    buf_deinit(&params);
    c->comparison.request = id > 0 ? id : 0;
    if (id < 0) {
        comparison_fail(c);
    }
}

static void comparison_ask_page(struct tidings_client *c, struct tidings_str cursor)
{
    comparison_request(c, "resources/list", "cursor", cursor, on_page);
}

static void comparison_start(struct tidings_client *c, struct watch *w)
{
    struct comparison *m = &c->comparison;
    m->watch = w;
    m->pages = 0;
    m->cursors = (struct page_cursors){0};
    m->began = clock_monotonic_ms();
    m->fresh = snapshot_create();
    if (!m->fresh) {
        comparison_fail(c);
    } else if (kind_of(w) == KIND_LITERAL) {
        comparison_request(c, "resources/read", "uri", tidings_str(w->uri), comparison_on_read);
    } else {
        comparison_ask_page(c, STR_EMPTY);
    }
}

/* Compares the next watch that needs it and has a working stream: an earlier reading would hide
 * missed changes. Waits while the program has many undelivered events. */
static void comparison_on_next(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    if (c->comparison.watch || c->stage != STAGE_READY) {
        return;
    }
    if (c->event_count > CLIENT_MAX_EVENTS / 2) {
        loop_timer_start(&c->comparison.next, 100, 0);
        return;
    }
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        bool is_heard = w->is_accepted && w->is_decided && !w->is_interrupted;
        if (w->comparison_reason != COMPARISON_NONE && is_heard && !w->is_ending) {
            comparison_start(c, w);
            return;
        }
    }
}

/* ---- when ------------------------------------------------------------------------------------ */

static void comparison_want(struct tidings_client *c, struct watch *w, enum comparison_reason look)
{
    w->comparison_reason = look > w->comparison_reason ? look : w->comparison_reason;
    schedule(c);
}

static void comparison_on_quiet(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        struct snapshot_entry *e = w->snapshot && kind_of(w) == KIND_LITERAL
                                       ? snapshot_find(w->snapshot, tidings_str(w->uri))
                                       : NULL;
        if (e && e->updated_at > 0) {
            comparison_want(c, w, COMPARISON_FIRST);
        }
    }
}

static void set_verify(struct tidings_client *c)
{
    uint32_t period = c->settings.verify_ms;
    loop_timer_start(&c->comparison.verify, period - period / 4 + random_upto(period / 2), 0);
}

static void on_verify(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_accepted && can_compare(w)) {
            comparison_want(c, w, w->snapshot ? COMPARISON_VERIFY : COMPARISON_FIRST);
        }
    }
    set_verify(c);
}

void comparison_decided(struct tidings_client *c)
{
    bool is_modern = c->era == TIDINGS_ERA_MODERN;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        bool resumes = c->settings.no_compare || resume_has_baseline(w->options) ||
                       (is_modern ? c->resume.cursor[0] != '\0' : w->since != NULL);
        bool is_kept = !resumes || c->settings.verify_ms > 0;
        bool was_interrupted = w->is_interrupted && !resumes;
        if (!w->is_accepted || w->is_ending) {
            continue;
        }
        bool must_compare = was_interrupted || w->comparison_reason == COMPARISON_RESUME;
        w->is_interrupted = false;
        if (!can_compare(w)) {
            drop_snapshot(c, &w->snapshot);
            w->comparison_reason = COMPARISON_NONE;
        }
        if (must_compare && !w->snapshot) {
            notify_gap(c, w);
        } else if (was_interrupted) {
            comparison_want(c, w, COMPARISON_RESUME);
        }
        if (is_kept && !w->snapshot && can_compare(w)) {
            comparison_want(c, w, COMPARISON_FIRST);
        }
    }
    if (c->settings.verify_ms > 0 && !loop_timer_is_running(&c->comparison.verify)) {
        set_verify(c);
    }
    schedule(c);
}

/* The comparison under way restarts when the watch is accepted. */
static void comparison_cancel(struct tidings_client *c)
{
    struct comparison *m = &c->comparison;
    if (m->request > 0) {
        requests_forget(c, m->request);
    }
    m->request = 0;
    m->watch = NULL;
    drop_snapshot(c, &m->fresh);
}

void comparison_lost(struct tidings_client *c)
{
    if (c->comparison.watch) {
        c->comparison.watch->broken_comparisons++;
    }
    comparison_cancel(c);
    loop_timer_stop(&c->comparison.next);
    loop_timer_stop(&c->comparison.quiet);
    loop_timer_stop(&c->comparison.verify);
    list_each (it, next, &c->watches) {
        struct snapshot *v = list_entry(it, struct watch, link)->snapshot;
        if (v && v->read_at + COMPARISON_NOTIFY_MS > clock_monotonic_ms()) {
            v->may_lack_notification = true;
        }
    }
}

void comparison_on_update(struct tidings_client *c, struct watch *w, struct tidings_str uri,
                          bool is_deleted)
{
    if (!w->snapshot) {
        return;
    }
    bool is_literal = kind_of(w) == KIND_LITERAL;
    struct snapshot_entry *e = snapshot_find(w->snapshot, is_literal ? tidings_str(w->uri) : uri);
    size_t before = w->snapshot->entries.count;
    if (is_literal) {
        loop_timer_start(&c->comparison.quiet, COMPARISON_QUIET_MS, 0);
    }
    if (is_deleted && e && !is_literal) {
        snapshot_remove(w->snapshot, uri);
    } else if (!e && (is_literal || comparison_has_room(c, w->snapshot))) {
        e = snapshot_add(w->snapshot, is_literal ? tidings_str(w->uri) : uri);
    }
    c->comparison.entries += w->snapshot->entries.count - before; /* modulo 2^64, so less as well */
    if (e && (is_literal || !is_deleted)) {
        e->updated_at = clock_monotonic_ms();
    }
}

void comparison_forget(struct tidings_client *c, struct watch *w)
{
    if (c->comparison.watch == w) {
        comparison_cancel(c);
        if (c->stage == STAGE_READY) {
            schedule(c);
        }
    }
    drop_snapshot(c, &w->snapshot);
    w->comparison_reason = COMPARISON_NONE;
}

void comparison_init(struct tidings_client *c)
{
    loop_timer_init(&c->comparison.next, c->loop, comparison_on_next, c);
    loop_timer_init(&c->comparison.quiet, c->loop, comparison_on_quiet, c);
    loop_timer_init(&c->comparison.verify, c->loop, on_verify, c);
}
