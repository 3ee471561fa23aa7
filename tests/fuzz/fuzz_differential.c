/* SPDX-License-Identifier: MIT
 *
 * Two worlds that differ only in what is hidden from somebody: whatever it asks, it hears the same
 * to the byte (support/twins.h). One execution is two servers with files, sockets and threads, and
 * dozens of requests: there are far fewer a second than of other targets.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/config.h"
#include "support/twin_call.h"
#include "support/twin_request.h"
#include "support/twin_step.h"
#include "support/twin_wire.h"
#include "support/twin_world.h"
#include "support/twins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf report;
    buf_init(&report, 1u << 24);
    if (!twins_run(data, size, &report)) {
        fprintf(stderr, "%.*s", (int)report.len, report.ptr);
        abort();
    }
    buf_deinit(&report);
    return 0;
}
