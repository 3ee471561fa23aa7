/* SPDX-License-Identifier: MIT
 *
 * Writing messages: results with the decoration of their era, errors, and updates. An update is
 * first collected as pieces, so that it is copied once, directly into the send buffer of a stream.
 */
#include <assert.h>

#include "engine/protocol/dialect.h"
#include "formats/uri.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Notifications other than updates: lists that changed, bookmarks, log messages, progress; and the
 * result that ends a listen.
 */

void dialect_put_list_changed(struct buf *out, unsigned list, struct tidings_str listen_id_json)
{
    if (list == LIST_EVERYTHING) {
        buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                          "\"params\":{}}"));
        return;
    }
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"));
    buf_puts(out, list == LIST_TOOLS     ? STR("tools")
                  : list == LIST_PROMPTS ? STR("prompts")
                                         : STR("resources"));
    buf_puts(out, STR("/list_changed\""));
    if (listen_id_json.len > 0) {
        buf_puts(out, STR(",\"params\":{\"_meta\":{\"" META_SUBSCRIPTION "\":"));
        buf_puts(out, listen_id_json);
        buf_puts(out, STR("}}"));
    }
    buf_putc(out, '}');
}

void dialect_put_bookmark(struct buf *out, struct tidings_str cursor,
                          struct tidings_str listen_id_json)
{
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/dev.tidings/bookmark\","
                      "\"params\":{\"_meta\":{\"dev.tidings/cursor\":\""));
    buf_puts(out, cursor); /* nothing in it needs escaping */
    buf_putc(out, '"');
    if (listen_id_json.len > 0) {
        buf_puts(out, STR(",\"" META_SUBSCRIPTION "\":"));
        buf_puts(out, listen_id_json);
    }
    buf_puts(out, STR("}}}"));
}

void dialect_put_listen_result(struct buf *out, struct tidings_str listen_id_json,
                               const struct server_identity *self)
{
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"id\":"));
    buf_puts(out, listen_id_json);
    buf_puts(out,
             STR(",\"result\":{\"resultType\":\"complete\",\"_meta\":{\"" META_SERVER_INFO "\":"));
    buf_puts(out, self->implementation);
    buf_puts(out, STR(",\"" META_SUBSCRIPTION "\":"));
    buf_puts(out, listen_id_json);
    buf_puts(out, STR("}}}"));
}

static void begin_notification(struct jw *w, struct buf *out, struct tidings_str method)
{
    jw_init(w, out);
    jw_begin_object(w);
    jw_put_string(w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(w, STR("method"), method);
    jw_key(w, STR("params"));
    jw_begin_object(w);
}

static void end_notification(struct jw *w)
{
    jw_end_object(w);
    jw_end_object(w);
}

void dialect_put_log_message(struct buf *out, struct tidings_str level, struct tidings_str logger,
                             struct tidings_str text)
{
    struct jw w;
    begin_notification(&w, out, STR("notifications/message"));
    jw_put_string(&w, STR("level"), level);
    jw_put_string(&w, STR("logger"), logger.len > 0 ? logger : STR("tidings"));
    jw_put_string(&w, STR("data"), text);
    end_notification(&w);
}

void dialect_put_progress(struct buf *out, struct tidings_str token_json, double progress,
                          double total, struct tidings_str message)
{
    struct jw w;
    begin_notification(&w, out, STR("notifications/progress"));
    jw_put_raw(&w, STR("progressToken"), token_json);
    jw_key(&w, STR("progress"));
    jw_number(&w, progress);
    if (total > 0) {
        jw_key(&w, STR("total"));
        jw_number(&w, total);
    }
    if (message.len > 0) {
        jw_put_string(&w, STR("message"), message);
    }
    end_notification(&w);
}

/* ---------------------------------------------------------------------------------------------- */

void dialect_begin_result(struct jw *w, struct tidings_str id_json)
{
    jw_begin_object(w);
    jw_put_string(w, STR("jsonrpc"), STR("2.0"));
    jw_put_raw(w, STR("id"), id_json);
    jw_key(w, STR("result"));
    jw_begin_object(w);
}

void dialect_begin_meta(struct jw *w, enum era era, const struct server_identity *self,
                        enum dialect_cache cache)
{
    if (era == ERA_MODERN) {
        bool is_cached = cache == CACHE_NOW || cache == CACHE_HOUR;
        jw_put_string(w, STR("resultType"),
                      cache == CACHE_ASKING ? STR("input_required")
                      : cache == CACHE_TASK ? STR("task")
                                            : STR("complete"));
        if (is_cached) {
            jw_put_integer(w, STR("ttlMs"), cache == CACHE_HOUR ? 3600000 : 0);
            jw_put_string(w, STR("cacheScope"), self->is_private ? STR("private") : STR("public"));
        }
    }
    jw_key(w, STR("_meta"));
    jw_begin_object(w);
    if (era == ERA_MODERN) {
        jw_put_raw(w, STR(META_SERVER_INFO), self->implementation);
    }
}

void dialect_end_meta(struct jw *w)
{
    jw_end_object(w);
    jw_end_object(w);
    jw_end_object(w);
}

void dialect_end_result(struct jw *w, enum era era, const struct server_identity *self,
                        enum dialect_cache cache)
{
    if (era == ERA_MODERN) {
        dialect_begin_meta(w, era, self, cache);
        dialect_end_meta(w);
        return;
    }
    jw_end_object(w);
    jw_end_object(w);
}

static void put_given(struct jw *w, struct tidings_str key, struct tidings_str value)
{
    if (value.len > 0) {
        jw_put_string(w, key, value);
    }
}

static void put_missing(struct jw *w, struct tidings_str uri)
{
    struct buf text;
    buf_init(&text, uri.len + 64);
    buf_puts(&text, STR("Resource '"));
    buf_puts(&text, uri);
    buf_puts(&text, STR("' is not configured"));
    put_given(w, STR("detail"), buf_str(&text));
    buf_deinit(&text);
}

static void write_error_data(struct jw *w, const struct dialect_error *e)
{
    jw_key(w, STR("data"));
    jw_begin_object(w);
    put_given(w, STR("error_type"), e->error_type);
    put_given(w, STR("detail"), e->detail);
    if (e->missing.len > 0) {
        put_missing(w, e->missing);
    }
    put_given(w, STR("uri"), e->uri);
    put_given(w, STR("reason"), e->reason);
    if (e->required_json.len > 0) {
        jw_put_raw(w, STR("requiredCapabilities"), e->required_json);
    }
    jw_members(w, e->details);
    if (e->versions) {
        jw_key(w, STR("supported"));
        dialect_write_versions(w, e->ceiling, e->versions->modern_only);
        jw_put_string(w, STR("requested"), e->versions->requested);
    }
    jw_end_object(w);
}

void dialect_write_error(struct jw *w, struct tidings_str id_json, const struct dialect_error *e)
{
    jw_begin_object(w);
    jw_put_string(w, STR("jsonrpc"), STR("2.0"));
    if (id_json.len > 0) {
        jw_put_raw(w, STR("id"), id_json);
    }
    jw_key(w, STR("error"));
    jw_begin_object(w);
    jw_put_integer(w, STR("code"), e->code);
    jw_put_string(w, STR("message"), e->message);
    if (e->uri.len > 0 || e->reason.len > 0 || e->required_json.len > 0 || e->details.len > 0 ||
        e->versions || e->detail.len > 0 || e->missing.len > 0) {
        write_error_data(w, e);
    }
    jw_end_object(w);
    jw_end_object(w);
}

int dialect_code(enum era era, int code)
{
    switch ((enum tidings_code)code) {
    case TIDINGS_E_NOTFOUND:
    case TIDINGS_E_GONE:
    case TIDINGS_E_DENIED: /* a resource that the principal may not see counts as missing */
        return era == ERA_MODERN ? RPC_INVALID_PARAMS : RPC_NOT_FOUND_LEGACY;
    case TIDINGS_E_INVALID:
    case TIDINGS_E_PARSE:
    case TIDINGS_E_LIMIT:
    case TIDINGS_E_EXISTS:
    case TIDINGS_E_CONFLICT:
    case TIDINGS_E_UNSUPPORTED:
    case TIDINGS_E_CONDITION:
    case TIDINGS_E_FORMAT:
        return RPC_INVALID_PARAMS;
    case TIDINGS_OK:
    case TIDINGS_E_NOMEM:
    case TIDINGS_E_BUSY:
    case TIDINGS_E_TIMEOUT:
    case TIDINGS_E_CANCELLED:
    case TIDINGS_E_CLOSED:
    case TIDINGS_E_IO:
    case TIDINGS_E_INTERNAL:
    case TIDINGS_E_FULL:
    case TIDINGS_E_UNKNOWN:
        break;
    }
    return RPC_INTERNAL;
}

int dialect_task_code(int tidings_code)
{
    return dialect_code(ERA_MODERN, tidings_code);
}

int dialect_status(const struct server_identity *self, enum era era, int rpc_code)
{
    if (dialect_answers_200(self, era, rpc_code)) {
        return 200;
    }
    switch (rpc_code) {
    case RPC_PARSE_ERROR:
    case RPC_INVALID_REQUEST:
    case RPC_HEADER_MISMATCH:
    case RPC_MISSING_CAPABILITY:
    case RPC_UNSUPPORTED_VERSION:
        return 400;
    case RPC_METHOD_NOT_FOUND:
        return era == ERA_MODERN ? 404 : 200;
    default:
        return 200;
    }
}

static void write_listed(struct jw *w, struct tidings_str key, const struct server_identity *self)
{
    jw_key(w, key);
    jw_begin_object(w);
    if (self->list_changed) {
        jw_put_bool(w, STR("listChanged"), true);
    }
    jw_end_object(w);
}

static void write_capabilities(struct jw *w, const struct server_identity *self, enum era era,
                               unsigned offers)
{
    jw_key(w, STR("capabilities"));
    jw_begin_object(w);
    jw_key(w, STR("resources"));
    jw_begin_object(w);
    jw_put_bool(w, STR("subscribe"), !self->no_subscriptions);
    jw_put_bool(w, STR("listChanged"), self->list_changed);
    jw_end_object(w);
    if (offers & LIST_TOOLS) {
        write_listed(w, STR("tools"), self);
    }
    if (offers & LIST_PROMPTS) {
        write_listed(w, STR("prompts"), self);
    }
    if (offers & OFFER_COMPLETIONS) {
        jw_put_raw(w, STR("completions"), STR("{}"));
    }
    if (era == ERA_LEGACY || (offers & (LIST_TOOLS | LIST_PROMPTS))) { /* from handlers */
        jw_put_raw(w, STR("logging"), STR("{}"));
    }
    jw_key(w, STR("extensions"));
    jw_begin_object(w);
    if (era == ERA_MODERN && (offers & OFFER_TASKS)) {
        jw_put_raw(w, STR(DIALECT_TASKS), STR("{}"));
    }
    if (offers & OFFER_SKILLS) {
        jw_put_raw(w, STR(SKILL_EXTENSION), STR("{\"directoryRead\":true}"));
    }
    jw_put_raw(w, STR("dev.tidings/subscription-correlation"),
               STR("{\"semantics\":\"tidings://self/semantics\",\"bookmarks\":true,"
                   "\"list\":\"dev.tidings/subscriptions/list\"}"));
    jw_put_raw(w, STR("dev.tidings/resource-metadata"),
               STR("{\"range\":[\"bytes\",\"lines\"],\"ifNoneMatch\":true,\"accept\":true,"
                   "\"formats\":true}"));
    jw_end_object(w);
    jw_end_object(w);
}

void dialect_write_initialize(struct jw *w, const struct revision *rev,
                              const struct server_identity *self, unsigned offers,
                              struct tidings_str instructions)
{
    jw_put_string(w, STR("protocolVersion"), rev->name);
    write_capabilities(w, self, ERA_LEGACY, offers);
    jw_put_raw(w, STR("serverInfo"), self->implementation);
    if (instructions.len > 0) {
        jw_put_string(w, STR("instructions"), instructions);
    }
}

void dialect_write_discover(struct jw *w, const struct server_identity *self, unsigned offers,
                            struct tidings_str instructions)
{
    jw_key(w, STR("supportedVersions"));
    dialect_write_versions(w, self->ceiling, false);
    write_capabilities(w, self, ERA_MODERN, offers);
    if (instructions.len > 0) {
        jw_put_string(w, STR("instructions"), instructions);
    }
}

/* ---- updates --------------------------------------------------------------------------------- */

/* {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":U,"subscribedUri":S
 * [,"metadata":M],"_meta":{"dev.tidings/subscribedUri":S,VERSION…,"dev.tidings/metadata":M
 * [,"dev.tidings/data":V],…short members…,"…/subscriptionId":I}}} with M =
 * {"change_type":"K",…shared…}. The pieces in order; the shared ones were encoded once. A slim
 * update has only U, S if it differs, in _meta the cursor and the subscriptionId, and M (in params)
 * or V if requested. */
#define PIECES_MAX 27u
#define UPDATED                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":"

struct pieces {
    struct tidings_str at[PIECES_MAX];
    unsigned count;
    size_t size;
    char small[288 + CURSOR_SEALED]; /* short members that depend on the subscriber; without a
                                      * sealed cursor at most 288 bytes */
    size_t small_len;
};

static void dialect_put_piece(struct pieces *p, struct tidings_str s)
{
    if (s.len == 0) {
        return; /* it may be NULL, which memcpy must not see */
    }
    p->at[p->count++] = s;
    p->size += s.len;
}

static void put_small(struct pieces *p, const char *text, size_t len)
{
    memcpy(p->small + p->small_len, text, len);
    p->small_len += len;
}

static void put_digits(struct pieces *p, uint64_t n, unsigned base)
{
    char digits[20];
    size_t i = sizeof(digits);
    do {
        digits[--i] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n > 0);
    put_small(p, digits + i, sizeof(digits) - i);
}

#define PUT_LITERAL(p, literal) put_small((p), (literal), sizeof(literal) - 1)

static void dialect_write_put_cursor(struct pieces *p, const struct dialect_updated *u)
{
    if (u->sealed.len > 0) {
        put_small(p, u->sealed.ptr, u->sealed.len);
        return;
    }
    put_digits(p, u->cursor.epoch, 16);
    PUT_LITERAL(p, ".");
    put_digits(p, u->cursor.seq, 10);
    if (u->cursor.has_position) {
        PUT_LITERAL(p, ".");
        put_digits(p, u->cursor.position, 10);
    }
    if (u->cursor.gap > 0) {
        char gap[CURSOR_GAP_TEXT];
        struct tidings_str text = cursor_print_gap(&u->cursor, gap);
        put_small(p, text.ptr, text.len);
    }
}

/* Those of any update. */
static void usual_members(struct pieces *p, const struct dialect_updated *u)
{
    PUT_LITERAL(p, "\"dev.tidings/cursor\":\"");
    dialect_write_put_cursor(p, u);
    PUT_LITERAL(p, "\"");
    if (u->truncated) {
        PUT_LITERAL(p, ",\"dev.tidings/truncated\":true");
    }
    if (u->suspended) {
        PUT_LITERAL(p, ",\"dev.tidings/suspended\":true");
    }
    if (u->initial) {
        PUT_LITERAL(p, ",\"dev.tidings/initial\":true");
    }
    if (u->listen_id_json.len > 0) {
        PUT_LITERAL(p, ",\"" META_SUBSCRIPTION "\":");
    }
}

static void small_members(struct pieces *p, const struct dialect_updated *u)
{
    PUT_LITERAL(p, ",\"dev.tidings/change\":\"");
    const char *kind = tidings_change_name(u->kind);
    put_small(p, kind, strlen(kind));
    PUT_LITERAL(p, "\",");
    if (u->merged > 1) {
        PUT_LITERAL(p, "\"dev.tidings/merged\":");
        put_digits(p, u->merged, 10);
        PUT_LITERAL(p, ",");
    }
    if (u->caught_up) {
        PUT_LITERAL(p, "\"dev.tidings/caughtUp\":true,");
    }
    usual_members(p, u);
}

static void metadata_pieces(struct pieces *p, const struct dialect_updated *u)
{
    dialect_put_piece(p, STR("{\"change_type\":\""));
    dialect_put_piece(p, tidings_str(u->hides_from ? tidings_change_name(u->kind)
                                                   : change_type_name(u->change, u->kind)));
    if (u->hides_from && u->change->to.len > 0) { /* the rest is of where it is now */
        dialect_put_piece(p, STR("\"}"));
        return;
    }
    dialect_put_piece(p, STR("\","));
    dialect_put_piece(p, u->hides_version ? change_metadata_without_version(u->change)
                                          : u->change->metadata_json);
    dialect_put_piece(p, STR("}"));
}

/* Only the application's metadata. A change that is not an update also gets a `change_type` if the
 * application gave none, because the client could not know it otherwise. */
static void put_plain_metadata(struct pieces *p, const struct dialect_updated *u)
{
    enum tidings_change_kind kind = u->hides_from ? u->kind : change_kind_of(u->change, u->kind);
    bool is_hidden = u->hides_from && u->change->to.len > 0;
    struct tidings_str given = is_hidden ? STR_EMPTY : u->change->own_type_json;
    struct tidings_str plain = is_hidden ? STR_EMPTY : change_metadata_plain(u->change);
    dialect_put_piece(p, STR(",\"metadata\":{"));
    if (given.len > 0) {
        dialect_put_piece(p, STR("\"change_type\":"));
        dialect_put_piece(p, given);
    } else if (kind != TIDINGS_CHANGE_UPDATED) {
        dialect_put_piece(p, STR("\"change_type\":\""));
        dialect_put_piece(p, tidings_str(tidings_change_name(kind)));
        dialect_put_piece(p, STR("\""));
    }
    bool has_type = given.len > 0 || kind != TIDINGS_CHANGE_UPDATED;
    dialect_put_piece(p, has_type && plain.len > 0 ? STR(",") : STR_EMPTY);
    dialect_put_piece(p, plain);
    dialect_put_piece(p, STR("}"));
}

/* Up to `uri`, which every form begins with. */
static void begin_pieces(struct pieces *p, const struct dialect_updated *u)
{
    p->count = 0;
    p->size = 0;
    p->small_len = 0;
    dialect_put_piece(p, STR(UPDATED));
    dialect_put_piece(p, u->uri_begin);
    dialect_put_piece(p, u->uri_json);
}

/* `metadata` beside `uri`, where the profile wants it there. */
static void top_metadata_pieces(struct pieces *p, const struct dialect_updated *u)
{
    if (u->top_metadata && u->change) {
        dialect_put_piece(p, STR(",\"metadata\":"));
        metadata_pieces(p, u);
    }
}

static void dialect_write_gather(struct pieces *p, const struct dialect_updated *u)
{
    begin_pieces(p, u);
    dialect_put_piece(p, STR(",\"subscribedUri\":"));
    dialect_put_piece(p, u->subscribed_json);
    top_metadata_pieces(p, u);
    dialect_put_piece(p, STR(",\"_meta\":{\"dev.tidings/subscribedUri\":"));
    dialect_put_piece(p, u->subscribed_json);
    if (u->change) {
        struct tidings_str meta = u->change->meta_json;
        meta = str_skip(meta, u->hides_version ? u->change->meta_version_len : 0);
        meta.len -= u->hides_from ? u->change->meta_from_len : 0;
        dialect_put_piece(p, meta);
    }
    if (u->change) {
        dialect_put_piece(p, STR(",\"dev.tidings/metadata\":"));
        metadata_pieces(p, u);
    }
    if (u->value_json.len > 0) {
        dialect_put_piece(p, STR(",\"dev.tidings/data\":"));
        dialect_put_piece(p, u->value_json);
    }
    small_members(p, u);
    dialect_put_piece(p, tidings_strn(p->small, p->small_len));
    dialect_put_piece(p, u->listen_id_json);
    dialect_put_piece(p, STR("}}}"));
    assert(p->count <= PIECES_MAX);
}

static void gather_slim(struct pieces *p, const struct dialect_updated *u)
{
    begin_pieces(p, u);
    if (!str_eq(u->uri_json, u->subscribed_json)) {
        dialect_put_piece(p, STR(",\"subscribedUri\":"));
        dialect_put_piece(p, u->subscribed_json);
    }
    top_metadata_pieces(p, u);
    dialect_put_piece(p, STR(",\"_meta\":{"));
    if (u->value_json.len > 0) {
        dialect_put_piece(p, STR("\"dev.tidings/data\":"));
        dialect_put_piece(p, u->value_json);
        dialect_put_piece(p, STR(","));
    }
    usual_members(p, u);
    dialect_put_piece(p, tidings_strn(p->small, p->small_len));
    dialect_put_piece(p, u->listen_id_json);
    dialect_put_piece(p, STR("}}}"));
}

/* Only the members that the profile's document shows. */
static void gather_literal(struct pieces *p, const struct dialect_updated *u)
{
    p->count = 0;
    p->size = 0;
    dialect_put_piece(p, profile_rules(u->profile)->has_short_method
                             ? STR("{\"jsonrpc\":\"2.0\",\"method\":\"resources/updated\","
                                   "\"params\":{\"uri\":")
                             : STR(UPDATED));
    dialect_put_piece(p, u->uri_begin);
    dialect_put_piece(p, u->uri_json);
    if (profile_rules(u->profile)->has_metadata && u->top_metadata && u->change) {
        put_plain_metadata(p, u);
    }
    if (profile_rules(u->profile)->has_data && u->value_json.len > 0) {
        dialect_put_piece(p, STR(","));
        dialect_put_piece(p, u->value_json);
    }
    dialect_put_piece(p, STR("}}"));
}

/* The members of the task, and the id of its listen. */
static void gather_task(struct pieces *p, const struct dialect_updated *u)
{
    p->count = 0;
    p->size = 0;
    dialect_put_piece(p,
                      STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":"));
    dialect_put_piece(p, tidings_strn(u->value_json.ptr, u->value_json.len - 1));
    dialect_put_piece(p, STR(",\"_meta\":{\"" META_SUBSCRIPTION "\":"));
    dialect_put_piece(p, u->listen_id_json);
    dialect_put_piece(p, STR("}}}"));
}

bool dialect_updated_write(const struct dialect_updated *u, char *(*room)(void *user, size_t size),
                           void *user)
{
    struct pieces p;
    if (u->is_task) {
        gather_task(&p, u);
    } else if (u->listen_id_json.len == 0 && profile_rules(u->profile)->is_literal) {
        gather_literal(&p, u);
    } else if (u->is_slim) {
        gather_slim(&p, u);
    } else {
        dialect_write_gather(&p, u);
    }
    char *at = room(user, p.size);
    if (!at) {
        return false;
    }
    for (unsigned i = 0; i < p.count; i++) {
        memcpy(at, p.at[i].ptr, p.at[i].len);
        at += p.at[i].len;
    }
    return true;
}
