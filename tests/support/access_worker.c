/* SPDX-License-Identifier: MIT */
#include "support/access_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "access/allowance.h"
#include "access/quota.h"
#include "base/loop.h"

void access_worker_start(struct access_worker *w)
{
    memset(w, 0, sizeof(*w));
    w->worker.loop = loop_create(NULL);
    w->worker.quotas = quotas_create(&w->counters);
    w->worker.allowances = allowances_create();
    w->worker.principals = &w->principals;
    assert_true(w->worker.loop && w->worker.quotas && w->worker.allowances);
    principals_init(&w->principals);
}

void access_worker_stop(struct access_worker *w)
{
    principals_deinit(&w->principals);
    quotas_destroy(w->worker.quotas);
    allowances_destroy(w->worker.allowances);
    loop_destroy(w->worker.loop);
}
