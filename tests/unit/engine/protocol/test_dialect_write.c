/* SPDX-License-Identifier: MIT
 *
 * Writing messages: an update has the measured length and the expected content, results are
 * decorated by era, errors carry their known data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/dialect.h"
#include "store/change.h"
#include "support/harness_json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define U "params|_meta|dev.tidings/"

static const struct server_identity self = {
    .implementation = {"{\"name\":\"n\",\"version\":\"v\"}", 26},
    .instructions = {"", 0},
    .ceiling = {"", 0},
    .list_changed = true,
};

/* Memory between guards. */
struct guarded {
    char *memory;
    size_t size;
};

static char *guarded_room(void *user, size_t size)
{
    struct guarded *g = user;
    g->size = size;
    g->memory = test_malloc(size + 9);
    memset(g->memory, '#', size + 9);
    return g->memory + 4;
}

/* The written message, NUL-terminated. */
static char *written(const struct dialect_updated *u)
{
    struct guarded g;
    assert_true(dialect_updated_write(u, guarded_room, &g));
    assert_memory_equal(g.memory, "####", 4);
    assert_memory_equal(g.memory + 4 + g.size, "#####", 5);
    assert_int_equal(g.memory[4], '{');
    assert_int_equal(g.memory[4 + g.size - 1], '}');
    g.memory[4 + g.size] = '\0';
    memmove(g.memory, g.memory + 4, g.size + 1);
    return g.memory;
}

static void check_update(const struct dialect_updated *u)
{
    char *text = written(u);
    assert_json(text, "jsonrpc", "2.0");
    assert_json(text, "method", "notifications/resources/updated");
    const char *uri = text_of("%.*s", STR_ARG(u->uri_json));
    const char *subscribed = text_of("%.*s", STR_ARG(u->subscribed_json));
    assert_json(text, "params|uri", json_at(uri, ""));
    assert_json(text, "params|subscribedUri", json_at(subscribed, ""));
    assert_json(text, U "subscribedUri", json_at(subscribed, ""));
    assert_json(text, U "change", tidings_change_name(u->kind));
    assert_json(text, U "cursor",
                text_of(u->cursor.has_position ? "%llx.%llu.%llu" : "%llx.%llu",
                        (unsigned long long)u->cursor.epoch, (unsigned long long)u->cursor.seq,
                        (unsigned long long)u->cursor.position));
    if (u->merged > 1) {
        assert_json(text, U "merged", text_of("%u", u->merged));
    } else {
        assert_no_json(text, U "merged");
    }
    if (u->truncated) {
        assert_json(text, U "truncated", "true");
    } else {
        assert_no_json(text, U "truncated");
    }
    const char *id = "params|_meta|io.modelcontextprotocol/subscriptionId";
    if (u->listen_id_json.len > 0) {
        assert_json(text, id, json_at(text_of("%.*s", STR_ARG(u->listen_id_json)), ""));
    } else {
        assert_no_json(text, id);
    }
    if (u->change) {
        assert_json(text, U "version",
                    text_of("%llx.%llu", (unsigned long long)u->change->epoch,
                            (unsigned long long)u->change->seq));
    } else {
        assert_no_json(text, U "version");
    }
    test_free(text);
}

static void update_shapes_each_have_the_measured_length_and_content(void **state)
{
    (void)state;
    static const struct tidings_str uris[] = {
        {"\"x:\"", 4},
        {"\"file:///a%20b/\\u00e4\\\"\\\\\"", 26},
        {"\"f\xc3\xbcr:///\xf0\x9f\x98\x80\"", 14},
    };
    static const struct tidings_str ids[] = {
        {"", 0}, {"7", 1}, {"-9223372036854775808", 20}, {"\"a\\\"b\"", 6}, {"\"\"", 2}};
    static const uint64_t numbers[] = {0, 1, 9, 10, 4294967296u, UINT64_MAX};
    static const unsigned merged[] = {0, 1, 2, UINT32_MAX};
    for (size_t i = 0; i < COUNT(uris) * COUNT(ids) * COUNT(numbers) * COUNT(merged) * 6; i++) {
        size_t k = i;
        struct dialect_updated u = {0};
        u.uri_json = uris[k % COUNT(uris)];
        u.subscribed_json = uris[(k + 1) % COUNT(uris)];
        k /= COUNT(uris);
        u.listen_id_json = ids[k % COUNT(ids)];
        k /= COUNT(ids);
        u.cursor.epoch = numbers[COUNT(numbers) - 1 - k % COUNT(numbers)];
        u.cursor.seq = numbers[k % COUNT(numbers)];
        k /= COUNT(numbers);
        u.merged = merged[k % COUNT(merged)];
        k /= COUNT(merged);
        u.kind = (enum tidings_change_kind)(k % 3);
        k /= 3;
        u.truncated = k % 2;
        check_update(&u);
    }
}

static void longest_numbers_fit_together(void **state)
{
    (void)state;
    struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = STR("\"x:a\""),
        .subscribed_json = STR("\"x:a\""),
        .listen_id_json = STR("\"an-id\""),
        .cursor = {UINT64_MAX, UINT64_MAX, UINT64_MAX, true, 0, 0},
        .merged = UINT32_MAX,
        .truncated = true,
    };
    check_update(&u);
}

static void update_includes_known_change_members(void **state)
{
    (void)state;
    struct tidings_change from = {
        .uri = STR("x:\"q\""),
        .kind = TIDINGS_CHANGE_CREATED,
        .etag = STR("e\"1"),
        .from = STR("x:old"),
        .metadata = STR("{\"n\":[1,2]}"),
    };
    struct change *change = change_create(&from, 0xabc, 42);
    assert_non_null(change);
    struct dialect_updated u = {
        .change = change,
        .kind = TIDINGS_CHANGE_DELETED, /* after merging */
        .uri_json = change->uri_json,
        .subscribed_json = STR("\"x:\""),
        .cursor = {.epoch = 0xabc, .seq = 41},
        .merged = 3,
    };
    check_update(&u);
    char *text = written(&u);
    assert_json(text, "params|uri", "x:\"q\"");
    assert_json(text, U "version", "abc.42");
    assert_json(text, U "etag", "e\"1");
    assert_json(text, U "from", "x:old");
    assert_json(text, U "metadata|n", "[1,2]");
    test_free(text);
    change_unref(change);
}

/* A slim update, byte for byte: the URI, the cursor and the requested members. A special update
 * is marked. */
static void slim_update_has_the_change_and_the_cursor(void **state)
{
    (void)state;
#define HEAD "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{"
#define AT "\"dev.tidings/cursor\":\"abc.42\""
    struct tidings_change from = {
        .uri = STR("x:a"), .etag = STR("e"), .from = STR("x:old"), .metadata = STR("{\"n\":1}")};
    struct change *change = change_create(&from, 0xabc, 42);
    assert_non_null(change);
    struct dialect_updated plain = {
        .change = change,
        .kind = TIDINGS_CHANGE_DELETED,
        .uri_json = change->uri_json,
        .subscribed_json = STR("\"x:a\""),
        .cursor = {.epoch = 0xabc, .seq = 42},
        .merged = 3,
        .is_slim = true,
    };
    struct dialect_updated below = plain, modern = plain, valued = plain, odd = plain;
    below.subscribed_json = STR("\"x:*\"");
    modern.listen_id_json = STR("\"i\"");
    valued.value_json = STR("[1]");
    odd.change = NULL;
    odd.truncated = odd.suspended = odd.initial = true;
    const struct {
        const struct dialect_updated *u;
        const char *text;
    } rows[] = {
        {&plain, HEAD "\"uri\":\"x:a\",\"_meta\":{" AT "}}}"},
        {&below, HEAD "\"uri\":\"x:a\",\"subscribedUri\":\"x:*\",\"_meta\":{" AT "}}}"},
        {&modern, HEAD "\"uri\":\"x:a\",\"_meta\":{" AT
                       ",\"io.modelcontextprotocol/subscriptionId\":\"i\"}}}"},
        {&valued, HEAD "\"uri\":\"x:a\",\"_meta\":{\"dev.tidings/data\":[1]," AT "}}}"},
        {&odd, HEAD "\"uri\":\"x:a\",\"_meta\":{" AT
                    ",\"dev.tidings/truncated\":true,\"dev.tidings/suspended\":true,"
                    "\"dev.tidings/initial\":true}}}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = written(rows[i].u);
        assert_string_equal(text, rows[i].text);
        test_free(text);
    }
    plain.top_metadata = true;
    char *text = written(&plain);
    assert_json(text, "params|metadata|n", "1");
    assert_no_json(text, U "metadata");
    test_free(text);
    change_unref(change);
}

static void results_are_decorated_by_era_and_kind(void **state)
{
    (void)state;
    static const struct {
        enum era era;
        enum dialect_cache cache;
        const char *type, *ttl;
    } rows[] = {
        {ERA_LEGACY, CACHE_NONE, NULL, NULL},     {ERA_LEGACY, CACHE_NOW, NULL, NULL},
        {ERA_LEGACY, CACHE_HOUR, NULL, NULL},     {ERA_MODERN, CACHE_NONE, "complete", NULL},
        {ERA_MODERN, CACHE_NOW, "complete", "0"}, {ERA_MODERN, CACHE_HOUR, "complete", "3600000"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        struct jw w;
        buf_init(&out, 4096);
        jw_init(&w, &out);
        dialect_begin_result(&w, STR("\"i\""));
        jw_put_integer(&w, STR("own"), 1);
        dialect_end_result(&w, rows[i].era, &self, rows[i].cache);
        assert_json(out.ptr, "id", "i");
        assert_json(out.ptr, "result|own", "1");
        static const char *const paths[] = {"result|resultType", "result|ttlMs"};
        const char *expected[] = {rows[i].type, rows[i].ttl};
        for (size_t k = 0; k < 2; k++) {
            if (expected[k]) {
                assert_json(out.ptr, paths[k], expected[k]);
            } else {
                assert_no_json(out.ptr, paths[k]);
            }
        }
        assert_int_equal(json_at(out.ptr, "result|cacheScope") != NULL, rows[i].ttl != NULL);
        const char *name = "result|_meta|io.modelcontextprotocol/serverInfo|name";
        assert_int_equal(json_at(out.ptr, name) != NULL, rows[i].era == ERA_MODERN);
        buf_deinit(&out);
    }
}

static void errors_carry_known_data_and_no_empty_data(void **state)
{
    (void)state;
    struct buf out;
    struct jw w;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    struct dialect_error e = {.code = -32602, .message = STR("no")};
    dialect_write_error(&w, STR_EMPTY, &e);
    assert_no_json(out.ptr, "id");
    assert_no_json(out.ptr, "error|data");
    assert_json(out.ptr, "error|code", "-32602");
    buf_clear(&out);
    jw_init(&w, &out);
    e.uri = STR("x:a");
    e.reason = STR("because");
    dialect_write_error(&w, STR("0"), &e);
    assert_json(out.ptr, "id", "0");
    assert_json(out.ptr, "error|data|uri", "x:a");
    assert_json(out.ptr, "error|data|reason", "because");
    buf_deinit(&out);
}

static void initialize_and_discover_describe_the_same_server(void **state)
{
    (void)state;
    struct server_identity me = self;
    me.ceiling = STR("2026-07-28");
    struct buf out;
    struct jw w;
    buf_init(&out, 8192);
    jw_init(&w, &out);
    jw_begin_object(&w);
    dialect_write_initialize(&w, dialect_find_revision(STR("2025-06-18")), &me, LIST_TOOLS,
                             STR("read the notes"));
    jw_end_object(&w);
    assert_json(out.ptr, "protocolVersion", "2025-06-18");
    assert_json(out.ptr, "capabilities|resources|subscribe", "true");
    assert_json(out.ptr, "capabilities|resources|listChanged", "true");
    assert_json(out.ptr, "capabilities|tools|listChanged", "true");
    assert_no_json(out.ptr, "capabilities|prompts");
    assert_json(out.ptr, "capabilities|logging", "{}");
    assert_json(out.ptr, "serverInfo|name", "n");
    assert_json(out.ptr, "instructions", "read the notes");
    buf_clear(&out);
    jw_init(&w, &out);
    jw_begin_object(&w);
    me.list_changed = false;
    dialect_write_discover(&w, &me, 0, STR_EMPTY);
    jw_end_object(&w);
    assert_json(out.ptr, "supportedVersions|0", "2026-07-28");
    assert_json(out.ptr, "supportedVersions|4", "2024-11-05");
    assert_json(out.ptr, "capabilities|resources|listChanged", "false");
    assert_no_json(out.ptr, "capabilities|logging");
    assert_no_json(out.ptr, "serverInfo");
    buf_deinit(&out);
}

static void other_notifications_are_whole_messages(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 8192);
    dialect_put_list_changed(&out, LIST_RESOURCES, STR_EMPTY);
    assert_json(out.ptr, "method", "notifications/resources/list_changed");
    assert_no_json(out.ptr, "params");
    buf_clear(&out);
    dialect_put_list_changed(&out, LIST_RESOURCES, STR("\"x\""));
    assert_json(out.ptr, "params|_meta|io.modelcontextprotocol/subscriptionId", "x");
    buf_clear(&out);
    dialect_put_listen_result(&out, STR("7"), &self);
    assert_json(out.ptr, "id", "7");
    assert_json(out.ptr, "result|resultType", "complete");
    assert_json(out.ptr, "result|_meta|io.modelcontextprotocol/subscriptionId", "7");
    assert_json(out.ptr, "result|_meta|io.modelcontextprotocol/serverInfo|name", "n");
    buf_clear(&out);
    dialect_put_log_message(&out, STR("warning"), STR_EMPTY, STR("a \"b\""));
    assert_json(out.ptr, "method", "notifications/message");
    assert_json(out.ptr, "params|level", "warning");
    assert_json(out.ptr, "params|data", "a \"b\"");
    buf_clear(&out);
    dialect_put_log_message(&out, STR("info"), STR("mine"), STR("x"));
    assert_json(out.ptr, "params|logger", "mine");
    buf_clear(&out);
    dialect_put_progress(&out, STR("\"t\""), 0.5, 2, STR("half"));
    assert_json(out.ptr, "method", "notifications/progress");
    assert_json(out.ptr, "params|progressToken", "t");
    assert_json(out.ptr, "params|progress", "0.5");
    assert_json(out.ptr, "params|message", "half");
    buf_clear(&out);
    dialect_put_progress(&out, STR("7"), 1, 0, STR_EMPTY);
    assert_json(out.ptr, "params|progressToken", "7");
    assert_no_json(out.ptr, "params|total");
    assert_no_json(out.ptr, "params|message");
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_shapes_each_have_the_measured_length_and_content),
        cmocka_unit_test(longest_numbers_fit_together),
        cmocka_unit_test(update_includes_known_change_members),
        cmocka_unit_test(slim_update_has_the_change_and_the_cursor),
        cmocka_unit_test(results_are_decorated_by_era_and_kind),
        cmocka_unit_test(errors_carry_known_data_and_no_empty_data),
        cmocka_unit_test(initialize_and_discover_describe_the_same_server),
        cmocka_unit_test(other_notifications_are_whole_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
