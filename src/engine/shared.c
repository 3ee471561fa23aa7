/* SPDX-License-Identifier: MIT
 *
 * State shared by all workers of a server.
 */
#include "engine/shared.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/tasks.h"
#include "engine/worker.h"
#include "security/client_account.h"

#define HANDLER_THREADS 4u
#define HANDLERS_WAITING 100000u /* --max-calls allows fewer */

struct shared *shared_create(struct tidings_error *err)
{
    struct shared *shared = mem_zalloc(sizeof(*shared));
    if (!shared) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    limit_counters_init(&shared->limits);
    shared->quotas = quotas_create(&shared->limits);
    shared->client_accounts = client_accounts_create();
    shared->tasks = tasks_create(&shared->limits);
    shared->handlers = pool_create(HANDLER_THREADS, HANDLERS_WAITING, err);
    if (!shared->quotas || !shared->client_accounts || !shared->tasks || !shared->handlers ||
        seal_key_init(&shared->seal) < 0) {
        shared_destroy(shared);
        return NULL;
    }
    return shared;
}

void shared_stop(struct shared *shared)
{
    if (shared && shared->handlers) {
        pool_destroy(shared->handlers);
        shared->handlers = NULL;
    }
}

void shared_destroy(struct shared *shared)
{
    if (!shared) {
        return;
    }
    shared_stop(shared);
    quotas_destroy(shared->quotas);
    tasks_destroy(shared->tasks); /* tasks hold accounts */
    client_accounts_destroy(shared->client_accounts);
    explicit_bzero(&shared->seal, sizeof(shared->seal));
    mem_free(shared);
}

void shared_give(struct shared *shared, struct worker *worker)
{
    worker->limit_counters = &shared->limits;
    worker->quotas = shared->quotas;
    worker->client_accounts = shared->client_accounts;
    worker->handlers->pool = shared->handlers;
    worker->handlers->tasks = shared->tasks;
    worker->handlers->hooks = shared->call_hooks;
}
