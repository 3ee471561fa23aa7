/* SPDX-License-Identifier: MIT
 *
 * Runs functions on the hub on behalf of any thread, before the hub's own thread runs, while it
 * does, and after.
 *
 * While the hub runs, its thread does them. While it does not, whoever holds the hub's mutex
 * (recursive) may act in its stead. A letter to a running hub is sent while holding it, and the hub
 * stops while holding it, so that none is sent to a hub that has emptied its mailbox for the last
 * time.
 */
#include "base/error.h"
#include "delivery/delivery.h"
#include "delivery/hub_private.h"

/* ---- holding --------------------------------------------------------------------------------- */

int hub_hold_init(struct hub *hub, struct tidings_error *err)
{
    pthread_mutexattr_t attr;
    bool good = pthread_mutexattr_init(&attr) == 0;
    if (good) {
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
        good = pthread_mutex_init(&hub->mutex, &attr) == 0;
        pthread_mutexattr_destroy(&attr);
    }
    hub->has_mutex = good;
    return good ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void hub_hold_deinit(struct hub *hub)
{
    if (hub->has_mutex) {
        pthread_mutex_destroy(&hub->mutex);
    }
}

void hub_hold(struct hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
}

void hub_release(struct hub *hub)
{
    pthread_mutex_unlock(&hub->mutex);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool is_running(struct hub *hub)
{
    return __atomic_load_n(&hub->running, __ATOMIC_ACQUIRE);
}

void hub_set_running(struct hub *hub, bool running)
{
    hub_hold(hub);
    if (running) {
        __atomic_store_n(&hub->thread, pthread_self(), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&hub->running, running, __ATOMIC_RELEASE);
    if (!running) {
        mailbox_drain(hub->mailbox); /* somebody may wait for the answer */
        hub_announce_unpark(hub, true);
        hub_newest_end(hub);
    }
    hub_release(hub);
}

bool hub_send(struct hub *hub, struct letter *letter)
{
    hub_hold(hub);
    bool running = is_running(hub);
    if (running) {
        mailbox_send(hub->mailbox, letter);
    }
    hub_release(hub);
    return running;
}

/* The hub whose worker runs on this thread. */
static _Thread_local const struct hub *worker_of;

void hub_adopt_thread(struct hub *hub)
{
    worker_of = hub;
}

bool hub_is_ours(struct hub *hub)
{
    return worker_of == hub || hub_is_here(hub);
}

bool hub_is_here(struct hub *hub)
{
    return is_running(hub) &&
           pthread_equal(__atomic_load_n(&hub->thread, __ATOMIC_RELAXED), pthread_self());
}

/* Something to do for another thread, which waits in a blocking mailbox for the outcome. */
struct hub_task {
    struct letter letter;
    struct letter answer;
    struct mailbox *waiter;
    hub_fn fn;
    void *arg;
    int code;
    struct tidings_error err;
};

static void answer_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    *(bool *)owner = true;
}

static void answer_drop(struct letter *letter)
{
    (void)letter; /* lies with whoever waits */
}

static void hub_task_deliver(struct letter *letter, void *owner)
{
    struct hub_task *task = list_entry(letter, struct hub_task, letter);
    task->code = task->fn(owner, task->arg, &task->err);
    mailbox_send(task->waiter, &task->answer);
}

static void hub_task_drop(struct letter *letter)
{
    struct hub_task *task = list_entry(letter, struct hub_task, letter);
    task->code = tidings_fail(&task->err, TIDINGS_E_CLOSED, "the server is stopping");
    mailbox_send(task->waiter, &task->answer);
}

static int wait_for(struct hub_task *task, bool *answered, struct tidings_error *err)
{
    while (!*answered) {
        mailbox_wait(task->waiter, -1);
    }
    if (task->code < 0 && err) {
        *err = task->err;
    }
    return task->code;
}

int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err)
{
    if (hub_is_here(hub)) {
        return fn(hub, arg, err);
    }
    bool answered = false;
    struct hub_task task = {.fn = fn, .arg = arg};
    task.letter.deliver = hub_task_deliver;
    task.letter.drop = hub_task_drop;
    task.answer.deliver = answer_deliver;
    task.answer.drop = answer_drop;
    task.waiter = mailbox_create_blocking(&answered, err);
    if (!task.waiter) {
        return TIDINGS_E_NOMEM;
    }
    int rc = 0;
    hub_hold(hub);
    if (!is_running(hub)) {
        rc = fn(hub, arg, err);
        hub_release(hub);
    } else {
        mailbox_send(hub->mailbox, &task.letter);
        hub_release(hub);
        rc = wait_for(&task, &answered, err);
    }
    mailbox_close(task.waiter);
    mailbox_unref(task.waiter);
    return rc;
}
