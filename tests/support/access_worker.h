/* SPDX-License-Identifier: MIT
 *
 * The principals of a worker and what they use, for tests of access.
 *
 *     struct access_worker w;
 *     access_worker_start(&w);
 *     … principal_intern(&w.principals, …) …
 *     access_worker_stop(&w);         // when nobody holds one any more
 */
#ifndef SUPPORT_ACCESS_WORKER_H
#define SUPPORT_ACCESS_WORKER_H

#include "security/limits.h"
#include "security/principal.h"

struct access_worker {
    struct loop *loop;
    struct quotas *quotas;
    struct client_accounts *client_accounts;
    struct principals principals;
    struct limit_counters counters;
};

void access_worker_start(struct access_worker *w);
void access_worker_stop(struct access_worker *w);

#endif
