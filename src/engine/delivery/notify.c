/* SPDX-License-Identifier: MIT
 *
 * Checks and announces the changes that one client reports.
 */
#include "engine/delivery/notify.h"

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job.h"
#include "engine/catalog/roots.h"
#include "engine/delivery/hub.h"
#include "engine/worker.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/limits.h"
#include "store/change.h"

#define QUOTED_MAX 256 /* bytes of a URI in an error message */

static const enum tidings_change_kind kinds[] = {TIDINGS_CHANGE_UPDATED, TIDINGS_CHANGE_CREATED,
                                                 TIDINGS_CHANGE_DELETED};

struct notifying;

/* One change of the list. */
struct notify_entry {
    struct hub_receipt receipt;
    struct notifying *of;
    int code;   /* 0: accepted */
    char *text; /* reason; NULL: implied by the code */
};

/* A list under way. */
struct notifying {
    struct job job; /* returns to the worker when every outcome is known */
    struct json *said;
    size_t max_bytes; /* of the answer */
    notify_done_fn done;
    void *user;
    struct refusal limit; /* the limit reached; retry_ms 0: none, … */
    size_t limited_from;  /* … else by that change and all that follow */
    unsigned pending;     /* atomic: unknown outcomes; the list itself counts as one */
    size_t count;
    struct notify_entry at[];
};

/* ---- the list -------------------------------------------------------------------------------- */

static bool notify_kind(const struct json *value, enum tidings_change_kind *ret)
{
    *ret = TIDINGS_CHANGE_UPDATED;
    for (size_t i = 0; value && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (str_eq(jv_str(value), tidings_str(tidings_change_name(kinds[i])))) {
            *ret = kinds[i];
            return true;
        }
    }
    return !value;
}

static int notify_check_entry(struct json *entry, size_t i, struct tidings_error *err)
{
    struct tidings_str key;
    struct json *value = NULL;
    enum tidings_change_kind kind;
    if (!jv_is(entry, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "changes[%zu] must be an object", i);
    }
    for (void *at = jv_next(entry, NULL, &key, &value); at; at = jv_next(entry, at, &key, &value)) {
        if (!str_eq(key, STR("uri")) && !str_eq(key, STR("kind")) &&
            !str_eq(key, STR("metadata"))) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "changes[%zu] has the unknown member '%.*s'; accepted: uri, kind, "
                                "metadata",
                                i, STR_ARG_MAX(key, 64));
        }
    }
    if (!jv_is(jv_get(entry, "uri"), JV_STRING) || jv_str(jv_get(entry, "uri")).len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "changes[%zu].uri must be a URI", i);
    }
    if (!notify_kind(jv_get(entry, "kind"), &kind)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "changes[%zu].kind must be updated, created or deleted", i);
    }
    value = jv_get(entry, "metadata");
    return !value || jv_is(value, JV_OBJECT)
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "changes[%zu].metadata must be an object", i);
}

static int notify_check_list(const struct notify *n, struct json *said, struct tidings_error *err)
{
    struct json *changes = jv_get(said, "changes");
    size_t count = jv_count(changes);
    if (!jv_is(said, JV_OBJECT) || !jv_is(changes, JV_ARRAY) || count == 0 || jv_count(said) != 1) {
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "the body must be {\"changes\": [{\"uri\": …}, …]} without other members");
    }
    if (count > NOTIFY_MAX) {
        limit_hit(n->worker->limit_counters, LIMIT_NOTIFY);
        return tidings_fail(err, TIDINGS_E_LIMIT, "%zu changes; at most %u are accepted at once",
                            count, NOTIFY_MAX);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = notify_check_entry(jv_at(changes, i), i, err);
    }
    return rc;
}

/* ---- one change ------------------------------------------------------------------------------ */

/* Checks whether the client may announce a change of that URI. */
static int notify_check_access(const struct notify *n, struct tidings_str uri,
                               struct tidings_error *err)
{
    const struct catalog *catalog = n->worker->catalog;
    struct catalog_hit hit = {0};
    struct arena arena;
    if (!access_writes(n->principal, uri)) {
        return tidings_fail(err, TIDINGS_E_DENIED, "you may not write '%.*s'",
                            STR_ARG_MAX(uri, QUOTED_MAX));
    }
    arena_init(&arena, URI_MAX * 16);
    bool is_found = catalog_find(catalog, uri, &arena, &hit);
    arena_deinit(&arena);
    if (is_found && hit.provider && hit.provider->ops->write) {
        return 0;
    }
    struct tidings_str scheme = str_cut(uri, ':', &(struct tidings_str){0}, NULL);
    if (!is_found && !catalog_has_scheme(catalog, scheme)) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "nothing is served under '%.*s:'",
                            STR_ARG_MAX(scheme, QUOTED_MAX));
    }
    return access_is_by_rule(n->principal)
               ? 0
               : tidings_fail(err, TIDINGS_E_DENIED,
                              "clients do not write '%.*s', and no access rule allows it",
                              STR_ARG_MAX(uri, QUOTED_MAX));
}

static int notify_everything(const struct notify *n, struct json *entry, struct tidings_error *err)
{
    if (jv_count(entry) > 1) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'" NOTIFY_EVERYTHING "' takes neither kind nor metadata");
    }
    if (!access_writes_everything(n->principal)) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "you may not say that everything changed: that takes a rule without "
                            "URI that allows writing");
    }
    return hub_announce_everything(n->worker->hub, err);
}

/* Appends the canonical form of the URI that the client wrote. */
static int notify_canonical(const struct notify *n, struct tidings_str as_requested,
                            struct buf *out, struct tidings_error *err)
{
    struct buf path;
    buf_init(&path, URI_MAX);
    const struct catalog *catalog = n->worker->catalog;
    int rc = n->takes_paths ? roots_resolve(catalog, n->principal, as_requested, &path, err) : 0;
    if (rc >= 0) {
        as_requested = rc > 0 ? buf_str(&path) : as_requested;
        rc = catalog_canonical(catalog, as_requested, false, out, err);
    }
    buf_deinit(&path);
    return rc;
}

/* On the thread that commits. */
static void notify_on_receipt(struct hub_receipt *receipt, int code,
                              const struct tidings_error *err);

/* `limit`: set if the share of its client is used up. */
static int notify_announce(const struct notify *n, struct json *json, struct notify_entry *entry,
                           struct refusal *limit, struct tidings_error *err)
{
    const struct share_taker who = {n->account, n->principal, !n->principal};
    struct tidings_change change = {.origin = n->origin, .traceparent = n->traceparent};
    struct buf uri, metadata;
    buf_init(&uri, URI_MAX * 3);
    (void)notify_kind(jv_get(json, "kind"), &change.kind);
    int rc = notify_canonical(n, jv_str(jv_get(json, "uri")), &uri, err);
    rc = rc == 0 ? notify_check_access(n, buf_str(&uri), err) : rc;
    int made = change_put_metadata(&metadata, jv_get(json, "metadata"), err);
    rc = rc == 0 ? made : rc;
    if (rc == 0) {
        change.uri = buf_str(&uri);
        change.metadata = buf_str(&metadata);
        __atomic_fetch_add(&entry->of->pending, 1, __ATOMIC_RELAXED);
        rc = hub_announce_by(n->worker->hub, &change, &who, &entry->receipt, limit, err);
        if (rc <= 0) {
            __atomic_fetch_sub(&entry->of->pending, 1,
                               __ATOMIC_RELAXED); /* never the last: the list's own is left */
        }
    }
    buf_deinit(&uri);
    buf_deinit(&metadata);
    return rc;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static struct tidings_str notify_reason(int code, const struct refusal *limit)
{
    if (limit->retry_ms > 0) {
        return STR("limit");
    }
    switch (code) {
    case TIDINGS_E_DENIED:
        return STR("denied");
    case TIDINGS_E_NOTFOUND:
        return STR("not_found");
    case TIDINGS_E_LIMIT:
        return STR("too_large");
    case TIDINGS_E_BUSY:
    case TIDINGS_E_NOMEM:
    case TIDINGS_E_CLOSED:
        return STR("busy");
    case TIDINGS_E_UNKNOWN:
        return STR("unknown");
    case TIDINGS_E_IO:
    case TIDINGS_E_FULL:
        return STR("storage");
    default:
        return STR("invalid");
    }
}

static void notify_put_refusal(struct jw *w, const struct tidings_error *err,
                               const struct refusal *limit)
{
    char data[REFUSAL_JSON];
    jw_put_string(w, STR("error"), tidings_str(err->text));
    jw_put_string(w, STR("reason"), notify_reason(err->code, limit));
    if (limit->retry_ms > 0) {
        jw_members(w, refusal_json(limit, data));
    }
}

static void notify_entry_fail(struct notify_entry *entry, int code, const struct tidings_error *err)
{
    entry->code = code;
    entry->text = err && err->text[0] ? str_dup(tidings_str(err->text)) : NULL;
}

static void notify_put_row(const struct notifying *l, size_t i, struct jw *w,
                           struct notify_outcome *ret)
{
    const struct notify_entry *entry = &l->at[i];
    struct tidings_str as_requested = jv_str(jv_get(jv_at(jv_get(l->said, "changes"), i), "uri"));
    struct tidings_error err = {0, ""};
    struct refusal limit = i >= l->limited_from ? l->limit : (struct refusal){0};
    jw_begin_object(w);
    jw_put_string(w, STR("uri"), as_requested);
    jw_put_bool(w, STR("told"), entry->code == 0);
    if (entry->code < 0) {
        tidings_fail(&err, entry->code, "%s",
                     entry->text ? entry->text : tidings_code_text(entry->code));
        notify_put_refusal(w, &err, &limit);
    }
    jw_end_object(w);
    if (entry->code < 0 && ret->refused++ == 0) {
        ret->err = err;
        ret->limit = limit;
        ret->uri = as_requested;
    }
    ret->notified += entry->code == 0;
}

/* On the worker's thread. */
static void notify_answer(struct job *job)
{
    struct notifying *l = job->user;
    struct notify_outcome outcome = {0};
    struct buf answer;
    struct jw w;
    buf_init(&answer, l->max_bytes);
    jw_init(&w, &answer);
    jw_begin_object(&w);
    jw_key(&w, STR("results"));
    jw_begin_array(&w);
    for (size_t i = 0; i < l->count; i++) {
        notify_put_row(l, i, &w, &outcome);
        mem_free(l->at[i].text);
    }
    jw_end_array(&w);
    jw_put_integer(&w, STR("told"), (int64_t)outcome.notified);
    jw_put_integer(&w, STR("refused"), (int64_t)outcome.refused);
    if (outcome.notified == 0) {
        notify_put_refusal(&w, &outcome.err, &outcome.limit);
    }
    jw_end_object(&w);
    l->done(l->user, &outcome, &answer);
    buf_deinit(&answer);
    mem_free(l);
}

static void notify_settle(struct notifying *l)
{
    if (__atomic_sub_fetch(&l->pending, 1, __ATOMIC_ACQ_REL) == 0) {
        job_finish(&l->job, 0, NULL);
    }
}

static void notify_on_receipt(struct hub_receipt *receipt, int code,
                              const struct tidings_error *err)
{
    struct notify_entry *entry = list_entry(receipt, struct notify_entry, receipt);
    if (code < 0) {
        notify_entry_fail(entry, code, err);
    }
    notify_settle(entry->of);
}

/* ---- one list -------------------------------------------------------------------------------- */

/* Once a limit is reached, all following changes are rejected by it. */
static void notify_one(const struct notify *n, struct notifying *l, size_t i)
{
    struct json *json = jv_at(jv_get(l->said, "changes"), i);
    struct notify_entry *entry = &l->at[i];
    struct tidings_error err = {0, ""};
    uint64_t now = loop_now_ms(n->worker->loop);
    int rc = 0;
    entry->receipt.done = notify_on_receipt;
    entry->of = l;
    if (i > l->limited_from || (i > 0 && !quota_take_request(n->quota, now, &l->limit))) {
        char sentence[REFUSAL_SENTENCE];
        l->limited_from = i < l->limited_from ? i : l->limited_from;
        rc = tidings_fail(&err, TIDINGS_E_BUSY, "%s", refusal_sentence(&l->limit, sentence));
    } else if (str_eq(jv_str(jv_get(json, "uri")), STR(NOTIFY_EVERYTHING))) {
        rc = notify_everything(n, json, &err);
    } else {
        struct refusal share = {0};
        rc = notify_announce(n, json, entry, &share, &err);
        if (share.retry_ms > 0) {
            l->limit = share;
            l->limited_from = i;
        }
    }
    if (rc < 0) {
        notify_entry_fail(entry, rc, &err);
    }
}

int notify_begin(const struct notify *n, struct json *said, notify_done_fn done, void *user,
                 struct tidings_error *err)
{
    int rc = notify_check_list(n, said, err);
    if (rc < 0) {
        return rc;
    }
    size_t count = jv_count(jv_get(said, "changes"));
    struct notifying *l = mem_zalloc(sizeof(*l) + count * sizeof(l->at[0]));
    if (!l) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    job_init(&l->job, n->worker, notify_answer, l, STR_EMPTY);
    job_begin(&l->job);
    l->said = said;
    l->max_bytes = n->worker->limits->max_read_bytes;
    l->done = done;
    l->user = user;
    l->limited_from = l->count = count;
    l->pending = 1;
    for (size_t i = 0; i < count; i++) {
        notify_one(n, l, i);
    }
    notify_settle(l);
    return 0;
}

void notify_put_missing(const struct notify *n, const struct notify_outcome *outcome,
                        struct buf *out)
{
    struct buf uri;
    buf_init(&uri, URI_MAX * 3);
    if (catalog_canonical(n->worker->catalog, outcome->uri, false, &uri, NULL) == 0) {
        (void)access_put_missing(n->principal, 1u << ACCESS_READ | 1u << ACCESS_WRITE,
                                 buf_str(&uri), out);
    }
    buf_deinit(&uri);
}
