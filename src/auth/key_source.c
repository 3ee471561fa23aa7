/* SPDX-License-Identifier: MIT
 *
 * Fetching the keys of an issuer, in one or two steps: where they are (when the settings do not
 * say), and the keys. However that ends, the tokens that waited for it are sent back to their
 * caches, which try to verify them again.
 */
#include "auth/key_source.h"

#include "auth/jwks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json.h"

#define BUDGET_MAX 3u
#define METADATA_DEPTH 16u

struct key_source {
    struct fetch_queue *queue;
    struct verifier *verifier;
    const struct issuer *issuer;
    char *url;     /* where the keys are; NULL: not found out yet */
    unsigned step; /* of finding out */
    struct list waiting;
    struct loop_timer *timer;
    uint64_t good_ms;     /* when there were keys last; 0: never */
    unsigned budget;      /* fetches that tokens may cause */
    uint64_t budgeted_ms; /* when one was added last */
    bool is_busy;
};

static void fetch_keys(struct key_source *s);
static void key_source_find_url(struct key_source *s);

/* ---- the end of it --------------------------------------------------------------------------- */

static void key_source_end(struct key_source *s, uint64_t again_ms)
{
    s->is_busy = false;
    list_each (it, next, &s->waiting) {
        list_remove(it);
        pending_token_return(list_entry(it, struct pending_token, waiting));
    }
    loop_timer_start(s->timer, again_ms, 0);
}

static void key_source_fail(struct key_source *s, const char *why)
{
    const struct auth_settings *settings = &s->verifier->settings;
    fetch_queue_count(&fetch_queue_counts(s->queue)->failures);
    log_warn(LOG_AUTH, "keys cannot be fetched", KV("issuer", s->issuer->name),
             KV("url", s->url ? s->url : "unknown"), KV("reason", why));
    if (!s->issuer->jwks) { /* perhaps they are somewhere else now */
        mem_free(s->url);
        s->url = NULL;
    }
    if (s->good_ms && clock_monotonic_ms() - s->good_ms >= settings->stale_ms) {
        s->good_ms = 0;
        verifier_remove_keys(s->verifier, s->issuer);
        log_warn(LOG_AUTH, "keys are too old", KV("issuer", s->issuer->name));
    }
    key_source_end(s, settings->interval_ms);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A reference to what is in effect keeps its place in memory while it is compared. */
static int key_source_put_keys(struct key_source *s, struct jwks *fresh)
{
    struct jwks *old = jwks_of(shared_map_find(s->verifier->shared, jwks_value(fresh)->key));
    int rc = 0;
    if (!old || !jwks_is_same(old, fresh)) {
        rc = verifier_put_keys(s->verifier, fresh);
        log_info(LOG_AUTH, "keys fetched", KV("issuer", s->issuer->name),
                 KV("count", jwks_count(fresh)));
    }
    if (old) {
        shared_value_unref(jwks_value(old));
    }
    return rc;
}

static void on_keys(void *user, long status, struct tidings_str body,
                    const struct tidings_error *err)
{
    struct key_source *s = user;
    struct jwks *fresh = NULL;
    struct tidings_error why = {0, ""};
    if (status != 200) {
        if (status == 0) {
            why = *err;
        } else {
            tidings_fail(&why, TIDINGS_E_IO, "status %ld", status);
        }
        key_source_fail(s, why.text);
        return;
    }
    int rc = jwks_parse(&fresh, tidings_str(s->issuer->name), body, &why);
    if (rc == 0) {
        rc = key_source_put_keys(s, fresh);
        shared_value_unref(jwks_value(fresh));
    }
    if (rc < 0) {
        key_source_fail(s, why.text[0] ? why.text : "out of memory");
        return;
    }
    s->good_ms = clock_monotonic_ms();
    key_source_end(s, s->verifier->settings.refresh_ms);
}

static void fetch_keys(struct key_source *s)
{
    fetch_queue_count(&fetch_queue_counts(s->queue)->keys);
    if (fetch_queue_add(s->queue, &(struct queued_request){.url = s->url}, on_keys, s) < 0) {
        key_source_fail(s, "out of memory");
    }
}

/* ---- where they are -------------------------------------------------------------------------- */

/* The issuer's own metadata must name it exactly (RFC 8414 §3.3), and keys safely. */
static char *read_metadata(const struct key_source *s, struct tidings_str body)
{
    struct json *root = NULL;
    char *url = NULL;
    if (jv_parse(body, METADATA_DEPTH, &root, NULL) == 0) {
        struct tidings_str keys = jv_str(jv_get(root, "jwks_uri"));
        if (str_eq(jv_str(jv_get(root, "issuer")), tidings_str(s->issuer->name)) &&
            auth_settings_is_safe_url(keys)) {
            url = str_dup(keys);
        }
        jv_unref(root);
    }
    return url;
}

static void on_metadata(void *user, long status, struct tidings_str body,
                        const struct tidings_error *err)
{
    struct key_source *s = user;
    (void)err;
    s->url = status == 200 ? read_metadata(s, body) : NULL;
    if (s->url) {
        fetch_keys(s);
    } else {
        s->step++;
        key_source_find_url(s);
    }
}

/* RFC 8414 §3.1 puts the well-known part between host and path; OpenID Connect Discovery §4 behind
 * both. */
static void key_source_put_metadata_url(struct buf *out, struct tidings_str issuer, unsigned step)
{
    ptrdiff_t slash = str_find(str_skip(issuer, sizeof("https://") - 1), '/');
    size_t host = slash < 0 ? issuer.len : sizeof("https://") - 1 + (size_t)slash;
    struct tidings_str path = str_skip(issuer, host);
    while (path.len > 0 && path.ptr[path.len - 1] == '/') {
        path.len--;
    }
    buf_put(out, issuer.ptr, host);
    if (step == 0) {
        buf_puts(out, STR("/.well-known/oauth-authorization-server"));
        buf_puts(out, path);
    } else {
        buf_puts(out, path);
        buf_puts(out, STR("/.well-known/openid-configuration"));
    }
}

static void key_source_find_url(struct key_source *s)
{
    struct buf url;
    if (s->step > 1) {
        key_source_fail(s,
                        "neither metadata document of the issuer names it and the URL of its keys; "
                        "configure that URL (--auth-jwks)");
        return;
    }
    buf_init(&url, 8192);
    key_source_put_metadata_url(&url, tidings_str(s->issuer->name), s->step);
    int rc = url.failed ? url.failed
                        : fetch_queue_add(s->queue, &(struct queued_request){.url = url.ptr},
                                          on_metadata, s);
    buf_deinit(&url);
    if (rc < 0) {
        key_source_fail(s, "out of memory");
    }
}

/* ---- when ------------------------------------------------------------------------------------ */

static void key_source_fetch(struct key_source *s)
{
    if (s->is_busy) {
        return;
    }
    s->is_busy = true;
    loop_timer_stop(s->timer);
    s->step = 0;
    if (s->url) {
        fetch_keys(s);
    } else {
        key_source_find_url(s);
    }
}

static void key_source_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    key_source_fetch(user);
}

static bool take_budget(struct key_source *s)
{
    uint64_t now = clock_monotonic_ms(),
             intervals = (now - s->budgeted_ms) / s->verifier->settings.interval_ms;
    if (s->budget == BUDGET_MAX) {
        s->budgeted_ms = now;
    } else if (intervals > 0) {
        uint64_t more = s->budget + intervals;
        s->budget = more < BUDGET_MAX ? (unsigned)more : BUDGET_MAX;
        s->budgeted_ms += intervals * s->verifier->settings.interval_ms;
    }
    if (s->budget == 0) {
        return false;
    }
    s->budget--;
    return true;
}

void key_source_ask(struct key_source *s, struct pending_token *p)
{
    /* There were other keys when it was asked: look at those first. */
    bool is_changed = p->generation != verifier_generation(s->verifier);
    if (is_changed || (!s->is_busy && !take_budget(s))) {
        pending_token_return(p);
        return;
    }
    list_append(&s->waiting, &p->waiting);
    key_source_fetch(s);
}

void key_source_refresh(struct key_source *s)
{
    key_source_fetch(s);
}

struct key_source *key_source_create(struct fetch_queue *queue, struct verifier *verifier,
                                     const struct issuer *issuer)
{
    struct key_source *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->queue = queue;
    s->verifier = verifier;
    s->issuer = issuer;
    s->budget = BUDGET_MAX;
    list_init(&s->waiting);
    s->timer = loop_timer_open(fetch_queue_loop(queue), key_source_on_timer, s);
    s->url = issuer->jwks ? str_dup(tidings_str(issuer->jwks)) : NULL;
    if (!s->timer || (issuer->jwks && !s->url)) {
        key_source_destroy(s);
        return NULL;
    }
    key_source_fetch(s);
    return s;
}

void key_source_destroy(struct key_source *s)
{
    if (!s) {
        return;
    }
    list_each (it, next, &s->waiting) {
        list_remove(it);
        pending_token_destroy(list_entry(it, struct pending_token, waiting));
    }
    loop_timer_close(s->timer);
    mem_free(s->url);
    mem_free(s);
}
