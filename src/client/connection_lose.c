/* SPDX-License-Identifier: MIT
 *
 * Losing a connection, coming back after a pause, and leaving in order.
 *
 * A connection that breaks before the answer to `server/discover` says nothing of the server, so it
 * is asked again; but some servers end rather than answer what they do not know. The second time
 * `initialize` is tried, and what that leads to is a guess, good for that connection alone. A
 * launched program that ended before it read what it was sent did not mean us, and is not started
 * again unless it worked before.
 */
#include "base/clock.h"
#include "base/error.h"
#include "client/connection.h"
#include "client/events.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/state.h"
#include "client/subscriptions.h"

#define PROBES 2u /* broken ones in a row, before `initialize` is tried */

/* A token that has expired is followed by another, sooner or later; one that was never good, or
 * that no program renews, is not. */
static bool is_between_tokens(const struct tidings_client *c, int code)
{
    return code == TIDINGS_E_DENIED && c->is_token_refused &&
           (c->settings.on_token || c->settings.credentials) && c->has_watched;
}

static bool connection_may_recover(int code)
{
    return code == TIDINGS_E_IO || code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_BUSY ||
           code == TIDINGS_E_CLOSED || code == TIDINGS_E_LIMIT;
}

/* None sooner than the server wants it. */
static uint32_t next_pause(struct tidings_client *c)
{
    uint32_t own = settings_pause(&c->settings, c->failures++);
    uint32_t retry_after = c->retry_after_ms;
    c->retry_after_ms = 0;
    return own > retry_after ? own : retry_after;
}

static void connection_on_retry(void *user)
{
    struct tidings_client *c = user;
    if (c->stage == STAGE_PAUSED) {
        connection_begin(c);
    }
}

static void connection_on_patience(void *user)
{
    connection_go_on(user);
}

void connection_init(struct tidings_client *c)
{
    poller_timer_init(&c->retry, connection_on_retry, c);
    poller_timer_init(&c->stream_patience, connection_on_patience, c);
}

void connection_give_up(struct tidings_client *c, const struct tidings_error *why)
{
    c->failure = *why;
    events_nudge(c);
}

/* Before it was known what the server is. */
static bool broke_in_probe(const struct tidings_client *c, enum client_stage stage)
{
    return stage == STAGE_NEGOTIATING && c->is_open && !c->transport->ops->has_exchanges &&
           c->era == TIDINGS_ERA_MODERN && !c->has_info && !c->settings.version;
}

static void forget_guess(struct tidings_client *c)
{
    if (c->broken_probes >= PROBES) {
        c->broken_probes = PROBES - 1;
        c->era = 0;
        c->has_info = false;
    }
}

static void drop_connection(struct tidings_client *c, const struct tidings_error *why)
{
    bool all = !c->transport->ops->has_exchanges;
    if (all) {
        c->is_open = c->has_session = false;
        c->transport->ops->close(c->transport);
        question_connection_lost(c);
    }
    subscriptions_lost(c);
    requests_fail_all(c, why, all ? REQUESTS_UNSENT | REQUESTS_SENT : REQUESTS_UNSENT);
}

void connection_lose(struct tidings_client *c, const struct tidings_error *why)
{
    enum client_stage stage = c->stage;
    struct tidings_error reason = *why;                         /* it may lie in what ends now */
    if (reason.code == TIDINGS_E_CLOSED && c->stray_error[0]) { /* it said why */
        tidings_fail(&reason, reason.code, "%s: %s", why->text, c->stray_error);
    }
    if (stage == STAGE_IDLE || stage == STAGE_PAUSED) {
        return;
    }
    c->stage = STAGE_IDLE;
    c->awaits_stream = false;
    poller_unset(&c->stream_patience);
    bool is_hopeless = c->is_unread && !c->has_info; /* it never worked */
    c->is_unread = false;
    bool is_verdict = reason.code == TIDINGS_E_PARSE || reason.code == TIDINGS_E_UNSUPPORTED;
    if (!is_verdict && broke_in_probe(c, stage) && !is_hopeless) {
        c->transport->ops->close(c->transport);
        c->is_open = false;
        requests_fail_all(c, &reason, REQUESTS_SENT);
        c->era = ++c->broken_probes < PROBES ? 0 : TIDINGS_ERA_LEGACY;
        connection_begin(c);
        return;
    }
    c->loss = reason;
    drop_connection(c, &reason);
    forget_guess(c);
    if (client_is_stopping(c) || c->stage != STAGE_IDLE) {
        return;
    }
    if (is_hopeless ||
        (!connection_may_recover(reason.code) && !is_between_tokens(c, reason.code))) {
        c->era = 0;
        connection_give_up(c, &reason);
    } else if (subscriptions_wants(c) || c->is_eager) {
        struct tidings_state_event e = {.state = TIDINGS_STATE_DISCONNECTED,
                                        .reason = tidings_str(reason.text),
                                        .retry_ms = next_pause(c)};
        c->stage = STAGE_PAUSED;
        poller_set(&c->poller, &c->retry, e.retry_ms);
        events_put_state(c, &e);
    }
}

void connection_lost(struct tidings_client *c, const struct tidings_error *why)
{
    bool is_of_questions = c->transport->ops->has_exchanges && c->era == TIDINGS_ERA_LEGACY &&
                           !subscriptions_wants(c) && question_is_offered(c);
    if (c->awaits_stream) {
        connection_go_on(c); /* without it */
    } else if (is_of_questions && c->stage == STAGE_READY) {
        question_stream_lost(c, why);
    } else if (c->transport->ops->has_exchanges && why->code == TIDINGS_E_UNSUPPORTED) {
        connection_give_up(c, why); /* there is no stream, but answers there are */
    } else {
        connection_lose(c, why);
    }
}

void connection_session_lost(struct tidings_client *c, int64_t id, bool is_present)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CLOSED, "the session has ended");
    if (c->awaits_stream && id == 0) {
        connection_go_on(
            c); /* the stream was refused; what is asked says whether it is the session */
        return;
    }
    bool was_ready = is_present && c->stage == STAGE_READY;
    if (was_ready) {
        c->has_session = false;
        c->transport->ops->forget_session(c->transport);
        c->stage = STAGE_IDLE;
        question_connection_lost(c);
        subscriptions_lost(c);
    }
    if (id > 0 && !requests_retry(c, id)) {
        requests_fail(c, id, 404, &why);
    }
    if (!was_ready) {
        requests_send_all(c); /* in the session that there is by now */
        return;
    }
    if (c->failures++ == 0) {
        connection_need(c);
    } else {
        c->stage = STAGE_READY; /* … which is lost */
        connection_lose(c, &why);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

void connection_leave(struct tidings_client *c)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CANCELLED, "stopped");
    poller_unset(&c->retry);
    c->stage = STAGE_IDLE;
    c->has_session = c->awaits_stream = false;
    poller_unset(&c->stream_patience);
    question_connection_lost(c);
    subscriptions_lost(c);
    requests_fail_all(c, &why, REQUESTS_UNSENT | REQUESTS_SENT);
    poller_remove(&c->poller, &c->wake); /* else a client that was stopped would not wait here */
    uint64_t deadline = clock_monotonic_ms() + 10000; /* links give up much sooner */
    while (c->is_open && !c->transport->ops->leave(c->transport) &&
           clock_monotonic_ms() < deadline && poller_turn(&c->poller, 100, NULL) == 0) {
    }
    (void)poller_add(&c->poller, &c->wake, c->wake_fd, EPOLLIN);
    c->is_open = false;
    c->transport->ops->close(c->transport);
}
