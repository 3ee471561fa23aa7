/* SPDX-License-Identifier: MIT
 *
 * Any JSON as the entry of a skill from a server: an accepted entry has a valid name, files below
 * its root in any spelling, at most the allowed number of files and bytes, and each file can be
 * found again.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *entry = NULL;
    struct tidings_error err = {0};
    if (json_parse_lenient(tidings_strn((const char *)data, size), &entry, NULL, NULL) < 0) {
        return 0;
    }
    if (skill_check_entry(entry, &err) < 0) {
        check(err.text[0] != '\0');
        jv_unref(entry);
        return 0;
    }
    struct tidings_str uri = jv_str(jv_get(entry, "uri")), root = skill_root(uri);
    struct json *files = jv_get(entry, "resources");
    int64_t total = 0;
    check(skill_name_is_valid(skill_name(uri)) && skill_holds(root, uri));
    check(jv_count(files) <= SKILL_MAX_FILES);
    for (size_t i = 0; jv_is(files, JV_ARRAY) && i < jv_count(files); i++) {
        struct json *file = jv_at(files, i);
        struct tidings_str name = jv_str(jv_get(file, "uri"));
        check(skill_holds(root, name) && !memmem(name.ptr, name.len, "/../", 4));
        check(skill_find_file(entry, name) == file);
        total += jv_int(jv_get(file, "size"));
    }
    check(total >= 0 && total <= (int64_t)SKILL_MAX_BYTES);
    jv_unref(entry);
    return 0;
}
