/* SPDX-License-Identifier: MIT
 *
 * Message validation: every row of the table of eras for HTTP and for pipes, the order of checks,
 * the encoded form of Mcp-Name, ceilings, negotiation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define VERSION_KEY "\"io.modelcontextprotocol/protocolVersion\":"
#define CAPABILITIES "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define CLAIM(version) "\"_meta\":{" VERSION_KEY "\"" version "\"," CAPABILITIES "}"
#define MODERN CLAIM("2026-07-28")
#define REQUEST(method, params)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define NOTIFICATION(method, params)                                                               \
    "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":{" params "}}"
#define RESPONSE "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"
#define READ_X "\"uri\":\"x:a\","

struct row {
    const char *text;
    /* headers; NULL: absent */
    const char *version, *method, *name, *session;
    const char *ceiling;
    /* expected */
    enum era era;
    int code, status;
};

static struct tidings_str header(const char *s)
{
    return s ? tidings_str(s) : tidings_strn(NULL, 0);
}

static void check(const struct row *row, const struct dialect_context *ctx,
                  struct dialect_verdict *v)
{
    struct json *root = NULL;
    struct rpc_message msg;
    struct tidings_error err = {0};
    assert_int_equal(jv_parse(tidings_str(row->text), 32, &root, &err), 0);
    assert_int_equal(rpc_read(root, &msg, &err), 0);
    dialect_check(ctx, &msg, v);
    if (v->era != row->era || v->code != row->code || (v->code && v->status != row->status)) {
        fail_msg("era %d code %d status %d (%s), expected %d %d %d: %s", (int)v->era, v->code,
                 v->status, v->text.text, (int)row->era, row->code, row->status, row->text);
    }
    if (v->code) {
        assert_true(v->text.text[0] != '\0');
    } else {
        /* Only a modern request carries its revision. */
        bool has = msg.kind == RPC_REQUEST && v->era == ERA_MODERN;
        assert_int_equal(v->revision != NULL, has);
    }
    assert_int_equal(v->lists_versions, v->code == RPC_UNSUPPORTED_VERSION);
    jv_unref(root);
}

static void judge_http(const struct row *row, struct dialect_verdict *v)
{
    struct dialect_headers headers = {
        .protocol_version = header(row->version),
        .method = header(row->method),
        .name = header(row->name),
        .session_id = header(row->session),
    };
    struct dialect_context ctx = {
        .headers = &headers,
        .ceiling = tidings_str(row->ceiling),
    };
    check(row, &ctx, v);
}

static void check_http(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct dialect_verdict v;
        judge_http(&rows[i], &v);
    }
}

static void http_messages_get_the_era_of_the_table(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* a request with a claim */
        {REQUEST("resources/list", MODERN), "2026-07-28", "resources/list", .era = ERA_MODERN},
        {REQUEST("server/discover", MODERN), "2026-07-28", "server/discover", .era = ERA_MODERN},
        /* initialize with a valid modern claim: an ordinary, unknown, modern method */
        {REQUEST("initialize", MODERN), "2026-07-28", "initialize", .era = ERA_MODERN},
        /* initialize without a claim, or with one that is malformed or legacy */
        {REQUEST("initialize", "\"a\":1"), NULL, .era = ERA_LEGACY},
        {REQUEST("initialize", "\"a\":1"), "2025-06-18", .era = ERA_LEGACY},
        {REQUEST("initialize", "\"_meta\":{}"), NULL, .era = ERA_LEGACY},
        {REQUEST("initialize", "\"_meta\":{" VERSION_KEY "7}"), NULL, .era = ERA_LEGACY},
        {REQUEST("initialize", CLAIM("2025-11-25")), NULL, .era = ERA_LEGACY},
        {REQUEST("initialize", CLAIM("v999")), NULL, .era = ERA_LEGACY},
        /* headers of the modern era beside a legacy initialize are ignored */
        {REQUEST("initialize", "\"a\":1"), NULL, "initialize", "x", .era = ERA_LEGACY},
        /* initialize without a claim, header modern */
        {REQUEST("initialize", "\"a\":1"), "2026-07-28", .code = -32020, .status = 400},
        /* another request without a claim, header modern */
        {REQUEST("resources/list", "\"a\":1"), "2026-07-28", .era = ERA_MODERN, .code = -32602,
         .status = 400},
        {REQUEST("resources/list", "\"_meta\":{\"progressToken\":1}"), "2026-07-28",
         .era = ERA_MODERN, .code = -32602, .status = 400},
        /* methods without legacy meaning */
        {REQUEST("server/discover", "\"a\":1"), NULL, .era = ERA_MODERN, .code = -32602,
         .status = 400},
        {REQUEST("subscriptions/listen", "\"a\":1"), "2025-06-18", .era = ERA_MODERN,
         .code = -32602, .status = 400},
        {REQUEST("server/discover", "\"a\":1"), NULL, .session = "s", .era = ERA_LEGACY},
        {REQUEST("subscriptions/listen", "\"a\":1"), "2025-11-25", .session = "s",
         .era = ERA_LEGACY},
        /* another request, header absent or a known legacy one */
        {REQUEST("resources/list", "\"a\":1"), NULL, .era = ERA_LEGACY},
        {REQUEST("resources/list", "\"a\":1"), "2024-11-05", .era = ERA_LEGACY},
        {REQUEST("resources/list", "\"a\":1"), "2025-03-26", .era = ERA_LEGACY},
        {REQUEST("resources/list", "\"a\":1"), "2025-06-18", .era = ERA_LEGACY},
        {REQUEST("resources/list", "\"a\":1"), "2025-11-25", .session = "s", .era = ERA_LEGACY},
        /* legacy requests carry _meta too */
        {REQUEST("ping", "\"_meta\":{\"traceparent\":\"x\"}"), NULL, .era = ERA_LEGACY},
        /* another request, header unknown */
        {REQUEST("resources/list", "\"a\":1"), "2025-01-01", .code = -32022, .status = 400},
        {REQUEST("resources/list", "\"a\":1"), "", .code = -32022, .status = 400},
        /* notifications and responses */
        {NOTIFICATION("notifications/cancelled", "\"requestId\":1"), "2026-07-28",
         .era = ERA_MODERN},
        {NOTIFICATION("notifications/cancelled", "\"requestId\":1"), NULL, .era = ERA_LEGACY},
        {NOTIFICATION("notifications/cancelled", MODERN), NULL, .era = ERA_MODERN},
        {NOTIFICATION("notifications/cancelled", MODERN), "2026-07-28", .era = ERA_MODERN},
        {RESPONSE, NULL, .era = ERA_LEGACY},
        {RESPONSE, "2025-11-25", .era = ERA_LEGACY},
        {RESPONSE, "2026-07-28", .era = ERA_MODERN, .code = -32600, .status = 400},
    };
    check_http(rows, COUNT(rows));
}

static void missing_meta_precedes_headers_and_headers_precede_the_version(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* required _meta, whatever the headers say */
        {REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "\"2026-07-28\"}"), "2025-01-01",
         .era = ERA_MODERN, .code = -32602, .status = 400},
        {REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "7," CAPABILITIES "}"), NULL,
         .era = ERA_MODERN, .code = -32602, .status = 400},
        {REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "null," CAPABILITIES "}"), NULL,
         .era = ERA_MODERN, .code = -32602, .status = 400},
        {REQUEST("resources/list",
                 "\"_meta\":{" VERSION_KEY "\"2026-07-28\",\"io.modelcontextprotocol/"
                 "clientCapabilities\":[]}"),
         "2026-07-28", "resources/list", .era = ERA_MODERN, .code = -32602, .status = 400},
        {REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "\"2026-07-28\"," CAPABILITIES
                                   ",\"io.modelcontextprotocol/logLevel\":\"loud\"}"),
         "2026-07-28", "resources/list", .era = ERA_MODERN, .code = -32602, .status = 400},
        {REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "\"2026-07-28\"," CAPABILITIES
                                   ",\"io.modelcontextprotocol/logLevel\":\"alert\"}"),
         "2026-07-28", "resources/list", .era = ERA_MODERN},
        /* headers against the body */
        {REQUEST("resources/list", MODERN), NULL, "resources/list", .era = ERA_MODERN,
         .code = -32020, .status = 400},
        {REQUEST("resources/list", MODERN), "2025-11-25", "resources/list", .era = ERA_MODERN,
         .code = -32020, .status = 400},
        {REQUEST("resources/list", CLAIM("v999.0.0")), "2026-07-28", "resources/list",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("resources/list", MODERN), "2026-07-28", NULL, .era = ERA_MODERN, .code = -32020,
         .status = 400},
        {REQUEST("resources/list", MODERN), "2026-07-28", "Resources/List", .era = ERA_MODERN,
         .code = -32020, .status = 400},
        {REQUEST("resources/read", READ_X MODERN), "2026-07-28", "resources/read",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("resources/read", READ_X MODERN), "2026-07-28", "resources/read", "x:A",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("resources/read", READ_X MODERN), "2026-07-28", "resources/read", "x:a",
         .era = ERA_MODERN},
        {REQUEST("resources/read", MODERN), "2026-07-28", "resources/read", "x:a",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("tools/call", "\"name\":\"t\"," MODERN), "2026-07-28", "tools/call",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("prompts/get", "\"name\":\"t\"," MODERN), "2026-07-28", "prompts/get", "t",
         .era = ERA_MODERN},
        /* not required, but verified if it has a meaning */
        {REQUEST("resources/metadata", READ_X MODERN), "2026-07-28", "resources/metadata",
         .era = ERA_MODERN},
        {REQUEST("resources/metadata", READ_X MODERN), "2026-07-28", "resources/metadata", "x:b",
         .era = ERA_MODERN, .code = -32020, .status = 400},
        {REQUEST("resources/list", MODERN), "2026-07-28", "resources/list", "whatever",
         .era = ERA_MODERN},
        /* the version is checked last */
        {REQUEST("resources/list", CLAIM("v999.0.0")), "v999.0.0", "resources/list",
         .era = ERA_MODERN, .code = -32022, .status = 400},
        {REQUEST("resources/list", CLAIM("2025-11-25")), "2025-11-25", "resources/list",
         .era = ERA_MODERN, .code = -32022, .status = 400},
        {REQUEST("unknown/method", CLAIM("v999.0.0")), "v999.0.0", "unknown/method",
         .era = ERA_MODERN, .code = -32022, .status = 400},
        {REQUEST("unknown/method", MODERN), "2026-07-28", "unknown/method", .era = ERA_MODERN},
    };
    check_http(rows, COUNT(rows));
}

static void encoded_name_is_decoded_before_comparison(void **state)
{
    (void)state;
    static const struct {
        const char *uri; /* JSON text */
        const char *name;
        bool good;
    } rows[] = {
        {"x:a", "=?base64?eDph?=", true},
        {"x:\xc3\xa4", "=?base64?eDrDpA==?=", true},
        {"x:a\\n", "=?base64?eDphCg==?=", true},
        {"",
         "=?base64?"
         "?=",
         true},
        {"x:b", "=?base64?eDph?=", false},
        {"x:a", "=?base64?eDp?=", false},      /* not a multiple of four */
        {"x:a", "=?base64?eDph====?=", false}, /* padding */
        {"x:a", "=?base64?eD ph?=", false},    /* blank */
        {"x:\xc3\xa4", "=?base64?eDrDpA?=", false},
        {"x:?", "=?base64?eDr/?=", false}, /* 0xff: not UTF-8 */
        {"x:a", "=?BASE64?eDph?=", false}, /* markers are exact */
        {"x:a", "=?Base64?eDph?=", false},
        {"=?BASE64?eDph?=", "=?BASE64?eDph?=", true}, /* then the text is literal */
        {"x:a", "=?base64?eDph?= ", false},
        {"=?base64?=", "=?base64?=", true}, /* too short for the encoding */
        {"=?base64?eDph?=", "=?base64?eDph?=", false},
        {"=?base64?eDph?=", "=?base64?PT9iYXNlNjQ/ZURwaD89?=", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof(text), REQUEST("resources/read", "\"uri\":\"%s\"," MODERN),
                 rows[i].uri);
        struct row row = {text, "2026-07-28", "resources/read", rows[i].name, .era = ERA_MODERN};
        if (!rows[i].good) {
            row.code = RPC_HEADER_MISMATCH;
            row.status = 400;
        }
        struct dialect_verdict v;
        judge_http(&row, &v);
    }
}

static void unsupported_version_is_answered_with_the_supported_ones(void **state)
{
    (void)state;
    static const struct {
        struct row row;
        const char *requested, *supported;
    } rows[] = {
        {{REQUEST("resources/list", CLAIM("v999.0.0")), "v999.0.0", "resources/list",
          .era = ERA_MODERN, .code = -32022, .status = 400},
         "v999.0.0",
         "[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
        /* a claim of a legacy revision is answered with modern ones only, to avoid a loop */
        {{REQUEST("resources/list", CLAIM("2025-11-25")), "2025-11-25", "resources/list",
          .era = ERA_MODERN, .code = -32022, .status = 400},
         "2025-11-25",
         "[\"2026-07-28\"]"},
        {{REQUEST("resources/list", "\"a\":1"), "1999-01-01", .code = -32022, .status = 400},
         "1999-01-01",
         "[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
        /* ceilings */
        {{REQUEST("resources/list", MODERN), "2026-07-28", "resources/list",
          .ceiling = "2025-06-18", .era = ERA_MODERN, .code = -32022, .status = 400},
         "2026-07-28",
         "[\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
        {{REQUEST("initialize", MODERN), "2026-07-28", "initialize", .ceiling = "2025-11-25",
          .era = ERA_MODERN, .code = -32022, .status = 400},
         "2026-07-28",
         "[\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
        {{REQUEST("resources/list", "\"a\":1"), "2025-11-25", .ceiling = "2025-06-18",
          .code = -32022, .status = 400},
         "2025-11-25",
         "[\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
        /* no modern revision remains, and the list may not be empty */
        {{REQUEST("resources/list", CLAIM("2025-06-18")), "2025-06-18", "resources/list",
          .ceiling = "2025-11-25", .era = ERA_MODERN, .code = -32022, .status = 400},
         "2025-06-18",
         "[\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dialect_verdict v;
        judge_http(&rows[i].row, &v);
        /* `requested` points into the message, which is gone: it is written again below. */
        v.requested = tidings_str(rows[i].requested);
        struct dialect_error e = {.code = v.code,
                                  .message = STR("m"),
                                  .versions = &v,
                                  .ceiling = tidings_str(rows[i].row.ceiling)};
        struct buf out;
        struct jw w;
        buf_init(&out, 4096);
        jw_init(&w, &out);
        dialect_write_error(&w, STR("1"), &e);
        struct json *root = NULL;
        assert_int_equal(jv_parse(buf_str(&out), 32, &root, NULL), 0);
        struct json *data = jv_get(jv_get(root, "error"), "data");
        assert_string_equal(jv_str(jv_get(data, "requested")).ptr, rows[i].requested);
        buf_clear(&out);
        jw_init(&w, &out);
        jw_value(&w, jv_get(data, "supported"));
        assert_string_equal(out.ptr, rows[i].supported);
        jv_unref(root);
        buf_deinit(&out);
    }
}

static void refused_version_is_echoed(void **state)
{
    (void)state;
    struct json *root = NULL;
    struct rpc_message msg;
    assert_int_equal(jv_parse(STR(REQUEST("x", CLAIM("v9"))), 32, &root, NULL), 0);
    assert_int_equal(rpc_read(root, &msg, NULL), 0);
    struct dialect_context ctx = {.ceiling = STR_EMPTY};
    struct dialect_verdict v;
    dialect_check(&ctx, &msg, &v);
    assert_int_equal(v.code, RPC_UNSUPPORTED_VERSION);
    assert_true(str_eq(v.requested, STR("v9")));
    jv_unref(root);
}

static void pipe_messages_get_the_era_of_the_table(void **state)
{
    (void)state;
    static const struct {
        struct row row;
        bool handshaken;
    } rows[] = {
        {{REQUEST("resources/list", MODERN), .era = ERA_MODERN}, false},
        {{REQUEST("resources/list", MODERN), .era = ERA_MODERN}, true},
        {{REQUEST("initialize", MODERN), .era = ERA_MODERN}, false},
        {{REQUEST("initialize", "\"a\":1"), .era = ERA_LEGACY}, false},
        {{REQUEST("initialize", CLAIM("2025-06-18")), .era = ERA_LEGACY}, false},
        {{REQUEST("initialize", "\"_meta\":{" VERSION_KEY "[]}"), .era = ERA_LEGACY}, false},
        {{REQUEST("initialize", "\"a\":1"), .code = -32600, .status = 400}, true},
        {{REQUEST("resources/list", "\"a\":1"), .era = ERA_LEGACY}, true},
        {{REQUEST("server/discover", "\"a\":1"), .era = ERA_LEGACY}, true},
        {{REQUEST("ping", "\"a\":1"), .era = ERA_LEGACY}, false},
        {{REQUEST("server/discover", "\"a\":1"), .era = ERA_MODERN, .code = -32602, .status = 400},
         false},
        {{REQUEST("subscriptions/listen", "\"_meta\":{}"), .era = ERA_MODERN, .code = -32602,
          .status = 400},
         false},
        {{REQUEST("resources/list", "\"a\":1"), .code = -32600, .status = 400}, false},
        {{NOTIFICATION("notifications/cancelled", "\"requestId\":1"), .era = ERA_LEGACY}, false},
        {{NOTIFICATION("notifications/cancelled", MODERN), .era = ERA_MODERN}, true},
        {{RESPONSE, .era = ERA_LEGACY}, false},
        {{REQUEST("resources/list", "\"_meta\":{" VERSION_KEY "\"2026-07-28\"}"), .era = ERA_MODERN,
          .code = -32602, .status = 400},
         true},
        {{REQUEST("resources/list", CLAIM("2025-06-18")), .era = ERA_MODERN, .code = -32022,
          .status = 400},
         true},
        {{REQUEST("resources/list", CLAIM("2027-01-01")), .era = ERA_MODERN, .code = -32022,
          .status = 400},
         false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dialect_context ctx = {.handshaken = rows[i].handshaken, .ceiling = STR_EMPTY};
        struct dialect_verdict v;
        check(&rows[i].row, &ctx, &v);
    }
}

static void negotiation_returns_the_requested_or_newest_legacy_revision(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *ceiling, *got;
    } rows[] = {
        {"2024-11-05", "", "2024-11-05"},
        {"2025-03-26", "", "2025-03-26"},
        {"2025-06-18", "", "2025-06-18"},
        {"2025-11-25", "", "2025-11-25"},
        {"2026-07-28", "", "2025-11-25"},
        {"2099-01-01", "", "2025-11-25"},
        {"", "", "2025-11-25"},
        {"2025-11-25", "2025-06-18", "2025-06-18"},
        {"2026-07-28", "2025-03-26", "2025-03-26"},
        {"2024-11-05", "2025-03-26", "2024-11-05"},
        {"x", "2026-07-28", "2025-11-25"},
        {"2025-11-25", "2024-11-05", "2024-11-05"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct revision *rev =
            dialect_negotiate(tidings_str(rows[i].asked), tidings_str(rows[i].ceiling), NULL);
        assert_non_null(rev);
        assert_string_equal(rev->name.ptr, rows[i].got);
        assert_int_equal(rev->era, ERA_LEGACY);
    }
}

static void batches_and_priming_each_exist_in_one_revision(void **state)
{
    (void)state;
    static const char *const names[] = {"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26",
                                        "2024-11-05"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const struct revision *rev = dialect_find_revision(tidings_str(names[i]));
        assert_non_null(rev);
        assert_int_equal(rev->has_batches, i == 3);
        assert_int_equal(rev->has_priming, i == 1);
        assert_int_equal(rev->era == ERA_MODERN, i == 0);
        assert_int_equal(dialect_is_modern_version(tidings_str(names[i])), i == 0);
    }
    assert_null(dialect_find_revision(STR("2025-11-2")));
    assert_null(dialect_find_revision(STR_EMPTY));
}

static void streams_are_for_legacy_revisions_below_the_ceiling(void **state)
{
    (void)state;
    static const struct {
        const char *version, *ceiling;
        int status;
    } rows[] = {
        {NULL, "", 0},           {"2025-11-25", "", 0},
        {"2024-11-05", "", 0},   {"2026-07-28", "", 405},
        {"2020-01-01", "", 400}, {"", "", 400},
        {NULL, "2025-06-18", 0}, {"2025-11-25", "2025-06-18", 400},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(
            dialect_check_stream(header(rows[i].version), tidings_str(rows[i].ceiling), NULL),
            rows[i].status);
    }
}

static void codes_and_statuses_depend_on_the_era(void **state)
{
    (void)state;
    static const struct server_identity plain;
    static const struct {
        int ours, legacy, modern;
    } codes[] = {
        {TIDINGS_E_NOTFOUND, -32002, -32602}, {TIDINGS_E_DENIED, -32002, -32602},
        {TIDINGS_E_INVALID, -32602, -32602},  {TIDINGS_E_PARSE, -32602, -32602},
        {TIDINGS_E_LIMIT, -32602, -32602},    {TIDINGS_E_EXISTS, -32602, -32602},
        {TIDINGS_E_CONFLICT, -32602, -32602}, {TIDINGS_E_UNSUPPORTED, -32602, -32602},
        {TIDINGS_E_NOMEM, -32603, -32603},    {TIDINGS_E_BUSY, -32603, -32603},
        {TIDINGS_E_TIMEOUT, -32603, -32603},  {TIDINGS_E_CANCELLED, -32603, -32603},
        {TIDINGS_E_CLOSED, -32603, -32603},   {TIDINGS_E_IO, -32603, -32603},
        {TIDINGS_E_INTERNAL, -32603, -32603},
    };
    for (size_t i = 0; i < COUNT(codes); i++) {
        assert_int_equal(dialect_code(ERA_LEGACY, codes[i].ours), codes[i].legacy);
        assert_int_equal(dialect_code(ERA_MODERN, codes[i].ours), codes[i].modern);
    }
    static const struct {
        int code, legacy, modern;
    } statuses[] = {
        {-32700, 400, 400}, {-32600, 400, 400}, {-32601, 200, 404}, {-32602, 200, 200},
        {-32603, 200, 200}, {-32002, 200, 200}, {-32020, 400, 400}, {-32022, 400, 400},
    };
    for (size_t i = 0; i < COUNT(statuses); i++) {
        assert_int_equal(dialect_status(&plain, ERA_LEGACY, statuses[i].code), statuses[i].legacy);
        assert_int_equal(dialect_status(&plain, ERA_MODERN, statuses[i].code), statuses[i].modern);
    }
}

static void log_levels_are_the_eight_words_in_order_and_nothing_else(void **state)
{
    (void)state;
    static const char *const good[] = {"debug", "info",     "notice", "warning",
                                       "error", "critical", "alert",  "emergency"};
    static const char *const bad[] = {"", "Debug", "warn", "errors", "info ", "trace"};
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(dialect_log_level(tidings_str(good[i])), (int)i);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(dialect_log_level(tidings_str(bad[i])), -1);
    }
}

/* The table here and the list for programs. */
static void spoken_versions_each_have_a_row(void **state)
{
    (void)state;
    static const char *const names[] = {TIDINGS_PROTOCOL_VERSIONS};
    struct buf text;
    struct jw w;
    buf_init(&text, 256);
    jw_init(&w, &text);
    dialect_write_versions(&w, STR_EMPTY, false);
    struct json *list = NULL;
    assert_int_equal(jv_parse(buf_str(&text), 4, &list, NULL), 0);
    assert_int_equal(jv_count(list), COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_true(str_eq(jv_str(jv_at(list, i)), tidings_str(names[i])));
    }
    jv_unref(list);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_messages_get_the_era_of_the_table),
        cmocka_unit_test(missing_meta_precedes_headers_and_headers_precede_the_version),
        cmocka_unit_test(encoded_name_is_decoded_before_comparison),
        cmocka_unit_test(unsupported_version_is_answered_with_the_supported_ones),
        cmocka_unit_test(refused_version_is_echoed),
        cmocka_unit_test(pipe_messages_get_the_era_of_the_table),
        cmocka_unit_test(negotiation_returns_the_requested_or_newest_legacy_revision),
        cmocka_unit_test(batches_and_priming_each_exist_in_one_revision),
        cmocka_unit_test(streams_are_for_legacy_revisions_below_the_ceiling),
        cmocka_unit_test(codes_and_statuses_depend_on_the_era),
        cmocka_unit_test(log_levels_are_the_eight_words_in_order_and_nothing_else),
        cmocka_unit_test(spoken_versions_each_have_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
