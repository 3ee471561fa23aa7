/* SPDX-License-Identifier: MIT */
#include "support/access_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/loop.h"
#include "security/cpu_budget.h"
#include "security/limits.h"

void access_worker_start(struct access_worker *w)
{
    memset(w, 0, sizeof(*w));
    w->loop = loop_create(NULL);
    w->quotas = quotas_create(&w->counters);
    w->allowances = allowances_create();
    assert_true(w->loop && w->quotas && w->allowances);
    principals_init(&w->principals, w->loop, w->quotas, w->allowances);
}

void access_worker_stop(struct access_worker *w)
{
    principals_deinit(&w->principals);
    quotas_destroy(w->quotas);
    allowances_destroy(w->allowances);
    loop_destroy(w->loop);
}
