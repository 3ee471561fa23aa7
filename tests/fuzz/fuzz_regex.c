/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a regex (the first line) and as its input (the rest), of bytes and of characters:
 * compiled, or rejected with an error message; a match or none, equally with a table and without,
 * and with steps that grow no faster than the input.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check(struct tidings_str source, struct tidings_str text, enum regex_units units)
{
    struct regex *r = NULL;
    struct tidings_error err = {0};
    int rc = regex_create(source, units, 1024, &r, &err);
    if (rc < 0) {
        require(!r && err.code == rc && err.text[0] != '\0');
        return;
    }
    struct regex_table *table = regex_table_create(r);
    enum regex_result first = REGEX_ABSENT;
    for (int i = 0; i < 3; i++) {
        uint64_t steps = UINT64_MAX;
        enum regex_result result = regex_search(r, i > 0 ? table : NULL, text, &steps);
        first = i == 0 ? result : first;
        require(result == first && (result == REGEX_FOUND || result == REGEX_ABSENT));
        require(UINT64_MAX - steps <=
                (REGEX_MAX_LOOKAROUNDS + 1) * (text.len + 2) * (2 * (uint64_t)REGEX_MAX_OPS + 300));
    }
    regex_table_destroy(table);
    regex_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text,
        source = str_cut(tidings_strn((const char *)data, size), '\n', &text, NULL);
    if (size > 0 && text.len <= 512) {
        check(source, text, REGEX_BYTES);
        check(source, text, REGEX_CHARACTERS);
    }
    return 0;
}
