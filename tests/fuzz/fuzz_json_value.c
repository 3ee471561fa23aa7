/* SPDX-License-Identifier: MIT
 *
 * Containers of any size around any JSON value: two bytes give the number of copies of the value,
 * one byte their form (bit 0: an object, bit 1: below another object, bit 2: a key twice), the rest
 * is the value's text. Every member and element is found in its place and equals the value, a
 * duplicate key is rejected except from a peer, and a referenced part outlives the rest.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "formats/json.h"

#define COUNT_MAX 6000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void write_all(struct buf *out, struct tidings_str value, unsigned count, unsigned how)
{
    bool is_object = how & 1, is_below = how & 2;
    buf_puts(out, is_below ? STR("{\"before\":1,\"all\":") : STR_EMPTY);
    buf_putc(out, is_object ? '{' : '[');
    for (unsigned i = 0; i < count; i++) {
        buf_puts(out, i > 0 ? STR(",") : STR_EMPTY);
        if (is_object) {
            bool is_again = how & 4 && i == count - 1;
            buf_putf(out, "\"key %u\":", is_again ? i / 2 : i);
        }
        buf_puts(out, value);
    }
    buf_putc(out, is_object ? '}' : ']');
    buf_puts(out, is_below ? STR(",\"after\":2}") : STR_EMPTY);
    require(out->failed == 0);
}

static struct json *item(struct json *all, unsigned i)
{
    char key[24];
    (void)snprintf(key, sizeof key, "key %u", i);
    return jv_is(all, JV_OBJECT) ? jv_get(all, key) : jv_at(all, i);
}

static void check(struct json *root, const struct json *value, unsigned count, unsigned how)
{
    struct json *all = how & 2 ? jv_get(root, "all") : root;
    require(!(how & 2) ||
            (jv_int(jv_get(root, "before")) == 1 && jv_int(jv_get(root, "after")) == 2));
    require(jv_count(all) == count && !item(all, count));
    for (unsigned i = 0; i < count; i++) {
        require(jv_equal(item(all, i), value));
    }
    struct json *copy = merge_apply(NULL, root), *part = NULL;
    require(copy != NULL);
    struct json *patch = NULL;
    require(merge_diff(root, root, &patch) == 1);
    require(jv_is(root, JV_OBJECT) ? jv_count(patch) == 0 : jv_equal(patch, root));
    jv_unref(patch);
    jv_unref(copy);
    if (count > 0) {
        part = jv_ref(item(all, count / 2));
    }
    jv_unref(root);
    require(!part || jv_equal(part, value));
    jv_unref(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > 256) {
        return 0;
    }
    unsigned count = (data[0] | (unsigned)data[1] << 8) % COUNT_MAX, how = data[2];
    struct tidings_str text = {(const char *)data + 3, size - 3};
    struct json *value = NULL, *root = NULL;
    if (jv_parse(text, 8, &value, NULL) < 0) {
        return 0;
    }
    struct buf out;
    buf_init(&out, 1u << 24);
    write_all(&out, text, count, how);
    int rc = jv_parse(buf_str(&out), JSON_MAX_DEPTH, &root, NULL);
    if ((how & 5) == 5 && count > 1) {
        struct jv_mended mended;
        require(rc == TIDINGS_E_PARSE && !root);
        require(json_parse_lenient(buf_str(&out), &root, &mended, NULL) == 0 &&
                mended.repeated == 1);
        check(root, value, count - 1, how);
    } else {
        require(rc == 0);
        check(root, value, count, how);
    }
    buf_deinit(&out);
    jv_unref(value);
    return 0;
}
