/* SPDX-License-Identifier: MIT
 *
 * Watches that the hub has asked providers for, on behalf of subscriptions: one per scope, counted
 * over all workers. The provider hears of the first who needs it and of the last who leaves; those
 * who come while it is arming wait with the first.
 *
 *     (none) --first need--> ARMING --done--> ARMED --last leaves--> (none)
 *                               \--refused--> (none), everybody waiting is told why
 *
 * Who has waited for hub_options.watch_timeout_ms is refused. The watch goes on arming: others may
 * come to wait for it, and when it is done and nobody needs it any more, it is released.
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
    struct list arming; /* watches that somebody waits for */
    struct loop_timer *timer;
    struct list awaiting; /* struct hub_arm that wait for a position, in the order they came */
    struct loop_timer *await_timer;
    struct list asking, asked; /* struct hub_arm that wait for the newest position of the store: for
                                * the next question, and for the answer to this one */
    bool is_asking;
    struct letter newest; /* the answer, on its way … */
    int newest_code;
    uint64_t newest_position; /* … and what it says */
    struct tidings_error newest_err;
    hub_ask_newest_fn ask_newest; /* atomic; NULL: nodes do not share the store */
    void *ask_newest_user;
};

struct waiter {
    struct list link;
    struct hub_arm *arm;
    size_t index;
    uint64_t due_ms;
};

struct tidings_watch {
    struct letter letter;
    struct hub *hub;
    struct tidings_provider *provider; /* its watch and unwatch are called, … */
    struct watch_hook *hook;           /* … unless there is a hook (a reference): then its are */
    struct tidings_str scope;          /* in `watches` … */
    struct tidings_str uri;            /* … and as who watches is told */
    struct list arming_link;           /* in hub->watches->arming while somebody waits */
    size_t needs;
    bool armed;
    int code;
    struct tidings_error err;
    struct list waiters;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void arm_returned(struct letter *letter, void *owner)
{
    struct hub_arm *arm = list_entry(letter, struct hub_arm, letter);
    arm->done(arm, arm->is_owners ? NULL : owner);
}

static void arm_dropped(struct hub_arm *arm)
{
    if (arm->dropped) {
        arm->dropped(arm);
    }
    hub_arm_free(arm);
}

static void arm_drop(struct letter *letter)
{
    arm_dropped(list_entry(letter, struct hub_arm, letter));
}

/* Back to its worker. */
static void hub_watch_return(struct hub_arm *arm)
{
    struct changelog *log = arm->hub->log;
    list_remove(&arm->await_link);
    arm->seq = log->ops->last(log);
    arm->letter.deliver = arm_returned;
    mailbox_send(arm->worker_mailbox, &arm->letter);
}

/* Has this node come as far as whoever asks was at another? */
static bool arm_is_reached(const struct hub *hub, const struct hub_arm *arm)
{
    bool is_known = !hub->options.is_shared || arm->await <= hub->reached;
    for (unsigned i = 0; hub->options.is_shared && is_known && i < arm->await_count; i++) {
        is_known = hub_knows_epoch(hub, arm->await_runs[i].epoch, arm->await_runs[i].position);
    }
    return is_known;
}

/* One of its scopes is answered; after the last it goes back, or waits for a position. */
static void hub_watch_countdown(struct hub_arm *arm)
{
    struct hub *hub = arm->hub;
    if (--arm->pending > 0) {
        return;
    }
    if (arm_is_reached(hub, arm)) {
        hub_watch_return(arm);
        return;
    }
    arm->await_due_ms = loop_now_ms(hub->loop) + HUB_AWAIT_MS;
    list_append(&hub->watches->awaiting, &arm->await_link);
    if (!loop_timer_is_running(hub->watches->await_timer)) {
        loop_timer_start(hub->watches->await_timer, HUB_AWAIT_MS, 0);
    }
}

void hub_watch_reached(struct hub *hub)
{
    list_each (it, next, &hub->watches->awaiting) {
        struct hub_arm *arm = list_entry(it, struct hub_arm, await_link);
        if (arm_is_reached(hub, arm)) {
            hub_watch_return(arm);
        }
    }
}

static void hub_watch_await_timer(struct loop_timer *timer, void *user)
{
    struct hub *hub = user;
    mailbox_drain(hub->mailbox); /* this thread may be late itself */
    uint64_t now = loop_now_ms(hub->loop);
    while (!list_empty(&hub->watches->awaiting)) {
        struct hub_arm *arm = list_entry(hub->watches->awaiting.next, struct hub_arm, await_link);
        if (arm->await_due_ms > now) {
            loop_timer_start(timer, arm->await_due_ms - now, 0);
            return;
        }
        hub_watch_return(arm);
    }
}

/* `err` NULL: armed, or nothing to arm. */
static void arm_answer(struct hub_arm *arm, size_t index, bool watched,
                       const struct tidings_error *err)
{
    int code = err ? err->code : 0;
    arm->items[index].code = code;
    arm->items[index].watched = watched && code == 0;
    if (code < 0) {
        arm->items[index].err = *err;
    }
    hub_watch_countdown(arm);
}

static void watch_free(struct tidings_watch *w)
{
    map_remove(&w->hub->watches->by_scope, w->scope);
    list_remove(&w->arming_link);
    watch_hook_unref(w->hook);
    mem_free(w);
}

/* The last one who needed it left. */
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

static void watch_answered(struct letter *letter, void *owner)
{
    (void)owner;
    struct tidings_watch *w = list_entry(letter, struct tidings_watch, letter);
    w->armed = w->code >= 0;
    list_each (it, next, &w->waiters) {
        struct waiter *waiter = list_entry(it, struct waiter, link);
        arm_answer(waiter->arm, waiter->index, true, w->armed ? NULL : &w->err);
        list_remove(it);
        mem_free(waiter);
    }
    list_remove(&w->arming_link);
    if (!w->armed) {
        watch_free(w);
    } else if (w->needs == 0) { /* all left while it was arming */
        hub_watch_release(w);
    }
}

static void watch_dropped(struct letter *letter)
{
    (void)letter; /* the hub is going; hub_watches_close frees it */
}

/* By way of the mailbox even on the hub's own thread: changes announced before this call are
 * numbered before the answer. */
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
    w->letter.deliver = watch_answered;
    w->letter.drop = watch_dropped;
    mailbox_send(w->hub->mailbox, &w->letter);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Refuse those of `w` who have waited long enough. Returns when the next of them will have, if that
 * is before `next_due`. */
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
        arm_answer(waiter->arm, waiter->index, false, &err);
        w->needs--;
        list_remove(it);
        mem_free(waiter);
    }
    list_remove(&w->arming_link);
    return next_due;
}

static void hub_watch_timer(struct loop_timer *timer, void *user)
{
    struct hub *hub = user;
    mailbox_drain(hub->mailbox); /* this thread may be late itself: what was answered counts */
    uint64_t now = loop_now_ms(hub->loop), next_due = UINT64_MAX;
    list_each (it, next, &hub->watches->arming) {
        next_due = refuse_overdue(list_entry(it, struct tidings_watch, arming_link), now, next_due);
    }
    if (next_due != UINT64_MAX) {
        loop_timer_start(timer, next_due - now, 0);
    }
}

/* ---- arming ---------------------------------------------------------------------------------- */

static int add_waiter(struct tidings_watch *w, struct hub_arm *arm, size_t index)
{
    struct waiter *waiter = mem_zalloc(sizeof(*waiter));
    if (!waiter) {
        return TIDINGS_E_NOMEM;
    }
    waiter->arm = arm;
    waiter->index = index;
    list_append(&w->waiters, &waiter->link);
    struct hub *hub = w->hub;
    if (hub->options.watch_timeout_ms > 0 && !arm->is_owners) {
        waiter->due_ms = loop_now_ms(hub->loop) + hub->options.watch_timeout_ms;
        if (list_empty(&w->arming_link)) {
            list_append(&hub->watches->arming, &w->arming_link);
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
    list_init(&w->arming_link);
    if (map_put(&hub->watches->by_scope, w->scope, w, NULL) < 0) {
        mem_free(w);
        return NULL;
    }
    return w;
}

static int watch_begin(struct hub *hub, struct tidings_provider *p, struct watch_hook *hook,
                       struct hub_arm *arm, size_t index)
{
    struct tidings_watch *w = watch_create(hub, p, arm->items[index].scope);
    if (!w) {
        return TIDINGS_E_NOMEM;
    }
    if (add_waiter(w, arm, index) < 0) {
        watch_free(w);
        return TIDINGS_E_NOMEM;
    }
    w->needs = 1;
    if (arm->is_owners) {
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

/* Who is to be told that `scope` is needed, if anybody. */
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
    bool is_owned = *p && (*p)->nodes == MOUNT_OWNED; /* one node watches all of it */
    return *hook || (*p && (*p)->ops->watch && !is_owned);
}

/* All of a mount, for this node owns it. Its scope begins with a '*', as no URI does: subscriptions
 * have no part in it. */
static bool find_owned(struct hub *hub, struct tidings_str scope, struct tidings_provider **p)
{
    *p = catalog_mount(hub_current_catalog(hub), str_skip(scope, 1));
    return *p && (*p)->ops->watch;
}

static void arm_one(struct hub *hub, struct hub_arm *arm, size_t index)
{
    struct tidings_str scope = arm->items[index].scope;
    struct tidings_watch *w = map_find(&hub->watches->by_scope, scope);
    if (w && w->armed) {
        w->needs++;
        arm_answer(arm, index, true, NULL);
        return;
    }
    struct tidings_provider *p = NULL;
    struct watch_hook *hook = NULL;
    bool is_found =
        w || (arm->is_owners ? find_owned(hub, scope, &p) : find_watcher(hub, scope, &p, &hook));
    if (!is_found) {
        arm_answer(arm, index, false, NULL); /* announced without being asked */
        return;
    }
    int rc = 0;
    if (w) {
        rc = add_waiter(w, arm, index);
        w->needs += rc == 0;
    } else {
        rc = watch_begin(hub, p, hook, arm, index);
    }
    if (rc < 0) {
        struct tidings_error err;
        tidings_fail(&err, rc, "out of memory");
        arm_answer(arm, index, false, &err);
    }
}

static void hub_newest_ask(struct hub *hub);

static void arm_deliver(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct hub_arm *arm = list_entry(letter, struct hub_arm, letter);
    arm->pending = arm->count + 1; /* one for this loop, so that it ends before the answer leaves */
    for (size_t i = 0; i < arm->count; i++) {
        arm_one(hub, arm, i);
    }
    if (arm->asks_newest && hub->watches->ask_newest) { /* it arms nothing */
        list_append(&hub->watches->asking, &arm->await_link);
        hub_newest_ask(hub);
        return;
    }
    hub_watch_countdown(arm);
}

static struct hub_arm *hub_arm_make(struct hub *hub, struct mailbox *reply_to,
                                    const struct tidings_str *scopes, size_t count)
{
    size_t text = 0;
    for (size_t i = 0; i < count; i++) {
        text += scopes[i].len;
    }
    struct hub_arm *arm = mem_zalloc(sizeof(*arm) + count * sizeof(arm->items[0]) + text);
    if (!arm) {
        return NULL;
    }
    char *at = (char *)&arm->items[count];
    for (size_t i = 0; i < count; i++) {
        memcpy(at, scopes[i].ptr, scopes[i].len);
        arm->items[i].scope = tidings_strn(at, scopes[i].len);
        at += scopes[i].len;
    }
    arm->count = count;
    list_init(&arm->await_link);
    arm->hub = hub;
    arm->worker_mailbox = mailbox_ref(reply_to); /* an answer may come after it ended */
    arm->letter.deliver = arm_deliver;
    arm->letter.drop = arm_drop;
    return arm;
}

/* To be freed; without memory its text is NULL. */
static struct tidings_str owners_scope(struct tidings_str prefix)
{
    char *text = mem_alloc(prefix.len + 1);
    if (text) {
        text[0] = '*';
        memcpy(text + 1, prefix.ptr, prefix.len);
    }
    return tidings_strn(text, text ? prefix.len + 1 : 0);
}

struct hub_arm *hub_arm_create(struct worker *worker, const struct tidings_str *scopes,
                               size_t count)
{
    return hub_arm_make(worker->hub, worker->mailbox, scopes, count);
}

struct hub_arm *hub_arm_create_owners(struct hub *hub, struct tidings_str prefix)
{
    struct tidings_str scope = owners_scope(prefix);
    struct hub_arm *arm = scope.ptr ? hub_arm_make(hub, hub->mailbox, &scope, 1) : NULL;
    if (arm) {
        arm->is_owners = true;
    }
    mem_free((char *)(uintptr_t)scope.ptr);
    return arm;
}

/* Also of a run that is known: it may be taken for ended by what is followed until then. */
void hub_arm_await(struct hub_arm *arm, const struct log_cursor *at)
{
    if (!at->has_position || at->epoch == hub_epoch(arm->hub)) {
        return;
    }
    arm->await = at->position > arm->await ? at->position : arm->await;
    unsigned i = 0;
    while (i < arm->await_count && arm->await_runs[i].epoch != at->epoch) {
        i++;
    }
    if (i == arm->await_count && i < HUB_AWAIT_RUNS) {
        arm->await_runs[arm->await_count++].epoch = at->epoch;
    }
    if (i < HUB_AWAIT_RUNS && at->position > arm->await_runs[i].position) {
        arm->await_runs[i].position = at->position;
    }
}

void hub_arm_send(struct hub_arm *arm)
{
    mailbox_send(arm->hub->mailbox, &arm->letter);
}

void hub_arm_free(struct hub_arm *arm)
{
    mailbox_unref(arm->worker_mailbox);
    mem_free(arm);
}

/* ---- leaving --------------------------------------------------------------------------------- */

struct disarm_letter {
    struct letter letter;
    struct tidings_str scope;
};

static void disarm_deliver(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct disarm_letter *l = list_entry(letter, struct disarm_letter, letter);
    struct tidings_watch *w = map_find(&hub->watches->by_scope, l->scope);
    if (w && --w->needs == 0 && w->armed) {
        hub_watch_release(w);
    }
    mem_free(l);
}

static void disarm_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct disarm_letter, letter));
}

void hub_disarm(struct hub *hub, struct tidings_str scope)
{
    struct disarm_letter *l = mem_zalloc(sizeof(*l) + scope.len);
    if (!l) {
        return; /* stays watched: costs something, loses nothing */
    }
    char *copy = (char *)(l + 1);
    memcpy(copy, scope.ptr, scope.len);
    l->scope = tidings_strn(copy, scope.len);
    l->letter.deliver = disarm_deliver;
    l->letter.drop = disarm_drop;
    mailbox_send(hub->mailbox, &l->letter);
}

void hub_disarm_owners(struct hub *hub, struct tidings_str prefix)
{
    struct tidings_str scope = owners_scope(prefix);
    if (scope.ptr) {
        hub_disarm(hub, scope);
    }
    mem_free((char *)(uintptr_t)scope.ptr);
}

static void hub_watch_drop_waiting(struct list *waiting)
{
    while (waiting->next && !list_empty(waiting)) {
        struct hub_arm *arm = list_entry(waiting->next, struct hub_arm, await_link);
        list_remove(&arm->await_link);
        arm_dropped(arm);
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
    list_init(&watches->arming);
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
            if (--waiter->arm->pending == 0) {
                arm_dropped(waiter->arm);
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
 * Asks the store that nodes share for its newest position, on behalf of reads that must see at
 * least what their client was told (engine/delivery/subscribe.h). One question at a time: later
 * reads wait for the next question, because the answer on its way may be older than they are.
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

static void hub_newest_deliver(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct list asked;
    (void)letter;
    list_init(&asked);
    list_splice(&asked, &hub->watches->asked);
    hub->watches->is_asking = false;
    while (!list_empty(&asked)) {
        struct hub_arm *arm = list_entry(asked.next, struct hub_arm, await_link);
        list_remove(&arm->await_link);
        arm->newest_code = hub->watches->newest_code;
        arm->newest_err = hub->watches->newest_err;
        if (hub->watches->newest_code < 0) {
            hub_watch_return(arm);
            continue;
        }
        arm->await =
            hub->watches->newest_position > arm->await ? hub->watches->newest_position : arm->await;
        hub_watch_countdown(arm);
    }
    hub_newest_ask(hub);
}

void hub_newest_end(struct hub *hub)
{
    list_splice(&hub->watches->asked, &hub->watches->asking);
    while (!list_empty(&hub->watches->asked)) {
        struct hub_arm *arm = list_entry(hub->watches->asked.next, struct hub_arm, await_link);
        list_remove(&arm->await_link);
        arm->newest_code = tidings_fail(&arm->newest_err, TIDINGS_E_CLOSED, "the server is ending");
        hub_watch_return(arm);
    }
}

static void hub_newest_drop(struct letter *letter)
{
    (void)letter; /* lies in the hub */
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
