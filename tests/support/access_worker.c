/* SPDX-License-Identifier: MIT */
#include "support/access_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/loop.h"
#include "security/client_account.h"
#include "security/limits.h"

void access_worker_start(struct access_worker *w)
{
    memset(w, 0, sizeof(*w));
    w->loop = loop_create(NULL);
    w->quotas = quotas_create(&w->counters);
    w->client_accounts = client_accounts_create();
    assert_true(w->loop && w->quotas && w->client_accounts);
    principals_init(&w->principals, w->loop, w->quotas, w->client_accounts);
}

void access_worker_stop(struct access_worker *w)
{
    principals_deinit(&w->principals);
    quotas_destroy(w->quotas);
    client_accounts_destroy(w->client_accounts);
    loop_destroy(w->loop);
}
