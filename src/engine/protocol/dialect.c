/* SPDX-License-Identifier: MIT
 *
 * Which era and version a message belongs to, and whether it may pass: era, required `_meta`,
 * headers against body, version, in the order of the specification (missing `_meta` before header
 * mismatch before unsupported version). Pure: message and headers in, verdict out.
 */
#include "engine/protocol/dialect.h"

#include "base/encode.h"
#include "base/str.h"
#include "formats/json_write.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Profiles: one row for each source document, and what follows from a row. For people:
 * docs/reference/profiles.md.
 */

struct profile {
    struct tidings_str name;
    struct dialect_rules rules;
    /* Codes of errors; 0: as the protocol has them. */
    int not_found, invalid_uri, uninitialized, incapable;
    int unsubscribable; /* resources/subscribe, without room or memory */
    int unreadable;     /* resources/read of an existing resource in an unavailable form */
    /* Error messages; empty: the default. */
    struct tidings_str not_found_text, invalid_uri_text;
    /* Options of subscriptions that ask for none. */
    uint64_t rate_ms;
    bool metadata, gather;
};

static const struct profile profiles[] = {
    {
        .name = {"gateway", 7},
        .rules = {.confirms_subscribe = true,
                  .confirms_unsubscribe = true,
                  .is_literal = true,
                  .opens_sessions = true,
                  .needs_session = true,
                  .answers_200 = true,
                  .is_unprimed = true,
                  .has_regex_uris = true,
                  .broadcasts = true},
        .not_found = -32601,
        .not_found_text = {"Resource not found", 18},
        .invalid_uri = -32601,
        .invalid_uri_text = {"Resource not found", 18},
    },
    {
        .name = {"erlmcp", 6},
        .rules = {.is_literal = true,
                  .knows_subscriptions = true,
                  .has_short_method = true,
                  .has_metadata = true,
                  .has_events = true},
        .not_found = -32001,
        .not_found_text = {"Resource not found", 18},
        .invalid_uri = -32022,
        .invalid_uri_text = {"Invalid URI", 11},
        .uninitialized = -32005,
        .incapable = -32004,
        .unsubscribable = -32006,
        .rate_ms = 1000,
        .metadata = true,
        .gather = true,
    },
    {
        .name = {"lumenize", 8},
        .rules = {.confirms_unsubscribe = true,
                  .is_literal = true,
                  .has_data = true,
                  .has_envelopes = true,
                  .rebases = true,
                  .has_plain_writes = true,
                  .fails_calls = true,
                  .lists_paths = true,
                  .has_draft = true},
        .not_found = RPC_INVALID_PARAMS,
        .invalid_uri = RPC_INTERNAL,
        .unreadable = RPC_INTERNAL,
    },
};

const struct profile *dialect_find_profile(struct tidings_str name)
{
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
        if (str_eq(profiles[i].name, name)) {
            return &profiles[i];
        }
    }
    return NULL;
}

const struct dialect_rules *profile_rules(const struct profile *profile)
{
    static const struct dialect_rules none;
    return profile ? &profile->rules : &none;
}

const struct dialect_rules *dialect_rules(const struct server_identity *self)
{
    return profile_rules(self->profile);
}

const struct dialect_rules *dialect_rules_in(const struct server_identity *self, enum era era)
{
    return profile_rules(era == ERA_LEGACY ? self->profile : NULL);
}

struct dialect_defaults dialect_defaults(const struct server_identity *self)
{
    const struct profile *p = self->profile;
    return (struct dialect_defaults){
        .metadata = p && p->metadata,
        .gather = p && p->gather,
        .rate_ms = p && !self->has_rate ? p->rate_ms : 0,
    };
}

/* ---- contents in updates --------------------------------------------------------------------- */

/* "Entity User@1.0: user123", or another name of the content. */
static void put_title(struct jw *w, const struct json *data, const struct json *element)
{
    struct tidings_str type = jv_str(jv_get(data, "entityTypeName")),
                       version = jv_str(jv_get(data, "entityTypeVersion")),
                       id = jv_str(jv_get(data, "entityId")),
                       title = jv_str(jv_get(element, "title"));
    struct buf text;
    buf_init(&text, 64 + type.len + version.len + id.len);
    if (type.len > 0 && id.len > 0) {
        buf_puts(&text, STR("Entity "));
        buf_puts(&text, type);
        buf_putc(&text, '@');
        buf_puts(&text, version);
        buf_puts(&text, STR(": "));
        buf_puts(&text, id);
        title = buf_str(&text);
    }
    if (title.len > 0) {
        jw_put_string(w, STR("title"), title);
    }
    buf_deinit(&text);
}

void dialect_put_data(struct buf *out, struct tidings_str value_json)
{
    struct json *value = NULL, *text = NULL;
    (void)jv_parse(value_json, JSON_MAX_DEPTH, &value, NULL);
    const struct json *element = jv_is(value, JV_ARRAY) ? jv_at(value, 0) : NULL;
    const struct json *data = jv_is(value, JV_ARRAY) ? element : value;
    if (jv_is(jv_get(element, "text"), JV_STRING) &&
        jv_parse(jv_str(jv_get(element, "text")), JSON_MAX_DEPTH, &text, NULL) == 0) {
        data = text;
    }
    struct jw w;
    struct buf object;
    buf_init(&object, out->max);
    jw_init(&w, &object);
    jw_begin_object(&w);
    put_title(&w, data, element);
    jw_key(&w, STR("data"));
    jw_value(&w, data);
    jw_end_object(&w);
    if (object.failed || !data) {
        out->failed = TIDINGS_E_NOMEM;
    } else { /* its members */
        buf_put(out, object.ptr + 1, object.len - 2);
    }
    buf_deinit(&object);
    jv_unref(text);
    jv_unref(value);
}

void dialect_put_plain_write(struct jw *w, struct tidings_str structured)
{
    struct json *value = NULL;
    if (jv_parse(structured, JSON_MAX_DEPTH, &value, NULL) == 0 &&
        jv_is(jv_get(value, "newValidFrom"), JV_STRING)) {
        jw_put_bool(w, STR("success"), jv_is_true(jv_get(value, "success")));
        jw_put_string(w, STR("newValidFrom"), jv_str(jv_get(value, "newValidFrom")));
    }
    jv_unref(value);
}

bool dialect_answers_200(const struct server_identity *self, enum era era, int rpc_code)
{
    const struct profile *p = era == ERA_LEGACY ? self->profile : NULL;
    return p && (p->rules.answers_200 || rpc_code == p->invalid_uri);
}

int dialect_code_uninitialized(const struct profile *profile, int otherwise)
{
    return profile && profile->uninitialized ? profile->uninitialized : otherwise;
}

int dialect_code_incapable(const struct server_identity *self)
{
    const struct profile *p = self->profile;
    return p && p->incapable ? p->incapable : RPC_METHOD_NOT_FOUND;
}

void dialect_put_confirmation(struct jw *w, const struct server_identity *self, bool subscribed,
                              struct tidings_str uri)
{
    const struct dialect_rules *rules = dialect_rules(self);
    if (subscribed ? rules->confirms_subscribe : rules->confirms_unsubscribe) {
        jw_put_bool(w, subscribed ? STR("subscribed") : STR("unsubscribed"), true);
        jw_put_string(w, STR("uri"), uri);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

const struct dialect_error dialect_session_required = {
    .code = RPC_SESSION_REQUIRED,
    .message = {"Session required", 16},
    .detail = {"Resource subscriptions require an active session. Use POST /mcp to initialize.",
               78},
};

static void name_invalid_uri(const struct profile *p, const struct dialect_failure *f,
                             struct dialect_error *e)
{
    e->uri = f->uri;
    e->details = f->uri.len == 0 ? STR("{\"uri\":\"\"}") : e->details;
    e->code = p->invalid_uri;
    e->reason = STR_EMPTY;
    e->error_type = STR("invalid_uri_format");
    e->message = p->invalid_uri_text.len > 0 ? p->invalid_uri_text : e->message;
}

static void name_not_found(const struct profile *p, struct dialect_error *e)
{
    e->code = p->not_found;
    e->message = p->not_found_text.len > 0 ? p->not_found_text : e->message;
}

static void name_by_profile(const struct profile *p, const struct dialect_failure *f,
                            struct dialect_error *e)
{
    bool is_missing = e->code == RPC_NOT_FOUND_LEGACY;
    bool subscribes = str_eq(f->method, STR("resources/subscribe"));
    bool is_ours = f->code == TIDINGS_E_LIMIT || e->code == RPC_INTERNAL;
    /* Where an invalid URI counts as not found, the message names it. */
    bool is_malformed = f->is_malformed && (f->uri.len > 0 || p->invalid_uri != p->not_found);
    if (e->uri.len == 0 && !is_malformed) {
        return;
    }
    if (is_malformed || (is_missing && f->is_unserved)) {
        name_invalid_uri(p, f, e);
    } else if (is_missing) {
        name_not_found(p, e);
    } else if (is_ours && subscribes && p->unsubscribable) {
        e->code = p->unsubscribable;
    } else if (p->unreadable && str_eq(f->method, STR("resources/read"))) {
        e->code = p->unreadable;
    }
    if (p->rules.confirms_subscribe && e->code == p->not_found) { /* all the document has */
        e->missing = e->uri;
        e->uri = e->reason = e->error_type = e->details = STR_EMPTY;
    }
}

void dialect_name_failure(const struct server_identity *self, const struct dialect_failure *f,
                          struct dialect_error *e)
{
    e->code = dialect_code(f->era, f->code);
    if (f->era == ERA_LEGACY && self->profile) {
        name_by_profile(self->profile, f, e);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Questions of servers to clients (elicitation, sampling, roots): the capabilities that a client
 * declared, the capabilities that a question needs, and in the legacy era the requests themselves.
 */

static bool has_object(const struct json *object, const char *name)
{
    return jv_is(jv_get(object, name), JV_OBJECT);
}

unsigned dialect_askable(const struct json *capabilities)
{
    const struct json *elicitation = jv_get(capabilities, "elicitation");
    unsigned can = has_object(capabilities, "roots") ? ASK_ROOTS : 0;
    if (has_object(capabilities, "elicitation")) {
        bool has_url = has_object(elicitation, "url");
        can |= has_url ? ASK_URL : 0u;
        can |= has_object(elicitation, "form") || !has_url ? ASK_FORM : 0u; /* {} means forms */
    }
    if (has_object(capabilities, "sampling")) {
        can |= ASK_SAMPLING;
        can |= has_object(jv_get(capabilities, "sampling"), "tools") ? ASK_SAMPLING_TOOLS : 0u;
    }
    return can;
}

unsigned dialect_method_asks(struct tidings_str method)
{
    return str_eq(method, STR("elicitation/create"))       ? ASK_FORM | ASK_URL
           : str_eq(method, STR("sampling/createMessage")) ? ASK_SAMPLING
           : str_eq(method, STR("roots/list"))             ? ASK_ROOTS
                                                           : 0;
}

unsigned dialect_question_needs(struct tidings_str method, const struct json *params)
{
    unsigned asks = dialect_method_asks(method);
    if (asks & ASK_FORM) {
        return str_eq(jv_str(jv_get(params, "mode")), STR("url")) ? ASK_URL : ASK_FORM;
    }
    if (asks & ASK_SAMPLING && (jv_get(params, "tools") || jv_get(params, "toolChoice"))) {
        return ASK_SAMPLING | ASK_SAMPLING_TOOLS;
    }
    return asks;
}

const char *dialect_ask_name(unsigned bits)
{
    return bits & ASK_FORM             ? "elicitation"
           : bits & ASK_URL            ? "elicitation.url"
           : bits & ASK_SAMPLING       ? "sampling"
           : bits & ASK_SAMPLING_TOOLS ? "sampling.tools"
                                       : "roots";
}

void dialect_put_required(struct buf *out, unsigned bits)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (bits & (ASK_FORM | ASK_URL)) {
        jw_put_raw(&w, STR("elicitation"), bits & ASK_URL ? STR("{\"url\":{}}") : STR("{}"));
    }
    if (bits & (ASK_SAMPLING | ASK_SAMPLING_TOOLS)) {
        jw_put_raw(&w, STR("sampling"),
                   bits & ASK_SAMPLING_TOOLS ? STR("{\"tools\":{}}") : STR("{}"));
    }
    if (bits & ASK_ROOTS) {
        jw_put_raw(&w, STR("roots"), STR("{}"));
    }
    jw_end_object(&w);
}

/* ---- requests of the legacy era -------------------------------------------------------------- */

void dialect_put_question(struct buf *out, uint64_t id, struct tidings_str method,
                          const struct json *params)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_integer(&w, STR("id"), (int64_t)id);
    jw_put_string(&w, STR("method"), method);
    jw_key(&w, STR("params"));
    jw_value(&w, params);
    jw_end_object(&w);
}

void dialect_put_withdrawal(struct buf *out, uint64_t id, struct tidings_str reason)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(&w, STR("method"), STR("notifications/cancelled"));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    jw_put_integer(&w, STR("requestId"), (int64_t)id);
    jw_put_string(&w, STR("reason"), reason);
    jw_end_object(&w);
    jw_end_object(&w);
}

/* ---- their answers --------------------------------------------------------------------------- */

static const char *check_roots(const struct json *result)
{
    struct json *roots = jv_get(result, "roots");
    bool are_good = jv_is(roots, JV_ARRAY);
    for (size_t i = 0; are_good && i < jv_count(roots); i++) {
        are_good = jv_is(jv_get(jv_at(roots, i), "uri"), JV_STRING);
    }
    return are_good ? NULL : "'roots' must be an array of objects with a 'uri'";
}

static const char *check_elicitation(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    struct tidings_str action = jv_str(jv_get(result, "action"));
    bool is_known = str_eq(action, STR("accept")) || str_eq(action, STR("decline")) ||
                    str_eq(action, STR("cancel"));
    return !is_known                               ? "'action' must be accept, decline or cancel"
           : content && !jv_is(content, JV_OBJECT) ? "'content' must be an object"
                                                   : NULL;
}

static const char *check_sample(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    return !jv_is(jv_get(result, "role"), JV_STRING)    ? "'role' must be a string"
           : !jv_is(jv_get(result, "model"), JV_STRING) ? "'model' must be a string"
           : !jv_is(content, JV_OBJECT) && !jv_is(content, JV_ARRAY)
               ? "'content' must be an object or an array"
               : NULL;
}

const char *dialect_check_answer(struct tidings_str method, const struct json *result)
{
    unsigned asks = dialect_method_asks(method);
    return !jv_is(result, JV_OBJECT) ? "the result must be an object"
           : asks & ASK_ROOTS        ? check_roots(result)
           : asks & ASK_SAMPLING     ? check_sample(result)
                                     : check_elicitation(result);
}

/* -------------------------------------------------------------------------------------------------
 * Confirmations of subscriptions: the result of resources/subscribe, and the acknowledgement that
 * subscriptions/listen begins with.
 */

static void put_cursor_member(struct jw *w, struct tidings_str cursor)
{
    jw_put_string(w, STR("dev.tidings/cursor"), cursor);
}

static void begin_warnings(struct jw *w)
{
    jw_key(w, STR("dev.tidings/warnings"));
    jw_begin_array(w);
}

static void put_warning(struct jw *w, struct tidings_str uri, struct tidings_str warning)
{
    jw_begin_object(w);
    jw_put_string(w, STR("uri"), uri);
    jw_put_string(w, STR("reason"), warning);
    jw_end_object(w);
}

void dialect_put_subscribed(struct jw *w, struct tidings_str cursor, struct tidings_str uri,
                            struct tidings_str warning)
{
    jw_key(w, STR("_meta"));
    jw_begin_object(w);
    put_cursor_member(w, cursor);
    if (warning.len > 0) {
        begin_warnings(w);
        put_warning(w, uri, warning);
        jw_end_array(w);
    }
    jw_end_object(w);
}

static void put_warnings(struct jw *w, const struct dialect_acknowledged *a)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (row.is_refused || row.warning.len == 0) {
            continue;
        }
        if (!any) {
            any = true;
            begin_warnings(w);
        }
        put_warning(w, row.uri, row.warning);
    }
    if (any) {
        jw_end_array(w);
    }
}

static void put_refused(struct jw *w, const struct dialect_acknowledged *a)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (!row.is_refused || row.task_id.len > 0) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, STR("dev.tidings/refused"));
            jw_begin_array(w);
        }
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), row.uri);
        jw_put_string(w, STR("reason"), row.reason);
        if (row.details_json.len > 0) {
            jw_put_raw(w, STR("data"), row.details_json);
        }
        jw_end_object(w);
    }
    if (any) {
        jw_end_array(w);
    }
}

/* Those of one kind, if there are any. */
static void put_honoured_as(struct jw *w, const struct dialect_acknowledged *a, bool are_tasks)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (row.is_refused || (row.task_id.len > 0) != are_tasks) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, are_tasks ? STR("taskIds") : STR("resourceSubscriptions"));
            jw_begin_array(w);
        }
        jw_string(w, are_tasks ? row.task_id : row.uri);
    }
    if (any) {
        jw_end_array(w);
    }
}

static void put_honoured(struct jw *w, const struct dialect_acknowledged *a)
{
    static const struct {
        struct tidings_str name;
        unsigned list;
    } flags[] = {
        {{"toolsListChanged", 16}, LIST_TOOLS},
        {{"promptsListChanged", 18}, LIST_PROMPTS},
        {{"resourcesListChanged", 20}, LIST_RESOURCES},
    };
    jw_begin_object(w);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (a->lists & flags[i].list) {
            jw_put_bool(w, flags[i].name, true);
        }
    }
    put_honoured_as(w, a, false);
    put_honoured_as(w, a, true);
    jw_end_object(w);
}

void dialect_put_acknowledged(struct buf *out, const struct dialect_acknowledged *a)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(&w, STR("method"), STR("notifications/subscriptions/acknowledged"));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    jw_key(&w, STR("notifications"));
    put_honoured(&w, a);
    jw_key(&w, STR("_meta"));
    jw_begin_object(&w);
    jw_put_raw(&w, STR("io.modelcontextprotocol/subscriptionId"), a->listen_id_json);
    put_cursor_member(&w, a->cursor);
    put_refused(&w, a);
    put_warnings(&w, a);
    jw_end_object(&w);
    jw_end_object(&w);
    jw_end_object(&w);
}

/* ---------------------------------------------------------------------------------------------- */

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define REQUESTED_MAX 256u /* length of a client's version in the error */
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

int dialect_check_stream(struct tidings_str protocol_version, struct tidings_str ceiling,
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

static void check_modern(const struct dialect_context *ctx, const struct rpc_message *msg,
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

static void check_http_legacy(const struct dialect_context *ctx, const struct rpc_message *msg,
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

static void check_message_conn_legacy(const struct dialect_context *ctx,
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

void dialect_check(const struct dialect_context *ctx, const struct rpc_message *msg,
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
        check_modern(ctx, msg, meta, ret);
    } else if (claims && msg->kind == RPC_NOTIFICATION) {
        ret->era = ERA_MODERN;
    } else if (ctx->headers) {
        check_http_legacy(ctx, msg, ret);
    } else {
        check_message_conn_legacy(ctx, msg, ret);
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
