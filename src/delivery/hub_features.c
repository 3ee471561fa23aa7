/* SPDX-License-Identifier: MIT
 *
 * Tools and prompts of the hub (features), and its list_changed notifications: which lists changed,
 * coalesced to at most one notification per period.
 */
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/hub_private.h"
#include "handler/handlers.h"

#define HANDLER_THREADS 4u
#define HANDLERS_WAITING 100000u /* --max-calls allows fewer */

/* ---- told at most once per period ------------------------------------------------------------ */

static void hub_features_tell(struct hub_list *list)
{
    hub_publish(list->hub, list->notice);
    loop_timer_start(list->timer, list->hub->options.list_changed_ms, 0);
}

static void on_period(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct hub_list *list = user;
    if (list->is_pending) {
        list->is_pending = false;
        hub_features_tell(list);
    }
}

bool hub_lists_open(struct hub *hub)
{
    hub->handlers = pool_create(HANDLER_THREADS, HANDLERS_WAITING, NULL);
    bool good = hub->handlers && seal_key_init(&hub->seal) == 0;
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        struct hub_list *list = &hub->lists[i];
        list->hub = hub;
        list->notice = (enum change_notice)i;
        list->timer = loop_timer_open(hub->loop, on_period, list);
        good = good && list->timer;
    }
    return good;
}

void hub_lists_close(struct hub *hub)
{
    pool_destroy(hub->handlers);
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        loop_timer_close(hub->lists[i].timer);
    }
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(hub->features[i]);
    }
}

void hub_list_changed(struct hub *hub, enum change_notice notice)
{
    struct hub_list *list = &hub->lists[notice];
    if (!hub->options.list_changed || !__atomic_load_n(&hub->running, __ATOMIC_ACQUIRE)) {
        return;
    }
    if (loop_timer_is_running(list->timer)) {
        list->is_pending = true;
    } else {
        hub_features_tell(list);
    }
}

/* ---- features -------------------------------------------------------------------------------- */

struct features_letter {
    struct letter letter;
    enum feature_kind kind;
    struct feature_list *list;
};

static void features_deliver(struct letter *letter, void *owner)
{
    struct features_letter *l = list_entry(letter, struct features_letter, letter);
    handlers_set_features(owner, l->kind, l->list);
    mem_free(l);
}

static void features_drop(struct letter *letter)
{
    struct features_letter *l = list_entry(letter, struct features_letter, letter);
    feature_list_unref(l->list);
    mem_free(l);
}

/* Takes `next`, also on failure: then nothing has changed. */
static int swap_features(struct hub *hub, enum feature_kind kind, struct feature_list *next,
                         struct tidings_error *err)
{
    struct list letters;
    list_init(&letters);
    bool good = next != NULL;
    for (size_t i = 0; i < hub->worker_count && good; i++) {
        struct features_letter *l = mem_zalloc(sizeof(*l));
        good = l != NULL;
        if (l) {
            l->letter.deliver = features_deliver;
            l->letter.drop = features_drop;
            l->kind = kind;
            l->list = feature_list_ref(next);
            list_append(&letters, &l->letter.link);
        }
    }
    size_t i = 0;
    list_each (it, after, &letters) {
        struct letter *letter = list_entry(it, struct letter, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub->workers[i++]->mailbox, letter);
        } else {
            features_drop(letter);
        }
    }
    if (!good) {
        feature_list_unref(next);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    feature_list_unref(hub->features[kind]);
    hub->features[kind] = next;
    if (kind == FEATURE_TOOL || kind == FEATURE_PROMPT) {
        hub_list_changed(hub, kind == FEATURE_TOOL ? CHANGE_TOOLS : CHANGE_PROMPTS);
    }
    return 0;
}

static const char *const kind_names[FEATURE_KINDS] = {"tool", "prompt", "completion",
                                                      "list of children"};

static int hub_features_add_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    struct feature *f = arg;
    const struct feature_list *old = hub->features[f->kind];
    if (feature_find(old, f->name)) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "there is a %s '%.*s' already",
                            kind_names[f->kind], STR_ARG(f->name));
    }
    if (old && old->count >= HUB_MAX_FEATURES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "at most %u %ss can be offered", HUB_MAX_FEATURES,
                            kind_names[f->kind]);
    }
    return swap_features(hub, f->kind, feature_list_derive(old, f, STR_EMPTY), err);
}

struct removal {
    enum feature_kind kind;
    struct tidings_str name;
};

static int hub_features_remove_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    const struct removal *r = arg;
    const struct feature_list *old = hub->features[r->kind];
    if (!feature_find(old, r->name)) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no %s '%.*s'", kind_names[r->kind],
                            STR_ARG_MAX(r->name, 128));
    }
    return swap_features(hub, r->kind, feature_list_derive(old, NULL, r->name), err);
}

int hub_add_feature(struct hub *hub, struct feature *feature, struct tidings_error *err)
{
    int rc = hub_run_on(hub, hub_features_add_now, feature, err);
    feature_unref(feature);
    return rc;
}

int hub_remove_feature(struct hub *hub, enum feature_kind kind, struct tidings_str name,
                       struct tidings_error *err)
{
    struct removal r = {kind, name};
    return hub_run_on(hub, hub_features_remove_now, &r, err);
}

struct feature_list *hub_features(struct hub *hub, enum feature_kind kind)
{
    return feature_list_ref(hub->features[kind]);
}

uint64_t hub_list_period(const struct hub *hub)
{
    return hub->options.list_changed_ms;
}

struct pool *hub_handlers(struct hub *hub)
{
    return hub->handlers;
}

void hub_set_seal(struct hub *hub, const struct seal_key *key)
{
    hub->seal = *key;
}

const struct seal_key *hub_seal(const struct hub *hub)
{
    return &hub->seal;
}

struct limit_counters *hub_limit_counters(struct hub *hub)
{
    return &hub->limit_counters;
}

struct quotas *hub_quotas(struct hub *hub)
{
    return hub->quotas;
}

struct tasks *hub_tasks(struct hub *hub)
{
    return hub->tasks;
}

void hub_set_call_hooks(struct hub *hub, const struct tidings_call_hooks *hooks)
{
    hub->call_hooks = hooks;
}

const struct tidings_call_hooks *hub_call_hooks(const struct hub *hub)
{
    return hub->call_hooks;
}

struct allowances *hub_allowances(struct hub *hub)
{
    return hub->allowances;
}
