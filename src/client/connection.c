/* SPDX-License-Identifier: MIT
 *
 * Connecting to a server: opens the transport, finds out the era, and begins a session if there are
 * sessions.
 *
 * The rule of the versioning page: send `server/discover`; its result, or an error that only a
 * modern server sends, means modern, everything else `initialize`. The era is remembered: a legacy
 * server is not probed again, a modern one is, since its answer may have changed with the server.
 */
#include "client/connection.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/events.h"
#include "client/json_api.h"
#include "client/questions.h"
#include "client/requests.h"
#include "client/subscriptions.h"
#include "client/tools.h"
#include "formats/json_write.h"

/* ---------------------------------------------------------------------------------------------- */

#define STREAM_PATIENCE_MS 2000u /* some servers open a stream with their first message */

static void initialize(struct tidings_client *c);
static void discover(struct tidings_client *c);

/* ---- who answered ---------------------------------------------------------------------------- */

void connection_info_deinit(struct client_info *info)
{
    mem_free(info->server_name);
    mem_free(info->server_version);
    mem_free(info->capabilities);
    mem_free(info->instructions);
    mem_free(info->answer);
    *info = (struct client_info){0};
}

/* Negotiated values go into headers: values that do not look like a revision are ignored. */
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
    c->can_log = jv_get(capabilities, "logging") != NULL;
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
        connection_info_deinit(&i);
        return TIDINGS_E_NOMEM;
    }
    connection_info_deinit(&c->info);
    tool_schemas_forget(c);
    tool_headers_forget(c);
    c->info = i;
    c->can_subscribe = !result || jv_is_true(jv_get(resources, "subscribe"));
    c->has_info = true;
    return 0;
}

const struct tidings_client_info *tidings_client_info(const struct tidings_client *c)
{
    return c && c->info.public.transport ? &c->info.public : NULL;
}

static void connection_publish_info(struct tidings_client *c)
{
    struct client_info *i = &c->info;
    i->public = (struct tidings_client_info){
        .transport = c->transport->ops->name,
        .era = c->era,
        .version = i->version,
        .server_name = i->server_name,
        .server_version = i->server_version,
        .capabilities = i->capabilities,
        .instructions = i->instructions,
        .answer = i->answer,
        .can_subscribe = c->can_subscribe,
        .session = c->transport->ops->session ? c->transport->ops->session(c->transport) : "",
        .found = c->comparison.found,
        .beats = c->heartbeat.all,
        .beat_ms = c->heartbeat.all_max,
        .reopened = c->reopened,
        .unread = c->unread,
        .replaced = c->replaced,
        .repeated = c->repeated,
    };
}

static void connection_on_log_asked(void *user, const struct response *a)
{
    (void)user; /* a server that refuses has no log, and that is all */
    (void)a;
}

static void connection_ask_log(struct tidings_client *c)
{
    char params[SERVER_LOG_PARAMS];
    if (server_log_is_asked(c, params)) {
        struct request_options a = {.method = "logging/setLevel",
                                    .params = tidings_str(params),
                                    .fn = connection_on_log_asked};
        (void)requests_start(c, &a, NULL);
    }
}

static void ready(struct tidings_client *c)
{
    c->stage = STAGE_READY;
    connection_publish_info(c);
    if (!c->is_resumed) {
        events_put_state(c, &(struct tidings_state_event){.state = TIDINGS_STATE_CONNECTED});
    }
    if (c->watch_count == 0) {
        c->failures = 0;
    }
    if (c->is_resumed) {
        (void)question_listen(c);
    }
    connection_ask_log(c);
    subscriptions_ready(c);
    requests_send_all(c);
}

/* ---- modern ---------------------------------------------------------------------------------- */

static bool has_version(struct json *list, const char *version)
{
    for (size_t i = 0; i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), tidings_str(version))) {
            return true;
        }
    }
    return false;
}

/* Checks the revisions of a server: 1: they include the modern one, 0: a legacy one; else an error
 * that lists them. */
static int connection_check_versions(struct json *list, struct tidings_error *err)
{
    static const char *const known[] = {TIDINGS_PROTOCOL_VERSIONS};
    struct tidings_str newest = STR_EMPTY;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (has_version(list, known[i])) {
            return i == 0 ? 1 : 0;
        }
    }
    for (size_t i = 0; i < jv_count(list); i++) {
        struct tidings_str one = jv_str(jv_at(list, i));
        newest = is_version(one) && str_cmp(one, newest) > 0 ? one : newest;
    }
    if (newest.len == 0) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server does not speak " CLIENT_MODERN ", nor says what it speaks");
    }
    bool is_newer = str_cmp(newest, STR(CLIENT_MODERN)) > 0;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "the server speaks %.*s%s, and nothing that this client knows (the newest "
                        "is " CLIENT_MODERN ")%s",
                        STR_ARG(newest), is_newer ? ", a newer revision" : "",
                        is_newer ? ": a newer version of tidings may" : "");
}

/* 1: modern, 0: legacy, else an error that neither would cure: `why`. */
static int connection_decide_era(const struct tidings_client *c, const struct response *a,
                                 struct tidings_error *why)
{
    int64_t code = jv_int(jv_get(a->error, "code"));
    bool is_http = c->transport->ops->has_exchanges;
    bool is_refusal = a->status == 401 || a->status == 403 || a->status == 408 ||
                      a->status == 429 || a->status >= 500;
    if (a->result) {
        struct json *versions = jv_get(a->result, "supportedVersions");
        return jv_count(versions) > 0 ? connection_check_versions(versions, why) : 0;
    }
    if (a->error && code == -32022 && (!is_http || a->status == 400)) {
        return connection_check_versions(jv_get(jv_get(a->error, "data"), "supported"), why);
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
    /* It answers, but not to this request: an older server, or another implementation. */
    bool is_other =
        a->status >= 200 && (a->why.code == TIDINGS_E_PARSE || a->why.code == TIDINGS_E_NOTFOUND ||
                             a->why.code == TIDINGS_E_CLOSED);
    return is_other ? 0 : a->why.code;
}

static void on_discovered(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct tidings_error why = a->why;
    if (c->stage != STAGE_NEGOTIATING) {
        return;
    }
    c->broken_probes = 0;
    int verdict = connection_decide_era(c, a, &why);
    if (verdict > 0 && jv_int(jv_get(a->error, "code")) == -32022) {
        if (!c->has_asked_again) { /* it refused a version that it offers */
            c->has_asked_again = true;
            discover(c);
            return;
        }
        verdict = tidings_fail(&why, TIDINGS_E_UNSUPPORTED,
                               "the server says that it speaks " CLIENT_MODERN
                               ", and refuses it (-32022)");
    }
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
        connection_lose(c, &why);
        return;
    }
    c->era = TIDINGS_ERA_LEGACY;
    initialize(c);
}

static void discover(struct tidings_client *c)
{
    struct tidings_error err = {0};
    struct request_options a = {
        .method = "server/discover", .fn = on_discovered, .user = c, .is_connecting = true};
    a.timeout_ms = c->transport->ops->has_exchanges ? 0 : c->settings.probe_ms;
    c->era = TIDINGS_ERA_MODERN;
    c->stage = STAGE_NEGOTIATING;
    if (requests_start(c, &a, &err) < 0) {
        connection_lose(c, &err);
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
    if (str_cmp(version, STR(CLIENT_MODERN)) > 0) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server speaks %.*s, a newer revision than this client knows (the "
                            "newest is " CLIENT_MODERN "): a newer version of tidings may",
                            STR_ARG(version));
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
    struct transport_message m = {
        .text = STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":{}}"),
        .method = "notifications/initialized",
        .is_tracked = true,
    };
    return transport_send(c->transport, &m, err);
}

static void connection_begin(struct tidings_client *c);

static void on_initialized(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct tidings_error why = a->why;
    if (c->stage != STAGE_NEGOTIATING) {
        return;
    }
    bool is_elsewhere =
        !a->result && !a->error && (a->status == 400 || a->status == 404 || a->status == 405);
    if (is_elsewhere && c->transport->ops->fall_back &&
        c->transport->ops->fall_back(c->transport)) {
        c->is_open = false;
        connection_begin(c);
        return;
    }
    int rc = a->result ? take_initialized(c, a->result, &why) : why.code;
    if (rc == 0) {
        rc = say_initialized(c, &why);
    }
    if (rc < 0) {
        c->era = 0;
        connection_lose(c, &why);
    }
}

static void connection_go_on(struct tidings_client *c);

void connection_delivered(struct tidings_client *c, const struct tidings_error *why)
{
    if (c->stage != STAGE_NEGOTIATING) {
        return;
    }
    if (why->code < 0) {
        connection_lose(c, why);
        return;
    }
    c->has_session = true;
    /* A server may send questions on that stream during a request, so the stream opens first. */
    c->awaits_stream = true;
    if (question_listen(c)) {
        loop_timer_start(&c->stream_patience, STREAM_PATIENCE_MS, 0);
    } else {
        connection_go_on(c);
    }
}

/* Legacy: the awaited stream is open, or there is none: ready. */
static void connection_go_on(struct tidings_client *c)
{
    if (c->awaits_stream) {
        c->awaits_stream = false;
        loop_timer_stop(&c->stream_patience);
        ready(c);
    }
}

void connection_streaming(struct tidings_client *c, bool is_seamless)
{
    c->question_listens = 0;
    subscriptions_streaming(c, is_seamless);
    connection_go_on(c);
}

static void initialize(struct tidings_client *c)
{
    struct tidings_error err = {0};
    struct buf params;
    struct jw w;
    const char *version = c->settings.version ? c->settings.version : CLIENT_LEGACY;
    c->era = TIDINGS_ERA_LEGACY;
    c->stage = STAGE_NEGOTIATING;
    c->has_info = false;
    if (c->transport->ops->forget_session) {
        /* A partial attempt may have left a session. */
        c->transport->ops->forget_session(c->transport);
    }
    buf_init(&params, 4096);
    jw_init(&w, &params);
    jw_begin_object(&w);
    jw_put_string(&w, STR("protocolVersion"), tidings_str(version));
    jw_key(&w, STR("capabilities"));
    question_put_capabilities(c, &w);
    jw_key(&w, STR("clientInfo"));
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), tidings_str(c->settings.name));
    jw_put_string(&w, STR("version"), tidings_str(tidings_version()));
    jw_end_object(&w);
    jw_end_object(&w);
    struct request_options a = {.method = "initialize",
                                .params = buf_str(&params),
                                .fn = on_initialized,
                                .user = c,
                                .is_connecting = true};
    int64_t rc = params.failed ? tidings_fail(&err, params.failed, "the client's name is too long")
                               : requests_start(c, &a, &err);
    buf_deinit(&params);
    if (rc < 0) {
        connection_lose(c, &err);
    }
}

/* ---- beginning ------------------------------------------------------------------------------- */

void connection_opened(struct tidings_client *c)
{
    bool is_legacy = c->settings.version ? strcmp(c->settings.version, CLIENT_MODERN) != 0
                                         : c->era == TIDINGS_ERA_LEGACY;
    c->is_open = true;
    c->has_asked_again = false;
    c->stray_error[0] = '\0';
    c->is_resumed = c->era == TIDINGS_ERA_LEGACY && c->has_session;
    if (c->is_resumed) {
        ready(c);
    } else if (is_legacy) {
        initialize(c);
    } else {
        discover(c);
    }
}

/* Now, even if it failed before. */
static void connection_begin(struct tidings_client *c)
{
    struct tidings_error err = {0};
    if (c->is_open) {
        connection_opened(c);
        return;
    }
    c->stage = STAGE_OPENING;
    if (c->transport->ops->open(c->transport, &err) < 0) {
        connection_lose(c, &err);
    }
}

void connection_need(struct tidings_client *c)
{
    if (c->stage == STAGE_IDLE || c->stage == STAGE_PAUSED) {
        loop_timer_stop(&c->retry);
        c->failure.code = 0;
        connection_begin(c);
    }
}

void connection_fall_back(struct tidings_client *c)
{
    if (c->settings.version) {
        struct tidings_error why;
        tidings_fail(&why, TIDINGS_E_UNSUPPORTED, "the server knows no subscriptions/listen");
        connection_give_up(c, &why);
        return;
    }
    initialize(c);
}

/* -------------------------------------------------------------------------------------------------
 * Losing a connection, reconnecting after a pause, and leaving cleanly.
 *
 * A connection that breaks before the answer to `server/discover` proves nothing about the server,
 * so the request is repeated; but some servers end instead of answering an unknown method. The
 * second time the client tries `initialize`, and the resulting era is a guess, valid only for that
 * connection. A launched program that ended before it read its input ended for its own reasons, and
 * is not restarted unless it worked before.
 */

#define PROBES 2u /* broken ones in a row, before `initialize` is tried */

/* Returns true if the token has expired, so that another may follow. A token that was never valid,
 * or that the program does not renew, has no successor. */
static bool is_between_tokens(const struct tidings_client *c, int code)
{
    return code == TIDINGS_E_DENIED && c->is_token_refused &&
           (c->settings.on_token || c->settings.credentials) && c->has_watched;
}

static bool connection_may_recover(int code)
{
    return code == TIDINGS_E_IO || code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_BUSY ||
           code == TIDINGS_E_CLOSED || code == TIDINGS_E_LIMIT;
}

/* None sooner than the server wants it. */
static uint32_t next_pause(struct tidings_client *c)
{
    uint32_t own = settings_pause(&c->settings, c->failures++);
    uint32_t retry_after = c->retry_after_ms;
    c->retry_after_ms = 0;
    return own > retry_after ? own : retry_after;
}

static void connection_on_retry(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    if (c->stage == STAGE_PAUSED) {
        connection_begin(c);
    }
}

static void connection_on_patience(struct loop_timer *timer, void *user)
{
    (void)timer;
    connection_go_on(user);
}

void connection_init(struct tidings_client *c)
{
    loop_timer_init(&c->retry, c->loop, connection_on_retry, c);
    loop_timer_init(&c->stream_patience, c->loop, connection_on_patience, c);
}

void connection_give_up(struct tidings_client *c, const struct tidings_error *why)
{
    c->failure = *why;
    events_nudge(c);
}

/* The connection was lost before the era was known. */
static bool broke_in_probe(const struct tidings_client *c, enum client_stage stage)
{
    return stage == STAGE_NEGOTIATING && c->is_open && !c->transport->ops->has_exchanges &&
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
    bool all = !c->transport->ops->has_exchanges;
    if (all) {
        c->is_open = c->has_session = false;
        c->transport->ops->close(c->transport);
        question_connection_lost(c);
    }
    subscriptions_lost(c);
    requests_fail_all(c, why, all ? REQUESTS_UNSENT | REQUESTS_SENT : REQUESTS_UNSENT);
}

void connection_lose(struct tidings_client *c, const struct tidings_error *why)
{
    enum client_stage stage = c->stage;
    struct tidings_error reason = *why;                         /* the ending request may own it */
    if (reason.code == TIDINGS_E_CLOSED && c->stray_error[0]) { /* it gave the reason */
        tidings_fail(&reason, reason.code, "%s: %s", why->text, c->stray_error);
    }
    if (stage == STAGE_IDLE || stage == STAGE_PAUSED) {
        return;
    }
    c->stage = STAGE_IDLE;
    c->awaits_stream = false;
    loop_timer_stop(&c->stream_patience);
    bool is_hopeless = c->is_unread && !c->has_info; /* it never worked */
    c->is_unread = false;
    bool is_verdict = reason.code == TIDINGS_E_PARSE || reason.code == TIDINGS_E_UNSUPPORTED;
    if (!is_verdict && broke_in_probe(c, stage) && !is_hopeless) {
        c->transport->ops->close(c->transport);
        c->is_open = false;
        requests_fail_all(c, &reason, REQUESTS_SENT);
        c->era = ++c->broken_probes < PROBES ? 0 : TIDINGS_ERA_LEGACY;
        connection_begin(c);
        return;
    }
    c->loss = reason;
    drop_connection(c, &reason);
    forget_guess(c);
    if (client_is_stopping(c) || c->stage != STAGE_IDLE) {
        return;
    }
    if (is_hopeless ||
        (!connection_may_recover(reason.code) && !is_between_tokens(c, reason.code))) {
        c->era = 0;
        connection_give_up(c, &reason);
    } else if (subscriptions_wants(c) || c->is_eager) {
        struct tidings_state_event e = {.state = TIDINGS_STATE_DISCONNECTED,
                                        .reason = tidings_str(reason.text),
                                        .retry_ms = next_pause(c)};
        c->stage = STAGE_PAUSED;
        loop_timer_start(&c->retry, e.retry_ms, 0);
        events_put_state(c, &e);
    }
}

void connection_lost(struct tidings_client *c, const struct tidings_error *why)
{
    bool is_of_questions = c->transport->ops->has_exchanges && c->era == TIDINGS_ERA_LEGACY &&
                           !subscriptions_wants(c) && question_is_offered(c);
    if (c->awaits_stream) {
        connection_go_on(c); /* without it */
    } else if (is_of_questions && c->stage == STAGE_READY) {
        question_stream_lost(c, why);
    } else if (c->transport->ops->has_exchanges && why->code == TIDINGS_E_UNSUPPORTED) {
        connection_give_up(c, why); /* no stream, but requests work */
    } else {
        connection_lose(c, why);
    }
}

void connection_session_lost(struct tidings_client *c, int64_t id, bool is_present)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CLOSED, "the session has ended");
    if (c->awaits_stream && id == 0) {
        connection_go_on(
            c); /* the stream was refused; requests show whether the session is valid */
        return;
    }
    bool was_ready = is_present && c->stage == STAGE_READY;
    if (was_ready) {
        c->has_session = false;
        c->transport->ops->forget_session(c->transport);
        c->stage = STAGE_IDLE;
        question_connection_lost(c);
        subscriptions_lost(c);
    }
    if (id > 0 && !requests_retry(c, id)) {
        requests_fail(c, id, 404, &why);
    }
    if (!was_ready) {
        requests_send_all(c); /* in the current session */
        return;
    }
    if (c->failures++ == 0) {
        connection_need(c);
    } else {
        c->stage = STAGE_READY; /* … which is lost */
        connection_lose(c, &why);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

void connection_begin_leave(struct tidings_client *c)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CANCELLED, "stopped");
    loop_timer_stop(&c->retry);
    c->stage = STAGE_IDLE;
    c->has_session = c->awaits_stream = false;
    loop_timer_stop(&c->stream_patience);
    question_connection_lost(c);
    subscriptions_lost(c);
    requests_fail_all(c, &why, REQUESTS_UNSENT | REQUESTS_SENT);
    c->leave_until = clock_monotonic_ms() + CLIENT_LEAVE_MS; /* transports give up much sooner */
}

bool connection_has_left(struct tidings_client *c)
{
    return !c->is_open || c->transport->ops->leave(c->transport) ||
           clock_monotonic_ms() >= c->leave_until;
}

void connection_disconnect(struct tidings_client *c)
{
    c->is_open = false;
    c->transport->ops->close(c->transport);
}

void connection_leave(struct tidings_client *c)
{
    connection_begin_leave(c);
    while (!connection_has_left(c)) {
        loop_turn_for(c->loop, 100); /* even for a client that was stopped */
    }
    client_show_stop(c);
    connection_disconnect(c);
}
