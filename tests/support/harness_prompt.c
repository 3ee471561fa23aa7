/* SPDX-License-Identifier: MIT
 *
 * Prompts and completions on the bench.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/harness_prompt.h"

#include "base/str.h"
#include "engine/protocol/feature.h"

void harness_add_prompt(struct harness *b, const char *name, const char *schema,
                        tidings_call_fn handler, void *user)
{
    char row[512];
    int begin = snprintf(row, sizeof(row), "{\"name\":\"%s\",\"description\":", name);
    int len = snprintf(row + begin, sizeof(row) - (size_t)begin, "\"about %s\"", name);
    snprintf(row + begin + len, sizeof(row) - (size_t)(begin + len),
             ",\"arguments\":[{\"name\":\"code\",\"required\":true},{\"name\":\"style\"}]}");
    struct feature *f = feature_create(FEATURE_PROMPT, tidings_str(name), tidings_str(row));
    assert_non_null(f);
    f->description_json = tidings_strn(f->row.ptr + begin, (size_t)len);
    f->handler = handler;
    f->user = user;
    if (schema) {
        struct json *root = NULL;
        assert_int_equal(jv_parse(tidings_str(schema), JSON_MAX_DEPTH, &root, NULL), 0);
        assert_int_equal(schema_compile(root, NULL, &f->input, NULL), 0);
        jv_unref(root);
    }
    assert_int_equal(hub_add_feature(b->hub, f, NULL), 0);
}

void harness_add_completion(struct harness *b, const char *what, const char *name,
                            tidings_complete_fn fn, void *user)
{
    struct buf key;
    buf_init(&key, COMPLETE_KEY_MAX);
    complete_put_key(&key, what, tidings_str(name));
    struct feature *f = feature_create(FEATURE_COMPLETION, buf_str(&key), STR_EMPTY);
    assert_non_null(f);
    f->complete = fn;
    f->user = user;
    assert_int_equal(hub_add_feature(b->hub, f, NULL), 0);
    buf_deinit(&key);
}
