/* SPDX-License-Identifier: MIT
 *
 * Two worlds that differ only in data hidden from a client: for any requests, its output is the
 * same to the byte (support/twins.h). One execution is two servers with files, sockets and threads,
 * and dozens of requests, so it runs far fewer executions per second than other targets.
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
