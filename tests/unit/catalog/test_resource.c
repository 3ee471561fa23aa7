/* SPDX-License-Identifier: MIT
 *
 * The one writer of resource objects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "catalog/resource.h"

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

static void a_resource_says_what_is_known_and_always_its_capabilities(void **state)
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

static void links_and_embedded_resources_are_written_by_it_too(void **state)
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

static void annotations_beside_an_embedded_resource_move_inside(void **state)
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
        cmocka_unit_test(a_resource_says_what_is_known_and_always_its_capabilities),
        cmocka_unit_test(links_and_embedded_resources_are_written_by_it_too),
        cmocka_unit_test(annotations_beside_an_embedded_resource_move_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
