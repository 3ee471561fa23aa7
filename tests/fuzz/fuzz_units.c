/* SPDX-License-Identifier: MIT
 *
 * Any string as a size or a duration: accepted input is written and read back as the same number.
 */
#include <stdlib.h>

#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    struct buf out;
    uint64_t n = 0, again = 1;
    buf_init(&out, 64);
    if (units_parse_size(text, &n)) {
        require(units_put_size(&out, n) == 0 && units_parse_size(buf_str(&out), &again));
        require(again == n);
    }
    buf_clear(&out);
    if (units_parse_duration(text, &n)) {
        require(units_put_duration(&out, n) == 0 && units_parse_duration(buf_str(&out), &again));
        require(again == n);
    }
    buf_deinit(&out);
    return 0;
}
