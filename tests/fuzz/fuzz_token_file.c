/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a token file: errors name their line, and only tokens in the file are found.
 */
#include <stdlib.h>

#include "security/token_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char nobody[SHA256_BYTES] = {0x5a, 0xc3};
    struct token_file *f = NULL;
    struct identity *i = NULL;
    struct tidings_error err = {0, ""};
    if (token_file_parse(&f, "f", tidings_strn((const char *)data, size), &err) < 0) {
        if (!str_starts(tidings_str(err.text), STR("f:"))) {
            abort();
        }
        return 0;
    }
    if (token_file_find(f, nobody, &i) < 0 || i) {
        abort();
    }
    shared_value_unref(token_file_value(f));
    return 0;
}
