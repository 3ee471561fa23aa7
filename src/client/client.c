/* SPDX-License-Identifier: MIT
 *
 * The client behind <tidings/client.h>: its life and its loop. client/client_internal.h names its
 * parts.
 */
#include "client/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/net/fetch.h"
#include "base/str.h"
#include "base/time.h"
#include "client/client_internal.h"
#include "client/connection.h"
#include "client/copy.h"
#include "client/events.h"
#include "client/json_api.h"
#include "client/questions.h"
#include "client/requests.h"
#include "client/subscriptions.h"
#include "client/tools.h"
#include "formats/http_fields.h"

/* -------------------------------------------------------------------------------------------------
 * The options of a client, checked and copied.
 */

static uint32_t or_default(uint32_t value, uint32_t preset)
{
    return value > 0 ? value : preset;
}

/* False: out of memory. */
static bool client_settings_take(char **at, const char *text)
{
    *at = text ? str_dup(tidings_str(text)) : NULL;
    return !text || *at;
}

void settings_drop_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++) {
        str_free_secret(list[i]); /* headers and variables may be */
    }
    mem_free(list);
}

uint32_t settings_pause(const struct client_settings *s, unsigned failures)
{
    uint64_t pause = s->retry_min_ms;
    for (unsigned i = 0; i < failures && pause < s->retry_max_ms; i++) {
        pause *= 2;
    }
    pause = pause < s->retry_max_ms ? pause : s->retry_max_ms;
    uint32_t least = failures == 0 ? 0 : (uint32_t)(pause / 2);
    return least + random_upto((uint32_t)pause - least);
}

static char **settings_copy_list(const char *const *list)
{
    size_t count = 0;
    while (list[count]) {
        count++;
    }
    char **copy = mem_zalloc((count + 1) * sizeof(*copy));
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = str_dup(tidings_str(list[i]));
        if (!copy[i]) {
            settings_drop_list(copy);
            return NULL;
        }
    }
    return copy;
}

/* "Name: value": a token, a colon, and nothing that would end the line. */
static bool is_header(const char *line)
{
    const char *colon = strchr(line, ':');
    bool ok = colon && colon > line && strlen(line) <= 8192;
    for (const char *p = line; ok && *p; p++) {
        unsigned char ch = (unsigned char)*p;
        ok = p < colon ? ch > ' ' && ch < 0x7f : ch >= ' ' && ch != 0x7f;
    }
    return ok;
}

static int settings_check_version(const char *version, struct tidings_error *err)
{
    static const char *const versions[] = {TIDINGS_PROTOCOL_VERSIONS};
    bool is_known = false;
    struct buf known;
    buf_init(&known, 256);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && !is_known; i++) {
        is_known = strcmp(version, versions[i]) == 0;
        buf_putf(&known, "%s%s", i > 0 ? ", " : "", versions[i]);
    }
    int rc = is_known ? 0
                      : tidings_fail(err, TIDINGS_E_INVALID,
                                     "'%.40s' is not a protocol revision (accepted: %s)", version,
                                     known.ptr ? known.ptr : TIDINGS_PROTOCOL_MODERN);
    buf_deinit(&known);
    return rc;
}

static int settings_check(const struct tidings_client_options *o, struct tidings_error *err)
{
    int rc = o->version ? settings_check_version(o->version, err) : 0;
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; o->headers && o->headers[i]; i++) {
        if (i >= CLIENT_MAX_HEADERS || !is_header(o->headers[i])) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "'%.80s' cannot be sent as a header (accepted: up to %u lines "
                                "'Name: value')",
                                o->headers[i], CLIENT_MAX_HEADERS);
        }
    }
    for (const char *p = o->token; p && *p; p++) {
        if (*p <= ' ' || *p > '~') {
            return tidings_fail(err, TIDINGS_E_INVALID, "a token is visible ASCII without blanks");
        }
    }
    return 0;
}

static int settings_init(struct client_settings *s, const struct tidings_client_options *options,
                         struct tidings_error *err)
{
    static const struct tidings_client_options none = {0};
    const struct tidings_client_options *o = options ? options : &none;
    *s = (struct client_settings){
        .timeout_ms = or_default(o->timeout_ms, 30000),
        .retry_min_ms = or_default(o->retry_min_ms, 1000),
        .retry_max_ms = or_default(o->retry_max_ms, 30000),
        .probe_ms = or_default(o->probe_ms, 5000),
        .max_bytes = o->max_bytes > 0 ? o->max_bytes : (size_t)16 << 20,
        .on_token = o->on_token,
        .token_user = o->token_user,
        .credentials = o->credentials,
        .on_stderr = o->on_stderr,
        .stderr_user = o->stderr_user,
        .on_wire = o->on_wire,
        .wire_user = o->wire_user,
        .list_changes = o->list_changes,
        .no_compare = o->no_compare,
        .verify_ms = o->verify_ms,
        .silence_ms = o->silence_ms,
    };
    (void)trace_read(tidings_str(o->traceparent ? o->traceparent : ""),
                     tidings_str(o->tracestate ? o->tracestate : ""), &s->trace);
    int rc = RESERVED_CHECK(o, err);
    rc = rc == 0 ? settings_check(o, err) : rc;
    if (rc < 0) {
        return rc;
    }
    bool ok = client_settings_take(&s->name, o->name ? o->name : "tidings") &&
              client_settings_take(&s->token, o->token) &&
              client_settings_take(&s->version, o->version) &&
              client_settings_take(&s->directory, o->directory) &&
              client_settings_take(&s->ca_file, o->ca_file) &&
              client_settings_take(&s->cert_file, o->cert_file) &&
              client_settings_take(&s->key_file, o->key_file);
    ok = ok && (!o->headers || (s->headers = settings_copy_list(o->headers)));
    ok = ok && (!o->env || (s->env = settings_copy_list(o->env)));
    return ok ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* `options` may be NULL. After a failure (TIDINGS_E_INVALID, TIDINGS_E_NOMEM) too there is
 * something to deinit. */
static void settings_deinit(struct client_settings *s)
{
    mem_free(s->name);
    str_free_secret(s->token);
    mem_free(s->version);
    mem_free(s->directory);
    mem_free(s->ca_file);
    mem_free(s->cert_file);
    mem_free(s->key_file);
    settings_drop_list(s->headers);
    settings_drop_list(s->env);
    *s = (struct client_settings){0};
}

/* "Authorization: Bearer …", or nothing; NUL-terminated, as every struct buf. */
static void settings_put_token(const struct client_settings *s, struct buf *out)
{
    char *fresh = s->on_token ? s->on_token(s->token_user) : NULL;
    const char *token = s->on_token ? fresh : s->token;
    bool is_fit = token && token[0];
    for (const char *p = token; is_fit && *p; p++) {
        is_fit = *p > ' ' && *p <= '~'; /* else it would be another header */
    }
    if (is_fit) {
        buf_putf(out, "Authorization: Bearer %s", token);
    }
    str_free_secret(fresh);
}

/* The server refused the token in `line`. Returns true if the program has another one, which is in
 * `line` then. */
static bool settings_renew_token(const struct client_settings *s, struct buf *line)
{
    struct buf fresh;
    buf_init_secret(&fresh, CLIENT_MAX_TOKEN_LINE);
    if (s->on_token) {
        settings_put_token(s, &fresh);
    }
    bool is_another = fresh.len > 0 && !str_eq(buf_str(&fresh), buf_str(line));
    if (is_another) {
        buf_clear(line);
        buf_puts(line, buf_str(&fresh));
    }
    buf_deinit(&fresh);
    return is_another && !line->failed;
}

/* -------------------------------------------------------------------------------------------------
 * Asks the program's credentials for the header lines.
 */

#define CREDENTIALS_LINE_MAX 65536u

void credentials_lines_init(struct credentials_lines *l)
{
    l->count = 0;
    l->server = NULL;
    for (size_t i = 0; i < CREDENTIALS_LINES; i++) {
        buf_init_secret(&l->lines[i], CREDENTIALS_LINE_MAX);
    }
}

void credentials_lines_deinit(struct credentials_lines *l)
{
    for (size_t i = 0; i < CREDENTIALS_LINES; i++) {
        buf_deinit(&l->lines[i]);
    }
    l->count = 0;
}

static int credentials_put(void *to, const char *line)
{
    struct credentials_lines *l = to;
    const char *colon = strchr(line, ':');
    if (!colon || colon == line) {
        return TIDINGS_E_INVALID;
    }
    for (const char *p = line; *p; p++) { /* rejects bytes that could begin another header */
        if (*p > '~' || *p < ' ' || (p < colon && *p == ' ')) {
            return TIDINGS_E_INVALID;
        }
    }
    if (l->count == CREDENTIALS_LINES) {
        return TIDINGS_E_LIMIT;
    }
    buf_clear(&l->lines[l->count]);
    int rc = buf_puts(&l->lines[l->count], tidings_str(line));
    l->count += rc == 0;
    return rc;
}

int credentials_lines_fill(struct credentials_lines *l, const struct client_settings *s,
                           const char *method, const char *url)
{
    const struct tidings_credentials *c = s->credentials;
    l->count = 0;
    if (c) {
        struct tidings_credentials_request request = {
            .method = method, .url = url, .server = l->server};
        return c->show ? c->show(c->user, &request, credentials_put, l) : 0;
    }
    buf_clear(&l->lines[0]);
    settings_put_token(s, &l->lines[0]);
    l->count = l->lines[0].len > 0;
    return l->lines[0].failed;
}

bool credentials_lines_renew(struct credentials_lines *l, const struct client_settings *s)
{
    if (s->credentials || !settings_renew_token(s, &l->lines[0])) {
        return false;
    }
    l->count = 1;
    return true;
}

struct tidings_str credentials_lines_authorization(const struct credentials_lines *l)
{
    static const char name[] = "Authorization:";
    for (size_t i = 0; i < l->count; i++) {
        if (strncasecmp(l->lines[i].ptr, name, sizeof(name) - 1) == 0) {
            return buf_str(&l->lines[i]);
        }
    }
    return STR_EMPTY;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void credentials_on_ready(struct loop_poll *poll, int events, void *user)
{
    struct tidings_client *c = user;
    const struct tidings_credentials *own = c->settings.credentials;
    (void)poll;
    (void)events;
    own->step(own->user);
    uint64_t renewals = own->renewals ? own->renewals(own->user) : 0;
    if (renewals != c->renewals) {
        c->renewals = renewals;
        subscriptions_renewed(c);
    }
}

static int credentials_attach(struct tidings_client *c, struct tidings_error *err)
{
    const struct tidings_credentials *own = c->settings.credentials;
    if (!own || !own->fd) {
        return 0;
    }
    struct tidings_error why = {0};
    c->credentials =
        loop_poll_open_shared(c->loop, own->fd(own->user), credentials_on_ready, c, &why);
    return c->credentials ? loop_poll_set_events(c->credentials, LOOP_READ)
                          : tidings_fail(err, why.code, "wait for credentials: %s", why.text);
}

/* -------------------------------------------------------------------------------------------------
 * Maps JSON-RPC errors and HTTP statuses of servers to tidings codes. The protocol has had several
 * codes for the same error, and servers have their own.
 */

#define BODY_MAX 160u /* bytes of the server's own message */

/* 501: it never will. */
static bool is_busy(long status)
{
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

/* For http://HOST:PORT and http://HOST:PORT/. */
static bool errors_has_no_path(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    return !path || path[1] == '\0';
}

int errors_from_status(const char *url, long status, struct tidings_str challenge,
                       struct tidings_error *err)
{
    if (status == 401 || status == 403) {
        return bearer_refused(status, challenge, err);
    }
    if (status == 404) {
        return tidings_fail(
            err, TIDINGS_E_NOTFOUND, "no MCP endpoint at that address (HTTP 404): %s",
            url && errors_has_no_path(url) ? "name its path too, which is /mcp for most servers"
                                           : "ask the server's operator for its path");
    }
    if (is_busy(status)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server cannot answer now (HTTP %ld)", status);
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "the answer is not one of an MCP server (HTTP %ld)",
                        status);
}

/* The error message in a JSON object, under its usual names; empty: none. */
static struct tidings_str errors_sentence(struct json *root)
{
    static const char *const names[] = {"error_description", "message", "detail", "error", "title"};
    struct json *inner = jv_get(root, "error");
    struct tidings_str text = jv_str(jv_get(inner, "message"));
    for (size_t i = 0; text.len == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        text = jv_str(jv_get(root, names[i]));
    }
    return text;
}

static void errors_append(struct tidings_str text, struct tidings_error *err)
{
    char line[BODY_MAX + 1];
    struct tidings_str rest;
    text = str_trim(str_cut(text, '\n', &rest, NULL), " \t\r");
    if (text.len == 0 || !str_is_utf8(text)) {
        return;
    }
    size_t len = text.len < BODY_MAX ? text.len : BODY_MAX;
    while (len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) {
        len--; /* not within a character */
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        line[i] = c < ' ' || c == 0x7f ? '?' : text.ptr[i];
    }
    line[len] = '\0';
    struct tidings_error told = *err;
    tidings_fail(err, told.code, "%s: %s", told.text, line);
}

void errors_add_body(struct tidings_str body, struct tidings_error *err)
{
    struct json *root = NULL;
    body = str_trim(body, " \t\r\n");
    if (body.len == 0 || body.ptr[0] == '<' || body.ptr[0] == '[') {
        return;
    }
    if (body.ptr[0] != '{') {
        errors_append(body, err);
    } else if (json_parse_lenient(body, &root, NULL, NULL) == 0) {
        errors_append(errors_sentence(root), err);
    }
    jv_unref(root);
}

/* Tidings servers, and others that adopted it, give reasons there that the protocol's codes cannot
 * express. */
int errors_from_reason(struct json *data)
{
    static const struct {
        const char *reason;
        int code;
    } known[] = {
        {"deleted", TIDINGS_E_GONE},         {"not_found", TIDINGS_E_NOTFOUND},
        {"too_large", TIDINGS_E_LIMIT},      {"unknownEntity", TIDINGS_E_NOTFOUND},
        {"unknownType", TIDINGS_E_NOTFOUND}, {"internal", TIDINGS_E_INTERNAL},
        {"invalid", TIDINGS_E_INVALID},
    };
    struct tidings_str reason = jv_str(jv_get(data, "reason"));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (str_eq(reason, tidings_str(known[i].reason))) {
            return known[i].code;
        }
    }
    return 0;
}

static bool mentions(struct tidings_str text, struct tidings_str what)
{
    for (size_t i = 0; i + what.len <= text.len; i++) {
        if (strncasecmp(text.ptr + i, what.ptr, what.len) == 0) {
            return true;
        }
    }
    return false;
}

/* Servers on the official SDKs begin their messages with "MCP error -32601: ", which is cut off
 * because the client adds the code itself. */
static struct tidings_str errors_message(struct json *error, int64_t code)
{
    struct tidings_str text = jv_str(jv_get(error, "message"));
    char prefix[48];
    int len = snprintf(prefix, sizeof(prefix), "MCP error %" PRId64 ": ", code);
    struct tidings_str begin = tidings_strn(prefix, (size_t)len);
    while (str_starts(text, begin) && text.len > begin.len) {
        text = tidings_strn(text.ptr + begin.len, text.len - begin.len);
    }
    return text;
}

/* -32002 until 2025-11-25, -32602 since; -32001 and -32601 elsewhere. */
static bool is_missing(struct json *error, int64_t code, long status)
{
    struct json *data = jv_get(error, "data");
    struct tidings_str text = jv_str(jv_get(error, "message"));
    bool says_so = mentions(text, STR("not found"));
    bool names_uri = jv_get(data, "uri") && !jv_get(data, "reason");
    return code == -32002 || (code == -32001 && (status == 0 || status == 200)) ||
           (code == -32601 &&
            (mentions(text, STR("resource not found")) || mentions(text, STR("unknown tool")) ||
             mentions(text, STR("unknown prompt")))) ||
           (code == -32602 && (says_so || names_uri));
}

int errors_from_response(struct json *error, long status, struct tidings_error *err)
{
    int64_t code = jv_int(jv_get(error, "code"));
    struct tidings_str text = errors_message(error, code);
    int reason = errors_from_reason(jv_get(error, "data"));
    int own = reason < 0                         ? reason
              : is_busy(status)                  ? TIDINGS_E_BUSY
              : status == 401 || status == 403   ? TIDINGS_E_DENIED
              : is_missing(error, code, status)  ? TIDINGS_E_NOTFOUND
              : code == -32601 || code == -32022 ? TIDINGS_E_UNSUPPORTED
              : code == -32603                   ? TIDINGS_E_BUSY
                                                 : TIDINGS_E_INVALID;
    return tidings_fail(err, own, "%.*s (%" PRId64 ")", STR_ARG(text), code);
}

void errors_name_missing(const char *method, const char *capabilities, struct tidings_error *err)
{
    static const struct {
        const char *methods, *capability;
    } known[] = {
        {"resources/", "resources"},
        {"prompts/", "prompts"},
        {"tools/", "tools"},
        {"completion/", "completions"},
    };
    struct json *all = NULL;
    if (json_parse_lenient(tidings_str(capabilities), &all, NULL, NULL) < 0) {
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool is_it = str_starts(tidings_str(method), tidings_str(known[i].methods));
        if (is_it && !jv_get(all, known[i].capability)) {
            tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server offers no %s (-32601)",
                         known[i].capability);
        }
    }
    jv_unref(all);
}

bool errors_want_tls(struct tidings_str text)
{
    return mentions(text, STR("TLS")) || mentions(text, STR("HTTPS"));
}

/* -------------------------------------------------------------------------------------------------
 * Requests the log of a server and passes it to the program.
 */

#define LEVEL_KEY "io.modelcontextprotocol/logLevel"

/* By enum tidings_log_level. */
static const char *const server_log_levels[] = {"debug", "info",     "notice", "warning",
                                                "error", "critical", "alert",  "emergency"};

int tidings_client_on_log(struct tidings_client *c, enum tidings_log_level least,
                          tidings_client_log_fn fn, void *user, struct tidings_error *err)
{
    int rc = client_check(c, err);
    if (rc < 0) {
        return rc;
    }
    if ((unsigned)least > TIDINGS_LOG_OFF) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no level %d of a log", (int)least);
    }
    if (c->is_open || c->has_info) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "set the log callback before the client connects");
    }
    c->on_log = least == TIDINGS_LOG_OFF ? NULL : fn;
    c->log_user = user;
    c->log_least = least;
    return 0;
}

bool server_log_is_asked(const struct tidings_client *c, char params[SERVER_LOG_PARAMS])
{
    if (!c->on_log || !c->can_log || c->era != TIDINGS_ERA_LEGACY || c->is_resumed) {
        return false; /* the session already has the level */
    }
    snprintf(params, SERVER_LOG_PARAMS, "{\"level\":\"%s\"}", server_log_levels[c->log_least]);
    return true;
}

void server_log_put_level(const struct tidings_client *c, const struct json *meta, struct jw *w)
{
    if (c->on_log && c->era != TIDINGS_ERA_LEGACY && !jv_get(meta, LEVEL_KEY)) {
        jw_put_string(w, STR(LEVEL_KEY), tidings_str(server_log_levels[c->log_least]));
    }
}

void server_log_received(struct tidings_client *c, struct json *params)
{
    struct tidings_str level = jv_str(jv_get(params, "level"));
    unsigned at = 0;
    while (at < TIDINGS_LOG_OFF && !str_eq(level, tidings_str(server_log_levels[at]))) {
        at++;
    }
    if (!c->on_log || at == TIDINGS_LOG_OFF || at < c->log_least || client_is_stopping(c)) {
        return;
    }
    struct json *data = jv_get(params, "data");
    char *text = data ? json_text_of(c, data, NULL) : NULL;
    c->on_log(c->log_user, (enum tidings_log_level)at, jv_str(jv_get(params, "logger")),
              tidings_str(text ? text : "null"));
    mem_free(text);
}

/* -------------------------------------------------------------------------------------------------
 * Counting the comments and pings of a server, and the timer that ends a silent connection.
 */

uint64_t heartbeat_limit(const struct tidings_client *c)
{
    const struct heartbeat *s = &c->heartbeat;
    if (c->settings.silence_ms > 0) {
        return c->settings.silence_ms;
    }
    return s->beats >= HEARTBEAT_BEATS ? 3 * s->longest + HEARTBEAT_MORE_MS : 0;
}

/* Receiving often does not set the timer each time: it checks the time of the last bytes when it is
 * due. */
static void heartbeat_arm(struct tidings_client *c)
{
    struct heartbeat *s = &c->heartbeat;
    uint64_t limit = heartbeat_limit(c);
    if (s->is_listening && limit > 0 && !loop_timer_is_running(&s->timer)) {
        uint64_t past = clock_monotonic_ms() - s->received_at;
        loop_timer_start(&s->timer, past < limit ? limit - past : 0, 0);
    }
}

static void heartbeat_on_timer(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    struct heartbeat *s = &c->heartbeat;
    struct tidings_error why;
    uint64_t limit = heartbeat_limit(c);
    (void)timer;
    if (!s->is_listening || c->stage != STAGE_READY) {
        return;
    }
    if (clock_monotonic_ms() - s->received_at < limit) {
        heartbeat_arm(c);
        return;
    }
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "the server sent nothing for %" PRIu64 " ms", limit);
    if (c->transport->ops->hang_up) {
        c->transport->ops->hang_up(c->transport);
    }
    connection_lose(c, &why);
}

void heartbeat_init(struct tidings_client *c)
{
    loop_timer_init(&c->heartbeat.timer, c->loop, heartbeat_on_timer, c);
}

void heartbeat_begin(struct tidings_client *c)
{
    if (!c->heartbeat.is_listening) {
        c->heartbeat.is_listening = true;
        c->heartbeat.received_at = clock_monotonic_ms();
    }
    heartbeat_arm(c);
}

void heartbeat_end(struct tidings_client *c)
{
    struct heartbeat *s = &c->heartbeat;
    loop_timer_stop(&s->timer);
    s->is_listening = false;
    s->beats = 0;
    s->longest = 0;
}

void heartbeat_received(struct tidings_client *c, bool is_beat)
{
    struct heartbeat *s = &c->heartbeat;
    if (!s->is_listening) {
        return;
    }
    uint64_t now = clock_monotonic_ms(), past = now - s->received_at;
    s->received_at = now;
    if (is_beat && past >= HEARTBEAT_SHORTEST_MS) {
        s->beats += s->beats < HEARTBEAT_BEATS;
        s->longest = past > s->longest ? past : s->longest;
        s->all_max = past > s->all_max ? past : s->all_max;
        c->info.public.beats = ++s->all;
        c->info.public.beat_ms = s->all_max;
    }
    heartbeat_arm(c);
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- life ------------------------------------------------------------------------------------ */

static void client_serve(struct tidings_client *c);

/* For a client with its own loop: the descriptor was readable, and there is no other work. */
static void on_nudge(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    if (c->host.loop && !c->is_stepping && !client_is_stopping(c)) {
        client_serve(c);
    }
}

static void on_wire(struct tidings_client *c, const struct tidings_client_wire *wire)
{
    if (c->settings.on_wire) {
        c->settings.on_wire(c->settings.wire_user, wire);
    }
}

static const struct transport_events transport_events = {
    .wire = on_wire,
    .opened = connection_opened,
    .received = inbound_message,
    .unanswered = requests_fail,
    .session_lost = connection_session_lost,
    .streaming = connection_streaming,
    .delivered = connection_delivered,
    .active = inbound_active,
    .admitted = requests_prolong,
    .lost = connection_lost,
};

/* False: there is none. */
static bool set_transport(struct tidings_client *c, struct transport *take)
{
    c->transport = take;
    if (take) {
        take->events = &transport_events;
    }
    return take != NULL;
}

static int client_set_loop(struct tidings_client *c, const struct client_host *host,
                           struct tidings_error *err)
{
    if (host) {
        c->host = *host;
        c->loop = host->loop;
        return 0;
    }
    c->loop = loop_create(err);
    return c->loop ? loop_show_timers(c->loop, err) : TIDINGS_E_IO;
}

static void client_free(struct tidings_client *c);

/* Everything but the transport. */
static struct tidings_client *client_create(const struct client_host *host,
                                            const struct tidings_client_options *options,
                                            struct tidings_error *err)
{
    struct tidings_client *c = mem_zalloc(sizeof(*c));
    if (!c) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    c->challenge = "";
    list_init(&c->unsent);
    list_init(&c->in_flight);
    list_init(&c->events);
    list_init(&c->copies);
    map_init(&c->requests);
    int rc = client_set_loop(c, host, err);
    loop_timer_init(&c->nudge, c->loop, on_nudge, c);
    question_init(c);
    connection_init(c);
    subscriptions_init(c);
    subscriptions_later_init(c);
    rc = rc == 0 ? settings_init(&c->settings, options, err) : rc;
    rc = rc == 0 ? credentials_attach(c, err) : rc;
    if (rc < 0) {
        client_free(c);
        return NULL;
    }
    events_nudge(c); /* the first step connects */
    return c;
}

struct tidings_client *client_create_on(const struct client_host *host, const char *address,
                                        const struct tidings_client_options *options,
                                        struct tidings_error *err)
{
    if (!address) {
        tidings_fail(err, TIDINGS_E_INVALID, "no address of a server: it is NULL");
        return NULL;
    }
    struct tidings_client *c = client_create(host, options, err);
    if (c && !set_transport(c, transport_create(c, address, err))) {
        client_free(c);
        return NULL;
    }
    return c;
}

struct tidings_client *tidings_client_create(const char *address,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    return client_create_on(NULL, address, options, err);
}

struct tidings_client *client_launch_on(const struct client_host *host, const char *const *argv,
                                        const struct tidings_client_options *options,
                                        struct tidings_error *err)
{
    if (!argv || !argv[0] || !argv[0][0]) {
        tidings_fail(err, TIDINGS_E_INVALID, "no program to launch");
        return NULL;
    }
    struct tidings_client *c = client_create(host, options, err);
    char **copy = c ? settings_copy_list(argv) : NULL;
    if (c && !copy) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (copy) {
        (void)set_transport(c, transport_child_create(c, copy, err));
    }
    if (c && !c->transport) {
        client_free(c);
        return NULL;
    }
    return c;
}

struct tidings_client *tidings_client_launch(const char *const *argv,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    return client_launch_on(NULL, argv, options, err);
}

/* ---- its end --------------------------------------------------------------------------------- */

/* It has left. */
static void client_free(struct tidings_client *c)
{
    if (c->transport) {
        c->transport->ops->destroy(c->transport);
    }
    question_deinit(c);
    events_drop_all(c);
    subscriptions_deinit(c);
    tool_schemas_forget(c);
    tool_headers_forget(c);
    map_deinit(&c->requests);
    connection_info_deinit(&c->info);
    mem_free(c->last_error);
    loop_timer_stop(&c->nudge);
    loop_poll_close(c->credentials);
    if (!c->host.loop) {
        loop_destroy(c->loop);
    }
    settings_deinit(&c->settings);
    mem_free(c);
}

static void client_on_closed(void *client)
{
    struct tidings_client *c = client;
    struct client_host host = c->host;
    connection_disconnect(c);
    client_free(c);
    if (host.on_closed) {
        host.on_closed(host.user);
    }
}

static void client_on_turn_end(void *user)
{
    struct tidings_client *c = user;
    if (connection_has_left(c)) {
        loop_hook_remove(&c->turn_end);
        loop_discard(c->loop, &c->discard, client_on_closed, c);
    }
}

/* On the program's loop: leaves in turns to come. */
static void client_begin_end(struct tidings_client *c)
{
    copy_end_all(c);
    connection_begin_leave(c);
    loop_hook_add(c->loop, &c->turn_end, client_on_turn_end, c);
    loop_timer_start(&c->nudge, CLIENT_LEAVE_MS, 0); /* there is a turn then */
}

void client_hold(struct tidings_client *c)
{
    c->holds++;
}

void client_release(struct tidings_client *c)
{
    if (--c->holds == 0 && c->is_destroyed) {
        client_begin_end(c);
    }
}

void tidings_client_destroy(struct tidings_client *c)
{
    if (!c) {
        return;
    }
    if (c->host.loop) {
        atomic_store(&c->stopping, true);
        c->is_destroyed = true;
        client_hold(c);
        client_release(c);
        return;
    }
    copy_end_all(c);
    connection_leave(c);
    client_free(c);
}

void tidings_client_on_state(struct tidings_client *c, tidings_state_fn fn, void *user)
{
    if (c) {
        c->on_state = fn;
        c->state_user = user;
    }
}

void tidings_client_on_warning(struct tidings_client *c, tidings_client_warning_fn fn, void *user)
{
    if (c) {
        c->on_warning = fn;
        c->warning_user = user;
    }
}

void tidings_client_on_notification(struct tidings_client *c, tidings_client_notification_fn fn,
                                    void *user)
{
    if (c) {
        c->on_notification = fn;
        c->notification_user = user;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

void tidings_client_stop(struct tidings_client *c)
{
    if (!c) {
        return;
    }
    atomic_store(&c->stopping, true);
    if (!c->host.loop) {
        loop_stop(c->loop); /* may interrupt anything */
    }
}

void client_show_stop(struct tidings_client *c)
{
    if (client_is_stopping(c) && !c->host.loop) {
        loop_stop(c->loop); /* a turn has used up the one before */
    }
}

void client_turn(struct tidings_client *c, int timeout_ms)
{
    loop_turn_for(c->loop, timeout_ms);
    client_show_stop(c);
}

int tidings_client_fd(const struct tidings_client *c)
{
    return c && !c->host.loop ? loop_fd(c->loop) : -1;
}

static void client_deliver(struct tidings_client *c)
{
    events_deliver(c);
    question_deliver(c);
    subscriptions_sweep(c);
}

/* A step's work, in a turn of the program's loop. */
static void client_serve(struct tidings_client *c)
{
    client_hold(c);
    c->is_stepping = c->is_eager = true;
    if (c->stage == STAGE_IDLE && c->failure.code == 0) {
        connection_need(c);
    }
    client_deliver(c);
    c->is_stepping = false;
    if (c->failure.code < 0 && !client_is_stopping(c)) {
        struct tidings_error why = c->failure;
        c->failure.code = 0;
        if (c->host.on_failed) {
            c->host.on_failed(c->host.user, &why);
        }
    }
    if (!list_empty(&c->events) || question_has_news(c)) {
        events_nudge(c); /* events of nested turns */
    }
    client_release(c);
}

static int client_check_step(const struct tidings_client *c, const char *what,
                             struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (c->is_stepping) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a callback cannot %s its client", what);
    }
    return c->host.loop ? tidings_fail(err, TIDINGS_E_INVALID, "the client is on another loop") : 0;
}

int tidings_client_step(struct tidings_client *c, int timeout_ms, struct tidings_error *err)
{
    if (client_check_step(c, "step", err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (client_is_stopping(c)) {
        return 0;
    }
    c->is_stepping = c->is_eager = true;
    if (c->stage == STAGE_IDLE && c->failure.code == 0) {
        connection_need(c);
    }
    bool has_news = !list_empty(&c->events) || c->failure.code < 0 || question_has_news(c);
    client_turn(c, has_news ? 0 : timeout_ms);
    client_deliver(c);
    c->is_stepping = false;
    if (client_is_stopping(c)) {
        return 0;
    }
    if (c->failure.code < 0) {
        int rc = c->failure.code;
        if (err) {
            *err = c->failure;
        }
        c->failure.code = 0;
        return rc;
    }
    return 1;
}

int tidings_client_run(struct tidings_client *c, struct tidings_error *err)
{
    if (client_check_step(c, "run", err) < 0) {
        return TIDINGS_E_INVALID;
    }
    int rc = 1;
    while (rc > 0) {
        rc = tidings_client_step(c, -1, err);
    }
    connection_leave(c);
    return rc;
}

/* ---- about ----------------------------------------------------------------------------------- */

char *tidings_client_library(void)
{
    const char *library = fetch_library();
    if (!library) {
        return NULL;
    }
    /* It names everything it was built with; itself and its TLS library are what matters. */
    struct tidings_str name = tidings_str(library);
    struct tidings_str rest;
    size_t len = str_cut(name, ' ', &rest, NULL).len;
    if (rest.len > 0) {
        len += 1 + str_cut(rest, ' ', &rest, NULL).len;
    }
    return str_dup(tidings_strn(name.ptr, len));
}
