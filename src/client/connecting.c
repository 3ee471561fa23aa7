/* SPDX-License-Identifier: MIT
 *
 * From nothing to a server that answers: open the link, find out the era, begin a session where
 * there are sessions; and what happens when that, or what came after it, fails.
 *
 * The versioning page's rule: ask `server/discover`; its result, or an error only a modern server
 * gives, means modern, everything else `initialize`. What it was is remembered: a legacy server is
 * not asked again, a modern one is, since its answer may have changed with the server.
 *
 * A connection that breaks before the answer says nothing of the server, so it is asked again; but
 * some servers end rather than answer what they do not know. The second time `initialize` is tried,
 * and what that leads to is a guess, good for that connection alone.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/private.h"
#include "json/write.h"

#define PROBES 2u /* broken ones in a row, before `initialize` is tried */

static void begin(struct tidings_client *c);
static void initialize(struct tidings_client *c);

/* ---- who answered ---------------------------------------------------------------------------- */

void info_deinit(struct client_info *info)
{
    mem_free(info->server_name);
    mem_free(info->server_version);
    mem_free(info->capabilities);
    mem_free(info->instructions);
    mem_free(info->answer);
    *info = (struct client_info){0};
}

/* Negotiated values go into headers: only what a revision looks like is taken. */
static bool is_version(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((s.ptr[i] < '0' || s.ptr[i] > '9') && s.ptr[i] != '-') {
            return false;
        }
    }
    return s.len == sizeof(CLIENT_LEGACY) - 1;
}

static int take_info(struct tidings_client *c, struct json *result, struct tidings_str version,
                     struct json *server)
{
    struct client_info i = {0};
    struct json *capabilities = jv_get(result, "capabilities");
    struct json *resources = jv_get(capabilities, "resources");
    struct json *extensions = jv_get(capabilities, "extensions");
    snprintf(i.version, sizeof(i.version), "%.*s", STR_ARG(version));
    i.server_name = str_dup(jv_str(jv_get(server, "name")));
    i.server_version = str_dup(jv_str(jv_get(server, "version")));
    i.instructions = str_dup(jv_str(jv_get(result, "instructions")));
    i.capabilities =
        jv_is(capabilities, JV_OBJECT) ? json_text_of(c, capabilities, NULL) : str_dup(STR("{}"));
    i.answer = result ? json_text_of(c, result, NULL) : str_dup(STR("{}"));
    struct json *skills = jv_get(extensions, "io.modelcontextprotocol/skills");
    i.children = jv_get(extensions, "dev.tidings/resource-metadata") ? "resources/list"
                 : jv_is_true(jv_get(skills, "directoryRead"))       ? "resources/directory/read"
                                                                     : NULL;
    struct json *correlation = jv_get(extensions, "dev.tidings/subscription-correlation");
    i.has_bookmarks = jv_is_true(jv_get(correlation, "bookmarks"));
    if (!i.server_name || !i.server_version || !i.instructions || !i.capabilities || !i.answer) {
        info_deinit(&i);
        return TIDINGS_E_NOMEM;
    }
    info_deinit(&c->info);
    c->info = i;
    c->can_subscribe = !result || jv_is_true(jv_get(resources, "subscribe"));
    c->has_info = true;
    return 0;
}

const struct tidings_client_info *tidings_client_info(const struct tidings_client *c)
{
    return c->info.public.transport ? &c->info.public : NULL;
}

static void publish(struct tidings_client *c)
{
    struct client_info *i = &c->info;
    i->public = (struct tidings_client_info){
        .transport = c->link->ops->transport,
        .era = c->era,
        .version = i->version,
        .server_name = i->server_name,
        .server_version = i->server_version,
        .capabilities = i->capabilities,
        .instructions = i->instructions,
        .answer = i->answer,
        .can_subscribe = c->can_subscribe,
        .session = c->link->ops->session ? c->link->ops->session(c->link) : "",
        .found = c->compare.found,
        .beats = c->silence.all,
        .beat_ms = c->silence.all_max,
        .reopened = c->reopened,
    };
}

static void ready(struct tidings_client *c)
{
    c->stage = STAGE_READY;
    publish(c);
    if (!c->is_resumed) {
        event_state(c, &(struct tidings_client_event){.state = TIDINGS_CLIENT_CONNECTED});
    }
    if (c->watch_count == 0) {
        c->failures = 0;
    }
    watching_ready(c);
    outbound_send_all(c);
}

/* ---- modern ---------------------------------------------------------------------------------- */

static bool has_version(struct json *list)
{
    for (size_t i = 0; i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), STR(CLIENT_MODERN))) {
            return true;
        }
    }
    return false;
}

/* 1: modern, 0: legacy, else an error that neither would help against. */
static int judge(const struct tidings_client *c, const struct answer *a)
{
    int64_t code = jv_int(jv_get(a->error, "code"));
    bool is_http = c->link->ops->has_exchanges;
    bool is_refusal = a->status == 401 || a->status == 403 || a->status == 408 ||
                      a->status == 429 || a->status >= 500;
    if (a->result) {
        return has_version(jv_get(a->result, "supportedVersions")) ? 1 : 0;
    }
    if (is_refusal) {
        return a->why.code;
    }
    if (a->error && (code == -32020 || code == -32021) && (!is_http || a->status == 400)) {
        return a->why.code;
    }
    if (a->error) {
        return code == -32601 && a->status == 404 ? 1 : 0;
    }
    if (!is_http) {
        return a->why.code == TIDINGS_E_TIMEOUT ? 0 : a->why.code;
    }
    /* It answers, but not this: an older server, or none of ours. */
    bool is_other =
        a->status >= 200 && (a->why.code == TIDINGS_E_PARSE || a->why.code == TIDINGS_E_NOTFOUND ||
                             a->why.code == TIDINGS_E_CLOSED);
    return is_other ? 0 : a->why.code;
}

static void on_discovered(void *user, const struct answer *a)
{
    struct tidings_client *c = user;
    struct tidings_error why = a->why;
    if (c->stage != STAGE_ASKING) {
        return;
    }
    c->broken_probes = 0;
    int verdict = judge(c, a);
    if (verdict == 0 && c->settings.version) {
        verdict = tidings_fail(&why, TIDINGS_E_UNSUPPORTED, "the server does not speak %s",
                               c->settings.version);
    }
    if (verdict > 0) {
        struct json *server =
            jv_get(jv_get(a->result, "_meta"), "io.modelcontextprotocol/serverInfo");
        verdict = take_info(c, a->result, STR(CLIENT_MODERN), server);
        if (verdict == 0) {
            ready(c);
            return;
        }
        tidings_fail(&why, verdict, "out of memory");
    }
    if (verdict < 0) {
        client_lose(c, &why);
        return;
    }
    c->era = TIDINGS_ERA_LEGACY;
    initialize(c);
}

static void discover(struct tidings_client *c)
{
    struct tidings_error err = {0};
    struct asking a = {
        .method = "server/discover", .fn = on_discovered, .user = c, .is_connecting = true};
    a.timeout_ms = c->link->ops->has_exchanges ? 0 : c->settings.probe_ms;
    c->era = TIDINGS_ERA_MODERN;
    c->stage = STAGE_ASKING;
    if (outbound_start(c, &a, &err) < 0) {
        client_lose(c, &err);
    }
}

/* ---- legacy ---------------------------------------------------------------------------------- */

static int take_initialized(struct tidings_client *c, struct json *result,
                            struct tidings_error *err)
{
    struct tidings_str version = jv_str(jv_get(result, "protocolVersion"));
    if (!is_version(version)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the server names no protocol version");
    }
    if (c->settings.version && !str_eq(version, tidings_str(c->settings.version))) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server speaks %.*s, not %s",
                            STR_ARG(version), c->settings.version);
    }
    if (take_info(c, result, version, jv_get(result, "serverInfo")) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

static int say_initialized(struct tidings_client *c, struct tidings_error *err)
{
    struct link_message m = {
        .text = STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":{}}"),
        .method = "notifications/initialized",
        .is_tracked = true,
    };
    return c->link->ops->send(c->link, &m, err);
}

static void on_initialized(void *user, const struct answer *a)
{
    struct tidings_client *c = user;
    struct tidings_error why = a->why;
    if (c->stage != STAGE_ASKING) {
        return;
    }
    bool is_elsewhere =
        !a->result && !a->error && (a->status == 400 || a->status == 404 || a->status == 405);
    if (is_elsewhere && c->link->ops->fall_back && c->link->ops->fall_back(c->link)) {
        c->is_open = false;
        begin(c);
        return;
    }
    int rc = a->result ? take_initialized(c, a->result, &why) : why.code;
    if (rc == 0) {
        rc = say_initialized(c, &why);
    }
    if (rc < 0) {
        c->era = 0;
        client_lose(c, &why);
    }
}

void link_delivered(struct tidings_client *c, const struct tidings_error *why)
{
    if (c->stage != STAGE_ASKING) {
        return;
    }
    if (why->code < 0) {
        client_lose(c, why);
        return;
    }
    c->has_session = true;
    ready(c);
}

static void initialize(struct tidings_client *c)
{
    struct tidings_error err = {0};
    struct buf params;
    struct jw w;
    const char *version = c->settings.version ? c->settings.version : CLIENT_LEGACY;
    c->era = TIDINGS_ERA_LEGACY;
    c->stage = STAGE_ASKING;
    c->has_info = false;
    if (c->link->ops->forget_session) {
        c->link->ops->forget_session(c->link); /* of an attempt that came so far and no further */
    }
    buf_init(&params, 4096);
    jw_init(&w, &params);
    jw_begin_object(&w);
    jw_put_string(&w, STR("protocolVersion"), tidings_str(version));
    jw_put_raw(&w, STR("capabilities"), STR("{}"));
    jw_key(&w, STR("clientInfo"));
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), tidings_str(c->settings.name));
    jw_put_string(&w, STR("version"), tidings_str(tidings_version()));
    jw_end_object(&w);
    jw_end_object(&w);
    struct asking a = {.method = "initialize",
                       .params = buf_str(&params),
                       .fn = on_initialized,
                       .user = c,
                       .is_connecting = true};
    int64_t rc = params.failed ? tidings_fail(&err, params.failed, "the client's name is too long")
                               : outbound_start(c, &a, &err);
    buf_deinit(&params);
    if (rc < 0) {
        client_lose(c, &err);
    }
}

/* ---- beginning ------------------------------------------------------------------------------- */

void link_opened(struct tidings_client *c)
{
    bool is_legacy = c->settings.version ? strcmp(c->settings.version, CLIENT_MODERN) != 0
                                         : c->era == TIDINGS_ERA_LEGACY;
    c->is_open = true;
    c->is_resumed = c->era == TIDINGS_ERA_LEGACY && c->has_session;
    if (c->is_resumed) {
        ready(c);
    } else if (is_legacy) {
        initialize(c);
    } else {
        discover(c);
    }
}

static void begin(struct tidings_client *c)
{
    struct tidings_error err = {0};
    if (c->is_open) {
        link_opened(c);
        return;
    }
    c->stage = STAGE_OPENING;
    if (c->link->ops->open(c->link, &err) < 0) {
        client_lose(c, &err);
    }
}

void client_need(struct tidings_client *c)
{
    if (c->stage == STAGE_IDLE || c->stage == STAGE_PAUSED) {
        pump_unset(&c->retry);
        c->failure.code = 0;
        begin(c);
    }
}

void client_fall_back(struct tidings_client *c)
{
    if (c->settings.version) {
        struct tidings_error why;
        tidings_fail(&why, TIDINGS_E_UNSUPPORTED, "the server knows no subscriptions/listen");
        client_give_up(c, &why);
        return;
    }
    initialize(c);
}

/* ---- losing ---------------------------------------------------------------------------------- */

/* A token that has expired is followed by another, sooner or later; one that was never good, or
 * that no program renews, is not. */
static bool is_between_tokens(const struct tidings_client *c, int code)
{
    return code == TIDINGS_E_DENIED && c->is_token_refused && c->settings.on_token &&
           c->has_watched;
}

static bool may_pass(int code)
{
    return code == TIDINGS_E_IO || code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_BUSY ||
           code == TIDINGS_E_CLOSED || code == TIDINGS_E_LIMIT;
}

/* None sooner than the server wants it. */
static uint32_t next_pause(struct tidings_client *c)
{
    uint32_t own = settings_pause(&c->settings, c->failures++);
    uint32_t told = c->told_ms;
    c->told_ms = 0;
    return own > told ? own : told;
}

static void on_retry(void *user)
{
    struct tidings_client *c = user;
    if (c->stage == STAGE_PAUSED) {
        begin(c);
    }
}

void connecting_init(struct tidings_client *c)
{
    pump_timer_init(&c->retry, on_retry, c);
}

void client_give_up(struct tidings_client *c, const struct tidings_error *why)
{
    c->failure = *why;
    client_nudge(c);
}

/* Before it was known what the server is. */
static bool broke_in_probe(const struct tidings_client *c, enum client_stage stage)
{
    return stage == STAGE_ASKING && c->is_open && !c->link->ops->has_exchanges &&
           c->era == TIDINGS_ERA_MODERN && !c->has_info && !c->settings.version;
}

static void forget_guess(struct tidings_client *c)
{
    if (c->broken_probes >= PROBES) {
        c->broken_probes = PROBES - 1;
        c->era = 0;
        c->has_info = false;
    }
}

static void drop_connection(struct tidings_client *c, const struct tidings_error *why)
{
    bool all = !c->link->ops->has_exchanges;
    if (all) {
        c->is_open = c->has_session = false;
        c->link->ops->close(c->link);
    }
    watching_lost(c);
    outbound_fail_all(c, why, all ? OUTBOUND_UNSENT | OUTBOUND_SENT : OUTBOUND_UNSENT);
}

void client_lose(struct tidings_client *c, const struct tidings_error *why)
{
    enum client_stage stage = c->stage;
    struct tidings_error reason = *why; /* it may lie in what ends now */
    if (stage == STAGE_IDLE || stage == STAGE_PAUSED) {
        return;
    }
    c->stage = STAGE_IDLE;
    if (broke_in_probe(c, stage)) {
        c->link->ops->close(c->link);
        c->is_open = false;
        outbound_fail_all(c, &reason, OUTBOUND_SENT);
        c->era = ++c->broken_probes < PROBES ? 0 : TIDINGS_ERA_LEGACY;
        begin(c);
        return;
    }
    c->loss = reason;
    drop_connection(c, &reason);
    forget_guess(c);
    if (client_is_stopping(c) || c->stage != STAGE_IDLE) {
        return;
    }
    if (!may_pass(reason.code) && !is_between_tokens(c, reason.code)) {
        c->era = 0;
        client_give_up(c, &reason);
    } else if (watching_wants(c) || c->is_eager) {
        struct tidings_client_event e = {.state = TIDINGS_CLIENT_DISCONNECTED,
                                         .reason = tidings_str(reason.text),
                                         .retry_ms = next_pause(c)};
        c->stage = STAGE_PAUSED;
        pump_set(&c->pump, &c->retry, e.retry_ms);
        event_state(c, &e);
    }
}

void link_lost(struct tidings_client *c, const struct tidings_error *why)
{
    if (c->link->ops->has_exchanges && why->code == TIDINGS_E_UNSUPPORTED) {
        client_give_up(c, why); /* there is no stream, but answers there are */
    } else {
        client_lose(c, why);
    }
}

void link_session_lost(struct tidings_client *c, int64_t id, bool is_present)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CLOSED, "the session has ended");
    bool was_ready = is_present && c->stage == STAGE_READY;
    if (was_ready) {
        c->has_session = false;
        c->link->ops->forget_session(c->link);
        c->stage = STAGE_IDLE;
        watching_lost(c);
    }
    if (id > 0 && !outbound_again(c, id)) {
        outbound_fail(c, id, 404, &why);
    }
    if (!was_ready) {
        outbound_send_all(c); /* in the session that there is by now */
        return;
    }
    if (c->failures++ == 0) {
        client_need(c);
    } else {
        c->stage = STAGE_READY; /* … which is lost */
        client_lose(c, &why);
    }
}

void link_unanswered(struct tidings_client *c, int64_t id, long status,
                     const struct tidings_error *why)
{
    outbound_fail(c, id, status, why);
}

/* ---- leaving --------------------------------------------------------------------------------- */

void client_leave(struct tidings_client *c)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CANCELLED, "stopped");
    pump_unset(&c->retry);
    c->stage = STAGE_IDLE;
    c->has_session = false;
    watching_lost(c);
    outbound_fail_all(c, &why, OUTBOUND_UNSENT | OUTBOUND_SENT);
    pump_remove(&c->pump, &c->wake); /* else a client that was stopped would not wait here */
    uint64_t deadline = clock_monotonic_ms() + 10000; /* links give up much sooner */
    while (c->is_open && !c->link->ops->leave(c->link) && clock_monotonic_ms() < deadline &&
           pump_turn(&c->pump, 100, NULL) == 0) {
    }
    (void)pump_add(&c->pump, &c->wake, c->wake_fd, EPOLLIN);
    c->is_open = false;
    c->link->ops->close(c->link);
}
