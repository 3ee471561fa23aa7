/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a cached file of names from a server: no crash, all names or none are returned, and
 * every returned name is safe in a shell.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/completions.h"
#include "cli/paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(void *user, struct tidings_str name)
{
    static const char strange[] = " \t\r\n\"'\\$`(){}[]<>|;&*?!#^";
    (*(size_t *)user)++;
    if (name.len == 0 || name.ptr[0] == '-' || name.ptr[0] == '~' || name.ptr[0] == '=') {
        abort();
    }
    for (size_t i = 0; i < name.len; i++) {
        if (memchr(strange, name.ptr[i], sizeof(strange)) || (name.ptr[i] & 0x80)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[TIDINGS_DIGEST_MAX] =
        "0000000000000000000000000000000000000000000000000000000000000000";
    size_t told = 0;
    struct tidings_str text = {(const char *)data, size};
    if (!names_cache_parse(text, key, 1000, look, &told) && told > 0) {
        abort();
    }
    return 0;
}
