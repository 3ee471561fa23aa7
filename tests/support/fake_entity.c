/* SPDX-License-Identifier: MIT
 *
 * See fake_entity.h.
 */
#include "support/fake_entity.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <tidings/json.h>

void entity_note(char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    size_t len = strlen(text);
    va_start(args, fmt);
    vsnprintf(text + len, size - len, fmt, args);
    va_end(args);
}

const char *entity_instant(int version, char text[32])
{
    snprintf(text, 32, "2024-01-01T10:%02d:00.000Z", version);
    return text;
}

static bool has(int version, int member)
{
    return member >= 1 && member <= version && (member % 3 != 0 || member == version);
}

void entity_put_value(char *text, size_t size, int version)
{
    entity_note(text, size, "{\"n\":%d", version);
    for (int i = 1; i <= version; i++) {
        if (has(version, i)) {
            entity_note(text, size, ",\"v%d\":true", i);
        }
    }
    entity_note(text, size, "}");
}

static void put_patch(char *text, size_t size, int from, int to)
{
    entity_note(text, size, "{\"n\":%d", to);
    for (int i = 1; i <= ENTITY_MAX_VERSIONS; i++) {
        if (has(from, i) != has(to, i)) {
            entity_note(text, size, ",\"v%d\":%s", i, has(to, i) ? "true" : "null");
        }
    }
    entity_note(text, size, "}");
}

/* The server's update to the current version for a client at `from` (0: none). */
static void put_version(const struct entity *e, char *text, size_t size, int from)
{
    char a[32], b[32];
    entity_note(text, size, "{\"validFrom\":\"%s\",\"deleted\":%s",
                entity_instant(e->current + e->is_deleted, a), e->is_deleted ? "true" : "false");
    if (from > 0) {
        entity_note(text, size, ",\"baseline\":\"%s\"", entity_instant(from, b));
    }
    if (!e->is_deleted) {
        entity_note(text, size, from > 0 ? ",\"patch\":" : ",\"value\":");
        if (from > 0) {
            put_patch(text, size, from, e->current);
        } else {
            entity_put_value(text, size, e->current);
        }
    }
    entity_note(text, size, "}");
}

void entity_say(struct entity *e, const char *data)
{
    fake_sayf(&e->fake,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
              "{\"uri\":\"" ENTITY_URI "/patch\",\"subscribedUri\":\"" ENTITY_URI
              "/patch\",\"_meta\":"
              "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "%s%s}}}",
              e->listen, data[0] ? ",\"dev.tidings/data\":" : "", data);
}

void entity_tell(struct entity *e, bool arrives)
{
    char data[4096] = "";
    put_version(e, data, sizeof(data), e->told);
    if (e->is_open && arrives) {
        entity_say(e, data);
    }
    e->told = e->is_deleted ? e->told : e->current;
}

static void answer_read(struct entity *e, int64_t id, const char *uri)
{
    char data[4096] = "", at[32];
    int from = 0;
    entity_note(e->log, sizeof(e->log), "read %s\n", uri);
    for (int i = 1; i <= ENTITY_MAX_VERSIONS; i++) {
        const char *found = strstr(uri, entity_instant(i, at));
        from = found ? i : from;
    }
    if (e->is_deleted || e->current == 0) {
        fake_sayf(&e->fake,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"error\":{\"code\":-32602,"
                  "\"message\":\"no\",\"data\":{\"uri\":\"%s\",\"reason\":\"%s\"}}}",
                  id, uri, e->is_deleted ? "deleted" : "unknownEntity");
        return;
    }
    if (strstr(uri, "/patch/") && (from < e->oldest || from > e->current)) {
        fake_sayf(&e->fake,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"error\":{\"code\":-32602,"
                  "\"message\":\"no\",\"data\":{\"uri\":\"%s\",\"reason\":\"unknownBaseline\"}}}",
                  id, uri);
        return;
    }
    put_version(e, data, sizeof(data), from);
    char *text = tidings_json_quote(tidings_str(data));
    for (int i = 0; i < 2 && e->overtakes; i++) {
        e->current++;
        entity_tell(e, i == 1);
    }
    e->overtakes = false;
    fake_sayf(&e->fake,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":{\"resultType\":\"complete\","
              "\"contents\":[{\"uri\":\"%s\",\"text\":%s}]}}",
              id, uri, text);
    tidings_free(text);
}

/* Returns true if it accepts a subscription from there. The answer precedes the first patch. */
static bool accept(struct entity *e, struct json *options)
{
    char at[32];
    struct tidings_str baseline = jv_str(jv_get(options, "baseline"));
    entity_note(e->log, sizeof(e->log), "subscribe %.*s\n", (int)baseline.len, baseline.ptr);
    int from = 0;
    for (int i = 1; i <= ENTITY_MAX_VERSIONS; i++) {
        from = str_eq(baseline, tidings_str(entity_instant(i, at))) ? i : from;
    }
    bool ok = !e->refuses && !e->is_deleted && from >= e->oldest && from <= e->current && from > 0;
    e->told = from;
    if (e->is_deleted && e->returns_after > 0 && --e->returns_after == 0) {
        e->is_deleted = false;
        e->current++;
    }
    return ok;
}

void entity_serve(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct entity *e = f->user;
    struct json *params = jv_get(m, "params");
    struct json *options = jv_get(jv_get(params, "_meta"), "dev.tidings/options");
    if (e->is_legacy ? fake_legacy(f, method, id) : fake_modern(f, method, id)) {
        return;
    }
    if (strcmp(method, "resources/read") == 0) {
        answer_read(e, id, jv_str(jv_get(params, "uri")).ptr);
    } else if (strcmp(method, "subscriptions/listen") == 0) {
        e->listen = id;
        e->is_open = accept(e, jv_get(jv_get(options, "uris"), ENTITY_URI "/patch"));
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                  "\"params\":{\"notifications\":{\"resourceSubscriptions\":[%s]},\"_meta\":"
                  "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64
                  ",\"dev.tidings/cursor\":\"e.1\"}}}",
                  e->is_open ? "\"" ENTITY_URI "/patch\"" : "", id);
        entity_tell(e, true);
    } else if (strcmp(method, "resources/subscribe") == 0) {
        e->is_open = accept(e, options);
        if (e->is_open) {
            fake_result(f, id, "{}");
            entity_tell(e, true);
        } else {
            fake_error(f, id, -32602, "no");
        }
    } else if (strcmp(method, "resources/unsubscribe") == 0) {
        fake_result(f, id, "{}");
    }
}
