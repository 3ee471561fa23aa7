/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what follows a base: refused, or a path of good names only. A name that is a control
 * file's in any case is found to be one, wherever it is in the path.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char base[] = "a:/";
    char out[LOCAL_NAME_MAX];
    char *uri = malloc(size + sizeof(base));
    if (!uri) {
        return 0;
    }
    memcpy(uri, base, sizeof(base) - 1);
    if (size > 0) {
        memcpy(uri + sizeof(base) - 1, data, size);
    }
    struct tidings_str whole = tidings_strn(uri, size + sizeof(base) - 1);
    if (!local_name(tidings_str(base), whole, out)) {
        size_t len = strlen(out);
        if (len == 0 || len >= LOCAL_NAME_MAX || strncmp(out, LOCAL_RESERVED, 9) == 0) {
            abort();
        }
        for (const char *at = out; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
            size_t n = strcspn(at, "/");
            if (n == 0 || n > LOCAL_SEGMENT_MAX || (n == 1 && at[0] == '.') ||
                (n == 2 && at[0] == '.' && at[1] == '.')) {
                abort();
            }
            if (n == 4 && strncasecmp(at, ".git", n) == 0 && !control_file(out)) {
                abort();
            }
        }
        control_file(out);
    }
    free(uri);
    return 0;
}
