/* SPDX-License-Identifier: MIT
 *
 * The thread that contacts authorization servers. It runs a loop for its requests: tokens arrive as
 * messages, and go to the keys of their issuer or to introspection.
 */
#include "security/remote_auth.h"

#include <pthread.h>
#include <signal.h>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net/fetch.h"
#include "base/time.h"
#include "formats/json.h"
#include "security/jwt.h"
#include "security/token_cache.h"
#include "security/token_file.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * Key sources: the URL that provides the keys of one issuer. Keys are fetched at the start, when
 * they are old, and when a token names an unknown key. The last is rationed, because any client can
 * send such a token: three times, and once more for each interval that passed.
 *
 *     IDLE --start, old, unknown key--> METADATA (unless the URL is configured) --> KEYS --> IDLE
 *
 * Fetched keys stay in use while fetching fails, until they are stale. All of it belongs to the
 * thread of its `struct fetch_queue`.
 */

struct key_source;

/* -------------------------------------------------------------------------------------------------
 * HTTP requests in two lists: running and queued. At the end of each loop turn, completed requests
 * are finished and queued ones start.
 */

struct queued_fetch {
    struct list link;
    struct fetch_transfer *transfer; /* NULL: queued */
    struct buf body;
    fetch_done_fn done;
    void *user;
    char *url, *authorization, *form;
    size_t form_len;
    struct confined_file ca;
};

struct fetch_queue {
    struct loop *loop;
    struct fetch *fetch;
    struct loop_hook hook;
    const char *ca_file;
    struct list under_way, in_line;
    size_t count;               /* running requests */
    struct auth_fetches counts; /* atomic, each of them */
    bool is_closed;
};

static struct loop *fetch_queue_loop(const struct fetch_queue *q)
{
    return q->loop;
}

static void fetch_queue_count(uint64_t *count)
{
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
}

/* Any thread. */
static struct auth_fetches *fetch_queue_counts(struct fetch_queue *q)
{
    return &q->counts;
}

/* ---- one request ----------------------------------------------------------------------------- */

static void queued_destroy(struct queued_fetch *x)
{
    list_remove(&x->link);
    fetch_close(x->transfer);
    confined_file_close(&x->ca);
    buf_deinit(&x->body);
    mem_free(x->url);
    str_free_secret(x->authorization);
    str_free_secret(x->form);
    mem_free(x);
}

static void fetch_queue_finish(struct fetch_queue *q, struct queued_fetch *x, long status,
                               const struct tidings_error *err)
{
    q->count -= x->transfer != NULL;
    list_remove(&x->link);
    x->done(x->user, status, buf_str(&x->body), err);
    queued_destroy(x);
}

static int fetch_queue_on_bytes(void *user, struct tidings_str bytes)
{
    return buf_puts(&((struct queued_fetch *)user)->body, bytes);
}

static void fetch_queue_begin(struct fetch_queue *q, struct queued_fetch *x)
{
    struct tidings_error err = {0, ""};
    int rc = q->ca_file ? confined_file_open(&x->ca, q->ca_file) : 0;
    struct fetch_request request = {
        .method = x->form ? "POST" : "GET",
        .url = x->url,
        .ca_file = x->ca.path,
        .body = tidings_strn(x->form, x->form_len),
        .headers = {"Accept: application/json"},
        .timeout_ms = FETCH_QUEUE_TIMEOUT_MS,
        .on_bytes = fetch_queue_on_bytes,
        .user = x,
    };
    size_t headers = 1;
    if (x->form) {
        request.headers[headers++] = "Content-Type: application/x-www-form-urlencoded";
    }
    if (x->authorization) {
        request.headers[headers++] = x->authorization;
    }
    list_remove(&x->link);
    if (rc < 0) {
        (void)error_errno(&err, -rc, "'%s'", q->ca_file);
        fetch_queue_finish(q, x, 0, &err);
        return;
    }
    if (fetch_start(q->fetch, &request, &x->transfer, &err) < 0) {
        fetch_queue_finish(q, x, 0, &err);
        return;
    }
    list_append(&q->under_way, &x->link);
    q->count++;
}

static void begin_next(struct fetch_queue *q)
{
    while (q->count < FETCH_QUEUE_AT_ONCE && !list_empty(&q->in_line)) {
        fetch_queue_begin(q, list_entry(q->in_line.next, struct queued_fetch, link));
    }
}

static void finish_ended(struct fetch_queue *q)
{
    list_each (it, next, &q->under_way) {
        struct queued_fetch *x = list_entry(it, struct queued_fetch, link);
        struct fetch_status status = *fetch_status(x->transfer);
        if (status.finished) {
            fetch_queue_finish(q, x, status.error.code ? 0 : status.status, &status.error);
        }
    }
}

/* Copies the request. `done` is called exactly once, later. TIDINGS_E_NOMEM, TIDINGS_E_CLOSED: it
 * is not called. */
static int fetch_queue_add(struct fetch_queue *q, const struct queued_request *request,
                           fetch_done_fn done, void *user)
{
    struct queued_fetch *x = q->is_closed ? NULL : mem_zalloc(sizeof(*x));
    if (!x) {
        return q->is_closed ? TIDINGS_E_CLOSED : TIDINGS_E_NOMEM;
    }
    list_init(&x->link);
    buf_init(&x->body, FETCH_QUEUE_BODY_MAX);
    x->done = done;
    x->user = user;
    x->url = str_dup(tidings_str(request->url));
    x->authorization = request->authorization ? str_dup(tidings_str(request->authorization)) : NULL;
    x->form = request->form.len > 0 ? str_dup(request->form) : NULL;
    x->form_len = request->form.len;
    if (!x->url || (request->authorization && !x->authorization) ||
        (request->form.len > 0 && !x->form)) {
        queued_destroy(x);
        return TIDINGS_E_NOMEM;
    }
    list_append(&q->in_line, &x->link);
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void fetch_queue_on_turn_end(void *user)
{
    finish_ended(user);
    begin_next(user);
}

static void fetch_queue_break_off(struct list *some)
{
    list_each (it, next, some) {
        struct queued_fetch *x = list_entry(it, struct queued_fetch, link);
        /* The callback frees the waiting token. */
        x->done(x->user, 0, STR_EMPTY,
                &(struct tidings_error){TIDINGS_E_CLOSED, "the server stops"});
        queued_destroy(x);
    }
}

/* Aborts all requests: calls their callbacks and accepts no more. */
static void fetch_queue_close(struct fetch_queue *q)
{
    q->is_closed = true;
    fetch_queue_break_off(&q->under_way);
    fetch_queue_break_off(&q->in_line);
}

static void fetch_queue_destroy(struct fetch_queue *q);

/* Loads libcurl. `ca_file`: PEM, trusted for https, borrowed; NULL: the system's.
 * TIDINGS_E_UNSUPPORTED. */
static int fetch_queue_create(struct fetch_queue **ret, struct loop *loop, const char *ca_file,
                              struct tidings_error *err)
{
    struct fetch_queue *q = mem_zalloc(sizeof(*q));
    if (!q) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    q->loop = loop;
    q->ca_file = ca_file;
    list_init(&q->under_way);
    list_init(&q->in_line);
    loop_hook_add(loop, &q->hook, fetch_queue_on_turn_end, q);
    int rc = fetch_create(loop, FETCH_QUEUE_BODY_MAX, &q->fetch, err);
    if (rc < 0) {
        fetch_queue_destroy(q);
        return rc;
    }
    *ret = q;
    return 0;
}

/* After fetch_queue_close; NULL is fine */
static void fetch_queue_destroy(struct fetch_queue *q)
{
    if (q) {
        loop_hook_remove(&q->hook);
        fetch_destroy(q->fetch);
        mem_free(q);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Introspects one token at the authorization server, and parses its response.
 */

#define DEPTH_MAX 16u

/* ---- reading --------------------------------------------------------------------------------- */

static const struct verdict unavailable = {
    .outcome = AUTH_UNAVAILABLE,
    .why = "the authorization server is unreachable; try again later",
};

static bool introspect_is_trusted(const struct auth_settings *s, struct tidings_str issuer)
{
    return s->issuer_count == 0 || auth_settings_find_issuer(s, issuer) != NULL;
}

/* Some servers report a refresh token as active too. */
static bool introspect_is_access_token(const struct json *use)
{
    return !use || str_eq(jv_str(use), STR("access_token")) || str_eq(jv_str(use), STR("access"));
}

static const char *read_active(const struct auth_settings *s, const struct json *root,
                               int64_t now_ms, struct identity **ret)
{
    const struct json *issuer = jv_get(root, "iss");
    struct claims_rules rules = auth_settings_rules(s, false);
    struct claims claims;
    if (issuer && !introspect_is_trusted(s, jv_str(issuer))) {
        return "the issuer of the token is not trusted here";
    }
    if (!introspect_is_access_token(jv_get(root, "token_use"))) {
        return "the token is not an access token";
    }
    const char *why = claims_check(root, &rules, now_ms, &claims);
    if (why) {
        return why;
    }
    struct tidings_str prefix = s->issuer_count < 2 ? STR_EMPTY
                                : issuer            ? jv_str(issuer)
                                                    : tidings_str(s->introspection);
    if (!identity_fits(prefix, claims.name)) {
        return "the name in the token is too long";
    }
    *ret = identity_create(prefix, claims.name, &claims.scopes, claims.expires_ms,
                           AUTH_BY_INTROSPECTION);
    if (*ret) {
        memcpy((*ret)->is.key, claims.key, sizeof(claims.key));
    }
    return NULL;
}

void introspect_read(const struct auth_settings *s, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret)
{
    struct json *root = NULL;
    *ret = unavailable;
    if (jv_parse(body, DEPTH_MAX, &root, NULL) < 0) {
        return;
    }
    const struct json *active = jv_get(root, "active");
    if (jv_is(active, JV_FALSE)) {
        *ret = (struct verdict){.outcome = AUTH_INVALID, .why = "the token is not active"};
    } else if (jv_is_true(active)) {
        struct identity *i = NULL;
        const char *why = read_active(s, root, now_ms, &i);
        if (why) {
            *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
        } else if (i) {
            i->until_ms = now_ms + INTROSPECT_REMEMBER_MS;
            *ret = (struct verdict){.outcome = AUTH_OK, .identity = i};
        }
    }
    jv_unref(root);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Logs when failures begin and end, not every request. */
static void introspect_note(struct introspector *i, bool failed, long status, const char *why)
{
    const char *url = i->verifier->settings.introspection;
    bool before = i->is_failing;
    i->is_failing = failed;
    if (failed) {
        fetch_queue_count(&fetch_queue_counts(i->queue)->failures);
    }
    if (failed && !before) {
        log_warn(LOG_AUTH, "tokens cannot be introspected", KV("url", url), KV("status", status),
                 KV("reason", why));
    } else if (!failed && before) {
        log_info(LOG_AUTH, "tokens can be introspected again", KV("url", url));
    }
}

static void introspect_on_answer(void *user, long status, struct tidings_str body,
                                 const struct tidings_error *err)
{
    struct pending_token *p = user;
    p->verdict = unavailable;
    if (status == 200) {
        introspect_read(&p->introspector->verifier->settings, body, clock_wall_ms(), &p->verdict);
    }
    introspect_note(p->introspector, p->verdict.outcome == AUTH_UNAVAILABLE, status,
                    status == 0 ? err->text : "an answer with 'active' is expected");
    pending_token_return(p);
}

/* Introspects the token of `p` and sends it back with a verdict (pending_token_return). */
static void introspect(struct introspector *i, struct pending_token *p)
{
    struct buf form;
    struct credentials *c = credentials_of(shared_map_find(i->verifier->shared, CREDENTIALS_KEY));
    buf_init_secret(&form, 4 * AUTH_TOKEN_MAX);
    buf_puts(&form, STR("token_type_hint=access_token&token="));
    credentials_put_encoded(&form, tidings_strn(p->token, p->token_len));
    const struct queued_request request = {
        .url = i->verifier->settings.introspection,
        .authorization = c ? credentials_header(c) : NULL,
        .form = buf_str(&form),
    };
    p->introspector = i;
    fetch_queue_count(&fetch_queue_counts(i->queue)->introspections);
    if (form.failed || fetch_queue_add(i->queue, &request, introspect_on_answer, p) < 0) {
        p->verdict = unavailable;
        pending_token_return(p);
    }
    buf_deinit(&form);
    shared_value_unref(c ? credentials_value(c) : NULL);
}

/* -------------------------------------------------------------------------------------------------
 * Fetches the keys of an issuer in one or two steps: their URL (if the settings do not name it),
 * then the keys. In either case, the waiting tokens return to their caches, which verify them
 * again.
 */

#define BUDGET_MAX 3u
#define METADATA_DEPTH 16u

struct key_source {
    struct fetch_queue *queue;
    struct verifier *verifier;
    const struct issuer *issuer;
    char *url;     /* where the keys are; NULL: not yet known */
    unsigned step; /* of the discovery */
    struct list waiting;
    struct loop_timer *timer;
    uint64_t good_ms;     /* when keys last arrived; 0: never */
    unsigned budget;      /* fetches that tokens can still cause */
    uint64_t budgeted_ms; /* when the budget last grew */
    bool is_busy;
};

static void fetch_keys(struct key_source *s);
static void key_source_find_url(struct key_source *s);

/* ---- completion ------------------------------------------------------------------------------ */

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
    if (!s->issuer->jwks) { /* the URL could have changed */
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

/* A reference keeps the current keys in memory during the comparison. */
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

/* ---- discovery ------------------------------------------------------------------------------- */

/* The issuer's metadata must contain exactly its name (RFC 8414 §3.3) and a safe URL of the keys.
 */
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

/* RFC 8414 §3.1 puts the well-known part between host and path; OpenID Connect Discovery §4 after
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

/* ---- schedule -------------------------------------------------------------------------------- */

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

static void key_source_ask(struct key_source *s, struct pending_token *p)
{
    /* The keys have changed since this verification: try the new ones first. */
    bool is_changed = p->generation != verifier_generation(s->verifier);
    if (is_changed || (!s->is_busy && !take_budget(s))) {
        pending_token_return(p);
        return;
    }
    list_append(&s->waiting, &p->waiting);
    key_source_fetch(s);
}

/* Takes the token; it is returned when new keys have arrived, or when none can be fetched. */
static void key_source_refresh(struct key_source *s)
{
    key_source_fetch(s);
}

static void key_source_destroy(struct key_source *s);

static struct key_source *key_source_create(struct fetch_queue *queue, struct verifier *verifier,
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

/* Starts fetching. NULL: out of memory. */
static void key_source_destroy(struct key_source *s)
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

/* ---------------------------------------------------------------------------------------------- */

struct remote {
    struct loop *loop;
    struct mailbox *mailbox;
    struct fetch_queue *queue;
    struct introspector introspector;
    struct key_source *sources[AUTH_ISSUERS_MAX]; /* NULL: from a file */
    pthread_t thread;
    bool is_running;
};

/* ---- messages -------------------------------------------------------------------------------- */

static void deliver_token(struct thread_message *message, void *owner)
{
    struct remote *r = owner;
    struct pending_token *p = list_entry(message, struct pending_token, message);
    if (p->verdict.need == VERDICT_NEEDS_KEYS) {
        key_source_ask(r->sources[p->verdict.issuer], p);
    } else {
        introspect(&r->introspector, p);
    }
}

static void drop_token(struct thread_message *message)
{
    pending_token_destroy(list_entry(message, struct pending_token, message));
}

void remote_ask(struct remote *r, struct pending_token *p)
{
    p->message.deliver = deliver_token;
    p->message.drop = drop_token;
    mailbox_send(r->mailbox, &p->message);
}

static void deliver_refresh(struct thread_message *message, void *owner)
{
    struct remote *r = owner;
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        if (r->sources[i]) {
            key_source_refresh(r->sources[i]);
        }
    }
    message->drop(message);
}

static void drop_message(struct thread_message *message)
{
    mem_free(message);
}

void remote_refresh(struct remote *r)
{
    struct thread_message *message = mem_zalloc(sizeof(*message));
    if (message) { /* otherwise they are fetched when they are old */
        list_init(&message->link);
        message->deliver = deliver_refresh;
        message->drop = drop_message;
        mailbox_send(r->mailbox, message);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *remote_thread(void *user)
{
    struct remote *r = user;
    (void)pthread_setname_np(pthread_self(), "auth");
    loop_run(r->loop);
    return NULL;
}

static int start_thread(struct remote *r, struct tidings_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&r->thread, NULL, remote_thread, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum) {
        return error_errno(err, errnum, "start the thread 'auth'");
    }
    r->is_running = true;
    return 0;
}

static int create_sources(struct remote *r, struct verifier *v, struct tidings_error *err)
{
    for (size_t i = 0; i < v->settings.issuer_count; i++) {
        const struct issuer *issuer = &v->settings.issuers[i];
        if (issuer->is_remote) {
            r->sources[i] = key_source_create(r->queue, v, issuer);
            if (!r->sources[i]) {
                return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            }
        }
    }
    return 0;
}

int remote_start(struct remote **ret, struct verifier *v, struct tidings_error *err)
{
    struct remote *r = mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->loop = loop_create(err);
    r->mailbox = r->loop ? mailbox_create(r->loop, r, err) : NULL;
    int rc =
        r->mailbox ? fetch_queue_create(&r->queue, r->loop, v->settings.ca, err) : TIDINGS_E_NOMEM;
    if (rc == 0) {
        r->introspector = (struct introspector){.verifier = v, .queue = r->queue};
        rc = create_sources(r, v, err);
    }
    if (rc == 0) {
        rc = start_thread(r, err);
    }
    if (rc < 0) {
        remote_stop(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void remote_stop(struct remote *r)
{
    if (!r) {
        return;
    }
    if (r->is_running) {
        loop_stop(r->loop);
        pthread_join(r->thread, NULL);
    }
    if (r->queue) {
        fetch_queue_close(r->queue);
    }
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        key_source_destroy(r->sources[i]);
    }
    fetch_queue_destroy(r->queue);
    if (r->mailbox) {
        mailbox_close(r->mailbox);
        mailbox_unref(r->mailbox);
    }
    loop_destroy(r->loop);
    mem_free(r);
}

void remote_get_fetches(struct remote *r, struct auth_fetches *ret)
{
    const struct auth_fetches *counts = fetch_queue_counts(r->queue);
    ret->keys = __atomic_load_n(&counts->keys, __ATOMIC_RELAXED);
    ret->introspections = __atomic_load_n(&counts->introspections, __ATOMIC_RELAXED);
    ret->failures = __atomic_load_n(&counts->failures, __ATOMIC_RELAXED);
}
