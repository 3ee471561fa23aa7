/* SPDX-License-Identifier: MIT
 *
 * Doing things on the hub from any thread, before it runs, while it does, and after.
 *
 * While the hub runs, its thread does them. While it does not, whoever holds the hub may act in its
 * stead: there is one token, a letter in a mailbox of its own, and taking it out is holding. A
 * letter to a running hub is sent while holding, and the hub stops while holding, so that none is
 * sent to a hub that has looked for the last time.
 */
#include "base/error.h"
#include "delivery/delivery.h"
#include "delivery/hub_private.h"

/* ---- the token ------------------------------------------------------------------------------- */

static void token_taken(struct letter *letter, void *owner)
{
    (void)letter;
    struct hub *hub = owner;
    __atomic_store_n(&hub->holder, pthread_self(), __ATOMIC_RELAXED);
}

static void token_drop(struct letter *letter)
{
    (void)letter;
}

int hub_token_init(struct hub *hub, struct tidings_error *err)
{
    hub->turn = mailbox_create_blocking(hub, err);
    if (!hub->turn) {
        return TIDINGS_E_NOMEM;
    }
    hub->token.deliver = token_taken;
    hub->token.drop = token_drop;
    mailbox_send(hub->turn, &hub->token);
    return 0;
}

void hub_token_deinit(struct hub *hub)
{
    if (hub->turn) {
        mailbox_close(hub->turn);
        mailbox_unref(hub->turn);
    }
}

void hub_hold(struct hub *hub)
{
    /* Only this thread can have put itself there. */
    if (!pthread_equal(__atomic_load_n(&hub->holder, __ATOMIC_RELAXED), pthread_self())) {
        mailbox_wait(hub->turn, -1);
    }
    hub->holds++;
}

void hub_release(struct hub *hub)
{
    if (--hub->holds == 0) {
        __atomic_store_n(&hub->holder, (pthread_t)0, __ATOMIC_RELAXED);
        mailbox_send(hub->turn, &hub->token);
    }
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
struct errand {
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

static void errand_deliver(struct letter *letter, void *owner)
{
    struct errand *e = list_entry(letter, struct errand, letter);
    e->code = e->fn(owner, e->arg, &e->err);
    mailbox_send(e->waiter, &e->answer);
}

static void errand_drop(struct letter *letter)
{
    struct errand *e = list_entry(letter, struct errand, letter);
    e->code = tidings_fail(&e->err, TIDINGS_E_CLOSED, "the server is stopping");
    mailbox_send(e->waiter, &e->answer);
}

static int wait_for(struct errand *e, bool *answered, struct tidings_error *err)
{
    while (!*answered) {
        mailbox_wait(e->waiter, -1);
    }
    if (e->code < 0 && err) {
        *err = e->err;
    }
    return e->code;
}

int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err)
{
    if (hub_is_here(hub)) {
        return fn(hub, arg, err);
    }
    bool answered = false;
    struct errand e = {.fn = fn, .arg = arg};
    e.letter.deliver = errand_deliver;
    e.letter.drop = errand_drop;
    e.answer.deliver = answer_deliver;
    e.answer.drop = token_drop;
    e.waiter = mailbox_create_blocking(&answered, err);
    if (!e.waiter) {
        return TIDINGS_E_NOMEM;
    }
    int rc = 0;
    hub_hold(hub);
    if (!is_running(hub)) {
        rc = fn(hub, arg, err);
        hub_release(hub);
    } else {
        mailbox_send(hub->mailbox, &e.letter);
        hub_release(hub);
        rc = wait_for(&e, &answered, err);
    }
    mailbox_close(e.waiter);
    mailbox_unref(e.waiter);
    return rc;
}
