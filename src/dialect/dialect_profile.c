/* SPDX-License-Identifier: MIT
 *
 * Profiles: one row for each source document, and what follows from a row. docs/profiles.md says
 * the same for people.
 */
#include "base/str.h"
#include "dialect/dialect.h"

struct profile {
    struct tidings_str name;
    struct dialect_rules rules;
    /* Codes of errors; 0: as the protocol has them. */
    int not_found, invalid_uri, uninitialized, incapable;
    int unsubscribable; /* resources/subscribe, for want of room or memory */
    int unreadable;     /* resources/read of what exists, but not like that */
    /* Sentences of errors; empty: ours. */
    struct tidings_str not_found_text, invalid_uri_text;
    /* What subscriptions get that ask for nothing. */
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

/* "Entity User@1.0: user123", or what the content is called. */
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
