/* SPDX-License-Identifier: MIT
 *
 * Gets a token for a server: another process may have a new one, else it is renewed, else somebody
 * logs in; and keeps it in the store.
 */
#include <poll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/oauth_private.h"
#include "wire/bearer.h"

#define LOCK_RETRY_MS 50u
#define LOCK_MS 30000u /* a refresh of another process takes less */
#define FINISH_MS 5000u
#define LOGINS_MAX 5u /* that a person is asked for … */
#define LOGINS_MS 600000u

static void oauth_login(struct tidings_oauth *o);

/* ---- the end --------------------------------------------------------------------------------- */

static void oauth_reset(struct tidings_oauth *o)
{
    alarm_set(&o->lock, 0);
    o->on_lock = NULL;
    o->is_early = false;
    token_store_unlock(&o->store);
    token_deinit(&o->fresh);
    mem_free(o->server);
    mem_free(o->challenge);
    str_free_secret(o->shown);
    o->server = o->challenge = o->shown = NULL;
}

struct oauth_waiter *oauth_wait(struct tidings_oauth *o, tidings_credentials_done_fn done, void *to)
{
    struct oauth_waiter *w = mem_zalloc(sizeof(*w));
    if (w) {
        w->done = done;
        w->to = to;
        list_append(&o->waiters, &w->link);
    }
    return w;
}

/* Those whose turn has not come stay where they can be forgotten: whoever is told may end them, or
 * begin to wait once more. */
void oauth_tell(struct tidings_oauth *o, bool (*is_told)(const struct oauth_waiter *w),
                const struct tidings_error *why)
{
    struct oauth_waiter *w = NULL;
    list_each (it, next, &o->waiters) {
        w = list_entry(it, struct oauth_waiter, link);
        w->is_due = is_told(w);
    }
    do {
        w = NULL;
        list_each (it, next, &o->waiters) {
            struct oauth_waiter *one = list_entry(it, struct oauth_waiter, link);
            w = !w && one->is_due ? one : w;
        }
        if (w) {
            list_remove(&w->link);
            w->done(w->to, why);
            mem_free(w);
        }
    } while (w);
}

static bool oauth_is_everybody(const struct oauth_waiter *w)
{
    (void)w;
    return true;
}

static void oauth_end(struct tidings_oauth *o, const struct tidings_error *why)
{
    bool was_early = o->is_early;
    o->flow = NULL;
    oauth_reset(o);
    if (was_early) {
        oauth_early_ended(o, !why);
    }
    oauth_tell(o, oauth_is_everybody, why);
}

static void oauth_keep(struct tidings_oauth *o);

/* A token was asked for and may be on its way, or is here and not kept yet. */
static bool oauth_is_about_to_come(const struct tidings_oauth *o)
{
    return o->flow ? flow_is_exchanging(o->flow) : o->on_lock == oauth_keep;
}

static void oauth_break_off(struct tidings_oauth *o)
{
    flow_cancel(o->flow);
    o->flow = NULL;
    oauth_reset(o);
}

void oauth_give_up(struct tidings_oauth *o)
{
    if (!oauth_is_about_to_come(o)) {
        oauth_break_off(o);
    }
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void oauth_try_lock(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    void (*fn)(struct tidings_oauth *) = o->on_lock;
    int rc = token_store_lock(&o->store, &why);
    if (rc == 0 && clock_monotonic_ms() >= o->lock_until) {
        rc = tidings_fail(&why, TIDINGS_E_BUSY,
                          "another process holds the tokens for too long: '%.120s.lock'",
                          o->store.path);
    }
    if (rc == 0) {
        alarm_set(&o->lock, LOCK_RETRY_MS);
        return;
    }
    o->on_lock = NULL;
    rc = rc < 0 ? rc : token_store_load(&o->store, &why);
    if (rc < 0) {
        oauth_end(o, &why);
    } else {
        fn(o);
    }
}

/* `fn` runs with the lock held and the file read again, in a turn of its own. */
static void oauth_with_lock(struct tidings_oauth *o, void (*fn)(struct tidings_oauth *o))
{
    o->on_lock = fn;
    o->lock_until = clock_monotonic_ms() + LOCK_MS;
    alarm_set(&o->lock, 1);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void oauth_keep(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    int rc = token_store_put(&o->store, &o->fresh, &why);
    if (rc == 0) {
        rc = token_store_save(&o->store, &why);
    }
    oauth_end(o, rc < 0 ? &why : NULL);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void oauth_on_login(void *user, struct token *token, const struct tidings_error *why)
{
    struct tidings_oauth *o = user;
    o->flow = NULL;
    if (!token) {
        oauth_end(o, why);
        return;
    }
    o->fresh = *token;
    *token = (struct token){0};
    o->was_login = true;
    oauth_with_lock(o, oauth_keep);
}

/* It is of no use any more, also to the next process. */
static void oauth_drop_refresh(struct tidings_oauth *o)
{
    struct token *t = token_store_find(&o->store, o->server, NULL);
    if (t) {
        str_free_secret(t->refresh);
        t->refresh = NULL;
        (void)token_store_save(&o->store, NULL);
    }
}

static void oauth_on_refresh(void *user, struct token *token, const struct tidings_error *why)
{
    struct tidings_oauth *o = user;
    o->flow = NULL;
    if (token) {
        o->fresh = *token;
        *token = (struct token){0};
        o->was_login = false;
        oauth_keep(o); /* the lock is held */
    } else if (why->code != TIDINGS_E_DENIED) {
        oauth_end(o, why); /* later, perhaps */
    } else {
        oauth_drop_refresh(o);
        if (o->is_early) {
            oauth_end(o, why); /* nobody was refused anything yet */
            return;
        }
        token_store_unlock(&o->store);
        oauth_login(o);
    }
}

static int oauth_start_flow(struct tidings_oauth *o, enum flow_kind kind, flow_done_fn done,
                            struct tidings_error *err)
{
    struct flow_host host = {&o->settings, o->loop, o->fetch};
    struct flow_order order = {
        .kind = kind,
        .server = o->server,
        .is_probing = o->is_probing && kind == FLOW_LOGIN,
        .challenge = tidings_str(o->challenge),
        .before = token_store_find(&o->store, o->server, NULL),
    };
    return flow_start(&o->flow, &host, &order, done, o, err);
}

/* A server that is never content would have a person agree for ever. */
static int oauth_count_login(struct tidings_oauth *o, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (!oauth_settings_ask_person(&o->settings)) {
        return 0;
    }
    if (o->logins == 0 || now - o->logins_since > LOGINS_MS) {
        o->logins = 0;
        o->logins_since = now;
    }
    if (o->logins++ >= LOGINS_MAX) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the server was not content with %u logins in ten minutes", LOGINS_MAX);
    }
    return 0;
}

/* Nobody can be asked; what somebody should do. */
static int oauth_say_alone(const struct tidings_oauth *o, struct tidings_error *err)
{
    struct bearer_challenge c;
    char scope[120];
    bool is_scope = bearer_read_challenge(tidings_str(o->challenge), &c) &&
                    str_eq(c.error, STR("insufficient_scope"));
    if (is_scope) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the token does not allow that: log in again, for the scopes '%s'",
                            document_shown(c.scope, scope, sizeof(scope)));
    }
    return tidings_fail(err, TIDINGS_E_DENIED, "%s",
                        o->shown ? "the token is refused, and cannot be renewed: log in again"
                                 : "the server wants a login, and there is no token for it: log in "
                                   "first");
}

static void oauth_login(struct tidings_oauth *o)
{
    const struct oauth_settings *s = &o->settings;
    struct tidings_error why = {0};
    bool is_alone = (s->grant == TIDINGS_OAUTH_CODE && !s->on_open) ||
                    (s->grant == TIDINGS_OAUTH_DEVICE && !s->on_device);
    int rc = is_alone ? oauth_say_alone(o, &why) : oauth_count_login(o, &why);
    if (rc == 0) {
        rc = oauth_start_flow(o, FLOW_LOGIN, oauth_on_login, &why);
    }
    if (rc < 0) {
        oauth_end(o, &why);
    }
}

/* With the lock: has somebody else another one meanwhile? */
static bool oauth_has_another(struct tidings_oauth *o)
{
    const struct token *t = token_store_find(&o->store, o->server, NULL);
    if (!t || (o->shown && strcmp(t->access, o->shown) == 0)) {
        return false;
    }
    o->was_login = false;
    oauth_end(o, NULL);
    return true;
}

static void oauth_login_unlocked(struct tidings_oauth *o)
{
    token_store_unlock(&o->store);
    oauth_login(o);
}

static void oauth_step_up(struct tidings_oauth *o)
{
    if (!oauth_has_another(o)) {
        oauth_login_unlocked(o);
    }
}

static void oauth_renew(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    if (oauth_has_another(o)) {
        return;
    }
    const struct token *t = token_store_find(&o->store, o->server, NULL);
    int rc = 0;
    if (t && t->refresh) {
        rc = oauth_start_flow(o, FLOW_REFRESH, oauth_on_refresh, &why);
    } else if (o->is_early) {
        rc = tidings_fail(&why, TIDINGS_E_NOTFOUND, "the token cannot be renewed any more");
    } else {
        oauth_login_unlocked(o);
    }
    if (rc < 0) {
        oauth_end(o, &why);
    }
}

/* Something is under way for that server already. Somebody who was refused is not content with the
 * end of a renewal that asks nobody. */
static int oauth_join(struct tidings_oauth *o, const struct oauth_wish *wish,
                      struct tidings_error *err)
{
    if (strcmp(o->server, wish->server) != 0) {
        return tidings_fail(err, TIDINGS_E_BUSY, "a login to another server is under way");
    }
    if (o->is_early && wish->need != OAUTH_RENEW_EARLY) {
        char *challenge = str_dup(wish->challenge);
        if (!challenge) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        mem_free(o->challenge);
        o->challenge = challenge;
        o->is_early = false;
    }
    return 0;
}

int oauth_obtain(struct tidings_oauth *o, const struct oauth_wish *wish, struct tidings_error *err)
{
    if (o->server) {
        return oauth_join(o, wish, err);
    }
    o->server = str_dup(tidings_str(wish->server));
    o->challenge = str_dup(wish->challenge);
    o->shown = wish->shown.len > 0 ? str_dup(wish->shown) : NULL;
    o->is_probing = wish->is_probing;
    if (!o->server || !o->challenge || (wish->shown.len > 0 && !o->shown)) {
        oauth_reset(o);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    o->is_early = wish->need == OAUTH_RENEW_EARLY;
    if (wish->need == OAUTH_LOGIN) {
        alarm_set(&o->lock, 1);
    } else {
        oauth_with_lock(o, wish->need == OAUTH_STEP_UP ? oauth_step_up : oauth_renew);
    }
    return 0;
}

/* The alarm: for the lock, or to begin a login in a turn of its own. */
static void oauth_on_alarm(void *user)
{
    struct tidings_oauth *o = user;
    if (o->on_lock) {
        oauth_try_lock(o);
    } else if (o->server && !o->flow) {
        oauth_login(o);
    }
}

void oauth_turn(struct tidings_oauth *o)
{
    struct pollfd p = {.fd = loop_fd(o->loop), .events = POLLIN};
    (void)poll(&p, 1, 100); /* everything has an end of its own */
    loop_turn(o->loop);
}

int oauth_obtain_init(struct tidings_oauth *o, struct tidings_error *err)
{
    return alarm_init(&o->lock, o->loop, oauth_on_alarm, o, err);
}

void oauth_obtain_deinit(struct tidings_oauth *o)
{
    uint64_t until = clock_monotonic_ms() + FINISH_MS;
    list_each (it, next, &o->waiters) {
        list_remove(it);
        mem_free(list_entry(it, struct oauth_waiter, link));
    }
    while (o->lock.fd >= 0 && oauth_is_about_to_come(o) && clock_monotonic_ms() < until) {
        oauth_turn(o);
    }
    if (o->lock.fd >= 0) {
        oauth_break_off(o);
    }
    alarm_deinit(&o->lock);
}
