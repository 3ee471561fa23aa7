/* SPDX-License-Identifier: MIT
 *
 * Any bytes as base64, in both alphabets: accepted input has exactly one spelling, and written
 * output reads back.
 */
#include <stdlib.h>

#include "base/encode.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

typedef int (*code_fn)(struct buf *out, struct tidings_str in);

static void check(struct tidings_str text, code_fn put, code_fn decode)
{
    struct buf bytes, again;
    buf_init(&bytes, SIZE_MAX / 2);
    buf_init(&again, SIZE_MAX / 2);
    if (decode(&bytes, text) == 0) {
        require(put(&again, buf_str(&bytes)) == 0 && str_eq(buf_str(&again), text));
    } else {
        require(bytes.len == 0);
    }
    buf_clear(&bytes);
    buf_clear(&again);
    require(put(&bytes, text) == 0 && decode(&again, buf_str(&bytes)) == 0);
    require(str_eq(buf_str(&again), text));
    buf_deinit(&bytes);
    buf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    check(text, base64_put, base64_decode);
    check(text, base64url_put, base64url_decode);
    return 0;
}
