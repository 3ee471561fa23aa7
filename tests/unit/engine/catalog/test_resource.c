/* SPDX-License-Identifier: MIT
 *
 * The only writer of resource objects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/resource.h"

static struct buf out;
static struct jw w;

static void begin(void)
{
    buf_deinit(&out);
    buf_init(&out, 1u << 16);
    jw_init(&w, &out);
    jw_begin_object(&w);
}

static void check(const char *expected)
{
    jw_end_object(&w);
    assert_string_equal(out.ptr, expected);
    buf_deinit(&out);
}

/* Line breaks are removed: a message is one line. */
static void application_meta_is_written_on_one_line_with_server_meta(void **state)
{
    (void)state;
    struct tidings_resource r = {0};
    r.uri = STR("app:a");
    r.meta = STR(" {\n\t\"example.com/a\": [1,\r\n2],\n\"b\":\"c\"}\n");
    r.icons = STR("[\n{\"src\":\"x\"}]");
    assert_int_equal(resource_check(&r, NULL), 0);
    begin();
    resource_write_members(&w, STR("uri"), &r);
    check(
        "{\"uri\":\"app:a\",\"name\":\"app:a\",\"icons\":[ {\"src\":\"x\"}],\"capabilities\":{"
        "\"list\":false,\"subscribe\":true},\"_meta\":{\"example.com/a\": [1,  2], \"b\":\"c\"}}");
    r.icons = STR_EMPTY;
    r.etag = STR("e");
    begin();
    resource_write_members(&w, STR("uri"), &r);
    check("{\"uri\":\"app:a\",\"name\":\"app:a\",\"capabilities\":{\"list\":false,\"subscribe\":"
          "true},"
          "\"_meta\":{\"dev.tidings/etag\":\"e\",\"example.com/a\": [1,  2], \"b\":\"c\"}}");
    static const char *const nothing[] = {"", "{}", " { } "};
    for (size_t i = 0; i < 3; i++) {
        r.meta = tidings_str(nothing[i]);
        r.etag = STR_EMPTY;
        assert_int_equal(resource_check(&r, NULL), 0);
        begin();
        resource_write_members(&w, STR("uri"), &r);
        check("{\"uri\":\"app:a\",\"name\":\"app:a\",\"capabilities\":{\"list\":false,"
              "\"subscribe\":true}}");
    }
}

static void invalid_meta_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *meta, *part; /* NULL: valid */
    } rows[] = {
        {"{\"a\":1,\"example.com/x\":{},\"com.example/mcp\":1,\"x.y.mcp/a\":1}", NULL},
        {"{\"mcp\":1,\"modelcontextprotocol\":1,\"mcp/a\":1,\"dev.tiding/a\":1}", NULL},
        {"[]", "_meta must be a JSON object"},
        {"7", "_meta must be a JSON object"},
        {"{", "_meta"},
        {"{\"ok\":1,\"io.modelcontextprotocol/a\":1}",
         "'io.modelcontextprotocol/a' is reserved by the protocol"},
        {"{\"dev.mcp/a\":1}", "'dev.mcp/a'"},
        {"{\"dev.mcp.more/a\":1}", "'dev.mcp.more/a'"},
        {"{\"mcp.dev/a\":1}", "'mcp.dev/a'"},
        {"{\"a.b.modelcontextprotocol.c/a\":1}", "reserved by the protocol"},
        {"{\"dev.tidings/etag\":1}", "'dev.tidings/etag' is reserved by the server"},
        {"{\"dev.tidings.x/etag\":1}", "reserved by the server"},
        {"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "_meta"},
    };
    struct tidings_resource r = {0};
    struct tidings_error err;
    r.uri = r.name = STR("app:a");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        err = (struct tidings_error){0, ""};
        r.meta = tidings_str(rows[i].meta);
        int rc = resource_check(&r, &err);
        if ((rc == 0) != !rows[i].part || (rc < 0 && !strstr(err.text, rows[i].part))) {
            fail_msg("%s: %s", rows[i].meta, err.text);
        }
    }
    static char large[8300];
    memset(large, ' ', sizeof(large));
    large[0] = '{';
    large[8191] = '}';
    r.meta = tidings_strn(large, 8192);
    assert_int_equal(resource_check(&r, &err), 0);
    large[8191] = ' ';
    large[8192] = '}';
    r.meta = tidings_strn(large, 8193);
    assert_int_equal(resource_check(&r, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "8192"));
}

static void resource_lists_known_members_and_always_capabilities(void **state)
{
    (void)state;
    struct tidings_resource r = {0};
    r.uri = STR("app:a");
    begin();
    resource_write_members(&w, STR("uri"), &r);
    check("{\"uri\":\"app:a\",\"name\":\"app:a\",\"capabilities\":{\"list\":false,"
          "\"subscribe\":true}}");
    r.name = STR("n");
    r.title = STR("t");
    r.description = STR("d");
    r.mime_type = STR("text/plain");
    r.has_size = true; /* … and it is 0 */
    r.icons = STR("[{\"src\":\"x\"}]");
    r.audience = STR("[\"user\"]");
    r.priority = 0.5;
    r.has_priority = true;
    r.modified_ms = 1000;
    r.listable = true;
    r.not_subscribable = true;
    r.etag = STR("e");
    begin();
    resource_write_with(
        &w, STR("uriTemplate"), &r,
        &(struct resource_meta){.is_part = true, .from = 1, .to = 2, .has_formats = true});
    check("{\"uriTemplate\":\"app:a\",\"name\":\"n\",\"title\":\"t\",\"description\":\"d\","
          "\"mimeType\":\"text/plain\",\"size\":0,\"icons\":[{\"src\":\"x\"}],\"annotations\":{"
          "\"audience\":[\"user\"],\"priority\":0.5,\"lastModified\":\"1970-01-01T00:00:01.000Z\"},"
          "\"capabilities\":{\"list\":true,\"subscribe\":false},\"_meta\":{\"dev.tidings/etag\":"
          "\"e\",\"dev.tidings/range\":{\"unit\":\"bytes\",\"from\":1,\"to\":2,\"total\":0},"
          "\"dev.tidings/formats\":[\"text/plain\"]}}");
}

static void links_and_embedded_resources_share_the_writer(void **state)
{
    (void)state;
    struct tidings_resource r = {0};
    r.uri = STR("app:a");
    r.name = STR("n");
    r.priority = 1;
    r.has_priority = true;
    begin();
    resource_write_link(&w, &r);
    check("{\"type\":\"resource_link\",\"uri\":\"app:a\",\"name\":\"n\",\"annotations\":{"
          "\"priority\":1.0},\"capabilities\":{\"list\":false,\"subscribe\":true}}");
    begin();
    resource_write_embedded(&w, &r, STR("abc"), false);
    check("{\"type\":\"resource\",\"resource\":{\"uri\":\"app:a\",\"name\":\"n\",\"size\":3,"
          "\"annotations\":{\"priority\":1.0},\"capabilities\":{\"list\":false,\"subscribe\":true},"
          "\"blob\":\"YWJj\"}}");
}

static void annotations_move_inside_an_embedded_resource(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"type\":\"resource\",\"annotations\":{\"priority\":1},\"resource\":{\"uri\":\"a:b\","
         "\"text\":\"\"},\"_meta\":{}}",
         "{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\",\"text\":\"\",\"annotations\":{"
         "\"priority\":1}},\"_meta\":{}}"},
        {"{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\",\"annotations\":{\"priority\":0},"
         "\"text\":\"\"},\"annotations\":{\"priority\":1}}",
         "{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\",\"text\":\"\",\"annotations\":{"
         "\"priority\":0}}}"},
        {"{\"type\":\"resource\",\"resource\":{\"annotations\":{\"priority\":0}}}",
         "{\"type\":\"resource\",\"resource\":{\"annotations\":{\"priority\":0}}}"},
        {"{\"type\":\"text\",\"text\":\"\",\"annotations\":{\"priority\":1}}",
         "{\"type\":\"text\",\"text\":\"\",\"annotations\":{\"priority\":1}}"},
        {"{\"type\":\"resource\",\"resource\":7,\"annotations\":{}}",
         "{\"type\":\"resource\",\"resource\":7,\"annotations\":{}}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json *block = NULL;
        assert_int_equal(jv_parse(tidings_str(rows[i][0]), 16, &block, NULL), 0);
        begin();
        resource_write_block(&w, block);
        check(rows[i][1]);
        jv_unref(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(application_meta_is_written_on_one_line_with_server_meta),
        cmocka_unit_test(invalid_meta_is_refused_by_name),
        cmocka_unit_test(resource_lists_known_members_and_always_capabilities),
        cmocka_unit_test(links_and_embedded_resources_share_the_writer),
        cmocka_unit_test(annotations_move_inside_an_embedded_resource),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
