/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a SKILL.md: parsed front matter is a JSON object within the depth and size limits,
 * equal to itself, and parses the same from the JSON it produces (JSON is YAML).
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/json_write.h"
#include "formats/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static unsigned measure(struct json *v, unsigned depth)
{
    unsigned count = 1;
    struct tidings_str key;
    struct json *value = NULL;
    check(depth <= YAML_MAX_DEPTH + 1);
    for (size_t i = 0; jv_is(v, JV_ARRAY) && i < jv_count(v); i++) {
        count += measure(jv_at(v, i), depth + 1);
    }
    for (void *at = NULL; jv_is(v, JV_OBJECT) && (at = jv_next(v, at, &key, &value)) != NULL;) {
        check(str_is_utf8(key));
        count += measure(value, depth + 1);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *root = NULL, *again = NULL;
    struct tidings_error err = {0};
    if (front_matter_parse(tidings_strn((const char *)data, size), &root, &err) < 0) {
        check(err.text[0] != '\0' && !root);
        return 0;
    }
    struct buf text;
    struct jw w;
    check(jv_is(root, JV_OBJECT) && front_matter_equal(root, root));
    check(measure(root, 0) <= YAML_MAX_VALUES + 1);
    buf_init(&text, YAML_MAX_BYTES * 8u);
    jw_init(&w, &text);
    buf_puts(&text, STR("a: "));
    jw_value(&w, root);
    if (!text.failed && text.len < YAML_MAX_BYTES &&
        yaml_parse(buf_str(&text), &again, &err) == 0) {
        check(front_matter_equal(root, jv_get(again, "a")));
        jv_unref(again);
    }
    buf_deinit(&text);
    jv_unref(root);
    return 0;
}
