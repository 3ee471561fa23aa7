/* SPDX-License-Identifier: MIT
 *
 * The hub begins and ends; hands rates and rules to all workers; and reads from the log what
 * changed since a cursor, for those who come back.
 */
#include "delivery/hub.h"

#include "access/allowance.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/hub_private.h"
#include "delivery/options.h"
#include "handler/task.h"
#include "store/change.h"
#include "store/sqlite_file_history.h"

#define POOL_THREADS 2u
#define POOL_WAITING 1024u

/* ---- rates: to the hub first, which knows all workers ---------------------------------------- */

struct rate_letter {
    struct letter letter;
    uint64_t ms;
    struct tidings_str uri;
};

static void rate_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct rate_letter, letter));
}

static struct rate_letter *rate_create(struct tidings_str uri, uint64_t ms,
                                       void (*deliver)(struct letter *, void *))
{
    struct rate_letter *l = mem_zalloc(sizeof(*l) + uri.len);
    if (l) {
        char *at = (char *)(l + 1);
        l->letter.deliver = deliver;
        l->letter.drop = rate_drop;
        l->ms = ms;
        l->uri = str_pack(&at, uri);
    }
    return l;
}

static void rate_on_worker(struct letter *letter, void *owner)
{
    struct rate_letter *l = list_entry(letter, struct rate_letter, letter);
    delivery_set_rate(owner, l->uri, l->ms);
    mem_free(l);
}

static void rate_on_hub(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct rate_letter *l = list_entry(letter, struct rate_letter, letter);
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rate_letter *copy = rate_create(l->uri, l->ms, rate_on_worker);
        if (copy) {
            mailbox_send(hub->workers[i]->mailbox, &copy->letter);
        }
    }
    mem_free(l);
}

int hub_set_rate(struct hub *hub, struct tidings_str uri, uint64_t ms, struct tidings_error *err)
{
    struct rate_letter *l = rate_create(uri, ms, rate_on_hub);
    if (!l) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mailbox_send(hub->mailbox, &l->letter);
    return 0;
}

/* ---- rules of subscriptions ------------------------------------------------------------------ */

struct rules_letter {
    struct letter letter;
    struct option_rules *rules;
};

static void rules_drop(struct letter *letter)
{
    struct rules_letter *l = list_entry(letter, struct rules_letter, letter);
    option_rules_unref(l->rules);
    mem_free(l);
}

static void rules_deliver(struct letter *letter, void *owner)
{
    struct rules_letter *l = list_entry(letter, struct rules_letter, letter);
    delivery_set_rules(owner, option_rules_ref(l->rules));
    rules_drop(letter);
}

int hub_set_rules(struct hub *hub, struct option_rules *rules, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rules_letter *l = mem_zalloc(sizeof(*l));
        if (!l) {
            rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            continue;
        }
        l->letter.deliver = rules_deliver;
        l->letter.drop = rules_drop;
        l->rules = option_rules_ref(rules);
        mailbox_send(hub->workers[i]->mailbox, &l->letter);
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

static void catchup_returned(struct letter *letter, void *owner)
{
    struct hub_catchup *c = list_entry(letter, struct hub_catchup, letter);
    c->done(c, owner);
}

static void catchup_drop(struct letter *letter)
{
    hub_catchup_free(list_entry(letter, struct hub_catchup, letter));
}

static void catchup_deliver(struct letter *letter, void *owner)
{
    struct hub_catchup *c = list_entry(letter, struct hub_catchup, letter);
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
    c->letter.deliver = catchup_returned;
    mailbox_send(c->worker_mailbox, &c->letter);
}

struct hub_catchup *hub_catchup(struct worker *worker, uint64_t since,
                                void (*done)(struct hub_catchup *, struct worker *), void *user)
{
    struct hub_catchup *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->letter.deliver = catchup_deliver;
    c->letter.drop = catchup_drop;
    c->hub = worker->hub;
    c->worker_mailbox = mailbox_ref(worker->mailbox);
    c->done = done;
    c->user = user;
    c->since = since;
    mailbox_send(worker->hub->mailbox, &c->letter);
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

/* ---- what providers announce ----------------------------------------------------------------- */

static struct hub *host_hub(const struct provider_host *host)
{
    return (struct hub *)((uintptr_t)host - offsetof(struct hub, host));
}

static int host_changed(const struct provider_host *host, const struct tidings_provider *p,
                        const struct tidings_change *change, struct tidings_error *err)
{
    struct hub *hub = host_hub(host);
    return provider_nodes(p) == MOUNT_OWNED ? hub_announce_owned(hub, p, change, err)
                                            : hub_announce(hub, change, err);
}

static void host_missed(const struct provider_host *host, const struct tidings_provider *p)
{
    struct hub *hub = host_hub(host);
    if (provider_nodes(p) == MOUNT_OWNED) {
        (void)hub_announce_owned(hub, p, NULL, NULL);
    } else {
        hub_announce_missed(hub, p->prefix);
    }
}

/* ---- begin and end --------------------------------------------------------------------------- */

struct hub *hub_create(struct loop *loop, struct tidings_error *err)
{
    struct hub *hub = mem_zalloc(sizeof(*hub));
    if (!hub) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hub->loop = loop;
    hub->max_announced = HUB_MAX_ANNOUNCED;
    map_init(&hub->watches);
    limit_counters_init(&hub->limit_counters);
    hub->quotas = quotas_create(&hub->limit_counters);
    hub->allowances = allowances_create();
    hub->tasks = tasks_create(&hub->limit_counters);
    hub->mailbox = mailbox_create(loop, hub, err);
    hub->pool = pool_create(POOL_THREADS, POOL_WAITING, err);
    hub->host = (struct provider_host){host_changed, host_missed, loop, hub->pool};
    bool has_lists = hub_lists_open(hub);
    hub->watch_timer = loop_timer_open(loop, hub_watch_timer, hub);
    hub->parked_timer = loop_timer_open(loop, hub_announce_timer, hub);
    hub->await_timer = loop_timer_open(loop, hub_watch_await_timer, hub);
    list_init(&hub->awaiting);
    list_init(&hub->asking);
    list_init(&hub->asked);
    list_init(&hub->parked);
    bool merges = hub_merge_init(&hub->merge) == 0;
    list_init(&hub->arming);
    hub->catalog = catalog_derive(NULL, NULL, NULL, STR_EMPTY);
    if (!hub->mailbox || !hub->pool || !has_lists || !hub->watch_timer || !hub->parked_timer ||
        !hub->await_timer || !merges || !hub->catalog || !hub->quotas || !hub->allowances ||
        !hub->tasks || hub_hold_init(hub, err) < 0) {
        hub_destroy(hub);
        return NULL;
    }
    return hub;
}

int hub_start(struct hub *hub, const struct hub_options *options, struct tidings_error *err)
{
    hub->options = *options;
    if (options->max_announced > 0) {
        __atomic_store_n(&hub->max_announced, options->max_announced, __ATOMIC_RELAXED);
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
    __atomic_store_n(&hub->reached, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&hub->lost_upto, 0, __ATOMIC_SEQ_CST);
    hub_set_store_unreachable(hub, false);
}

void hub_destroy(struct hub *hub)
{
    if (!hub) {
        return;
    }
    if (hub->pool) {
        pool_destroy(hub->pool);
    }
    for (size_t i = 0; hub->catalog && i < hub->catalog->mount_count; i++) {
        provider_destroy(hub->catalog->mounts[i]);
    }
    if (hub->mailbox) {
        mailbox_close(hub->mailbox);
        mailbox_unref(hub->mailbox);
    }
    hub_announce_drop_parked(hub);
    hub_merge_deinit(&hub->merge);
    hub_hold_deinit(hub);
    hub_watches_clear(hub);
    map_deinit(&hub->watches);
    hub_lists_close(hub);
    loop_timer_close(hub->watch_timer);
    loop_timer_close(hub->parked_timer);
    loop_timer_close(hub->await_timer);
    catalog_unref(hub->catalog);
    if (hub->log) {
        hub->log->ops->destroy(hub->log);
    }
    quotas_destroy(hub->quotas);
    tasks_destroy(hub->tasks); /* they hold accounts */
    allowances_destroy(hub->allowances);
    explicit_bzero(&hub->seal, sizeof(hub->seal));
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

uint64_t hub_reached(const struct hub *hub)
{
    return __atomic_load_n(&hub->reached, __ATOMIC_ACQUIRE);
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

struct catalog *hub_catalog(struct hub *hub)
{
    return catalog_ref(hub->catalog);
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

void hub_forward(struct hub *hub, struct letter *letter)
{
    if (hub->worker_count > 0) {
        mailbox_send(hub->workers[0]->mailbox, letter);
    } else {
        letter->drop(letter);
    }
}
