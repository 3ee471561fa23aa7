/* SPDX-License-Identifier: MIT
 *
 * Which era and version a message belongs to, and whether it may pass: era, required `_meta`,
 * headers against body, version, in the order of the specification (missing `_meta` before header
 * mismatch before unsupported version). Pure: message and headers in, verdict out.
 */
#include "dialect/dialect.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define REQUESTED_MAX 256u /* of a stranger's version echoed back */
#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

/* Newest first. */
static const struct revision revisions[] = {
    {.name = {"2026-07-28", 10}, .era = ERA_MODERN},
    {.name = {"2025-11-25", 10}, .era = ERA_LEGACY, .has_priming = true},
    {.name = {"2025-06-18", 10}, .era = ERA_LEGACY},
    {.name = {"2025-03-26", 10}, .era = ERA_LEGACY, .has_batches = true},
    {.name = {"2024-11-05", 10}, .era = ERA_LEGACY},
    {.name = {"DRAFT-2025-v2", 13}, .era = ERA_LEGACY, .is_draft = true},
};
#define REVISION_COUNT (sizeof(revisions) / sizeof(revisions[0]))

const struct revision *dialect_find_revision(struct tidings_str name)
{
    for (size_t i = 0; i < REVISION_COUNT; i++) {
        if (str_eq(revisions[i].name, name)) {
            return &revisions[i];
        }
    }
    return NULL;
}

/* Revision names are dates: their order is the order of bytes. */
static bool is_offered(const struct revision *rev, struct tidings_str ceiling,
                       const struct profile *profile)
{
    if (rev->is_draft) {
        return profile_rules(profile)->has_draft;
    }
    return ceiling.len == 0 || str_cmp(rev->name, ceiling) <= 0;
}

const struct revision *dialect_negotiate(struct tidings_str asked, struct tidings_str ceiling,
                                         const struct profile *profile)
{
    const struct revision *newest = NULL;
    for (size_t i = 0; i < REVISION_COUNT; i++) {
        const struct revision *rev = &revisions[i];
        if (rev->era != ERA_LEGACY || !is_offered(rev, ceiling, profile)) {
            continue;
        }
        if (str_eq(rev->name, asked)) {
            return rev;
        }
        newest = newest ? newest : rev;
    }
    return newest;
}

const struct revision *dialect_assume(struct tidings_str protocol_version)
{
    const struct revision *rev = dialect_find_revision(protocol_version);
    return rev && rev->era == ERA_LEGACY ? rev : dialect_find_revision(STR("2025-03-26"));
}

const char *dialect_era_name(enum era era)
{
    return era == ERA_MODERN ? "modern" : "legacy";
}

bool dialect_is_modern_version(struct tidings_str protocol_version)
{
    const struct revision *rev = dialect_find_revision(protocol_version);
    return rev && rev->era == ERA_MODERN;
}

int dialect_judge_stream(struct tidings_str protocol_version, struct tidings_str ceiling,
                         const struct profile *profile)
{
    if (!protocol_version.ptr) {
        return 0;
    }
    const struct revision *rev = dialect_find_revision(protocol_version);
    if (!rev) {
        return 400;
    }
    if (rev->era == ERA_MODERN) {
        return 405;
    }
    return is_offered(rev, ceiling, profile) ? 0 : 400;
}

/* ---- judging --------------------------------------------------------------------------------- */

static void dialect_refuse(struct dialect_verdict *v, int status, int code, const char *text)
{
    v->status = status;
    v->code = code;
    tidings_fail(&v->text, TIDINGS_E_INVALID, "%s", text);
}

static void refuse_version(struct dialect_verdict *v, struct tidings_str requested,
                           bool modern_only)
{
    v->status = 400;
    v->code = RPC_UNSUPPORTED_VERSION;
    v->lists_versions = true;
    v->modern_only = modern_only;
    v->requested =
        requested.len > REQUESTED_MAX ? tidings_strn(requested.ptr, REQUESTED_MAX) : requested;
    tidings_fail(&v->text, TIDINGS_E_UNSUPPORTED, "unsupported protocol version '%.*s'",
                 STR_ARG(requested));
}

/* The wrapping has RFC 2047's shape, with standard base64 of UTF-8. */
bool dialect_header_equals(struct tidings_str header, struct tidings_str value)
{
    static const struct tidings_str open = {"=?base64?", 9}, close = {"?=", 2};
    if (!str_starts(header, open) || !str_ends(header, close) ||
        header.len < open.len + close.len) {
        return str_eq(header, value);
    }
    struct buf decoded;
    buf_init(&decoded, header.len);
    struct tidings_str coded = {header.ptr + open.len, header.len - open.len - close.len};
    bool equal = base64_decode(&decoded, coded) == 0 && str_is_utf8(buf_str(&decoded)) &&
                 str_eq(buf_str(&decoded), value);
    buf_deinit(&decoded);
    return equal;
}

/* The parameter that Mcp-Name repeats for this method, or NULL. */
static const char *named_by(struct tidings_str method, bool *required)
{
    static const struct {
        struct tidings_str method;
        const char *param;
        bool required;
    } rows[] = {
        {{"resources/read", 14}, "uri", true},
        {{"tools/call", 10}, "name", true},
        {{"prompts/get", 11}, "name", true},
        {{"tasks/get", 9}, "taskId", true},
        {{"tasks/update", 12}, "taskId", true},
        {{"tasks/cancel", 12}, "taskId", true},
        {{"resources/metadata", 18}, "uri", false},
        {{"resources/directory/read", 24}, "uri", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (str_eq(rows[i].method, method)) {
            *required = rows[i].required;
            return rows[i].param;
        }
    }
    return NULL;
}

static bool check_headers(const struct dialect_headers *h, const struct rpc_message *msg,
                          struct tidings_str version, struct dialect_verdict *v)
{
    if (!h->protocol_version.ptr) {
        dialect_refuse(v, 400, RPC_HEADER_MISMATCH, "the header MCP-Protocol-Version is missing");
        return false;
    }
    if (!str_eq(h->protocol_version, version)) {
        dialect_refuse(v, 400, RPC_HEADER_MISMATCH,
                       "the header MCP-Protocol-Version differs from the version in _meta");
        return false;
    }
    if (!h->method.ptr) {
        dialect_refuse(v, 400, RPC_HEADER_MISMATCH, "the header Mcp-Method is missing");
        return false;
    }
    if (!str_eq(h->method, msg->method)) {
        dialect_refuse(v, 400, RPC_HEADER_MISMATCH,
                       "the header Mcp-Method differs from the method");
        return false;
    }
    bool required = false;
    const char *param = named_by(msg->method, &required);
    if (!param) {
        return true;
    }
    if (!h->name.ptr) {
        if (required) {
            dialect_refuse(v, 400, RPC_HEADER_MISMATCH, "the header Mcp-Name is missing");
        }
        return !required;
    }
    if (!dialect_header_equals(h->name, jv_str(jv_get(msg->params, param)))) {
        dialect_refuse(
            v, 400, RPC_HEADER_MISMATCH,
            "the header Mcp-Name differs from the parameter it repeats, or is not valid base64");
        return false;
    }
    return true;
}

int dialect_log_level(struct tidings_str level)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    for (int i = 0; i < (int)(sizeof(levels) / sizeof(levels[0])); i++) {
        if (str_eq(level, tidings_str(levels[i]))) {
            return i;
        }
    }
    return -1;
}

int dialect_asked_log_level(const struct json *meta)
{
    struct json *level = jv_get(meta, META_LOG_LEVEL);
    return level ? dialect_log_level(jv_str(level)) : -1;
}

struct json *dialect_capabilities(const struct json *meta)
{
    return jv_get(meta, META_CAPABILITIES);
}

bool dialect_declares_tasks(const struct json *meta)
{
    return jv_is(jv_get(jv_get(dialect_capabilities(meta), "extensions"), DIALECT_TASKS),
                 JV_OBJECT);
}

void dialect_put_tasks_required(struct buf *out)
{
    buf_puts(out, STR("{\"extensions\":{\"" DIALECT_TASKS "\":{}}}"));
}

struct json *dialect_client_info(const struct json *meta)
{
    return jv_get(meta, META_CLIENT_INFO);
}

static void judge_modern(const struct dialect_context *ctx, const struct rpc_message *msg,
                         struct json *meta, struct dialect_verdict *v)
{
    v->era = ERA_MODERN;
    struct json *claim = jv_get(meta, META_VERSION);
    if (!jv_is(claim, JV_STRING)) {
        dialect_refuse(v, 400, RPC_INVALID_PARAMS, "_meta lacks the string '" META_VERSION "'");
        return;
    }
    if (!jv_is(jv_get(meta, META_CAPABILITIES), JV_OBJECT)) {
        dialect_refuse(v, 400, RPC_INVALID_PARAMS,
                       "_meta lacks the object '" META_CAPABILITIES "'");
        return;
    }
    struct json *level = jv_get(meta, META_LOG_LEVEL);
    if (level && dialect_log_level(jv_str(level)) < 0) {
        dialect_refuse(v, 400, RPC_INVALID_PARAMS,
                       "_meta '" META_LOG_LEVEL
                       "' must be one of debug, info, notice, warning, error, "
                       "critical, alert, emergency");
        return;
    }
    struct tidings_str version = jv_str(claim);
    if (ctx->headers && !check_headers(ctx->headers, msg, version, v)) {
        return;
    }
    const struct revision *rev = dialect_find_revision(version);
    if (!rev || rev->era != ERA_MODERN || !is_offered(rev, ctx->ceiling, ctx->profile)) {
        bool has_modern = ctx->ceiling.len == 0 || str_cmp(revisions[0].name, ctx->ceiling) <= 0;
        refuse_version(v, version, rev && rev->era == ERA_LEGACY && has_modern);
        return;
    }
    v->revision = rev;
}

static bool is_modern_method(struct tidings_str method)
{
    return str_eq(method, STR("server/discover")) || str_eq(method, STR("subscriptions/listen"));
}

static void judge_http_legacy(const struct dialect_context *ctx, const struct rpc_message *msg,
                              struct dialect_verdict *v)
{
    const struct dialect_headers *h = ctx->headers;
    bool modern_header = h->protocol_version.ptr && dialect_is_modern_version(h->protocol_version);
    if (msg->kind != RPC_REQUEST) {
        if (modern_header) {
            v->era = ERA_MODERN;
            if (msg->kind == RPC_RESPONSE) {
                dialect_refuse(v, 400, RPC_INVALID_REQUEST,
                               "clients send no responses in this revision");
            }
        }
        return;
    }
    if (str_eq(msg->method, STR("initialize"))) {
        if (modern_header) {
            dialect_refuse(
                v, 400, RPC_HEADER_MISMATCH,
                "initialize belongs to revisions up to 2025-11-25, the header names a later one");
        }
        return;
    }
    if (modern_header) {
        v->era = ERA_MODERN;
        dialect_refuse(v, 400, RPC_INVALID_PARAMS, "params._meta lacks '" META_VERSION "'");
        return;
    }
    if (is_modern_method(msg->method) && !h->session_id.ptr) {
        v->era = ERA_MODERN;
        dialect_refuse(v, 400, RPC_INVALID_PARAMS, "params._meta lacks '" META_VERSION "'");
        return;
    }
    if (h->protocol_version.ptr) {
        const struct revision *rev = dialect_find_revision(h->protocol_version);
        if (!rev || !is_offered(rev, ctx->ceiling, ctx->profile)) {
            refuse_version(v, h->protocol_version, false);
        }
    }
}

static void judge_message_conn_legacy(const struct dialect_context *ctx,
                                      const struct rpc_message *msg, struct dialect_verdict *v)
{
    if (msg->kind != RPC_REQUEST || ctx->handshaken) {
        if (msg->kind == RPC_REQUEST && str_eq(msg->method, STR("initialize"))) {
            dialect_refuse(v, 400, dialect_code_uninitialized(ctx->profile, RPC_INVALID_REQUEST),
                           "this connection is initialized already");
        }
        return;
    }
    if (str_eq(msg->method, STR("initialize")) || str_eq(msg->method, STR("ping"))) {
        return;
    }
    if (is_modern_method(msg->method)) {
        v->era = ERA_MODERN;
        dialect_refuse(v, 400, RPC_INVALID_PARAMS, "params._meta lacks '" META_VERSION "'");
        return;
    }
    if (!profile_rules(ctx->profile)->opens_sessions) {
        dialect_refuse(v, 400, dialect_code_uninitialized(ctx->profile, RPC_INVALID_REQUEST),
                       "send initialize first");
    }
}

void dialect_judge(const struct dialect_context *ctx, const struct rpc_message *msg,
                   struct dialect_verdict *ret)
{
    memset(ret, 0, sizeof(*ret));
    struct json *meta = jv_get(msg->params, "_meta");
    struct json *claim = jv_get(meta, META_VERSION);
    bool claims = claim != NULL;
    if (claims && msg->kind == RPC_REQUEST && str_eq(msg->method, STR("initialize"))) {
        /* Only a valid modern claim turns initialize into an unknown modern method. */
        claims = jv_is(claim, JV_STRING) && dialect_is_modern_version(jv_str(claim));
    }
    if (claims && msg->kind == RPC_REQUEST) {
        judge_modern(ctx, msg, meta, ret);
    } else if (claims && msg->kind == RPC_NOTIFICATION) {
        ret->era = ERA_MODERN;
    } else if (ctx->headers) {
        judge_http_legacy(ctx, msg, ret);
    } else {
        judge_message_conn_legacy(ctx, msg, ret);
    }
    bool is_modern = ret->era == ERA_MODERN;
    ret->meta = is_modern ? meta : NULL;
    ret->is_sessionful = ret->may_be_batched = !is_modern;
    ret->repeats_params = is_modern;
}

/* ---- versions in answers --------------------------------------------------------------------- */

void dialect_write_versions(struct jw *w, struct tidings_str ceiling, bool modern_only)
{
    jw_begin_array(w);
    for (size_t i = 0; i < REVISION_COUNT; i++) {
        if (is_offered(&revisions[i], ceiling, NULL) &&
            (!modern_only || revisions[i].era == ERA_MODERN)) {
            jw_string(w, revisions[i].name);
        }
    }
    jw_end_array(w);
}
