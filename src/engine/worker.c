/* SPDX-License-Identifier: MIT
 *
 * A worker before any part of the server is added to it: its mailbox, the gathering of its writes,
 * and the return of memory to the system.
 */
#include "engine/worker.h"

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/thread.h"

static void worker_on_trim(struct loop_timer *timer, void *user)
{
    (void)timer;
    (void)user;
    mem_trim();
}

void worker_trim_later(struct worker *worker, size_t bytes)
{
    if (bytes >= WORKER_TRIM_BYTES && !loop_timer_is_running(worker->trim)) {
        loop_timer_start(worker->trim, WORKER_TRIM_MS, 0);
    }
}

int worker_init(struct worker *worker, const struct seal_key *key, struct tidings_error *err)
{
    struct tidings_error why;
    sealer_init(&worker->sealer, key);
    sendq_batch_init(&worker->batch);
    if (worker->limits->io_uring && sendq_batch_use_uring(&worker->batch, &why) < 0) {
        log_debug(LOG_SERVER, "plain writes", KV("reason", why.text));
    }
    worker->mailbox = mailbox_create(worker->loop, worker, err);
    worker->trim = loop_timer_open(worker->loop, worker_on_trim, worker);
    return worker->mailbox && worker->trim ? 0
                                           : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void worker_deinit(struct worker *worker)
{
    sendq_batch_deinit(&worker->batch);
    sealer_deinit(&worker->sealer);
    loop_timer_close(worker->trim);
    if (worker->mailbox) {
        mailbox_close(worker->mailbox);
        mailbox_unref(worker->mailbox);
    }
}
