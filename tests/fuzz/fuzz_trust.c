/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the list of what was agreed to: no crash, and what is understood is whole.
 */
#include <stdint.h>
#include <stdlib.h>

#include "bin/command.h"
#include "bin/output.h"
#include "bin/trust.h"

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    (void)command;
    (void)hint;
    return err->code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(void *user, const struct trusted *entry)
{
    (void)user;
    if (entry->digest.len != TIDINGS_DIGEST_MAX - 1 || !entry->file.ptr || !entry->name.ptr) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trust_parse(tidings_strn((const char *)data, size), look, NULL);
    return 0;
}
