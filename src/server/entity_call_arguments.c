/* SPDX-License-Identifier: MIT
 *
 * The arguments of tools that write entities, read. They obey the input schemas already; what those
 * cannot say is judged here.
 */
#include "base/error.h"
#include "dialect/dialect.h"
#include "server/entity_call.h"
#include "uri/uri.h"

#define ANONYMOUS "[{\"userId\":\"anonymous\"}]"
#define CHANGED_BY_MAX (64u << 10)
#define ACTORS_MAX 16u

static int entity_arguments_out_of_memory(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int entity_call_version(struct entity_call *c, struct json *value, struct tidings_str *ret,
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

int entity_call_target(struct entity_call *c, struct json *a, struct entity_uri *ret,
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

int entity_call_time(struct json *a, const char *name, int64_t *ret, struct tidings_error *err)
{
    struct json *value = jv_get(a, name);
    *ret = TIMELINE_NEVER;
    int rc = value ? timeline_parse(jv_str(value), ret, err) : 0;
    return rc < 0 ? error_wrap(err, rc, "%s", name) : 0;
}

/* The schema of the tools says the same; over HTTP there is none. */
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

/* LU-R5: together with validFrom, and later. It is no more than that: a version ends when the next
 * one begins, whatever was foreseen, so there is nothing to be kept. */
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

int entity_call_check(const struct entity_call *c, enum access_op op, const struct entity_uri *uri,
                      struct tidings_error *err)
{
    const struct principal *principal = c->principal;
    if (!principal || !principal->class || c->write) {
        return 0;
    }
    if (uri->id.len > 0 && uri->type.len == 0) {
        return 0; /* it is asked of what it is stored as, where that is known */
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

int entity_call_write(struct entity_call *c, struct json *a, enum entity_op op,
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
