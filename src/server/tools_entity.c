/* SPDX-License-Identifier: MIT
 *
 * Registers the tools that write entities, with their descriptions and schemas.
 */
#include "server/tools_entity.h"

#include <tidings/tool.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/options.h"
#include "engine/protocol/dialect.h"
#include "formats/http_fields.h"
#include "formats/uri.h"
#include "security/client_account.h"

/* -------------------------------------------------------------------------------------------------
 * The results of tool calls that write entities, as JSON.
 */

static void put_done(struct jw *w, const struct entity_done *done, bool is_replayed)
{
    const struct entity_version *v = &done->version;
    struct entity_uri parts = {
        .kind = ENTITY_URI_CURRENT, .type = v->type, .version = v->type_version, .id = v->id};
    char from[TIMELINE_TEXT];
    struct buf uri;
    buf_init(&uri, ENTITY_URI_MAX);
    (void)entity_uri_build(&parts, &uri);
    jw_begin_object(w);
    jw_put_bool(w, STR("success"), true);
    jw_put_string(w, STR("uri"), buf_str(&uri));
    entity_put_version(w, v);
    jw_put_string(w, STR("newValidFrom"), timeline_text(v->from, from));
    jw_put_bool(w, STR("changed"), done->changed);
    if (is_replayed) {
        jw_put_bool(w, STR("replayed"), true);
    }
    jw_put_raw(w, STR("value"), v->value);
    jw_end_object(w);
    buf_deinit(&uri);
}

/* An estimate, so that the buffer is allocated once. */
static size_t entity_answer_bytes_of(const struct entity_call *c)
{
    size_t bytes = 64;
    for (size_t i = 0; i < c->count; i++) {
        const struct entity_version *v = &c->done[i].version;
        bytes += 512 + v->value.len + v->changed_by.len + 2 * v->id.len;
    }
    return bytes;
}

/* The results of the writes, as JSON: of a single write, or a transaction. */
static void entity_put_written(const struct entity_call *c, struct buf *out)
{
    struct jw w;
    (void)buf_reserve(out, entity_answer_bytes_of(c));
    jw_init(&w, out);
    if (c->is_transaction) {
        jw_begin_object(&w);
        jw_put_bool(&w, STR("success"), true);
        jw_put_bool(&w, STR("replayed"), c->is_replayed);
        jw_key(&w, STR("results"));
        jw_begin_array(&w);
    }
    for (size_t i = 0; i < c->count; i++) {
        put_done(&w, &c->done[i], c->is_replayed && !c->is_transaction);
    }
    if (c->is_transaction) {
        jw_end_array(&w);
        jw_end_object(&w);
    }
}

/* The results of the writes, as structured content. */
static int entity_answer_writes(struct entity_call *c, struct tidings_error *err)
{
    struct buf out;
    buf_init(&out, ENTITY_ANSWER_MAX);
    entity_put_written(c, &out);
    int rc = buf_check(&out, "it was done, but the answer", "write fewer entities at a time", err);
    rc = rc < 0 ? TIDINGS_E_UNKNOWN : call_take_structured(c->call, &out, err);
    buf_deinit(&out);
    return rc;
}

#define RETRY_MS 1000 /* when the store may be available again */

/* The store is unreachable: the request itself is valid. */
static bool is_unavailable(const struct entity_call *c, int code)
{
    return code == TIDINGS_E_BUSY && c->job.is_fatal;
}

static const char *entity_answer_reason_of(const struct entity_call *c, int code)
{
    static const char *const reasons[] = {
        [ENTITY_OK] = "refused",
        [ENTITY_INVALID] = "invalid",
        [ENTITY_UNKNOWN_TYPE] = "unknownType",
        [ENTITY_UNKNOWN] = "unknownEntity",
        [ENTITY_OTHER_TYPE] = "otherType",
        [ENTITY_DELETED] = "deleted",
        [ENTITY_EXISTS] = "exists",
        [ENTITY_UNKNOWN_BASELINE] = "unknownBaseline",
        [ENTITY_CONFLICT] = "conflict",
        [ENTITY_BAD_VALUE] = "validation",
        [ENTITY_CARELESS] = "conditionRequired",
        [ENTITY_KEY_REUSED] = "keyReused",
        [ENTITY_TAKEN] = "taken",
        [ENTITY_DAMAGED] = "damaged",
        [ENTITY_UNSUPPORTED] = "unsupported",
        [ENTITY_MEDIUM] = "storage",
    };
    if (code == TIDINGS_E_UNKNOWN) {
        return "outcomeUnknown";
    }
    if (is_unavailable(c, code)) {
        return "unavailable";
    }
    if (c->problem.reason != ENTITY_OK) {
        return reasons[c->problem.reason];
    }
    return code == TIDINGS_E_EXISTS        ? "exists"
           : code == TIDINGS_E_NOTFOUND    ? "unknownEntity"
           : code == TIDINGS_E_CONDITION   ? "conditionRequired"
           : code == TIDINGS_E_FORMAT      ? "format"
           : code == TIDINGS_E_UNSUPPORTED ? "unsupported"
           : c->job.is_fatal               ? "storage"
           : code == TIDINGS_E_NOMEM       ? "storage"
                                           : "invalid";
}

static void entity_put_problem(const struct entity_call *c, int code, struct jw *w)
{
    const struct entity_problem *p = &c->problem;
    char text[TIMELINE_TEXT];
    jw_put_string(w, STR("reason"), tidings_str(entity_answer_reason_of(c, code)));
    if (is_unavailable(c, code)) {
        jw_put_integer(w, STR("retryAfterMs"), RETRY_MS);
    }
    if (c->is_transaction && p->reason != ENTITY_OK) {
        jw_put_integer(w, STR("index"), (int64_t)p->index);
    }
    if (p->current > 0) {
        jw_put_string(w, STR("current"), timeline_text(p->current, text));
    }
    if (p->reason == ENTITY_CONFLICT) {
        jw_put_raw(w, STR("patchFromBaseline"), p->patch.len > 0 ? p->patch : STR("null"));
    }
    if (p->reason == ENTITY_OTHER_TYPE) {
        jw_put_string(w, STR("entityTypeName"), p->type);
        jw_put_string(w, STR("entityTypeVersion"), p->version);
    }
    if (p->reason == ENTITY_BAD_VALUE) {
        jw_put_string(w, STR("path"), p->where);
        jw_put_string(w, STR("rule"), p->rule);
    }
}

/* The reason of the refusal, in place of a result. */
static int entity_answer_problem(struct entity_call *c, int code, struct tidings_error *err)
{
    struct buf out;
    struct jw w;
    buf_init(&out, ENTITY_ANSWER_MAX);
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("error"), tidings_str(c->job.err.text));
    entity_put_problem(c, code, &w);
    jw_end_object(&w);
    int rc = out.failed ? tidings_fail(err, code, "%s", c->job.err.text)
                        : tidings_call_text(c->call, buf_str(&out), err);
    tidings_call_mark_error(c->call);
    buf_deinit(&out);
    return rc;
}

/* The code of a protocol error, in the classes of the original system: parameters, missing or
 * deleted entities, and everything else. */
static int refusal_code(const struct entity_call *c, int code)
{
    switch (c->problem.reason) {
    case ENTITY_BAD_VALUE:
    case ENTITY_UNKNOWN_BASELINE:
        return TIDINGS_E_INTERNAL;
    case ENTITY_OK:
        if (code == TIDINGS_E_EXISTS) { /* for a type */
            return TIDINGS_E_INTERNAL;
        }
        break;
    case ENTITY_INVALID:
    case ENTITY_UNKNOWN_TYPE:
    case ENTITY_UNKNOWN:
    case ENTITY_OTHER_TYPE:
    case ENTITY_DELETED:
    case ENTITY_EXISTS:
    case ENTITY_CONFLICT:
    case ENTITY_CARELESS:
    case ENTITY_KEY_REUSED:
    case ENTITY_TAKEN:
    case ENTITY_DAMAGED:
    case ENTITY_UNSUPPORTED:
    case ENTITY_MEDIUM:
        break;
    }
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_GONE;
    return is_missing ? TIDINGS_E_INVALID : code;
}

/* The reason of the refusal, as the text of an object. `ret_text` is initialised; the caller
 * releases it. */
static void entity_problem_text(const struct entity_call *c, int code, struct buf *ret_text)
{
    struct jw w;
    buf_init(ret_text, ENTITY_ANSWER_MAX);
    jw_init(&w, ret_text);
    jw_begin_object(&w);
    entity_put_problem(c, code, &w);
    jw_end_object(&w);
}

/* The same as an error of the protocol (dialect_rules.fails_calls); finishes the call. */
static void entity_answer_refusal(struct entity_call *c, int code)
{
    struct tidings_error err = c->job.err;
    struct buf text;
    entity_problem_text(c, code, &text);
    if (!text.failed) {
        job_explain(&c->call->base, buf_str(&text));
    }
    err.code = refusal_code(c, code);
    tidings_call_refuse(c->call, err.code, &err);
    buf_deinit(&text);
}

/* -------------------------------------------------------------------------------------------------
 * Reads the arguments of tools that write entities. They already satisfy the input schemas; this
 * code checks what schemas cannot express.
 */

#define ANONYMOUS "[{\"userId\":\"anonymous\"}]"
#define CHANGED_BY_MAX (64u << 10)
#define ACTORS_MAX 16u

static int entity_arguments_out_of_memory(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* The version of a type, a string or a number. */
static int entity_call_version(struct entity_call *c, struct json *value, struct tidings_str *ret,
                               struct tidings_error *err)
{
    *ret = jv_str(value);
    if (jv_is(value, JV_INT)) {
        struct buf text;
        buf_init(&text, 32);
        buf_puti(&text, jv_int(value));
        *ret = arena_dup(&c->arena, buf_str(&text));
        buf_deinit(&text);
    }
    return ret->ptr ? 0 : entity_arguments_out_of_memory(err);
}

static const struct uri_alias *entity_arguments_find_alias(const void *user, struct tidings_str in)
{
    const struct tidings_provider *p = user;
    return uri_alias_find(p->aliases, p->alias_count, in);
}

static int entity_arguments_read_uri(struct entity_call *c, struct tidings_str spelled,
                                     struct entity_uri *ret, struct tidings_error *err)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri_alias_canonical(spelled, false, entity_arguments_find_alias, c->provider,
                                 &canonical, NULL, err);
    struct tidings_str copy = arena_dup(&c->arena, buf_str(&canonical));
    if (rc == 0) {
        rc = copy.ptr ? entity_uri_parse(copy, ret, err) : entity_arguments_out_of_memory(err);
    }
    buf_deinit(&canonical);
    return rc < 0 ? error_wrap(err, rc, "uri") : 0;
}

/* The entity, from `uri` or `entityId`, `entityTypeName` and `entityTypeVersion`. */
static int entity_call_target(struct entity_call *c, struct json *a, struct entity_uri *ret,
                              struct tidings_error *err)
{
    struct json *uri = jv_get(a, "uri"), *id = jv_get(a, "entityId");
    memset(ret, 0, sizeof(*ret));
    if (!uri == !id) {
        return tidings_fail(err, TIDINGS_E_INVALID, "name the entity by uri or by entityId, not %s",
                            uri ? "both" : "neither");
    }
    if (!uri) {
        ret->kind = ENTITY_URI_CURRENT;
        ret->id = jv_str(id);
        ret->type = jv_str(jv_get(a, "entityTypeName"));
        return entity_call_version(c, jv_get(a, "entityTypeVersion"), &ret->version, err);
    }
    int rc = entity_arguments_read_uri(c, jv_str(uri), ret, err);
    if (rc == 0 && ret->kind != ENTITY_URI_CURRENT && ret->kind != ENTITY_URI_PATCH) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                          "uri: only %s{type}@{version}/{id} and …/patch can be written",
                          ENTITY_URI_PREFIX);
    }
    return rc;
}

/* An instant; TIMELINE_NEVER if absent. */
static int entity_call_time(struct json *a, const char *name, int64_t *ret,
                            struct tidings_error *err)
{
    struct json *value = jv_get(a, name);
    *ret = TIMELINE_NEVER;
    int rc = value ? timeline_parse(jv_str(value), ret, err) : 0;
    return rc < 0 ? error_wrap(err, rc, "%s", name) : 0;
}

/* The schema of the tools requires the same; HTTP has no schema. */
static bool is_changed_by(struct json *list)
{
    size_t count = jv_count(list);
    bool good = jv_is(list, JV_ARRAY) && count >= 1 && count <= ACTORS_MAX;
    for (size_t i = 0; good && i < count; i++) {
        struct json *actor = jv_at(list, i), *by = jv_get(actor, "impersonatedBy");
        good = jv_is(jv_get(actor, "userId"), JV_STRING) && (!by || jv_is(by, JV_STRING)) &&
               jv_count(actor) == (by ? 2 : 1);
    }
    return good;
}

/* LU-R5: it requires validFrom, and must be later. Otherwise it has no effect: a version ends when
 * the next one begins, whatever validTo was given, so it is not stored. */
static int check_valid_to(struct json *a, int64_t from, struct tidings_error *err)
{
    struct tidings_str text = jv_str(jv_get(a, "validTo"));
    char forever[TIMELINE_TEXT];
    int64_t to = TIMELINE_FOREVER;
    if (!jv_get(a, "validTo")) {
        return 0;
    }
    if (from == TIMELINE_NEVER) {
        return tidings_fail(err, TIDINGS_E_INVALID, "validTo is given together with validFrom");
    }
    bool is_forever = str_eq(text, timeline_text(TIMELINE_FOREVER, forever)) ||
                      str_eq(text, STR("9999-01-01T00:00:00Z"));
    int rc = is_forever ? 0 : timeline_parse(text, &to, err);
    if (rc < 0) {
        return error_wrap(err, rc, "validTo");
    }
    return to > from ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "validTo must be after validFrom");
}

static int read_changed_by(struct entity_call *c, struct json *value, struct tidings_str *ret,
                           struct tidings_error *err)
{
    *ret = STR(ANONYMOUS);
    if (!value) {
        return 0;
    }
    if (!is_changed_by(value)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "changedBy: write [{\"userId\": \"…\"}], at most %u, each perhaps "
                            "with impersonatedBy",
                            ACTORS_MAX);
    }
    struct buf text;
    struct jw w;
    buf_init(&text, CHANGED_BY_MAX);
    jw_init(&w, &text);
    jw_value(&w, value);
    int rc = text.failed == TIDINGS_E_NOMEM ? entity_arguments_out_of_memory(err)
             : text.failed ? tidings_fail(err, TIDINGS_E_INVALID, "changedBy is too long")
                           : 0;
    *ret = arena_dup(&c->arena, buf_str(&text));
    buf_deinit(&text);
    return rc == 0 && !ret->ptr ? entity_arguments_out_of_memory(err) : rc;
}

static int entity_call_check(const struct entity_call *c, enum access_op op,
                             const struct entity_uri *uri, struct tidings_error *err)
{
    const struct principal *principal = c->principal;
    if (!principal || !principal->class || c->write) {
        return 0;
    }
    if (uri->id.len > 0 && uri->type.len == 0) {
        return 0; /* checked on the stored type, once it is known */
    }
    if (uri->kind != ENTITY_URI_TYPES && uri->version.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "name entityTypeVersion too: access rules decide by it");
    }
    struct entity_uri current = *uri;
    current.kind = uri->kind == ENTITY_URI_TYPES ? ENTITY_URI_TYPES : ENTITY_URI_CURRENT;
    current.parent = STR_EMPTY;
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    bool may = entity_uri_build(&current, &text) == 0 &&
               (op == ACCESS_WRITE ? access_writes(principal, buf_str(&text))
                                   : access_allows(principal, op, buf_str(&text)));
    buf_deinit(&text);
    return may ? 0
               : tidings_fail(err, op == ACCESS_WRITE ? TIDINGS_E_DENIED : TIDINGS_E_NOTFOUND,
                              op == ACCESS_WRITE ? "you may not write this" : "not found");
}

/* Checks that the caller of a tool has access. Over HTTP, access was checked before. If the entity
 * is named without its type, access is checked later, on its stored type. */
static int entity_call_write(struct entity_call *c, struct json *a, enum entity_op op,
                             struct entity_write *ret, struct tidings_error *err)
{
    struct entity_uri uri;
    struct json *parent = jv_get(a, "parentId");
    bool is_patch = c->write && tidings_write_is_patch(c->write);
    int rc = entity_call_target(c, a, &uri, err);
    rc = rc == 0 ? entity_call_check(c, ACCESS_WRITE, &uri, err) : rc;
    if (rc < 0) {
        return rc;
    }
    *ret = (struct entity_write){
        .op = op,
        .id = uri.id,
        .type = uri.type,
        .type_version = uri.version,
        .value = c->body && !is_patch ? c->body : jv_get(a, "value"),
        .patch = c->body && is_patch ? c->body : jv_get(a, "patch"),
        .parent = jv_str(parent),
        .has_parent = parent != NULL,
        .must_be_new = jv_is_true(jv_get(a, "ifAbsent")),
        .rebase = str_eq(jv_str(jv_get(a, "onConflict")), STR("rebase")),
    };
    bool is_short = jv_get(a, "uri") && uri.type.len == 0;
    if (op == ENTITY_UPSERT && !is_short && (uri.type.len == 0 || uri.version.len == 0)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "entityTypeName and entityTypeVersion are missing");
    }
    if (op == ENTITY_UPSERT && uri.kind == ENTITY_URI_PATCH && !ret->patch) {
        return tidings_fail(err, TIDINGS_E_INVALID, "uri: …/patch is written with a patch");
    }
    rc = read_changed_by(c, jv_get(a, "changedBy"), &ret->changed_by, err);
    rc = rc == 0 ? entity_call_time(a, "baseline", &ret->baseline, err) : rc;
    rc = rc == 0 ? entity_call_time(a, "validFrom", &ret->valid_from, err) : rc;
    if (c->call && c->call->rules->rebases && ret->patch && ret->baseline != TIMELINE_NEVER &&
        !jv_get(a, "onConflict")) {
        ret->rebase = true;
    }
    return rc == 0 ? check_valid_to(a, ret->valid_from, err) : rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define TEXT_PROPERTY(name, about)                                                                 \
    "\"" name "\":{\"type\":\"string\",\"description\":\"" about "\"}"
#define TIME_PROPERTY(name, about)                                                                 \
    "\"" name "\":{\"type\":\"string\",\"description\":\"" about                                   \
    ", RFC 3339 such as 2024-01-01T10:00:00.000Z\"}"
#define VERSION "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":0}]}"
#define TARGET                                                                                     \
    TEXT_PROPERTY("uri",                                                                           \
                  "the entity: entity:///{type}@{version}/{id} or /entity/…; or name it by "     \
                  "entityId")                                                                      \
    "," TEXT_PROPERTY("entityId", "its id") "," TEXT_PROPERTY(                                     \
        "entityTypeName", "its type") ",\"entityTypeVersion\":" VERSION
#define CHANGED_BY                                                                                 \
    "\"changedBy\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":16,\"description\":\"who, "     \
    "anonymous when absent\",\"items\":{\"type\":\"object\",\"properties\":{\"userId\":{\"type\":" \
    "\"string\"},\"impersonatedBy\":{\"type\":\"string\"}},\"required\":[\"userId\"],"             \
    "\"additionalProperties\":false}}"
#define BASELINE TIME_PROPERTY("baseline", "validFrom of the version this starts from")
#define ORIGIN                                                                                     \
    "\"origin\":{\"type\":\"string\",\"maxLength\":256,\"description\":\"subscriptions with this " \
    "origin and echo false are not notified\"}"
#define ONCE                                                                                       \
    "\"idempotencyKey\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":512,\"description\":"   \
    "\"the same request with the same key gives the first result again\"}"
#define UPSERT                                                                                     \
    TARGET                                                                                         \
    ",\"value\":{\"description\":\"the whole value\"},\"patch\":{\"type\":\"object\","             \
    "\"description\":\"or a merge patch (RFC 7396); needs baseline\"}," BASELINE ","               \
    "\"onConflict\":{\"enum\":[\"fail\",\"rebase\"],\"description\":\"rebase: apply the "          \
    "patch to what is current\"},\"ifAbsent\":{\"type\":\"boolean\",\"description\":\"only "       \
    "where nothing is\"},\"parentId\":{\"type\":[\"string\",\"null\"]}," CHANGED_BY                \
    "," TIME_PROPERTY("validFrom", "when it begins, now when absent") "," TIME_PROPERTY(           \
        "validTo", "only with validFrom and after it; it ends when the next version begins")
#define MARK TARGET "," BASELINE "," CHANGED_BY
#define OBJECT(properties, more)                                                                   \
    "{\"type\":\"object\",\"properties\":{" properties "}" more ",\"additionalProperties\":false}"

#define SNAPSHOT                                                                                   \
    "\"entityId\":{\"type\":\"string\"},\"validFrom\":{\"type\":\"string\"},\"validTo\":{"         \
    "\"type\":\"string\"},\"changedBy\":{\"type\":\"array\"},\"principal\":{\"type\":\"object\"}," \
    "\"deleted\":{\"type\":\"boolean\"},"                                                          \
    "\"parentId\":{\"type\":[\"string\",\"null\"]},\"entityTypeName\":{\"type\":\"string\"},"      \
    "\"entityTypeVersion\":{\"type\":\"string\"},\"value\":{}"
#define WRITTEN                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},\"uri\":{\"type\":"         \
    "\"string\"},\"newValidFrom\":{\"type\":\"string\"},\"changed\":{\"type\":\"boolean\"},"       \
    "\"replayed\":{\"const\":true}," SNAPSHOT                                                      \
    "},\"required\":[\"success\",\"uri\",\"entityId\",\"validFrom\",\"newValidFrom\","             \
    "\"validTo\",\"deleted\",\"value\",\"changed\"]}"

#define SCHEMA(literal)                                                                            \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static void entity_call_undelete(void *user, struct tidings_call *call);

static void entity_call_delete(void *user, struct tidings_call *call);

static const struct {
    struct tidings_tool about;
    tidings_call_fn handler;
} tools[] = {
    {{.name = SCHEMA("add-entity-type"),
      .title = SCHEMA("Add a type of entities"),
      .description = SCHEMA("Registers a type, or a new version of one, with the JSON Schema its "
                            "entities obey"),
      .input_schema = SCHEMA(OBJECT(
          TEXT_PROPERTY(
              "name",
              "letters, digits, - and _") ",\"version\":" VERSION
                                          ",\"jsonSchema\":{\"type\":\"object\"}," TEXT_PROPERTY(
                                              "description",
                                              "for people") ",\"options\":{\"type\":\"object\","
                                                            "\"description\":\"history, "
                                                            "debounceMs, maxAgeMs, "
                                                            "maxVersions\"}," ORIGIN,
          ",\"required\":[\"name\",\"version\",\"jsonSchema\"]")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},"
                              "\"name\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"},"
                              "\"message\":{\"type\":\"string\"}},\"required\":[\"success\","
                              "\"name\",\"version\",\"message\"]}"),
      .annotations = SCHEMA("{\"destructiveHint\":false,\"openWorldHint\":false}")},
     entity_call_add_type},
    {{.name = SCHEMA("upsert-entity"),
      .title = SCHEMA("Create or change an entity"),
      .description = SCHEMA("Writes a new version of an entity, from a whole value or a merge "
                            "patch; nothing is written when nothing changes"),
      .input_schema = SCHEMA(OBJECT(UPSERT "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":false,"
                            "\"openWorldHint\":false}")},
     entity_call_upsert},
    {{.name = SCHEMA("delete-entity"),
      .title = SCHEMA("Delete an entity"),
      .description = SCHEMA("Writes a version that says it is deleted; its history stays"),
      .input_schema = SCHEMA(OBJECT(MARK "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":true,"
                            "\"openWorldHint\":false}")},
     entity_call_delete},
    {{.name = SCHEMA("undelete-entity"),
      .title = SCHEMA("Undelete an entity"),
      .description = SCHEMA("Brings a deleted entity back with its last value"),
      .input_schema = SCHEMA(OBJECT(MARK "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":false,"
                            "\"openWorldHint\":false}")},
     entity_call_undelete},
    {{.name = SCHEMA("get-entity-history"),
      .title = SCHEMA("The versions of an entity"),
      .description = SCHEMA("All versions, oldest first, including deletions"),
      .input_schema = SCHEMA(OBJECT(
          TARGET "," TIME_PROPERTY(
              "from",
              "the first validFrom wanted") ",\"limit\":{\"type\":\"integer\",\"minimum\":1,"
                                            "\"maximum\":1000},"
                                            "\"values\":{\"type\":\"boolean\",\"description\":"
                                            "\"with their values, the default\"}",
          "")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"entityId\":{\"type\":"
                              "\"string\"},\"versions\":{\"type\":\"array\",\"items\":{\"type\":"
                              "\"object\",\"properties\":{" SNAPSHOT "}}},\"next\":{\"type\":"
                              "\"string\"}},\"required\":[\"entityId\",\"versions\"]}"),
      .annotations = SCHEMA("{\"readOnlyHint\":true,\"openWorldHint\":false}")},
     entity_call_history},
    {{.name = SCHEMA("transact"),
      .title = SCHEMA("Write several entities at once"),
      .description = SCHEMA("All operations or none; a repeated idempotencyKey gives the first "
                            "result again"),
      .input_schema = SCHEMA(OBJECT(
          "\"operations\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":" OBJECT(
              "\"op\":{\"enum\":[\"upsert\",\"delete\",\"undelete\"]}," UPSERT,
              ",\"required\":[\"op\"]") ",\"description\":\"each entity at most once\"}," ONCE
                                        "," ORIGIN,
          ",\"required\":[\"operations\"]")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},"
                              "\"replayed\":{\"type\":\"boolean\"},\"results\":{\"type\":\"array\","
                              "\"items\":" WRITTEN "}},\"required\":[\"success\",\"replayed\","
                              "\"results\"]}"),
      .annotations = SCHEMA("{\"destructiveHint\":true,\"openWorldHint\":false}")},
     entity_call_transact},
};

#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

static void remove_first(struct tidings_server *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)tidings_server_remove_tool(s, tools[i].about.name, NULL);
    }
}

int entity_tools_add(struct tidings_server *s, struct tidings_provider *entities,
                     struct tidings_error *err)
{
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        int rc = tidings_server_add_tool(s, &tools[i].about, tools[i].handler, entities, err);
        if (rc < 0) {
            remove_first(s, i);
            return error_wrap(err, rc, "entities");
        }
    }
    return 0;
}

void entity_tools_remove(struct tidings_server *s)
{
    remove_first(s, TOOL_COUNT);
}

/* -------------------------------------------------------------------------------------------------
 * Passes a call of an entity tool to the commit thread and its answer back. A call is carried out
 * even if its client no longer waits for it, because it may already be in a batch.
 */

#define ARENA_MAX (64u << 20)
#define HISTORY_MAX (8u << 20)
#define HISTORY_LIMIT 100
#define PRINCIPAL_TEXT_MAX (6u * PRINCIPAL_MAX + 64u)

/* ---- start and end --------------------------------------------------------------------------- */

static void entity_call_free(struct entity_call *c)
{
    if (!c->call) {
        jv_unref(c->arguments);
        jv_unref(c->body);
    }
    buf_deinit(&c->out);
    buf_deinit(&c->principal_json);
    buf_deinit(&c->origin);
    arena_deinit(&c->work);
    arena_deinit(&c->arena);
    mem_free(c);
}

static void refuse_limit(struct entity_call *c)
{
    struct worker *worker = c->write ? c->write->base.worker : c->call->base.worker;
    struct refusal why = client_account_refusal(worker->limit_counters, c->account, ENTITY_STEPS,
                                                clock_monotonic_ms());
    if (c->write) {
        job_write_limit(c->write, &why);
    } else {
        call_refuse_limit(c->call, &why);
    }
}

static void entity_http_refuse(struct entity_call *c, int code);

/* Answer with the store's refusal, and end. */
static void call_refuse(struct entity_call *c, int code)
{
    struct tidings_error err = {0};
    if (c->is_limited) {
        refuse_limit(c);
    } else if (c->write) {
        entity_http_refuse(c, code);
    } else if (c->call->rules->fails_calls) {
        entity_answer_refusal(c, code);
    } else {
        tidings_call_done(c->call, entity_answer_problem(c, code, &err), &err);
    }
    entity_call_free(c);
}

/* NULL: out of memory. It frees itself after it is answered. */
static struct entity_call *entity_call_create(struct tidings_provider *provider)
{
    struct entity_call *c = mem_zalloc(sizeof(*c));
    if (c) {
        c->provider = provider;
        arena_init(&c->arena, ARENA_MAX);
        arena_init(&c->work, ARENA_MAX);
        buf_init(&c->out, HISTORY_MAX);
        buf_init(&c->principal_json, PRINCIPAL_TEXT_MAX);
        buf_init(&c->origin, 4 * ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX); /* schemas count characters */
        list_init(&c->job.message.link);
    }
    return c;
}

/* NULL after the call was finished. */
static struct entity_call *entity_call_begin(struct tidings_provider *provider,
                                             struct tidings_call *call)
{
    struct tidings_error err = {0};
    struct entity_call *c = entity_call_create(provider);
    if (!c) {
        tidings_call_done(call, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return NULL;
    }
    c->call = call;
    c->principal = call->principal;
    c->account = call->account;
    c->arguments = call->arguments; /* lives as long as the call; immutable */
    struct tidings_str origin = jv_str(jv_get(c->arguments, "origin"));
    if (origin.len > 0) {
        principal_put_origin(c->principal, origin, &c->origin);
    } else {
        buf_puts(&c->origin, tidings_call_origin(call));
    }
    return c;
}

/* ---- access ---------------------------------------------------------------------------------- */

static bool call_may(void *user, enum entity_right right, const struct entity_type_row *type,
                     struct tidings_str id)
{
    const struct entity_call *c = user;
    struct entity_uri uri = {
        .kind = ENTITY_URI_CURRENT, .type = type->name, .version = type->version, .id = id};
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    bool may =
        entity_uri_build(&uri, &text) == 0 &&
        (right == ENTITY_MAY_WRITE ? access_writes(c->principal, buf_str(&text))
                                   : access_allows(c->principal, ACCESS_READ, buf_str(&text)));
    buf_deinit(&text);
    return may;
}

/* Checks access to a stored version; without rules no check is needed. */
static bool call_knows(struct entity_call *c, const struct entity_version *v)
{
    struct entity_type_row type = {.name = v->type, .version = v->type_version};
    return access_is_full(c->principal) || call_may(c, ENTITY_MAY_KNOW, &type, v->id);
}

/* ---- cost of schemas ------------------------------------------------------------------------- */

/* Together with earlier checks, a request stays below the client's burst budget. */
_Static_assert(ENTITY_STEPS < CPU_BUDGET_BURST, "steps for one transaction");

/* The client has no steps left for the schemas of this request: returns true, and the request must
 * be refused. */
static bool entity_call_lacks_steps(struct entity_call *c)
{
    uint64_t left = client_account_steps_left(c->account, clock_monotonic_ms());
    c->had = left < ENTITY_STEPS ? left : ENTITY_STEPS;
    c->steps = c->had;
    c->is_limited = c->had == 0;
    return c->is_limited;
}

/* Charge the steps after an attempt. `is_out`: it ran out of steps. */
static void pay_steps(struct entity_call *c, bool is_out)
{
    client_account_pay(c->account, c->had - c->steps, clock_monotonic_ms());
    c->is_limited = is_out && c->had < ENTITY_STEPS;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_checked(const struct entity_call *c)
{
    bool is = false;
    for (size_t i = 0; !is && i < c->count; i++) {
        is = c->writes[i].op == ENTITY_UPSERT;
    }
    return is;
}

static int run_writes(struct store_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    bool is_known = c->principal && c->principal->kind != PRINCIPAL_ANONYMOUS;
    struct entity_transaction t = {
        .writes = c->writes,
        .count = c->count,
        .may = c->principal && c->principal->class ? call_may : NULL,
        .may_user = c,
        .key = c->key,
        .now = entities_now(e),
        .owner = buf_str(&c->principal_json),
        .principal = is_known ? buf_str(&c->principal_json) : STR_EMPTY,
        .digest = tidings_str(c->digest),
        .steps = &c->steps,
    };
    if (is_checked(c) && entity_call_lacks_steps(c)) {
        return TIDINGS_E_BUSY;
    }
    arena_reset(&c->work);
    int rc = entities_transact(e, &t, &c->work, c->done, &c->problem, &job->err);
    job->is_fatal = rc < 0 && c->problem.reason == ENTITY_MEDIUM;
    pay_steps(c, rc < 0 && c->problem.is_out_of_steps);
    c->is_replayed = rc == 1;
    return rc < 0 ? rc : 0;
}

/* The caller does not pay for the repeated schema checks. */
static void undo_writes(struct store_job *job)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    uint64_t judged = c->had - c->steps;
    if (judged > CPU_BUDGET_FREE) {
        client_account_refund(c->account, judged - CPU_BUDGET_FREE);
    }
    c->had = c->steps = 0;
    c->is_limited = false;
}

/* Back on the thread of the worker, so that the commit thread is free for the next batch. */
static int answer_writes(void *user, struct tidings_call *call, struct tidings_error *err)
{
    struct entity_call *c = user;
    (void)call;
    int rc = entity_answer_writes(c, err);
    entity_call_free(c);
    return rc;
}

/* A truncated origin could name another one: it is empty if memory ran out. */
static struct entity_cause call_cause(const struct entity_call *c)
{
    return (struct entity_cause){
        .origin = c->origin.failed ? STR_EMPTY : buf_str(&c->origin),
        .traceparent = c->call    ? tidings_call_traceparent(c->call)
                       : c->write ? tidings_write_traceparent(c->write)
                                  : STR_EMPTY,
    };
}

static void entity_http_done(struct entity_call *c);

static void writes_done(struct store_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    if (job->is_fatal && c->problem.reason != ENTITY_MEDIUM) { /* the decision was rolled back */
        c->problem = (struct entity_problem){.current = TIMELINE_NEVER};
        c->is_limited = false;
    }
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    const struct entity_cause cause = call_cause(c);
    for (size_t i = 0; i < c->count; i++) {
        entity_announce(c->provider, &c->done[i], &cause);
    }
    if (c->write) {
        entity_http_done(c);
        entity_call_free(c);
        return;
    }
    call_done_on_worker(c->call, answer_writes, c);
}

/* The caller, and for repeatable requests, a digest of the request. */
static int call_identify(struct entity_call *c)
{
    struct jw w;
    jw_init(&w, &c->principal_json);
    principal_write(&w, c->principal);
    int rc = c->principal_json.failed;
    rc = rc == 0 && c->key.len > 0 ? entity_digest(c->writes, c->count, c->digest) : rc;
    return rc < 0 ? tidings_fail(&c->job.err, rc, "out of memory") : 0;
}

/* Do the writes, or (rc < 0, its error in job.err) refuse; then answer. */
static void entity_call_submit(struct entity_call *c, int rc)
{
    rc = rc < 0 ? rc : call_identify(c);
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.is_write = true;
    c->job.run = run_writes;
    c->job.undo = undo_writes;
    c->job.done = writes_done;
    commit_thread_submit(entity_commit_thread(c->provider), &c->job);
}

/* Memory for `count` writes. */
static int entity_call_room(struct entity_call *c, size_t count, struct tidings_error *err)
{
    c->count = count;
    c->writes = arena_alloc(&c->arena, (count + 1) * sizeof(*c->writes));
    c->done = arena_alloc(&c->arena, (count + 1) * sizeof(*c->done));
    return c->writes && c->done ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void write_one(struct tidings_provider *provider, struct tidings_call *call,
                      enum entity_op op)
{
    struct entity_call *c = entity_call_begin(provider, call);
    if (c) {
        int rc = entity_call_room(c, 1, &c->job.err);
        rc = rc == 0 ? entity_call_write(c, c->arguments, op, &c->writes[0], &c->job.err) : rc;
        c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
        entity_call_submit(c, rc);
    }
}

void entity_call_upsert(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_UPSERT);
}

static void entity_call_delete(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_DELETE);
}

static void entity_call_undelete(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_UNDELETE);
}

static enum entity_op op_of(struct tidings_str name)
{
    return str_eq(name, STR("delete"))     ? ENTITY_DELETE
           : str_eq(name, STR("undelete")) ? ENTITY_UNDELETE
                                           : ENTITY_UPSERT;
}

void entity_call_transact(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    struct json *list = jv_get(c->arguments, "operations");
    int rc = entity_call_room(c, jv_count(list), &c->job.err);
    c->is_transaction = true;
    c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
    for (size_t i = 0; rc == 0 && i < c->count; i++) {
        struct json *one = jv_at(list, i);
        rc =
            entity_call_write(c, one, op_of(jv_str(jv_get(one, "op"))), &c->writes[i], &c->job.err);
        if (rc < 0) {
            error_wrap(&c->job.err, rc, "operations/%zu", i);
        }
    }
    entity_call_submit(c, rc);
}

/* ---- types ----------------------------------------------------------------------------------- */

static int run_type(struct store_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    if (entity_call_lacks_steps(c)) {
        return TIDINGS_E_BUSY;
    }
    c->type.steps = &c->steps;
    int rc = entities_add_type(e, &c->type, &job->err);
    bool is_refused = rc == TIDINGS_E_INVALID || rc == TIDINGS_E_EXISTS ||
                      rc == TIDINGS_E_UNSUPPORTED || rc == TIDINGS_E_NOTFOUND;
    job->is_fatal = rc < 0 && !is_refused;
    pay_steps(c, rc == TIDINGS_E_INVALID && c->steps == 0);
    c->position = rc == 0 ? entities_position(e) : 0;
    return rc;
}

static void type_done(struct store_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct tidings_error err = {0};
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    const struct entity_cause cause = call_cause(c);
    entity_announce_types(c->provider, c->position, &cause);
    jw_init(&c->w, &c->out);
    jw_begin_object(&c->w);
    jw_put_bool(&c->w, STR("success"), true);
    jw_put_string(&c->w, STR("name"), c->type.name);
    jw_put_string(&c->w, STR("version"), c->type.version);
    struct buf text;
    buf_init(&text, 2 * ENTITY_NAME_MAX + 64);
    buf_putf(&text, "entity type '%.*s@%.*s' added", STR_ARG(c->type.name),
             STR_ARG(c->type.version));
    jw_put_string(&c->w, STR("message"), buf_str(&text));
    jw_end_object(&c->w);
    buf_deinit(&text);
    tidings_call_done(c->call, call_take_structured(c->call, &c->out, &err), &err);
    entity_call_free(c);
}

void entity_call_add_type(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    struct json *a = c->arguments;
    c->type = (struct entity_type_spec){
        .name = jv_str(jv_get(a, "name")),
        .description = jv_str(jv_get(a, "description")),
        .schema = jv_get(a, "jsonSchema"),
        .options = jv_get(a, "options"),
    };
    int rc = entity_call_version(c, jv_get(a, "version"), &c->type.version, &c->job.err);
    struct entity_uri registry = {.kind = ENTITY_URI_TYPES};
    rc = rc == 0 ? entity_call_check(c, ACCESS_WRITE, &registry, &c->job.err) : rc;
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.is_write = true;
    c->job.run = run_type;
    c->job.undo = undo_writes;
    c->job.done = type_done;
    commit_thread_submit(entity_commit_thread(c->provider), &c->job);
}

/* ---- history --------------------------------------------------------------------------------- */

static bool put_version(void *user, const struct entity_version *v)
{
    struct entity_call *c = user;
    if (!call_knows(c, v)) {
        return true;
    }
    if (c->found == c->limit) {
        c->next = v->from;
        return false;
    }
    c->found++;
    jw_begin_object(&c->w);
    entity_put_version(&c->w, v);
    if (c->with_values) {
        jw_put_raw(&c->w, STR("value"), v->value);
    }
    jw_end_object(&c->w);
    return !c->out.failed;
}

static int run_history(struct store_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct entity_version v = {.type = STR_EMPTY, .type_version = STR_EMPTY};
    char text[TIMELINE_TEXT];
    int rc = entities_find(e, c->uri.id, TIMELINE_FOREVER, &c->arena, &v, &job->err);
    rc = rc == 1 && !call_knows(c, &v) ? 0 : rc;
    bool is_other = (c->uri.type.len > 0 && !str_eq(c->uri.type, v.type)) ||
                    (c->uri.version.len > 0 && !str_eq(c->uri.version, v.type_version));
    if (rc == 0 || (rc == 1 && is_other)) {
        c->problem.reason = rc == 0 ? ENTITY_UNKNOWN : ENTITY_OTHER_TYPE;
        c->problem.type = v.type;
        c->problem.version = v.type_version;
        return tidings_fail(&job->err, TIDINGS_E_NOTFOUND, "there is no entity '%.*s'%s",
                            STR_ARG(c->uri.id), rc == 0 ? "" : " of that type");
    }
    if (rc < 0) {
        return rc;
    }
    jw_init(&c->w, &c->out);
    jw_begin_object(&c->w);
    jw_put_string(&c->w, STR("entityId"), c->uri.id);
    jw_key(&c->w, STR("versions"));
    jw_begin_array(&c->w);
    rc = entities_history(e, c->uri.id, c->first, put_version, c, &job->err);
    jw_end_array(&c->w);
    if (c->next != TIMELINE_NEVER) {
        jw_put_string(&c->w, STR("next"), timeline_text(c->next, text));
    }
    jw_end_object(&c->w);
    return rc < 0 ? rc : buf_check(&c->out, "the history", "ask for less with limit", &job->err);
}

static void history_done(struct store_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct tidings_error err = {0};
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    tidings_call_done(c->call, call_take_structured(c->call, &c->out, &err), &err);
    entity_call_free(c);
}

void entity_call_history(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    c->next = TIMELINE_NEVER;
    c->limit = (size_t)tidings_call_integer(call, "limit", HISTORY_LIMIT);
    c->with_values = tidings_call_boolean(call, "values", true);
    int rc = entity_call_target(c, c->arguments, &c->uri, &c->job.err);
    rc = rc == 0 ? entity_call_check(c, ACCESS_READ, &c->uri, &c->job.err) : rc;
    rc = rc == 0 ? entity_call_time(c->arguments, "from", &c->first, &c->job.err) : rc;
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.run = run_history;
    c->job.done = history_done;
    commit_thread_submit(entity_commit_thread(c->provider), &c->job);
}

/* -------------------------------------------------------------------------------------------------
 * PUT, PATCH and DELETE of an entity over HTTP. The body is the value or the merge patch, If-Match
 * names the baseline, and the query contains other arguments under the names that the tools use:
 * all of it is converted to the arguments of the tool and handled like a tool call.
 */

#define ARGUMENTS_MAX (64u << 10)

#define ACCEPTED                                                                                   \
    "baseline, changedBy, idempotencyKey, onConflict, origin, parentId, undelete, validFrom, "     \
    "validTo"

static const char *const names[] = {"baseline",   "changedBy", "idempotencyKey",
                                    "onConflict", "origin",    "parentId",
                                    "undelete",   "validFrom", "validTo"};

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

/* ---- the query ------------------------------------------------------------------------------- */

static int entity_http_check_names(struct tidings_str query, struct tidings_error *err)
{
    while (query.len > 0) {
        struct tidings_str value;
        struct tidings_str name = str_cut(str_cut(query, '&', &query, NULL), '=', &value, NULL);
        bool known = str_eq(name, STR("uri"));
        for (size_t i = 0; i < NAME_COUNT; i++) {
            known = known || str_eq(name, tidings_str(names[i]));
        }
        if (!known) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "'%.*s' is not a parameter; accepted: " ACCEPTED,
                                STR_ARG_MAX(name, 64));
        }
    }
    return 0;
}

/* One user's id, or the whole array as JSON. */
static int put_changed_by(struct jw *w, struct tidings_str value, struct tidings_error *err)
{
    struct json *list = NULL;
    if (!str_starts(value, STR("["))) {
        jw_key(w, STR("changedBy"));
        jw_begin_array(w);
        jw_begin_object(w);
        jw_put_string(w, STR("userId"), value);
        jw_end_object(w);
        jw_end_array(w);
        return 0;
    }
    int rc = jv_parse(value, JSON_MAX_DEPTH, &list, err);
    if (rc == 0) {
        jw_key(w, STR("changedBy"));
        jw_value(w, list);
    }
    jv_unref(list);
    return rc < 0 ? error_wrap(err, rc, "changedBy") : 0;
}

static int put_argument(struct jw *w, const char *name, struct tidings_str value,
                        struct tidings_error *err)
{
    if (strcmp(name, "changedBy") == 0) {
        return put_changed_by(w, value, err);
    }
    if (strcmp(name, "undelete") == 0) {
        jw_put_bool(w, STR("undelete"), str_eq(value, STR("true")));
        return str_eq(value, STR("true")) || str_eq(value, STR("false"))
                   ? 0
                   : tidings_fail(err, TIDINGS_E_INVALID, "undelete: write true or false");
    }
    if (strcmp(name, "onConflict") == 0 && !str_eq(value, STR("rebase")) &&
        !str_eq(value, STR("fail"))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "onConflict: write fail or rebase");
    }
    if (strcmp(name, "origin") == 0 && value.len > ORIGIN_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "origin has at most %u bytes", ORIGIN_MAX);
    }
    jw_put_string(w, tidings_str(name), value);
    return 0;
}

int entity_http_query(struct jw *w, struct tidings_str query, struct tidings_error *err)
{
    struct buf value;
    buf_init(&value, ARGUMENTS_MAX);
    int rc = entity_http_check_names(query, err);
    for (size_t i = 0; rc == 0 && i < NAME_COUNT; i++) {
        buf_clear(&value);
        rc = http_query_get(query, names[i], &value);
        if (rc == TIDINGS_E_NOMEM) {
            rc = tidings_fail(err, rc, "out of memory");
        } else if (rc < 0) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "'%s' must come once, percent-encoded",
                              names[i]);
        }
        rc = rc == 1 ? put_argument(w, names[i], buf_str(&value), err) : rc;
    }
    buf_deinit(&value);
    return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Everything except the body, as arguments of the tool. */
static int read_arguments(struct entity_call *c, struct tidings_str uri, struct tidings_error *err)
{
    struct tidings_str match = tidings_write_if_match(c->write);
    struct buf text;
    struct jw w;
    int64_t baseline;
    bool is_named = match.len > 0 && !str_eq(match, STR("*"));
    if (is_named && timeline_parse(match, &baseline, NULL) < 0) {
        c->problem.reason = ENTITY_UNKNOWN_BASELINE; /* an etag, but not ours */
        return tidings_fail(err, TIDINGS_E_CONFLICT, "no version has the etag of If-Match");
    }
    buf_init(&text, 2 * ARGUMENTS_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), uri);
    int rc = entity_http_query(&w, tidings_write_query(c->write), err);
    if (is_named) {
        jw_put_string(&w, STR("baseline"), match);
    }
    jw_end_object(&w);
    if (rc == 0 && text.failed) {
        bool is_long = text.failed == TIDINGS_E_LIMIT;
        rc = tidings_fail(err, is_long ? TIDINGS_E_INVALID : text.failed, "%s",
                          is_long ? "the parameters are too long" : "out of memory");
    }
    rc = rc == 0 ? jv_parse(buf_str(&text), JSON_MAX_DEPTH, &c->arguments, err) : rc;
    if (rc == TIDINGS_E_PARSE) { /* the only remaining cause is a duplicate name */
        rc = tidings_fail(err, TIDINGS_E_INVALID, "send baseline or If-Match, not both");
    }
    buf_deinit(&text);
    return rc;
}

static int read_body(struct entity_call *c, struct tidings_error *err)
{
    struct tidings_str said = tidings_write_mime_type(c->write), rest;
    struct tidings_str type = str_trim(str_cut(said, ';', &rest, NULL), " \t");
    bool is_patch = tidings_write_is_patch(c->write);
    bool is_json = type.len == 0 || str_eq_nocase(type, STR("application/json"));
    if (!is_json && !(is_patch && str_eq_nocase(type, STR("application/merge-patch+json")))) {
        return tidings_fail(err, TIDINGS_E_FORMAT, "Content-Type must be application/json%s",
                            is_patch ? " or application/merge-patch+json" : "");
    }
    int rc = jv_parse(tidings_write_bytes(c->write), JSON_MAX_DEPTH, &c->body, err);
    if (rc < 0) {
        return error_wrap(err, rc, "the body is not JSON");
    }
    if (is_patch && !jv_is(c->body, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a merge patch is an object");
    }
    return 0;
}

static int read_write(struct entity_call *c, struct tidings_str uri, struct tidings_error *err)
{
    struct tidings_write *asked = c->write;
    bool any = str_eq(tidings_write_if_match(asked), STR("*"));
    bool is_patch = tidings_write_is_patch(asked);
    enum entity_op op = tidings_write_is_removal(asked) ? ENTITY_DELETE : ENTITY_UPSERT;
    int rc = read_arguments(c, uri, err);
    if (rc == 0 && jv_is_true(jv_get(c->arguments, "undelete"))) {
        bool is_bare = op == ENTITY_UPSERT && !is_patch && tidings_write_bytes(asked).len == 0;
        op = ENTITY_UNDELETE;
        rc = is_bare ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "undelete is a PUT without a body");
    }
    if (rc == 0 && op == ENTITY_UPSERT) {
        rc = entity_call_lacks_steps(c) ? TIDINGS_E_BUSY : read_body(c, err);
    }
    rc = rc == 0 ? entity_call_room(c, 1, err) : rc;
    rc = rc == 0 ? entity_call_write(c, c->arguments, op, &c->writes[0], err) : rc;
    if (rc < 0) {
        return rc;
    }
    struct entity_write *w = &c->writes[0];
    w->must_be_new = tidings_write_if_absent(asked);
    w->must_exist = any;
    w->is_careful = true;
    w->rebase = w->rebase || (any && is_patch);
    c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
    principal_put_origin(c->principal, jv_str(jv_get(c->arguments, "origin")), &c->origin);
    return is_patch && w->baseline == TIMELINE_NEVER && !w->rebase
               ? tidings_fail(err, TIDINGS_E_CONDITION, "name the version the patch starts from")
               : 0;
}

void entity_http_write(struct tidings_provider *provider, struct tidings_write *write,
                       struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct entity_call *c = entity_call_create(provider);
    if (!c) {
        tidings_write_done(write, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), STR_EMPTY,
                           &err);
        return;
    }
    c->write = write;
    c->principal = write->principal;
    c->account = write->account;
    entity_call_submit(c, read_write(c, uri, &c->job.err));
}

/* ---- answers --------------------------------------------------------------------------------- */

static void entity_http_done(struct entity_call *c)
{
    const struct entity_done *done = &c->done[0];
    struct tidings_write *write = c->write;
    char etag[TIMELINE_TEXT];
    struct buf text;
    buf_init(&text, ENTITY_ANSWER_MAX);
    entity_put_written(c, &text);
    if (!tidings_write_is_removal(write) && !text.failed) {
        tidings_write_answer(write, buf_str(&text));
    }
    bool is_new = done->changed && done->before == TIMELINE_NEVER;
    tidings_write_done(write, is_new, timeline_text(done->version.from, etag), NULL);
    buf_deinit(&text);
}

/* The code for the HTTP status. A PUT does not require an existing entity, so an existing one can
 * only be a conflict; a baseline in If-Match is an ordinary condition. */
static int code_of(const struct entity_call *c, int code)
{
    bool is_put = !tidings_write_is_removal(c->write) && !tidings_write_is_patch(c->write);
    bool is_matched = tidings_write_if_match(c->write).len > 0;
    enum entity_reason why = c->problem.reason;
    bool is_in_the_way = why == ENTITY_EXISTS || why == ENTITY_TAKEN ||
                         (why == ENTITY_OTHER_TYPE && is_put) ||
                         (why == ENTITY_UNKNOWN && is_put && is_matched) ||
                         (why == ENTITY_UNKNOWN_BASELINE && is_matched);
    return is_in_the_way ? TIDINGS_E_CONFLICT : code;
}

static void entity_http_refuse(struct entity_call *c, int code)
{
    struct tidings_write *write = c->write;
    struct tidings_error err = c->job.err;
    struct buf text;
    entity_problem_text(c, code, &text);
    if (!text.failed) {
        tidings_write_explain(write, buf_str(&text));
    }
    tidings_write_done(write, code_of(c, code), STR_EMPTY, &err);
    buf_deinit(&text);
}
