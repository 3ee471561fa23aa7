/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a file of servers: an answer, no crash; listed entries can be looked up.
 */
#include <stdint.h>
#include <stdlib.h>

#include "cli/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *variable(const char *name)
{
    return name[0] == 'S' ? "value" : NULL;
}

static const struct servers_context context = {"f.json", "/project", variable, NULL};

struct all {
    struct tidings_str file;
    unsigned left; /* so that a long list takes no time in its square */
};

static void find(void *user, const struct servers_entry *entry)
{
    struct all *all = user;
    struct target target = {0};
    struct tidings_error err = {0};
    if (all->left > 0) {
        all->left--;
        if (servers_find(&context, all->file, entry->name.ptr, &target, &err) ==
            TIDINGS_E_NOTFOUND) {
            abort();
        }
        target_deinit(&target);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct all all = {tidings_strn((const char *)data, size), 8};
    struct tidings_error err = {0};
    servers_each(&context, all.file, find, &all, &err);
    return 0;
}
