/* SPDX-License-Identifier: MIT
 *
 * The client behind <tidings/client.h>: its life, the loop that connects and connects again, and
 * what it tells its user. How each era is spoken is in modern.c and legacy.c.
 */
#include <tidings/client.h>
#include <tidings/json.h>

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/private.h"
#include "json/write.h"

static uint32_t or_default(uint32_t value, uint32_t preset)
{
    return value > 0 ? value : preset;
}

static int check_url(const char *url, struct tidings_error *err)
{
    struct tidings_str s = tidings_str(url);
    bool is_http = str_starts(s, STR("http://")) || str_starts(s, STR("https://"));
    for (size_t i = 0; i < s.len; i++) {
        is_http = is_http && (unsigned char)s.ptr[i] > ' ' && s.ptr[i] != 0x7f;
    }
    if (!is_http || s.len > 4096) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.80s' is not the address of a server (accepted: http://… or "
                            "https://…, such as http://127.0.0.1:7777/mcp)",
                            s.ptr);
    }
    return 0;
}

/* False: out of memory. */
static bool take_path(char **at, const char *path)
{
    *at = path ? str_dup(tidings_str(path)) : NULL;
    return !path || *at;
}

struct tidings_client *tidings_client_create(const char *url,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    static const struct tidings_client_options none = {0};
    const struct tidings_client_options *o = options ? options : &none;
    if (check_url(url, err) < 0) {
        return NULL;
    }
    struct tidings_client *c = mem_zalloc(sizeof(*c));
    if (!c) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    c->timeout_ms = or_default(o->timeout_ms, 30000);
    c->retry_min_ms = or_default(o->retry_min_ms, 1000);
    c->retry_max_ms = or_default(o->retry_max_ms, 30000);
    c->max_bytes = o->max_bytes > 0 ? o->max_bytes : (size_t)16 << 20;
    c->stream_retry_ms = -1;
    buf_init(&c->last_event_id, 4096);
    c->url = str_dup(tidings_str(url));
    c->name = str_dup(tidings_str(o->name ? o->name : "tidings"));
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!c->url || !c->name || c->wake_fd < 0 || !take_path(&c->ca_file, o->ca_file) ||
        !take_path(&c->cert_file, o->cert_file) || !take_path(&c->key_file, o->key_file)) {
        error_errno(err, c->wake_fd < 0 ? errno : ENOMEM, "create a client");
        goto fail_client;
    }
    if (fetch_create(c->wake_fd, c->max_bytes, &c->fetch, err) < 0) {
        goto fail_client;
    }
    return c;
fail_client:
    tidings_client_destroy(c);
    return NULL;
}

static void drop_watches(struct tidings_client *c)
{
    for (size_t i = 0; i < c->watch_count; i++) {
        mem_free(c->watches[i].uri);
        mem_free(c->watches[i].options);
    }
    mem_free(c->watches);
    c->watches = NULL;
    c->watch_count = 0;
}

void tidings_client_destroy(struct tidings_client *c)
{
    if (!c) {
        return;
    }
    fetch_destroy(c->fetch);
    drop_watches(c);
    if (c->wake_fd >= 0) {
        close(c->wake_fd);
    }
    buf_deinit(&c->last_event_id);
    mem_free(c->url);
    mem_free(c->ca_file);
    mem_free(c->cert_file);
    mem_free(c->key_file);
    mem_free(c->name);
    mem_free(c);
}

int tidings_client_watch(struct tidings_client *c, const char *const *uris, size_t count,
                         tidings_client_update_fn fn, void *user, struct tidings_error *err)
{
    if (count == 0 || count > CLIENT_MAX_URIS || !fn) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%zu URIs to watch (accepted: 1 to %u)", count,
                            CLIENT_MAX_URIS);
    }
    drop_watches(c);
    c->watches = mem_zalloc(count * sizeof(*c->watches));
    if (!c->watches) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        c->watches[i].uri = str_dup(tidings_str(uris[i]));
        if (!c->watches[i].uri) {
            drop_watches(c);
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        c->watch_count++;
    }
    c->on_update = fn;
    c->update_user = user;
    return 0;
}

int tidings_client_set_options(struct tidings_client *c, const char *uri, const char *options,
                               struct tidings_error *err)
{
    struct client_watch *w = NULL;
    for (size_t i = 0; i < c->watch_count && !w; i++) {
        w = strcmp(c->watches[i].uri, uri) == 0 ? &c->watches[i] : NULL;
    }
    if (!w) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.80s' is not watched", uri);
    }
    char *text = options ? tidings_json_get(tidings_str(options), "") : NULL;
    if (options && (!text || text[0] != '{')) {
        mem_free(text);
        return tidings_fail(err, TIDINGS_E_INVALID, "the options of '%.80s' are no JSON object",
                            uri);
    }
    mem_free(w->options);
    w->options = text;
    return 0;
}

void tidings_client_on_state(struct tidings_client *c, tidings_client_state_fn fn, void *user)
{
    c->on_state = fn;
    c->state_user = user;
}

void tidings_client_stop(struct tidings_client *c)
{
    uint64_t one = 1;
    int saved = errno; /* may interrupt anything */
    atomic_store(&c->stopping, true);
    ssize_t n = write(c->wake_fd, &one, sizeof(one));
    (void)n;
    errno = saved;
}

bool client_is_stopping(const struct tidings_client *c)
{
    return atomic_load(&c->stopping);
}

void client_pause(struct tidings_client *c, uint32_t ms)
{
    uint64_t now = clock_monotonic_ms();
    uint64_t deadline = now + ms;
    while (now < deadline && !client_is_stopping(c)) {
        struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};
        (void)poll(&p, 1, (int)(deadline - now));
        now = clock_monotonic_ms();
    }
}

/* ---- what the user hears --------------------------------------------------------------------- */

void client_report(struct tidings_client *c, enum tidings_client_state state,
                   struct tidings_str uri, struct tidings_str reason)
{
    struct tidings_client_event e = {
        .state = state, .uri = uri, .reason = reason, .again = c->is_interrupted};
    if (c->on_state && !client_is_stopping(c)) {
        c->on_state(c->state_user, &e);
    }
}

void client_judge(struct tidings_client *c, struct client_watch *w, bool is_accepted,
                  struct tidings_str reason)
{
    w->is_accepted = is_accepted;
    client_report(c, is_accepted ? TIDINGS_CLIENT_WATCHING : TIDINGS_CLIENT_REFUSED,
                  tidings_str(w->uri), reason);
}

int client_judged(struct tidings_client *c, struct tidings_error *err)
{
    size_t accepted = 0;
    for (size_t i = 0; i < c->watch_count; i++) {
        accepted += c->watches[i].is_accepted ? 1 : 0;
    }
    if (accepted > 0) {
        c->has_watched = true;
        c->is_interrupted = false;
        c->failures = 0;
        return 0;
    }
    /* What was there once may be on its way back; what never was is a mistake. */
    return tidings_fail(err, c->has_watched ? TIDINGS_E_BUSY : TIDINGS_E_NOTFOUND,
                        "the server accepted none of the URIs");
}

void client_updated(struct tidings_client *c, struct json *params)
{
    struct json *meta = jv_get(params, "_meta");
    struct tidings_client_update u = {
        .uri = jv_str(jv_get(params, "uri")),
        .subscribed_uri = jv_str(jv_get(params, "subscribedUri")),
        .change = jv_str(jv_get(meta, "dev.tidings/change")),
        .received_ms = clock_wall_ms(),
    };
    if (u.uri.len == 0 || !c->on_update) {
        return;
    }
    if (u.subscribed_uri.len == 0) {
        u.subscribed_uri = jv_str(jv_get(meta, "dev.tidings/subscribedUri"));
    }
    if (u.change.len == 0) {
        u.change = STR("updated");
    }
    struct buf text;
    struct jw w;
    buf_init(&text, 2 * c->max_bytes);
    jw_init(&w, &text);
    jw_value(&w, params);
    u.params = text.failed ? STR("{}") : buf_str(&text);
    c->on_update(c->update_user, &u);
    buf_deinit(&text);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int connect_era(struct tidings_client *c, struct tidings_error *err)
{
    c->era = CLIENT_ERA_UNKNOWN;
    int rc = modern_probe(c, err);
    if (rc == 0 && !client_is_stopping(c)) {
        rc = legacy_open(c, err);
    }
    if (rc < 0) {
        c->era = CLIENT_ERA_UNKNOWN;
        return rc;
    }
    return 0;
}

static int watch_once(struct tidings_client *c, struct tidings_error *err)
{
    if (c->era == CLIENT_ERA_LEGACY && c->version[0] && c->has_watched) {
        return legacy_watch(c, true, err);
    }
    int rc = connect_era(c, err);
    if (rc < 0 || client_is_stopping(c)) {
        return rc;
    }
    if (!c->can_subscribe) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server offers no subscriptions");
    }
    if (c->era == CLIENT_ERA_LEGACY) {
        return legacy_watch(c, false, err);
    }
    rc = modern_watch(c, err);
    if (rc == TIDINGS_E_UNSUPPORTED && !client_is_stopping(c)) {
        rc = legacy_open(c, err);
        rc = rc < 0 ? rc : legacy_watch(c, false, err);
    }
    return rc;
}

static bool may_pass(int code)
{
    return code == TIDINGS_E_IO || code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_BUSY ||
           code == TIDINGS_E_CLOSED || code == TIDINGS_E_LIMIT;
}

/* Doubling from the shortest to the longest, the upper half of it by chance so that many clients do
 * not come back in step. */
static uint32_t next_pause(struct tidings_client *c)
{
    uint64_t pause = c->retry_min_ms;
    for (unsigned i = 0; i < c->failures && pause < c->retry_max_ms; i++) {
        pause *= 2;
    }
    pause = pause < c->retry_max_ms ? pause : c->retry_max_ms;
    uint32_t chance = 0;
    if (random_bytes(&chance, sizeof(chance)) < 0) {
        chance = 0;
    }
    c->failures++;
    return (uint32_t)(pause / 2 + chance % (pause / 2 + 1));
}

int tidings_client_run(struct tidings_client *c, struct tidings_error *err)
{
    int rc = 0;
    if (c->watch_count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "nothing to watch");
    }
    while (!client_is_stopping(c)) {
        struct tidings_error why = {0};
        rc = watch_once(c, &why);
        if (client_is_stopping(c)) {
            break;
        }
        if (!may_pass(rc)) {
            if (err) {
                *err = why;
            }
            legacy_close(c);
            return rc;
        }
        c->is_interrupted = c->has_watched;
        struct tidings_client_event e = {.state = TIDINGS_CLIENT_DISCONNECTED,
                                         .reason = tidings_str(why.text),
                                         .retry_ms = next_pause(c)};
        if (c->on_state) {
            c->on_state(c->state_user, &e);
        }
        client_pause(c, e.retry_ms);
    }
    legacy_close(c);
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_once(struct tidings_client *c, const char *uri, struct buf *out,
                     struct tidings_error *err)
{
    struct exchange x;
    struct json *result;
    struct buf members;
    buf_init(&members, c->max_bytes);
    buf_puts(&members, STR("\"uri\":"));
    jw_quote(&members, tidings_str(uri));
    struct exchange_request r = {
        .method = "resources/read", .members = buf_str(&members), .name = tidings_str(uri)};
    int rc = members.failed ? tidings_fail(err, members.failed, "the URI is too long")
                            : exchange_start(&x, c, &r, err);
    buf_deinit(&members);
    if (rc < 0) {
        return rc;
    }
    rc = exchange_wait(&x, err);
    if (rc == 0) {
        rc = exchange_result(&x, &result, err);
    }
    if (rc == 0) {
        struct jw w;
        jw_init(&w, out);
        jw_value(&w, result);
        rc = out->failed ? tidings_fail(err, out->failed, "the answer is too large") : 0;
    }
    bool is_session_gone = rc < 0 && !x.root && exchange_status(&x) == 404;
    exchange_end(&x);
    if (is_session_gone && c->era == CLIENT_ERA_LEGACY) {
        c->era = CLIENT_ERA_UNKNOWN;
        return TIDINGS_E_CLOSED;
    }
    return rc;
}

char *tidings_client_read(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct buf out;
    buf_init(&out, 2 * c->max_bytes);
    int rc = TIDINGS_E_CLOSED;
    for (int attempt = 0; attempt < 2 && rc == TIDINGS_E_CLOSED; attempt++) {
        rc = c->era == CLIENT_ERA_UNKNOWN ? connect_era(c, err) : 0;
        if (rc == 0) {
            rc = read_once(c, uri, &out, err);
        }
    }
    if (rc < 0) {
        buf_deinit(&out);
        error_wrap(err, rc, "read '%.80s'", uri);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

char *tidings_client_library(void)
{
    struct fetch *f;
    if (fetch_create(-1, 1, &f, NULL) < 0) {
        return NULL;
    }
    /* It names everything it was built with; itself and its TLS library are what matters. */
    struct tidings_str name = tidings_str(fetch_library(f));
    struct tidings_str rest;
    size_t len = str_cut(name, ' ', &rest, NULL).len;
    if (rest.len > 0) {
        len += 1 + str_cut(rest, ' ', &rest, NULL).len;
    }
    char *text = str_dup(tidings_strn(name.ptr, len));
    fetch_destroy(f);
    return text;
}
