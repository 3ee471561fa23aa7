/* SPDX-License-Identifier: MIT
 *
 * A path is keys and indices separated by '|', because keys hold dots and slashes.
 */
#include "support/harness_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json_write.h"
#include "support/parse_json.h"

#define TEXTS 16
#define TEXT_MAX 16384

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_MAX];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *text_of(const char *fmt, ...)
{
    char *text = next_text();
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, TEXT_MAX, fmt, args);
    va_end(args);
    assert_true(n >= 0 && n < TEXT_MAX);
    return text;
}

static struct json *step(struct json *v, struct tidings_str key)
{
    if (jv_is(v, JV_ARRAY)) {
        uint64_t index = 0;
        return str_to_u64(key, &index) && index < jv_count(v) ? jv_at(v, (size_t)index) : NULL;
    }
    char name[128];
    snprintf(name, sizeof(name), "%.*s", STR_ARG(key));
    return jv_get(v, name);
}

const char *json_at(const char *text, const char *path)
{
    if (!text) {
        return NULL; /* no message arrived */
    }
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (parse_json(tidings_str(text), &root, &err) < 0) {
        fail_msg("not JSON: %s: %.200s", err.text, text);
    }
    struct json *v = root;
    struct tidings_str rest = tidings_str(path);
    while (v && rest.len > 0) {
        struct tidings_str key = str_cut(rest, '|', &rest, NULL);
        v = step(v, key);
    }
    const char *found = NULL;
    if (v && jv_is(v, JV_STRING)) {
        found = text_of("%.*s", STR_ARG(jv_str(v)));
    } else if (v) {
        struct buf out;
        struct jw w;
        buf_init(&out, TEXT_MAX - 1);
        jw_init(&w, &out);
        jw_value(&w, v);
        assert_int_equal(out.failed, 0);
        found = text_of("%.*s", STR_ARG(buf_str(&out)));
        buf_deinit(&out);
    }
    jv_unref(root);
    return found;
}

void assert_json(const char *text, const char *path, const char *expected)
{
    const char *found = json_at(text, path);
    if (!found || strcmp(found, expected) != 0) {
        fail_msg("%s is %s, expected %s, in %.400s", path, found ? found : "absent", expected,
                 text);
    }
}

void assert_empty_result(const char *text)
{
    static const char cursor[] = "{\"_meta\":{\"dev.tidings/cursor\":\"";
    const char *found = json_at(text, "result");
    if (!found || (strcmp(found, "{}") != 0 && strncmp(found, cursor, sizeof(cursor) - 1) != 0)) {
        fail_msg("the result is %s, expected {} or a cursor in _meta, in %.400s",
                 found ? found : "absent", text);
    }
}

void assert_no_json(const char *text, const char *path)
{
    const char *found = json_at(text, path);
    if (found) {
        fail_msg("%s should be absent but is %s", path, found);
    }
}

uint64_t cursor_of(const char *text)
{
    const char *cursor = json_at(text, "params|_meta|dev.tidings/cursor");
    assert_non_null(cursor);
    struct tidings_str rest;
    (void)str_cut(tidings_str(cursor), '.', &rest, NULL);
    rest = str_cut(rest, '~', &(struct tidings_str){0}, NULL);
    uint64_t seq = 0;
    assert_true(str_to_u64(rest, &seq));
    return seq;
}
