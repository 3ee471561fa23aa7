/* SPDX-License-Identifier: MIT
 *
 * Whole workers for the harness.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/harness_core.h"

#undef calloc /* workers may outlive a test */

void harness_start(struct harness *b)
{
    struct tidings_error err = {0};
    harness_start_hub(b);
    for (size_t i = 0; i < b->worker_count; i++) {
        struct core *core = b->state[i] = calloc(1, sizeof(*core));
        assert_non_null(core);
        b->worker[i] = &core->worker;
        b->worker[i]->limits = &b->limits;
        b->worker[i]->self = &b->self;
        assert_int_equal(core_init(core, b->loop, b->hub, b->shared, (unsigned)i, &err), 0);
    }
}

struct core *harness_core(struct harness *b, size_t index)
{
    return b->state[index];
}

void harness_stop_cores(struct harness *b)
{
    for (size_t i = 0; i < b->worker_count; i++) {
        core_deinit(harness_core(b, i));
    }
    harness_detach(b);
}

void harness_stop(struct harness *b)
{
    harness_stop_cores(b);
    harness_stop_hub(b);
}
