/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the list of what was agreed to: no crash, and what is understood is whole.
 */
#include <stdint.h>
#include <stdlib.h>

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/trust.h"

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
