/* SPDX-License-Identifier: MIT
 *
 * Any bytes as files of /proc: an answer, no crash; slices stay inside the input.
 */
#include <stdlib.h>

#include "sources/system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(struct tidings_str slice, const uint8_t *data, size_t size)
{
    const char *begin = (const char *)data;
    if (slice.len > 0 && (slice.ptr < begin || slice.ptr + slice.len > begin + size)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn((const char *)data, size);
    struct system_load load;
    struct system_memory memory;
    struct system_interface interface;
    struct system_mount mount;
    (void)system_parse_load(text, &load);
    if (system_parse_memory(text, &memory) && memory.total == 0) {
        abort();
    }
    struct tidings_str rest = text;
    while (system_next_interface(&rest, &interface)) {
        check_inside(interface.name, data, size);
    }
    rest = text;
    while (system_next_mount(&rest, &mount)) {
        check_inside(mount.device, data, size);
        check_inside(mount.type, data, size);
        if (mount.path[0] == '\0' || !memchr(mount.path, '\0', sizeof(mount.path))) {
            abort();
        }
    }
    return 0;
}
