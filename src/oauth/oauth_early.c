/* SPDX-License-Identifier: MIT
 *
 * Renews tokens before they end, where they say when that is and have a refresh token: 30 seconds
 * before, or a tenth of their life if that is less, but 1.5 seconds at least, since their ends are
 * told in whole ones. A request that begins in that time waits for the new one, a little while as
 * long as the old one is good; and a timer renews what is shown on a stream that asks nothing any
 * more. Tokens that live for less than four seconds are renewed when they are refused, as those are
 * whose renewal has just failed.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "oauth/oauth_private.h"

#define EARLY_MS 30000
#define EARLY_MIN_MS 1500
#define EARLY_LIFE_MIN_MS 4000
#define EARLY_PATIENCE_MS 2000u /* of a request whose token is still good */
#define EARLY_FAILED_MS 10000u  /* before it is tried again */
#define EARLY_BUSY_MS 500u      /* while something else is under way */
#define EARLY_SLEEP_MAX_MS 300000

/* clock_wall_ms: from when on it is renewed; 0: not before it is refused. */
static int64_t oauth_early_time(const struct token *t)
{
    bool is_known = t->expires_ms > 0 && t->refresh;
    if (!is_known || (t->life_ms > 0 && t->life_ms < EARLY_LIFE_MIN_MS)) {
        return 0;
    }
    int64_t before = t->life_ms > 0 && t->life_ms / 10 < EARLY_MS ? t->life_ms / 10 : EARLY_MS;
    before = before < EARLY_MIN_MS ? EARLY_MIN_MS : before;
    return t->expires_ms > before ? t->expires_ms - before : 1;
}

static bool oauth_early_is_due(const struct tidings_oauth *o, const struct token *t)
{
    int64_t from = oauth_early_time(t);
    return from > 0 && clock_wall_ms() >= from && clock_monotonic_ms() >= o->early_after;
}

/* False: something else is under way, or out of memory. */
static bool oauth_early_begin(struct tidings_oauth *o, const char *server, const struct token *t)
{
    struct oauth_wish wish = {
        .server = server, .shown = tidings_str(t->access), .need = OAUTH_RENEW_EARLY};
    bool is_free = !o->server || o->is_early; /* a person who logs in may take minutes */
    return is_free && oauth_obtain(o, &wish, NULL) == 0;
}

static bool oauth_early_has_patient(const struct tidings_oauth *o)
{
    list_each (it, next, &o->waiters) {
        if (list_entry(it, struct oauth_waiter, link)->patience > 0) {
            return true;
        }
    }
    return false;
}

int oauth_prepare(void *user, const struct tidings_credentials_request *request,
                  tidings_credentials_done_fn done, void *to)
{
    struct tidings_oauth *o = user;
    const char *server = oauth_server(request->server, request->url);
    const struct token *t = token_store_find(&o->store, server, NULL);
    uint64_t now = clock_monotonic_ms();
    if (!t || !oauth_early_is_due(o, t)) {
        return 0;
    }
    bool is_good = clock_wall_ms() < t->expires_ms;
    bool is_first = !o->is_early;
    if (!oauth_early_begin(o, server, t)) {
        return 0;
    }
    o->early_since = is_first ? now : o->early_since;
    if (is_good && now - o->early_since >= EARLY_PATIENCE_MS) {
        return 0; /* others have waited long enough */
    }
    bool has_alarm = oauth_early_has_patient(o);
    struct oauth_waiter *w = oauth_wait(o, done, to);
    if (w && is_good) {
        w->patience = now + EARLY_PATIENCE_MS;
        if (!has_alarm) {
            alarm_set(&o->early, EARLY_PATIENCE_MS);
        }
    }
    return w != NULL;
}

uint64_t oauth_renewals(void *user)
{
    return ((struct tidings_oauth *)user)->renewals;
}

/* ---- the timer ------------------------------------------------------------------------------- */

static void oauth_early_set(struct tidings_oauth *o, const struct token *t)
{
    int64_t from = oauth_early_time(t), left = from - clock_wall_ms();
    uint64_t now = clock_monotonic_ms();
    if (from <= 0) {
        return;
    }
    left = left < 1 ? 1 : left < EARLY_SLEEP_MAX_MS ? left : EARLY_SLEEP_MAX_MS;
    if (o->early_after > now && (int64_t)(o->early_after - now) > left) {
        left = (int64_t)(o->early_after - now);
    }
    alarm_set(&o->early, (uint64_t)left);
}

void oauth_early_shown(struct tidings_oauth *o, const char *server, const struct token *t)
{
    if (!o->early_server || strcmp(o->early_server, server) != 0) {
        mem_free(o->early_server);
        o->early_server = str_dup(tidings_str(server));
    }
    if (o->early_server && !o->is_early) {
        oauth_early_set(o, t);
    }
}

void oauth_early_ended(struct tidings_oauth *o, bool is_renewed)
{
    const struct token *t =
        o->early_server ? token_store_find(&o->store, o->early_server, NULL) : NULL;
    o->renewals += is_renewed;
    o->early_after = is_renewed ? 0 : clock_monotonic_ms() + EARLY_FAILED_MS;
    alarm_set(&o->early, 0);
    if (t) {
        oauth_early_set(o, t);
    }
}

static bool oauth_early_is_impatient(const struct oauth_waiter *w)
{
    return w->patience > 0 && clock_monotonic_ms() >= w->patience;
}

static void oauth_early_on_alarm(void *user)
{
    struct tidings_oauth *o = user;
    /* Those whose token is good go on with that, whatever is under way meanwhile. */
    oauth_tell(o, oauth_early_is_impatient, NULL);
    const struct token *t =
        o->early_server ? token_store_find(&o->store, o->early_server, NULL) : NULL;
    if (o->server) {
        alarm_set(&o->early, EARLY_BUSY_MS);
    } else if (t && !oauth_early_is_due(o, t)) {
        oauth_early_set(o, t);
    } else if (t && oauth_early_begin(o, o->early_server, t)) {
        o->early_since = clock_monotonic_ms();
    }
}

int oauth_early_init(struct tidings_oauth *o, struct tidings_error *err)
{
    return alarm_init(&o->early, o->loop, oauth_early_on_alarm, o, err);
}

void oauth_early_deinit(struct tidings_oauth *o)
{
    alarm_deinit(&o->early);
    mem_free(o->early_server);
    o->early_server = NULL;
}
