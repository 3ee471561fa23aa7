/* SPDX-License-Identifier: MIT
 *
 * Profiles: the switches of a row, the errors in its words, the members of its updates. The modern
 * era, and a server without a profile, ignore it.
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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct server_identity with(const char *name)
{
    return (struct server_identity){.profile = dialect_find_profile(tidings_str(name))};
}

static void profiles_are_the_names_of_the_table(void **state)
{
    (void)state;
    static const char *const good[] = {DIALECT_PROFILES};
    static const char *const bad[] = {"none", "", "Gateway", "gateway "};
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_non_null(dialect_find_profile(tidings_str(good[i])));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_null(dialect_find_profile(tidings_str(bad[i])));
        struct server_identity self = with(bad[i]);
        static const struct dialect_rules none;
        assert_memory_equal(dialect_rules(&self), &none, sizeof(none));
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct failing {
    const char *profile;
    int code;
    const char *uri, *method;
    enum { SERVED, UNSERVED, MALFORMED } is;
    int rpc;
    const char *data; /* the end of the error; NULL: not checked */
};

static void check_failure(const struct failing *f, enum era era, int expected)
{
    struct server_identity self = with(f->profile);
    struct dialect_failure failure = {
        .era = era,
        .code = f->code,
        .method = tidings_str(f->method),
        .uri = tidings_str(f->uri),
        .is_unserved = f->is == UNSERVED,
        .is_malformed = f->is == MALFORMED,
    };
    struct dialect_error e = {.message = STR("ours"), .uri = tidings_str(f->uri)};
    dialect_name_failure(&self, &failure, &e);
    if (e.code != expected) {
        fail_msg("%s: %s: %d instead of %d", f->profile, f->uri, e.code, expected);
    }
    struct buf text;
    buf_init(&text, 4096);
    struct jw w;
    jw_init(&w, &text);
    dialect_write_error(&w, STR("1"), &e);
    assert_int_equal(text.failed, 0);
    if (f->data && era == ERA_LEGACY && !str_ends(buf_str(&text), tidings_str(f->data))) {
        fail_msg("%.*s does not end in %s", (int)text.len, text.ptr, f->data);
    }
    buf_deinit(&text);
}

static void failures_have_profile_codes_in_the_legacy_era_only(void **state)
{
    (void)state;
    static const char read[] = "resources/read", subscribe[] = "resources/subscribe";
    static const struct failing rows[] = {
        {"none", TIDINGS_E_NOTFOUND, "x://a", read, UNSERVED, -32002,
         "\"ours\",\"data\":{\"uri\":\"x://a\"}}}"},
        {"none", TIDINGS_E_INVALID, "bad", read, MALFORMED, -32602, NULL},
        {"gateway", TIDINGS_E_NOTFOUND, "x://a\"", read, UNSERVED, -32601,
         "\"Resource not found\",\"data\":{\"detail\":\"Resource 'x://a\\\"' is not "
         "configured\"}}}"},
        {"gateway", TIDINGS_E_DENIED, "x://a", subscribe, SERVED, -32601, "is not configured\"}}}"},
        {"gateway", TIDINGS_E_INVALID, "no uri", subscribe, MALFORMED, -32601,
         "is not configured\"}}}"},
        {"gateway", TIDINGS_E_INVALID, "", subscribe, MALFORMED, -32602, "\"ours\"}}"},
        {"gateway", TIDINGS_E_INVALID, "x://a", subscribe, SERVED, -32602, NULL},
        {"gateway", TIDINGS_E_IO, "x://a", read, SERVED, -32603, NULL},
        {"erlmcp", TIDINGS_E_NOTFOUND, "x://a", read, SERVED, -32001, NULL},
        {"erlmcp", TIDINGS_E_NOTFOUND, "x://a", read, UNSERVED, -32022,
         "\"Invalid URI\",\"data\":{\"error_type\":\"invalid_uri_format\",\"uri\":\"x://a\"}}}"},
        {"erlmcp", TIDINGS_E_INVALID, "a b", subscribe, MALFORMED, -32022, NULL},
        {"erlmcp", TIDINGS_E_INVALID, "x://a", subscribe, SERVED, -32602, NULL},
        {"erlmcp", TIDINGS_E_INVALID, "", subscribe, MALFORMED, -32022,
         "\"Invalid URI\",\"data\":{\"error_type\":\"invalid_uri_format\",\"uri\":\"\"}}}"},
        {"erlmcp", TIDINGS_E_LIMIT, "x://a", subscribe, SERVED, -32006, NULL},
        {"erlmcp", TIDINGS_E_NOMEM, "x://a", subscribe, SERVED, -32006, NULL},
        {"erlmcp", TIDINGS_E_NOMEM, "x://a", read, SERVED, -32603, NULL},
        {"lumenize", TIDINGS_E_NOTFOUND, "entity:///a", read, SERVED, -32602, NULL},
        {"lumenize", TIDINGS_E_GONE, "entity:///a", read, SERVED, -32602, NULL},
        {"lumenize", TIDINGS_E_INVALID, "entity:///a@1/b/patch/x", read, SERVED, -32603, NULL},
        {"lumenize", TIDINGS_E_INVALID, "a b", subscribe, MALFORMED, -32603, NULL},
        {"lumenize", TIDINGS_E_NOTFOUND, "/entity/a@1/b", read, SERVED, -32602, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        check_failure(&rows[i], ERA_LEGACY, rows[i].rpc);
        check_failure(&rows[i], ERA_MODERN, dialect_code(ERA_MODERN, rows[i].code));
    }
}

static void statuses_and_other_codes_follow_the_profile(void **state)
{
    (void)state;
    struct server_identity none = with("none"), gateway = with("gateway"), er = with("erlmcp");
    assert_int_equal(dialect_status(&gateway, ERA_LEGACY, -32600), 200);
    assert_int_equal(dialect_status(&gateway, ERA_MODERN, -32601), 404);
    assert_int_equal(dialect_status(&er, ERA_LEGACY, -32022), 200);
    assert_int_equal(dialect_status(&er, ERA_MODERN, -32022), 400);
    assert_int_equal(dialect_status(&er, ERA_LEGACY, -32600), 400);
    assert_int_equal(dialect_code_uninitialized(er.profile, -32600), -32005);
    assert_int_equal(dialect_code_uninitialized(NULL, -32600), -32600);
    assert_int_equal(dialect_code_incapable(&er), -32004);
    assert_int_equal(dialect_code_incapable(&none), -32601);
    struct buf text;
    buf_init(&text, 4096);
    struct jw w;
    jw_init(&w, &text);
    dialect_write_error(&w, STR("1"), &dialect_session_required);
    assert_string_equal(
        text.ptr, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"Session "
                  "required\",\"data\":{\"detail\":\"Resource subscriptions require an active "
                  "session. Use POST /mcp to initialize.\"}}}");
    buf_deinit(&text);
}

/* ---- updates --------------------------------------------------------------------------------- */

static char *take_room(void *user, size_t size)
{
    struct tidings_str *to = user;
    char *memory = test_malloc(size + 1);
    memory[size] = '\0';
    *to = tidings_strn(memory, size);
    return memory;
}

static void check_update(const char *profile, struct dialect_updated u, const char *expected)
{
    struct tidings_str text;
    u.profile = dialect_find_profile(tidings_str(profile));
    assert_true(dialect_updated_write(&u, take_room, &text));
    assert_string_equal(text.ptr, expected);
    test_free((char *)(uintptr_t)text.ptr);
}

#define ERLMCP(metadata)                                                                           \
    "{\"jsonrpc\":\"2.0\",\"method\":\"resources/updated\",\"params\":{"                           \
    "\"uri\":\"x://a\",\"metadata\":{" metadata "}}}"

/* A change with this metadata and kind. */
static void check_metadata(const char *metadata, enum tidings_change_kind kind, bool hides_from,
                           const char *expected)
{
    struct tidings_change about = {
        .uri = STR("x://a"), .kind = kind, .metadata = tidings_str(metadata), .modified_ms = 7};
    struct change *change = change_create(&about, 1, 1);
    assert_non_null(change);
    struct dialect_updated u = {.change = change,
                                .kind = kind,
                                .uri_json = STR("\"x://a\""),
                                .subscribed_json = STR("\"x://a\""),
                                .hides_from = hides_from,
                                .hides_version = hides_from,
                                .top_metadata = true};
    check_update("erlmcp", u, expected);
    change_unref(change);
}

static void erlmcp_metadata_is_the_application_metadata(void **state)
{
    (void)state;
    check_metadata("{\"seq\":1}", TIDINGS_CHANGE_UPDATED, false, ERLMCP("\"seq\":1"));
    check_metadata("{\"change_type\":\"content_update\"}", TIDINGS_CHANGE_UPDATED, false,
                   ERLMCP("\"change_type\":\"content_update\""));
    check_metadata("{\"change_type\":[1],\"n\":2}", TIDINGS_CHANGE_DELETED, false,
                   ERLMCP("\"change_type\":[1],\"n\":2"));
    /* A deletion has no other mark. */
    check_metadata("{\"n\":2}", TIDINGS_CHANGE_DELETED, false,
                   ERLMCP("\"change_type\":\"deleted\",\"n\":2"));
    check_metadata("{\"n\":2}", TIDINGS_CHANGE_DELETED, true,
                   ERLMCP("\"change_type\":\"deleted\",\"n\":2"));
    check_metadata("", TIDINGS_CHANGE_UPDATED, false, ERLMCP("\"updated_at\":7"));
    check_metadata("{}", TIDINGS_CHANGE_UPDATED, false, ERLMCP("\"updated_at\":7"));
}

static void updates_contain_exactly_what_the_document_prints(void **state)
{
    (void)state;
    struct tidings_change about = {.uri = STR("x://a"),
                                   .metadata = STR("{\"timestamp\":1,\"version\":"
                                                   "\"2\",\"updated_at\":3}")};
    struct change *change = change_create(&about, 1, 1);
    assert_non_null(change);
    struct dialect_updated u = {
        .change = change,
        .uri_json = STR("\"x://a\""),
        .subscribed_json = STR("\"x://{n}\""),
        .top_metadata = true,
        .merged = 3,
    };
    check_update("gateway", u,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{"
                 "\"uri\":\"x://a\"}}");
    check_update(
        "erlmcp", u,
        "{\"jsonrpc\":\"2.0\",\"method\":\"resources/updated\",\"params\":{\"uri\":\"x://a\","
        "\"metadata\":{\"timestamp\":1,\"version\":\"2\",\"updated_at\":3}}}");
    u.change = NULL;
    u.truncated = true;
    check_update("erlmcp", u,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"resources/updated\",\"params\":{\"uri\":"
                 "\"x://a\"}}");
    u.value_json = STR("\"title\":\"t\",\"data\":{}");
    check_update("lumenize", u,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{"
                 "\"uri\":\"x://a\",\"title\":\"t\",\"data\":{}}}");
    change_unref(change);
    struct buf all;
    buf_init(&all, 4096);
    dialect_put_list_changed(&all, LIST_EVERYTHING, STR_EMPTY);
    assert_string_equal(all.ptr,
                        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                        "\"params\":{}}");
    buf_deinit(&all);
}

static void check_data(const char *value, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    dialect_put_data(&out, tidings_str(value));
    if (expected) {
        assert_int_equal(out.failed, 0);
        assert_string_equal(out.ptr, expected);
    } else {
        assert_true(out.failed != 0);
    }
    buf_deinit(&out);
}

static void content_is_written_as_title_and_data(void **state)
{
    (void)state;
    check_data(
        "[{\"uri\":\"x\",\"text\":\"{\\\"entityId\\\":\\\"a\\\",\\\"entityTypeName\\\":\\\"T\\\","
        "\\\"entityTypeVersion\\\":\\\"1.0\\\"}\"}]",
        "\"title\":\"Entity T@1.0: a\",\"data\":{\"entityId\":\"a\",\"entityTypeName\":\"T\","
        "\"entityTypeVersion\":\"1.0\"}");
    check_data("{\"patch\":{\"a\":null}}", "\"data\":{\"patch\":{\"a\":null}}");
    /* content other than JSON is written as an element */
    check_data("[{\"title\":\"t\",\"text\":\"plain\"}]",
               "\"title\":\"t\",\"data\":{\"title\":\"t\",\"text\":\"plain\"}");
    check_data("[{\"blob\":\"AA==\"}]", "\"data\":{\"blob\":\"AA==\"}");
    check_data("[]", NULL);
    check_data("", NULL);
}

/* ---- options and revisions ------------------------------------------------------------------- */

static void profile_defaults_apply_if_configuration_sets_none(void **state)
{
    (void)state;
    struct server_identity er = with("erlmcp");
    struct dialect_defaults defaults = dialect_defaults(&er);
    assert_true(defaults.metadata);
    assert_int_equal(defaults.rate_ms, 1000);
    er.has_rate = true; /* set in the configuration */
    assert_int_equal(dialect_defaults(&er).rate_ms, 0);
    struct server_identity none = {0};
    assert_false(dialect_defaults(&none).metadata);
}

static void draft_revision_exists_in_its_profile_only(void **state)
{
    (void)state;
    struct tidings_str draft = STR("DRAFT-2025-v2"), none = STR_EMPTY;
    const struct profile *lu = dialect_find_profile(STR("lumenize"));
    assert_string_equal(dialect_negotiate(draft, none, lu)->name.ptr, "DRAFT-2025-v2");
    assert_string_equal(dialect_negotiate(draft, STR("2025-06-18"), lu)->name.ptr, "DRAFT-2025-v2");
    assert_string_equal(dialect_negotiate(draft, none, NULL)->name.ptr, "2025-11-25");
    assert_string_equal(dialect_negotiate(STR("x"), none, lu)->name.ptr, "2025-11-25");
    assert_int_equal(dialect_check_stream(draft, none, lu), 0);
    assert_int_equal(dialect_check_stream(draft, none, NULL), 400);
    struct buf text;
    buf_init(&text, 4096);
    struct jw w;
    jw_init(&w, &text);
    dialect_write_versions(&w, none, false);
    assert_null(strstr(text.ptr, "DRAFT"));
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_the_names_of_the_table),
        cmocka_unit_test(failures_have_profile_codes_in_the_legacy_era_only),
        cmocka_unit_test(statuses_and_other_codes_follow_the_profile),
        cmocka_unit_test(erlmcp_metadata_is_the_application_metadata),
        cmocka_unit_test(updates_contain_exactly_what_the_document_prints),
        cmocka_unit_test(content_is_written_as_title_and_data),
        cmocka_unit_test(profile_defaults_apply_if_configuration_sets_none),
        cmocka_unit_test(draft_revision_exists_in_its_profile_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
