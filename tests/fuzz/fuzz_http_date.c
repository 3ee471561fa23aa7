/* SPDX-License-Identifier: MIT
 *
 * Any string as an HTTP date: accepted input is written and read back as the same second.
 */
#include <stdlib.h>

#include "formats/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    struct buf out;
    int64_t at = 0, again = 1;
    buf_init(&out, 64);
    if (http_parse_date(text, 1785232800, &at)) {
        http_put_date(&out, at);
        /* The last leap second is of the year 10000. */
        if (out.len != HTTP_DATE_LEN ||
            (at <= 253402300799 && (!http_parse_date(buf_str(&out), 0, &again) || again != at))) {
            abort();
        }
    }
    buf_deinit(&out);
    return 0;
}
