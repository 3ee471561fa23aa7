/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: does the server answer wrong requests with the errors of the specification?
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/probe/probe.h"
#include "bin/remote/remote.h"

#define NO_METHOD "tidings-probe/nothing"
#define NOWHERE "tidings-probe://no/such/resource"
#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"%s\","                               \
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"tidings\",\"version\":\"0\"},"             \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* ---- through the client ---------------------------------------------------------------------- */

/* The code of the error it is answered with; 0: a result, or nothing. */
static int probe_errors_code_of(struct run *r, const char *method, const char *params,
                                char **ret_result, struct tidings_error *err)
{
    *ret_result = tidings_client_request(r->client, method, params, err);
    const char *error = *ret_result ? NULL : tidings_client_last_error(r->client);
    char *code = error ? tidings_json_get(tidings_str(error), "/code") : NULL;
    int number = code ? (int)strtol(code, NULL, 10) : 0;
    tidings_free(code);
    return number;
}

struct wrong {
    const char *id, *method, *params;
    int code;
    enum verdict otherwise; /* another code, or a result */
};

static void check_code(struct run *r, const struct wrong *w)
{
    struct tidings_error err = {0};
    char *result;
    int code = probe_errors_code_of(r, w->method, w->params, &result, &err);
    if (result) {
        probe_found(r, w->id, w->otherwise, "a result instead of an error");
    } else if (code == 0) {
        probe_found(r, w->id, err.code == TIDINGS_E_TIMEOUT ? VERDICT_FAIL : w->otherwise,
                    "no error object: %.150s", err.text);
    } else {
        probe_found(r, w->id, code == w->code ? VERDICT_PASS : w->otherwise, "error %d", code);
    }
    tidings_free(result);
}

/* ---- as raw HTTP ----------------------------------------------------------------------------- */

#define TAKEN_MAX 4096u
struct taken {
    char text[TAKEN_MAX];
    size_t len;
};

static int probe_errors_on_bytes(void *user, long status, struct tidings_str bytes)
{
    struct taken *t = user;
    (void)status;
    size_t room = TAKEN_MAX - 1 - t->len;
    size_t n = bytes.len < room ? bytes.len : room;
    if (n > 0) {
        memcpy(t->text + t->len, bytes.ptr, n);
        t->len += n;
    }
    return t->len == TAKEN_MAX - 1;
}

struct raw_answer probe_post(struct run *r, const char *const *lines, const char *body)
{
    struct taken taken = {.len = 0};
    struct tidings_client_http_answer answer;
    struct tidings_error err = {0};
    struct tidings_client_http request = {.method = "POST",
                                          .headers = lines,
                                          .body = body,
                                          .on_bytes = probe_errors_on_bytes,
                                          .user = &taken};
    (void)tidings_client_http(r->client, &request, &answer, &err);
    /* JSON as it is, or the first event of a stream. */
    taken.text[taken.len] = '\0';
    const char *brace = strchr(taken.text, '{');
    size_t n = brace ? strcspn(brace, "\r\n") : 0;
    char *code = brace ? tidings_json_get(tidings_strn(brace, n), "/error/code") : NULL;
    struct raw_answer a = {.status = answer.status, .code = code ? (int)strtol(code, NULL, 10) : 0};
    tidings_free(code);
    return a;
}

#define TYPE "Content-Type: application/json"
#define ACCEPT "Accept: application/json, text/event-stream"
#define LINE_MAX_BYTES 640u

/* `status` and `code` (0: any) are expected; another refusal is `lesser`, none `worse`. */
struct expected {
    const char *id;
    long status;
    int code;
    enum verdict lesser, worse;
};

static void probe_errors_judge(struct run *r, const struct expected *e, struct raw_answer a)
{
    char code[32] = "";
    if (a.code != 0) {
        snprintf(code, sizeof(code), " with error %d", a.code);
    }
    bool is_right = a.status == e->status && (e->code == 0 || a.code == e->code);
    bool is_refused = (a.status >= 400 && a.status < 500) || a.code != 0;
    enum verdict v = is_right ? VERDICT_PASS : is_refused ? e->lesser : e->worse;
    if (a.status == 0) {
        probe_found(r, e->id, VERDICT_FAIL, "no answer");
    } else {
        probe_found(r, e->id, v, "HTTP %ld%s", a.status, code);
    }
}

/* A request that is fine in itself. */
static void put_request(const struct run *r, const char *method, const char *version, char *out,
                        size_t room)
{
    size_t n =
        (size_t)snprintf(out, room, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",", method);
    if (r->is_modern) {
        snprintf(out + n, room - n, "\"params\":{" META "}}", version);
    } else {
        snprintf(out + n, room - n, "\"params\":{}}");
    }
}

static void check_raw(struct run *r)
{
    char version[LINE_MAX_BYTES], session[LINE_MAX_BYTES], body[1024];
    snprintf(version, sizeof(version), "MCP-Protocol-Version: %s", r->version);
    snprintf(session, sizeof(session), "Mcp-Session-Id: %s", r->session);
    const char *method = r->is_modern ? "Mcp-Method: resources/list" : NULL;
    const char *last = r->is_modern ? method : r->session[0] ? session : NULL;
    put_request(r, "resources/list", r->version, body, sizeof(body));

    const char *fine[] = {TYPE, ACCEPT, version, last, NULL};
    probe_errors_judge(r, &(struct expected){"malformed", 400, -32700, VERDICT_WARN, VERDICT_FAIL},
                       probe_post(r, fine, "{\"jsonrpc\":\"2.0\",\"id\":1,"));
    const char *foreign[] = {
        "Origin: https://tidings-probe.invalid", TYPE, ACCEPT, version, last, NULL};
    /* Older revisions ask for the check and name no status. */
    bool has_status = strcmp(r->version, "2025-11-25") >= 0;
    probe_errors_judge(r,
                       &(struct expected){"origin", 403, 0,
                                          has_status ? VERDICT_FAIL : VERDICT_WARN, VERDICT_FAIL},
                       probe_post(r, foreign, body));
    if (r->is_modern) {
        const char *other[] = {TYPE, ACCEPT, version, "Mcp-Method: resources/read", NULL};
        probe_errors_judge(r,
                           &(struct expected){"headers", 400, -32020, VERDICT_FAIL, VERDICT_FAIL},
                           probe_post(r, other, body));
        const char *future[] = {TYPE, ACCEPT, "MCP-Protocol-Version: 2999-01-01", method, NULL};
        put_request(r, "resources/list", "2999-01-01", body, sizeof(body));
        probe_errors_judge(r,
                           &(struct expected){"version", 400, -32022, VERDICT_FAIL, VERDICT_FAIL},
                           probe_post(r, future, body));
        const char *nothing[] = {TYPE, ACCEPT, version, "Mcp-Method: " NO_METHOD, NULL};
        put_request(r, NO_METHOD, r->version, body, sizeof(body));
        probe_errors_judge(
            r, &(struct expected){"unknown-method", 404, -32601, VERDICT_FAIL, VERDICT_FAIL},
            probe_post(r, nothing, body));
        return;
    }
    if (!r->session[0]) {
        probe_found(r, "session-unknown", VERDICT_SKIP, "the server keeps no sessions");
        return;
    }
    const char *unknown[] = {TYPE, ACCEPT, version,
                             "Mcp-Session-Id: 00000000-0000-4000-8000-000000000000", NULL};
    probe_errors_judge(r, &(struct expected){"session-unknown", 404, 0, VERDICT_WARN, VERDICT_WARN},
                       probe_post(r, unknown, body));
    const char *none[] = {TYPE, ACCEPT, version, NULL};
    probe_errors_judge(r, &(struct expected){"session-missing", 400, 0, VERDICT_WARN, VERDICT_WARN},
                       probe_post(r, none, body));
}

static void probe_errors_resources(struct run *r)
{
    if (!r->has_resources) {
        probe_found(r, "bad-params", VERDICT_SKIP, PROBE_NO_RESOURCES);
        probe_found(r, "unknown-resource", VERDICT_SKIP, PROBE_NO_RESOURCES);
        return;
    }
    check_code(r, &(struct wrong){"bad-params", "resources/list", "{\"cursor\":{}}", -32602,
                                  VERDICT_WARN});
    check_code(r, &(struct wrong){"unknown-resource", "resources/read", "{\"uri\":\"" NOWHERE "\"}",
                                  r->is_modern ? -32602 : -32002,
                                  r->is_modern ? VERDICT_FAIL : VERDICT_WARN});
}

void probe_errors(struct run *r)
{
    if (!r->is_http || !r->is_modern) { /* else its status counts too */
        check_code(r, &(struct wrong){"unknown-method", NO_METHOD, "{}", -32601,
                                      r->is_modern ? VERDICT_FAIL : VERDICT_WARN});
    }
    probe_errors_resources(r);
    if (r->is_http) {
        check_raw(r);
    } else {
        probe_found(r, "malformed", VERDICT_SKIP, "only tried over HTTP");
        probe_found(r, "origin", VERDICT_SKIP, "only tried over HTTP");
    }
}
