/* SPDX-License-Identifier: MIT
 *
 * Any two JSON values, on two lines: applying the difference of two values to the first gives the
 * second, applying any value to any other gives a value, and applying it twice changes nothing
 * more.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check(struct json *a, struct json *b)
{
    struct json *patch = NULL;
    int rc = merge_diff(a, b, &patch);
    require(rc >= 0);
    if (rc == 1) {
        struct json *result = merge_apply(a, patch);
        require(result && jv_equal(result, b));
        jv_unref(result);
    }
    jv_unref(patch);
    struct json *once = merge_apply(a, b), *twice = merge_apply(once, b);
    require(once && twice && jv_equal(once, twice));
    jv_unref(once);
    jv_unref(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str second,
        first = str_cut(tidings_strn((const char *)data, size), '\n', &second, NULL);
    struct json *a = NULL, *b = NULL;
    if (size > 0 && jv_parse(first, JSON_MAX_DEPTH, &a, NULL) == 0 &&
        jv_parse(second, JSON_MAX_DEPTH, &b, NULL) == 0) {
        check(a, b);
        check(b, a);
        check(NULL, b);
    }
    jv_unref(a);
    jv_unref(b);
    return 0;
}
