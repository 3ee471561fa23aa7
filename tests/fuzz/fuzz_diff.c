/* SPDX-License-Identifier: MIT
 *
 * Any two strings, separated by the first NUL: their difference, applied to the first, gives the
 * second.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/watch_output.h"
#include "support/patching.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *gap = size > 0 ? memchr(data, 0, size) : NULL;
    if (!gap || memchr(gap + 1, 0, size - (size_t)(gap + 1 - data))) {
        return 0;
    }
    struct tidings_str before = tidings_strn((const char *)data, (size_t)(gap - data));
    struct tidings_str after = tidings_strn((const char *)gap + 1, size - (size_t)(gap + 1 - data));
    char *hunks = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&hunks, &len);
    int rc = out ? diff_write(out, before, after) : TIDINGS_E_NOMEM;
    if (out) {
        fclose(out);
    }
    if (rc >= 0) {
        char *made = patching_apply(before, tidings_strn(hunks, len));
        if (!made || strlen(made) != after.len || memcmp(made, after.ptr, after.len) != 0) {
            abort();
        }
        free(made);
    }
    free(hunks);
    return 0;
}
