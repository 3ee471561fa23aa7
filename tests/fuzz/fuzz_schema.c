/* SPDX-License-Identifier: MIT
 *
 * Any JSON as a schema and any JSON as its instance (the array [schema, instance, …]): compiled, or
 * rejected with an error message; validated twice with the same result, and every rejection has a
 * reason.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "formats/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check(const struct json_schema *s, struct json *instance)
{
    struct schema_error why = {"", "", ""};
    bool valid = schema_validate(s, instance, &why);
    require(valid == (why.text[0] == '\0'));
    require(str_is_utf8(tidings_str(why.instance_path)));
    require(str_is_utf8(tidings_str(why.schema_path)) && str_is_utf8(tidings_str(why.text)));
    require(schema_validate(s, instance, NULL) == valid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = {(const char *)data, size};
    struct json *all = NULL;
    if (jv_parse(text, JSON_MAX_DEPTH, &all, NULL) < 0) {
        return 0;
    }
    struct schema_document document = {STR("http://h/d"), jv_at(all, 2)};
    const struct schema_options options = {.assert_format = size % 2 == 0,
                                           .documents = &document,
                                           .n_documents = document.root != NULL,
                                           .max_subschemas = 500,
                                           .max_steps = 20000};
    struct json_schema *s = NULL;
    struct tidings_error err = {0};
    int rc = schema_compile(jv_at(all, 0), &options, &s, &err);
    if (rc == 0) {
        check(s, jv_at(all, 1));
        check(s, jv_at(all, 0));
    } else {
        require(!s && err.code == rc && str_is_utf8(tidings_str(err.text)));
    }
    schema_destroy(s);
    jv_unref(all);
    return 0;
}
