/* SPDX-License-Identifier: MIT
 *
 * Watches that the hub requested from providers, on behalf of subscriptions: one per scope, counted
 * over all workers. The provider is called for the first request of a scope and after the last
 * release; requests that arrive while the watch is starting wait with the first.
 *
 *     (none) --first need--> STARTING --done--> STARTED --last leaves--> (none)
 *                               \--refused--> (none), the waiting requests fail
 *
 * A request that has waited for hub_options.watch_timeout_ms fails. The watch continues to start,
 * because other requests may wait for it. If it is no longer needed when it has started, it is
 * released.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub_internal.h"
#include "formats/uri.h"

/* ---------------------------------------------------------------------------------------------- */

struct hub_watches {
    struct map by_scope;
    struct list starting; /* watches with waiting requests */
    struct loop_timer *timer;
    struct list
        awaiting; /* struct hub_watch_request that wait for a position, in order of arrival */
    struct loop_timer *await_timer;
    struct list asking, asked; /* requests for the newest store position: next query, this one */
    bool is_asking;
    struct thread_message newest; /* the answer, on its way … */
    int newest_code;
    uint64_t newest_position; /* … and its position */
    struct tidings_error newest_err;
    hub_ask_newest_fn ask_newest; /* atomic; NULL: nodes do not share the store */
    void *ask_newest_user;
};

struct waiter {
    struct list link;
    struct hub_watch_request *request;
    size_t index;
    uint64_t due_ms;
};

struct tidings_watch {
    struct thread_message message;
    struct hub *hub;
    struct tidings_provider *provider; /* its watch and unwatch are called, … */
    struct watch_hook *hook;           /* … or those of the hook (a reference), if there is one */
    struct tidings_str scope;          /* as in `watches` … */
    struct tidings_str uri;            /* … and as the provider or hook gets it */
    struct list starting_link;         /* in hub->watches->starting while a request waits */
    size_t needs;
    bool started;
    int code;
    struct tidings_error err;
    struct list waiters;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void watch_request_returned(struct thread_message *message, void *owner)
{
    struct hub_watch_request *request = list_entry(message, struct hub_watch_request, message);
    request->done(request, request->is_owners ? NULL : owner);
}

static void watch_request_dropped(struct hub_watch_request *request)
{
    if (request->dropped) {
        request->dropped(request);
    }
    hub_watch_request_free(request);
}

static void watch_request_drop(struct thread_message *message)
{
    watch_request_dropped(list_entry(message, struct hub_watch_request, message));
}

/* Sends it back to its worker. */
static void hub_watch_return(struct hub_watch_request *request)
{
    struct changelog *log = request->hub->log;
    list_remove(&request->await_link);
    request->seq = log->ops->last(log);
    request->message.deliver = watch_request_returned;
    mailbox_send(request->worker_mailbox, &request->message);
}

/* Returns true if this node has reached the positions that the request awaits. */
static bool watch_request_is_applied(const struct hub *hub, const struct hub_watch_request *request)
{
    bool is_known = !hub->options.is_shared || request->await <= hub->applied;
    for (unsigned i = 0; hub->options.is_shared && is_known && i < request->await_count; i++) {
        is_known = hub_knows_epoch(hub, request->await_incarnations[i].epoch,
                                   request->await_incarnations[i].position);
    }
    return is_known;
}

/* One of its scopes is answered; after the last one the request is sent back, or waits for a
 * position. */
static void hub_watch_countdown(struct hub_watch_request *request)
{
    struct hub *hub = request->hub;
    if (--request->pending > 0) {
        return;
    }
    if (watch_request_is_applied(hub, request)) {
        hub_watch_return(request);
        return;
    }
    request->await_due_ms = loop_now_ms(hub->loop) + HUB_AWAIT_MS;
    list_append(&hub->watches->awaiting, &request->await_link);
    if (!loop_timer_is_running(hub->watches->await_timer)) {
        loop_timer_start(hub->watches->await_timer, HUB_AWAIT_MS, 0);
    }
}

void hub_watch_applied(struct hub *hub)
{
    list_each (it, next, &hub->watches->awaiting) {
        struct hub_watch_request *request = list_entry(it, struct hub_watch_request, await_link);
        if (watch_request_is_applied(hub, request)) {
            hub_watch_return(request);
        }
    }
}

static void hub_watch_await_timer(struct loop_timer *timer, void *user)
{
    struct hub *hub = user;
    mailbox_drain(hub->mailbox); /* this thread itself may be late */
    uint64_t now = loop_now_ms(hub->loop);
    while (!list_empty(&hub->watches->awaiting)) {
        struct hub_watch_request *request =
            list_entry(hub->watches->awaiting.next, struct hub_watch_request, await_link);
        if (request->await_due_ms > now) {
            loop_timer_start(timer, request->await_due_ms - now, 0);
            return;
        }
        hub_watch_return(request);
    }
}

/* `err` NULL: watched, or nothing to watch. */
static void watch_request_answer(struct hub_watch_request *request, size_t index, bool watched,
                                 const struct tidings_error *err)
{
    int code = err ? err->code : 0;
    request->items[index].code = code;
    request->items[index].watched = watched && code == 0;
    if (code < 0) {
        request->items[index].err = *err;
    }
    hub_watch_countdown(request);
}

static void watch_free(struct tidings_watch *w)
{
    map_remove(&w->hub->watches->by_scope, w->scope);
    list_remove(&w->starting_link);
    watch_hook_unref(w->hook);
    mem_free(w);
}

/* The last subscription that needed it is gone. */
static void hub_watch_release(struct tidings_watch *w)
{
    if (w->hook) {
        if (w->hook->unwatch) {
            w->hook->unwatch(w->hook->user, w->uri);
        }
    } else {
        w->provider->ops->unwatch(w->provider, w->uri);
    }
    watch_free(w);
}

static void watch_answered(struct thread_message *message, void *owner)
{
    (void)owner;
    struct tidings_watch *w = list_entry(message, struct tidings_watch, message);
    w->started = w->code >= 0;
    list_each (it, next, &w->waiters) {
        struct waiter *waiter = list_entry(it, struct waiter, link);
        watch_request_answer(waiter->request, waiter->index, true, w->started ? NULL : &w->err);
        list_remove(it);
        mem_free(waiter);
    }
    list_remove(&w->starting_link);
    if (!w->started) {
        watch_free(w);
    } else if (w->needs == 0) { /* all were released while it was starting */
        hub_watch_release(w);
    }
}

static void watch_dropped(struct thread_message *message)
{
    (void)message; /* the hub is being destroyed; hub_watches_close frees it */
}

/* Uses the mailbox even on the hub's own thread: changes announced before this call are numbered
 * before the answer. */
void tidings_watch_done(struct tidings_watch *w, int code, const struct tidings_error *err)
{
    w->code = code;
    if (code < 0) {
        if (err && err->text[0]) {
            w->err = *err;
        } else {
            tidings_fail(&w->err, code, "%s", tidings_code_text(code));
        }
    }
    w->message.deliver = watch_answered;
    w->message.drop = watch_dropped;
    mailbox_send(w->hub->mailbox, &w->message);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Fails the overdue requests of `w`. Returns the next deadline if it is before `next_due`,
 * otherwise `next_due`. */
static uint64_t refuse_overdue(struct tidings_watch *w, uint64_t now, uint64_t next_due)
{
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_TIMEOUT,
                 "the provider did not say within %llu ms that it watches this; try "
                 "again later",
                 (unsigned long long)w->hub->options.watch_timeout_ms);
    list_each (it, next, &w->waiters) {
        struct waiter *waiter = list_entry(it, struct waiter, link);
        if (waiter->due_ms > now) {
            return waiter->due_ms < next_due ? waiter->due_ms : next_due;
        }
        watch_request_answer(waiter->request, waiter->index, false, &err);
        w->needs--;
        list_remove(it);
        mem_free(waiter);
    }
    list_remove(&w->starting_link);
    return next_due;
}

static void hub_watch_timer(struct loop_timer *timer, void *user)
{
    struct hub *hub = user;
    mailbox_drain(hub->mailbox); /* this thread itself may be late: answers that arrived count */
    uint64_t now = loop_now_ms(hub->loop), next_due = UINT64_MAX;
    list_each (it, next, &hub->watches->starting) {
        next_due =
            refuse_overdue(list_entry(it, struct tidings_watch, starting_link), now, next_due);
    }
    if (next_due != UINT64_MAX) {
        loop_timer_start(timer, next_due - now, 0);
    }
}

/* ---- watching -------------------------------------------------------------------------------- */

static int add_waiter(struct tidings_watch *w, struct hub_watch_request *request, size_t index)
{
    struct waiter *waiter = mem_zalloc(sizeof(*waiter));
    if (!waiter) {
        return TIDINGS_E_NOMEM;
    }
    waiter->request = request;
    waiter->index = index;
    list_append(&w->waiters, &waiter->link);
    struct hub *hub = w->hub;
    if (hub->options.watch_timeout_ms > 0 && !request->is_owners) {
        waiter->due_ms = loop_now_ms(hub->loop) + hub->options.watch_timeout_ms;
        if (list_empty(&w->starting_link)) {
            list_append(&hub->watches->starting, &w->starting_link);
        }
        if (!loop_timer_is_running(hub->watches->timer)) {
            loop_timer_start(hub->watches->timer, hub->options.watch_timeout_ms, 0);
        }
    }
    return 0;
}

static struct tidings_watch *watch_create(struct hub *hub, struct tidings_provider *p,
                                          struct tidings_str scope)
{
    struct tidings_watch *w = mem_zalloc(sizeof(*w) + scope.len);
    if (!w) {
        return NULL;
    }
    char *at = (char *)(w + 1);
    w->hub = hub;
    w->provider = p;
    w->scope = w->uri = str_pack(&at, scope);
    list_init(&w->waiters);
    list_init(&w->starting_link);
    if (map_put(&hub->watches->by_scope, w->scope, w, NULL) < 0) {
        mem_free(w);
        return NULL;
    }
    return w;
}

static int watch_begin(struct hub *hub, struct tidings_provider *p, struct watch_hook *hook,
                       struct hub_watch_request *request, size_t index)
{
    struct tidings_watch *w = watch_create(hub, p, request->items[index].scope);
    if (!w) {
        return TIDINGS_E_NOMEM;
    }
    if (add_waiter(w, request, index) < 0) {
        watch_free(w);
        return TIDINGS_E_NOMEM;
    }
    w->needs = 1;
    if (request->is_owners) {
        w->uri = str_skip(w->scope, 1);
    }
    if (hook) {
        w->hook = watch_hook_ref(hook);
        hook->watch(hook->user, w, w->uri);
    } else {
        p->ops->watch(p, w, w->uri);
    }
    return 0;
}

/* Finds the provider or hook to call for `scope`, if any. */
static bool find_watcher(struct hub *hub, struct tidings_str scope, struct tidings_provider **p,
                         struct watch_hook **hook)
{
    const struct catalog *c = hub_current_catalog(hub);
    struct catalog_hit hit;
    struct arena scratch; /* for the variables of a template */
    *p = NULL;
    *hook = c->hooks.count > 0 ? watch_hooks_find(&c->hooks, scope) : NULL;
    if (*hook) {
        return true;
    }
    arena_init(&scratch, 8 * URI_MAX);
    bool found = catalog_find(c, scope, &scratch, &hit);
    arena_deinit(&scratch);
    if (found && hit.entry && c->hooks.count > 0) {
        *hook = watch_hooks_find(&c->hooks, hit.entry->about->uri);
    }
    *p = found ? hit.provider : NULL;
    bool is_owned = *p && (*p)->nodes == MOUNT_OWNED; /* one node watches the whole mount */
    return *hook || (*p && (*p)->ops->watch && !is_owned);
}

/* A whole mount that this node owns. Its scope starts with a '*', which no URI does, so it does not
 * collide with subscriptions. */
static bool find_owned(struct hub *hub, struct tidings_str scope, struct tidings_provider **p)
{
    *p = catalog_mount(hub_current_catalog(hub), str_skip(scope, 1));
    return *p && (*p)->ops->watch;
}

static void watch_one(struct hub *hub, struct hub_watch_request *request, size_t index)
{
    struct tidings_str scope = request->items[index].scope;
    struct tidings_watch *w = map_find(&hub->watches->by_scope, scope);
    if (w && w->started) {
        w->needs++;
        watch_request_answer(request, index, true, NULL);
        return;
    }
    struct tidings_provider *p = NULL;
    struct watch_hook *hook = NULL;
    bool is_found = w || (request->is_owners ? find_owned(hub, scope, &p)
                                             : find_watcher(hub, scope, &p, &hook));
    if (!is_found) {
        watch_request_answer(request, index, false, NULL); /* its changes need no watch */
        return;
    }
    int rc = 0;
    if (w) {
        rc = add_waiter(w, request, index);
        w->needs += rc == 0;
    } else {
        rc = watch_begin(hub, p, hook, request, index);
    }
    if (rc < 0) {
        struct tidings_error err;
        tidings_fail(&err, rc, "out of memory");
        watch_request_answer(request, index, false, &err);
    }
}

static void hub_newest_ask(struct hub *hub);

static void watch_request_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct hub_watch_request *request = list_entry(message, struct hub_watch_request, message);
    request->pending =
        request->count + 1; /* one for this loop, so that the loop ends before the answer is sent */
    for (size_t i = 0; i < request->count; i++) {
        watch_one(hub, request, i);
    }
    if (request->asks_newest && hub->watches->ask_newest) { /* it has no scopes */
        list_append(&hub->watches->asking, &request->await_link);
        hub_newest_ask(hub);
        return;
    }
    hub_watch_countdown(request);
}

static struct hub_watch_request *hub_watch_request_make(struct hub *hub, struct mailbox *reply_to,
                                                        const struct tidings_str *scopes,
                                                        size_t count)
{
    size_t text = 0;
    for (size_t i = 0; i < count; i++) {
        text += scopes[i].len;
    }
    struct hub_watch_request *request =
        mem_zalloc(sizeof(*request) + count * sizeof(request->items[0]) + text);
    if (!request) {
        return NULL;
    }
    char *at = (char *)&request->items[count];
    for (size_t i = 0; i < count; i++) {
        memcpy(at, scopes[i].ptr, scopes[i].len);
        request->items[i].scope = tidings_strn(at, scopes[i].len);
        at += scopes[i].len;
    }
    request->count = count;
    list_init(&request->await_link);
    request->hub = hub;
    request->worker_mailbox = mailbox_ref(reply_to); /* the worker may end before the answer */
    request->message.deliver = watch_request_deliver;
    request->message.drop = watch_request_drop;
    return request;
}

/* To be freed; if out of memory, its text is NULL. */
static struct tidings_str owners_scope(struct tidings_str prefix)
{
    char *text = mem_alloc(prefix.len + 1);
    if (text) {
        text[0] = '*';
        memcpy(text + 1, prefix.ptr, prefix.len);
    }
    return tidings_strn(text, text ? prefix.len + 1 : 0);
}

struct hub_watch_request *hub_watch_request_create(struct worker *worker,
                                                   const struct tidings_str *scopes, size_t count)
{
    return hub_watch_request_make(worker->hub, worker->mailbox, scopes, count);
}

struct hub_watch_request *hub_watch_request_create_owners(struct hub *hub,
                                                          struct tidings_str prefix)
{
    struct tidings_str scope = owners_scope(prefix);
    struct hub_watch_request *request =
        scope.ptr ? hub_watch_request_make(hub, hub->mailbox, &scope, 1) : NULL;
    if (request) {
        request->is_owners = true;
    }
    mem_free((char *)(uintptr_t)scope.ptr);
    return request;
}

/* Records known incarnations too: a change followed until then may declare one dead. */
void hub_watch_request_await(struct hub_watch_request *request, const struct log_cursor *at)
{
    if (!at->has_position || at->epoch == hub_epoch(request->hub)) {
        return;
    }
    request->await = at->position > request->await ? at->position : request->await;
    unsigned i = 0;
    while (i < request->await_count && request->await_incarnations[i].epoch != at->epoch) {
        i++;
    }
    if (i == request->await_count && i < HUB_AWAIT_INCARNATIONS) {
        request->await_incarnations[request->await_count++].epoch = at->epoch;
    }
    if (i < HUB_AWAIT_INCARNATIONS && at->position > request->await_incarnations[i].position) {
        request->await_incarnations[i].position = at->position;
    }
}

void hub_watch_request_send(struct hub_watch_request *request)
{
    mailbox_send(request->hub->mailbox, &request->message);
}

void hub_watch_request_free(struct hub_watch_request *request)
{
    mailbox_unref(request->worker_mailbox);
    mem_free(request);
}

/* ---- releasing ------------------------------------------------------------------------------- */

struct unwatch_message {
    struct thread_message message;
    struct tidings_str scope;
};

static void unwatch_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct unwatch_message *l = list_entry(message, struct unwatch_message, message);
    struct tidings_watch *w = map_find(&hub->watches->by_scope, l->scope);
    if (w && --w->needs == 0 && w->started) {
        hub_watch_release(w);
    }
    mem_free(l);
}

static void unwatch_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct unwatch_message, message));
}

void hub_unwatch(struct hub *hub, struct tidings_str scope)
{
    struct unwatch_message *l = mem_zalloc(sizeof(*l) + scope.len);
    if (!l) {
        return; /* stays watched: costs a watch, loses no change */
    }
    char *copy = (char *)(l + 1);
    memcpy(copy, scope.ptr, scope.len);
    l->scope = tidings_strn(copy, scope.len);
    l->message.deliver = unwatch_deliver;
    l->message.drop = unwatch_drop;
    mailbox_send(hub->mailbox, &l->message);
}

void hub_unwatch_owners(struct hub *hub, struct tidings_str prefix)
{
    struct tidings_str scope = owners_scope(prefix);
    if (scope.ptr) {
        hub_unwatch(hub, scope);
    }
    mem_free((char *)(uintptr_t)scope.ptr);
}

static void hub_watch_drop_waiting(struct list *waiting)
{
    while (waiting->next && !list_empty(waiting)) {
        struct hub_watch_request *request =
            list_entry(waiting->next, struct hub_watch_request, await_link);
        list_remove(&request->await_link);
        watch_request_dropped(request);
    }
}

int hub_watches_open(struct hub *hub, struct tidings_error *err)
{
    struct hub_watches *watches = mem_zalloc(sizeof(*watches));
    if (!watches) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    hub->watches = watches;
    map_init(&watches->by_scope);
    list_init(&watches->starting);
    list_init(&watches->awaiting);
    list_init(&watches->asking);
    list_init(&watches->asked);
    watches->timer = loop_timer_open(hub->loop, hub_watch_timer, hub);
    watches->await_timer = loop_timer_open(hub->loop, hub_watch_await_timer, hub);
    return watches->timer && watches->await_timer
               ? 0
               : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void hub_watches_close(struct hub *hub)
{
    struct hub_watches *watches = hub->watches;
    if (!watches) {
        return;
    }
    hub_watch_drop_waiting(&watches->awaiting);
    hub_watch_drop_waiting(&watches->asking);
    hub_watch_drop_waiting(&watches->asked);
    size_t pos = 0;
    struct tidings_watch *w;
    while ((w = map_next(&watches->by_scope, &pos)) != NULL) {
        list_each (it, next, &w->waiters) {
            struct waiter *waiter = list_entry(it, struct waiter, link);
            if (--waiter->request->pending == 0) {
                watch_request_dropped(waiter->request);
            }
            mem_free(waiter);
        }
        watch_hook_unref(w->hook);
        mem_free(w);
    }
    map_deinit(&watches->by_scope);
    loop_timer_close(watches->timer);
    loop_timer_close(watches->await_timer);
    mem_free(watches);
}

/* -------------------------------------------------------------------------------------------------
 * Queries the shared store for its newest position, on behalf of reads that must include everything
 * their client was notified of (engine/delivery/subscribe.h). Only one query is under way: later
 * reads wait for the next one, because the answer on its way may be older than the read.
 */

static void hub_newest_ask(struct hub *hub)
{
    hub_ask_newest_fn ask = __atomic_load_n(&hub->watches->ask_newest, __ATOMIC_ACQUIRE);
    if (ask && !hub->watches->is_asking && !list_empty(&hub->watches->asking)) {
        hub->watches->is_asking = true;
        list_splice(&hub->watches->asked, &hub->watches->asking);
        ask(hub->watches->ask_newest_user);
    }
}

static void hub_newest_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct list asked;
    (void)message;
    list_init(&asked);
    list_splice(&asked, &hub->watches->asked);
    hub->watches->is_asking = false;
    while (!list_empty(&asked)) {
        struct hub_watch_request *request =
            list_entry(asked.next, struct hub_watch_request, await_link);
        list_remove(&request->await_link);
        request->newest_code = hub->watches->newest_code;
        request->newest_err = hub->watches->newest_err;
        if (hub->watches->newest_code < 0) {
            hub_watch_return(request);
            continue;
        }
        request->await = hub->watches->newest_position > request->await
                             ? hub->watches->newest_position
                             : request->await;
        hub_watch_countdown(request);
    }
    hub_newest_ask(hub);
}

void hub_newest_end(struct hub *hub)
{
    list_splice(&hub->watches->asked, &hub->watches->asking);
    while (!list_empty(&hub->watches->asked)) {
        struct hub_watch_request *request =
            list_entry(hub->watches->asked.next, struct hub_watch_request, await_link);
        list_remove(&request->await_link);
        request->newest_code =
            tidings_fail(&request->newest_err, TIDINGS_E_CLOSED, "the server is ending");
        hub_watch_return(request);
    }
}

static void hub_newest_drop(struct thread_message *message)
{
    (void)message; /* part of the hub */
}

void hub_newest(struct hub *hub, int code, uint64_t position, const struct tidings_error *err)
{
    hub->watches->newest_code = code;
    hub->watches->newest_position = position;
    hub->watches->newest_err = code < 0 ? *err : (struct tidings_error){0};
    hub->watches->newest.deliver = hub_newest_deliver;
    hub->watches->newest.drop = hub_newest_drop;
    mailbox_send(hub->mailbox, &hub->watches->newest);
}

void hub_on_ask_newest(struct hub *hub, hub_ask_newest_fn fn, void *user)
{
    if (fn) {
        hub->watches->ask_newest_user = user;
    }
    __atomic_store_n(&hub->watches->ask_newest, fn, __ATOMIC_RELEASE);
}
