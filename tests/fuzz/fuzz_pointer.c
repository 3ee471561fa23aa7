/* SPDX-License-Identifier: MIT
 *
 * The first line as a JSON pointer into the document that follows: an answer, no crash. Every value
 * of the document is found again under the pointer that is built on the way to it.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_token(struct buf *out, struct tidings_str key)
{
    buf_putc(out, '/');
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        buf_puts(out, c == '~' ? STR("~0") : c == '/' ? STR("~1") : tidings_strn(&key.ptr[i], 1));
    }
}

static void walk(struct json *root, struct json *at, struct buf *pointer, unsigned *left)
{
    if (*left == 0 || pointer->failed) {
        return;
    }
    --*left;
    if (jv_point(root, buf_str(pointer)) != at) {
        abort();
    }
    size_t len = pointer->len;
    for (size_t i = 0; jv_is(at, JV_ARRAY) && i < jv_count(at); i++) {
        buf_putf(pointer, "/%zu", i);
        walk(root, jv_at(at, i), pointer, left);
        pointer->len = len;
    }
    struct tidings_str key;
    struct json *value = NULL;
    void *position = jv_is(at, JV_OBJECT) ? jv_next(at, NULL, &key, &value) : NULL;
    for (; position; position = jv_next(at, position, &key, &value)) {
        if (key.len <= 1024) {
            put_token(pointer, key);
            walk(root, value, pointer, left);
            pointer->len = len;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str rest;
    struct tidings_str line = str_cut(tidings_strn((const char *)data, size), '\n', &rest, NULL);
    struct json *root = NULL;
    if (jv_parse(rest, JSON_MAX_DEPTH, &root, NULL) < 0) {
        return 0;
    }
    (void)jv_point(root, line);
    struct buf pointer;
    unsigned left = 200;
    buf_init(&pointer, 1u << 20);
    walk(root, root, &pointer, &left);
    buf_deinit(&pointer);
    jv_unref(root);
    return 0;
}
