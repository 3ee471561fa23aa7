/* SPDX-License-Identifier: MIT
 *
 * The hub: its thread, its log and its workers. It starts and stops, passes rates and rules to all
 * workers, and reads the changes since a cursor from the log for clients that resume.
 */
#include "engine/delivery/hub.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub_internal.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/options.h"
#include "engine/protocol/feature.h"
#include "engine/worker.h"
#include "store/change.h"
#include "store/sqlite_files.h"

/* -------------------------------------------------------------------------------------------------
 * Runs functions on the hub on behalf of any thread, before the hub's own thread runs, while it
 * does, and after.
 *
 * While the hub runs, its thread runs them. While it does not, any thread that holds the hub's
 * mutex (recursive) may act for the hub. A message to a running hub is sent while holding the
 * mutex, and the hub stops while holding it, so that no message reaches a hub that has emptied its
 * mailbox for the last time.
 */

/* ---- holding --------------------------------------------------------------------------------- */

static int hub_hold_init(struct hub *hub, struct tidings_error *err)
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

static void hub_hold_deinit(struct hub *hub)
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
        mailbox_drain(hub->mailbox); /* a thread may wait for the answer */
        hub_announce_resume(hub, true);
        hub_newest_end(hub);
    }
    hub_release(hub);
}

bool hub_send(struct hub *hub, struct thread_message *message)
{
    hub_hold(hub);
    bool running = is_running(hub);
    if (running) {
        mailbox_send(hub->mailbox, message);
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

/* A function to run for another thread, which waits in a blocking mailbox for the result. */
struct hub_task {
    struct thread_message message;
    struct thread_message answer;
    struct mailbox *waiter;
    hub_fn fn;
    void *arg;
    int code;
    struct tidings_error err;
};

static void answer_deliver(struct thread_message *message, void *owner)
{
    (void)message;
    *(bool *)owner = true;
}

static void answer_drop(struct thread_message *message)
{
    (void)message; /* owned by the waiting thread */
}

static void hub_task_deliver(struct thread_message *message, void *owner)
{
    struct hub_task *task = list_entry(message, struct hub_task, message);
    task->code = task->fn(owner, task->arg, &task->err);
    mailbox_send(task->waiter, &task->answer);
}

static void hub_task_drop(struct thread_message *message)
{
    struct hub_task *task = list_entry(message, struct hub_task, message);
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
    task.message.deliver = hub_task_deliver;
    task.message.drop = hub_task_drop;
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
        mailbox_send(hub->mailbox, &task.message);
        hub_release(hub);
        rc = wait_for(&task, &answered, err);
    }
    mailbox_close(task.waiter);
    mailbox_unref(task.waiter);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- rates: to the hub first, which knows all workers ---------------------------------------- */

struct rate_message {
    struct thread_message message;
    uint64_t ms;
    struct tidings_str uri;
};

static void rate_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct rate_message, message));
}

static struct rate_message *rate_create(struct tidings_str uri, uint64_t ms,
                                        void (*deliver)(struct thread_message *, void *))
{
    struct rate_message *l = mem_zalloc(sizeof(*l) + uri.len);
    if (l) {
        char *at = (char *)(l + 1);
        l->message.deliver = deliver;
        l->message.drop = rate_drop;
        l->ms = ms;
        l->uri = str_pack(&at, uri);
    }
    return l;
}

static void rate_on_worker(struct thread_message *message, void *owner)
{
    struct rate_message *l = list_entry(message, struct rate_message, message);
    delivery_set_rate(owner, l->uri, l->ms);
    mem_free(l);
}

static void rate_on_hub(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct rate_message *l = list_entry(message, struct rate_message, message);
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rate_message *copy = rate_create(l->uri, l->ms, rate_on_worker);
        if (copy) {
            mailbox_send(hub->workers[i]->mailbox, &copy->message);
        }
    }
    mem_free(l);
}

int hub_set_rate(struct hub *hub, struct tidings_str uri, uint64_t ms, struct tidings_error *err)
{
    struct rate_message *l = rate_create(uri, ms, rate_on_hub);
    if (!l) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mailbox_send(hub->mailbox, &l->message);
    return 0;
}

/* ---- subscription rules ---------------------------------------------------------------------- */

struct rules_message {
    struct thread_message message;
    struct option_rules *rules;
};

static void rules_drop(struct thread_message *message)
{
    struct rules_message *l = list_entry(message, struct rules_message, message);
    option_rules_unref(l->rules);
    mem_free(l);
}

static void rules_deliver(struct thread_message *message, void *owner)
{
    struct rules_message *l = list_entry(message, struct rules_message, message);
    delivery_set_rules(owner, option_rules_ref(l->rules));
    rules_drop(message);
}

int hub_set_rules(struct hub *hub, struct option_rules *rules, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rules_message *l = mem_zalloc(sizeof(*l));
        if (!l) {
            rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            continue;
        }
        l->message.deliver = rules_deliver;
        l->message.drop = rules_drop;
        l->rules = option_rules_ref(rules);
        mailbox_send(hub->workers[i]->mailbox, &l->message);
    }
    return rc;
}

/* ---- catching up ----------------------------------------------------------------------------- */

static bool hub_collect(void *user, const struct changelog_row *row)
{
    struct hub_catchup *c = user;
    c->changes[c->count] = *row;
    c->changes[c->count++].change = change_ref(row->change);
    return true;
}

static bool count_one(void *user, const struct changelog_row *row)
{
    (void)row;
    ++*(size_t *)user;
    return true;
}

static void catchup_returned(struct thread_message *message, void *owner)
{
    struct hub_catchup *c = list_entry(message, struct hub_catchup, message);
    c->done(c, owner);
}

static void catchup_drop(struct thread_message *message)
{
    hub_catchup_free(list_entry(message, struct hub_catchup, message));
}

static void catchup_deliver(struct thread_message *message, void *owner)
{
    struct hub_catchup *c = list_entry(message, struct hub_catchup, message);
    struct hub *hub = owner;
    struct changelog *log = hub->log;
    c->seq = log->ops->last(log);
    c->truncated = c->since < log->ops->floor(log) || c->since > c->seq;
    size_t found = 0;
    if (!c->truncated) {
        log->ops->each(log, c->since, count_one, &found);
    }
    if (found > 0) {
        c->changes = mem_alloc(found * sizeof(*c->changes));
        if (c->changes) {
            log->ops->each(log, c->since, hub_collect, c);
        } else {
            c->truncated = true;
        }
    }
    c->message.deliver = catchup_returned;
    mailbox_send(c->worker_mailbox, &c->message);
}

struct hub_catchup *hub_catchup(struct worker *worker, uint64_t since,
                                void (*done)(struct hub_catchup *, struct worker *), void *user)
{
    struct hub_catchup *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->message.deliver = catchup_deliver;
    c->message.drop = catchup_drop;
    c->hub = worker->hub;
    c->worker_mailbox = mailbox_ref(worker->mailbox);
    c->done = done;
    c->user = user;
    c->since = since;
    mailbox_send(worker->hub->mailbox, &c->message);
    return c;
}

void hub_catchup_free(struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        change_unref(c->changes[i].change);
    }
    mem_free(c->changes);
    mailbox_unref(c->worker_mailbox);
    mem_free(c);
}

/* ---- start and end --------------------------------------------------------------------------- */

struct hub *hub_create(struct loop *loop, struct shared *shared, struct tidings_error *err)
{
    struct hub *hub = mem_zalloc(sizeof(*hub));
    if (!hub) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hub->loop = loop;
    hub->shared = shared;
    hub->mailbox = mailbox_create(loop, hub, err);
    if (!hub->mailbox || hub_hold_init(hub, err) < 0 || hub_registry_open(hub, err) < 0 ||
        hub_announcing_open(hub, err) < 0 || hub_watches_open(hub, err) < 0) {
        hub_destroy(hub);
        return NULL;
    }
    return hub;
}

int hub_start(struct hub *hub, const struct hub_options *options, struct tidings_error *err)
{
    hub->options = *options;
    if (options->max_announced > 0) {
        hub_announcing_set_max(hub, options->max_announced);
    }
    hub->log = options->durable ? options->durable : changelog_memory_create(&options->log, err);
    return hub->log ? 0 : TIDINGS_E_NOMEM;
}

void hub_undo_start(struct hub *hub)
{
    __atomic_fetch_add(&hub->undone, 1, __ATOMIC_RELAXED);
    if (hub->log) {
        hub->log->ops->destroy(hub->log);
        hub->log = NULL;
    }
    __atomic_store_n(&hub->applied, 0, __ATOMIC_RELEASE);
    hub_announcing_forget_lost(hub);
    hub_set_store_unreachable(hub, false);
}

void hub_destroy(struct hub *hub)
{
    if (!hub) {
        return;
    }
    hub_registry_close_providers(hub);
    if (hub->mailbox) {
        mailbox_close(hub->mailbox);
        mailbox_unref(hub->mailbox);
    }
    hub_announcing_close(hub);
    hub_hold_deinit(hub);
    hub_watches_close(hub);
    hub_registry_close(hub);
    if (hub->log) {
        hub->log->ops->destroy(hub->log);
    }
    mem_free(hub->workers);
    mem_free(hub);
}

uint64_t hub_epoch(const struct hub *hub)
{
    return hub->log->ops->epoch(hub->log);
}

uint64_t hub_last(const struct hub *hub)
{
    return hub->log->ops->last(hub->log);
}

bool hub_is_durable(const struct hub *hub)
{
    return hub->log->is_durable;
}

uint64_t hub_first(const struct hub *hub)
{
    return hub->log->ops->first(hub->log);
}

bool hub_is_shared(const struct hub *hub)
{
    return hub->options.is_shared;
}

uint64_t hub_applied(const struct hub *hub)
{
    return __atomic_load_n(&hub->applied, __ATOMIC_ACQUIRE);
}

void hub_set_store_unreachable(struct hub *hub, bool is_unreachable)
{
    __atomic_store_n(&hub->is_store_unreachable, is_unreachable, __ATOMIC_RELEASE);
}

bool hub_is_store_unreachable(const struct hub *hub)
{
    return __atomic_load_n(&hub->is_store_unreachable, __ATOMIC_ACQUIRE);
}

bool hub_resume(const struct hub *hub, const struct log_cursor *c, bool is_durable, uint64_t *ret)
{
    return hub->log->ops->resume(hub->log, c->epoch, c->position, is_durable, ret);
}

bool hub_knows_epoch(const struct hub *hub, uint64_t epoch, uint64_t position)
{
    return epoch == 0 || !hub->log->ops->knows || hub->log->ops->knows(hub->log, epoch, position);
}

void hub_set_file_history(struct hub *hub, const struct file_history *history)
{
    hub->file_history = history;
}

bool hub_resume_files(const struct hub *hub, struct tidings_str scope, const struct log_cursor *c,
                      uint64_t *ret)
{
    const struct file_cursor at = {.epoch = c->epoch, .number = c->seq, .position = c->position};
    return hub->file_history && file_history_resume(hub->file_history, scope, &at, ret);
}

const struct changelog *hub_log(const struct hub *hub)
{
    return hub->log;
}

struct mailbox *hub_mailbox(struct hub *hub)
{
    return hub->mailbox;
}

int hub_attach(struct hub *hub, struct worker *worker)
{
    struct worker **workers =
        mem_realloc(hub->workers, (hub->worker_count + 1) * sizeof(struct worker *));
    if (!workers) {
        return TIDINGS_E_NOMEM;
    }
    hub->workers = workers;
    hub->workers[hub->worker_count++] = worker;
    return 0;
}

size_t hub_worker_count(const struct hub *hub)
{
    return hub->worker_count;
}

struct worker *hub_worker(const struct hub *hub, size_t index)
{
    return hub->workers[index];
}

void hub_detach_all(struct hub *hub)
{
    hub->worker_count = 0;
}

void hub_forward(struct hub *hub, struct thread_message *message)
{
    if (hub->worker_count > 0) {
        mailbox_send(hub->workers[0]->mailbox, message);
    } else {
        message->drop(message);
    }
}
