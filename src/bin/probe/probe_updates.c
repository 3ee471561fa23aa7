/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: is a subscriber told of changes of its resource, of nothing else, and only as
 * long as it is subscribed?
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/probe/probe.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"

#define CHANGES 3u       /* how many are made */
#define SILENCE_MS 1000u /* at least, before nothing counts as nothing */
#define SLOW_MS 1000u

struct tidings_client *probe_open(const struct run *r, bool hears, struct tidings_error *err)
{
    struct cli cli = r->cli;
    cli.list_changes = hears;
    struct tidings_client *client = target_open(&cli, err);
    if (client && tidings_client_connect(client, err) < 0) {
        r->probe->wants_login = tidings_client_wants_credentials(client);
        tidings_client_destroy(client);
        return NULL;
    }
    return client;
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* Is an update of `uri` one of what was subscribed to? What is below a container is. */
static bool probe_updates_is_ours(const struct run *r, const char *uri)
{
    size_t n = strlen(r->uri);
    bool is_container = n > 0 && r->uri[n - 1] == '/';
    return strcmp(uri, r->uri) == 0 || (is_container && strncmp(uri, r->uri, n) == 0);
}

/* Whose it is, in the modern era. */
static void take_id(struct heard_messages *h, const char *id)
{
    h->early += !h->is_acknowledged ? 1 : 0;
    h->bare += !id ? 1 : 0;
    if (id && h->id[0] && strcmp(id, h->id) != 0) {
        snprintf(h->wrong_id, sizeof(h->wrong_id), "%.60s", id);
        h->wrong++;
    }
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    struct run *r = user;
    struct heard_messages *h = &r->heard;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/list_changed"))) {
        h->lists++;
        return;
    }
    bool is_acknowledgement =
        tidings_str_eq(method, TIDINGS_STR("notifications/subscriptions/acknowledged"));
    if (strncmp(method.ptr, "notifications/resources/", 24) != 0 && !is_acknowledgement) {
        return;
    }
    char *id = tidings_json_get(params, "/_meta/io.modelcontextprotocol~1subscriptionId");
    if (is_acknowledgement) {
        char *cursor = text_at(params, "/_meta/dev.tidings~1cursor");
        r->has_cursor = r->has_cursor || (cursor && *cursor);
        tidings_free(cursor);
        h->is_acknowledged = true;
        snprintf(h->id, sizeof(h->id), "%.60s", id ? id : "");
        tidings_free(id);
        return;
    }
    char *uri = text_at(params, "/uri");
    bool mine = uri && probe_updates_is_ours(r, uri);
    h->last_ms = now_ms();
    h->updates += mine ? 1 : 0;
    h->foreign += mine ? 0 : 1;
    if (!mine) {
        snprintf(h->foreign_uri, sizeof(h->foreign_uri), "%.100s", uri ? uri : "(none)");
    }
    if (r->is_modern) {
        take_id(h, id);
    }
    tidings_free(uri);
    tidings_free(id);
}

static void probe_updates_on_update(void *user, const struct tidings_update *u)
{
    struct run *r = user;
    bool is_same = tidings_str_eq(u->uri, tidings_str(r->uri));
    r->has_cursor = r->has_cursor || u->cursor.len > 0;
    r->heard.bare += !r->is_modern && !is_same && u->subscribed_uri.len == 0 ? 1 : 0;
}

static void probe_updates_on_state(void *user, const struct tidings_state_event *e)
{
    struct run *r = user;
    if (e->state == TIDINGS_STATE_WATCHING && !r->heard.is_watching) {
        r->heard.is_watching = true;
        r->heard.watched_ms = now_ms();
    }
    if (e->state == TIDINGS_STATE_REFUSED) {
        r->heard.is_refused = true;
        r->heard.refused_code = e->code;
    }
    if (e->state == TIDINGS_STATE_DISCONNECTED) {
        r->heard.is_acknowledged = false;
        r->heard.lost_ms = r->heard.losses++ == 0 ? now_ms() : r->heard.lost_ms;
    }
    if (e->reason.len > 0 && (r->heard.losses <= 1 || e->state == TIDINGS_STATE_REFUSED)) {
        snprintf(r->heard.reason, sizeof(r->heard.reason), "%.*s", (int)e->reason.len,
                 e->reason.ptr);
    }
}

int probe_step(struct tidings_client *client, uint64_t ms, const unsigned *enough,
               struct tidings_error *err)
{
    uint64_t due = now_ms() + ms;
    unsigned before = enough ? *enough : 0;
    int rc = 1;
    for (uint64_t now = now_ms(); now < due && rc > 0; now = now_ms()) {
        if (enough && *enough > before) {
            return rc;
        }
        probe_waits(due - now);
        rc = tidings_client_step(client, (int)(due - now < 100 ? due - now : 100), err);
    }
    return rc;
}

void probe_listen(struct run *r, uint64_t ms, bool until_update)
{
    struct tidings_error err = {0};
    int rc = probe_step(r->client, ms, until_update ? &r->heard.updates : NULL, &err);
    if (rc < 0 && !r->heard.reason[0]) {
        snprintf(r->heard.reason, sizeof(r->heard.reason), "%.150s", err.text);
    }
}

uint64_t probe_silence(const struct run *r)
{
    uint64_t ms = 2 * r->delay_ms + PROBE_LATE_MS;
    ms = ms < SILENCE_MS ? SILENCE_MS : ms;
    return ms < r->probe->wait_ms ? ms : r->probe->wait_ms;
}

enum verdict probe_stray_verdict(const struct run *r)
{
    return r->is_modern ? VERDICT_FAIL : VERDICT_WARN;
}

/* ---- the checks ------------------------------------------------------------------------------ */

/* The acknowledgement of something else is not waited beyond. */
static bool is_wrong_acknowledgement(const struct heard_messages *h, uint64_t *since)
{
    if (h->is_acknowledged && *since == 0) {
        *since = now_ms();
    }
    return *since > 0 && now_ms() - *since >= SILENCE_MS;
}

static uint64_t reopened(const struct run *r)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    return info ? info->reopened : 0;
}

unsigned probe_reopened(const struct run *r)
{
    return (unsigned)(reopened(r) - r->heard.reopened);
}

/* A server may refuse any URI, have no stream, or fail; it must not declare what it does not know,
 * and in the modern era it must acknowledge first. `rc`: what ended the waiting. */
static enum verdict subscribe_verdict(const struct run *r, int rc)
{
    const struct heard_messages *h = &r->heard;
    bool is_unknown =
        h->refused_code == TIDINGS_E_UNSUPPORTED || (r->is_modern && rc == TIDINGS_E_UNSUPPORTED);
    bool is_answered = h->is_refused || rc < 0 || h->losses > 0;
    bool lacks_acknowledgement = r->is_modern && !is_answered;
    if (!r->declares_subscribe && !lacks_acknowledgement) {
        return VERDICT_SKIP;
    }
    return is_unknown || lacks_acknowledgement ? VERDICT_FAIL : VERDICT_WARN;
}

struct tidings_subscription *probe_subscribe(struct run *r)
{
    struct tidings_error err = {0};
    struct tidings_subscribe_options on = {.fn = probe_updates_on_update, .user = r};
    struct heard_messages *h = &r->heard;
    memset(h, 0, sizeof(*h));
    h->reopened = reopened(r);
    tidings_client_on_state(r->client, probe_updates_on_state, r);
    tidings_client_on_notification(r->client, on_notification, r);
    struct tidings_subscription *sub = tidings_client_subscribe(r->client, r->uri, &on, &err);
    uint64_t due = now_ms() + r->probe->wait_ms, since = 0;
    int rc = sub ? 1 : err.code;
    while (rc > 0 && !h->is_watching && !h->is_refused && !is_wrong_acknowledgement(h, &since) &&
           now_ms() < due) {
        rc = tidings_client_step(r->client, 100, &err);
    }
    if (h->is_watching) {
        return sub;
    }
    h->verdict = subscribe_verdict(r, rc);
    if (rc < 0 && !h->reason[0]) {
        snprintf(h->reason, sizeof(h->reason), "%.150s", err.text);
    } else if (h->is_acknowledged && !h->is_refused) {
        snprintf(h->reason, sizeof(h->reason),
                 "the acknowledgement names subscription %s, not the request it answers",
                 h->id[0] ? h->id : "(none)");
    } else if (!h->reason[0]) {
        snprintf(h->reason, sizeof(h->reason), "%s",
                 h->is_refused ? "refused" : "no acknowledgement in time");
    }
    tidings_subscription_end(sub);
    return NULL;
}

struct update_delays {
    unsigned made, heard;
    uint64_t best, worst; /* ms */
    bool is_changed;      /* what was not told: it reads differently … */
    bool is_same;         /* … or not; neither: it cannot be read */
};

/* Make changes and see them told. */
static int change_and_hear(struct run *r, struct update_delays *t, struct tidings_error *err)
{
    bool is_made = probe_can_change(r);
    for (t->made = 0; t->made < CHANGES;) {
        unsigned before = r->heard.updates;
        uint64_t content = is_made ? probe_content(r) : 0;
        uint64_t begun = now_ms();
        int rc = probe_change(r, r->client, err);
        if (rc < 0) {
            return rc;
        }
        if (r->probe->change) {
            begun = now_ms(); /* it has happened by then */
        }
        t->made++;
        probe_doing(r->probe, "change %u of %u: waiting for the update", t->made, CHANGES);
        probe_ask_person(r, t->made == 1 ? "three times in all" : "once more");
        probe_listen(r, r->probe->wait_ms, true);
        if (r->heard.updates == before) {
            uint64_t after = content ? probe_content(r) : 0;
            t->is_changed = after != 0 && after != content;
            t->is_same = after != 0 && after == content;
            break;
        }
        uint64_t took = r->heard.last_ms > begun ? r->heard.last_ms - begun : 0;
        t->heard++;
        t->best = t->heard == 1 || took < t->best ? took : t->best;
        t->worst = took > t->worst ? took : t->worst;
        if (is_made && r->toggled != r->client) {
            probe_listen(r, PROBE_LATE_MS, false);
        }
    }
    r->is_told = t->heard > 0;
    r->delay_ms = t->worst;
    return 0;
}

static void report_told(struct run *r, const struct update_delays *t)
{
    bool is_made = probe_can_change(r) && r->toggled != r->client;
    if (t->heard == 0 && !probe_can_change(r)) {
        probe_found(r, "updates", VERDICT_SKIP,
                    "nothing changed within %.1f s; --change, --call or --touch brings that about",
                    (double)r->probe->wait_ms / 1000);
    } else if (t->heard < t->made && is_made) {
        probe_found(r, "updates", VERDICT_FAIL, "%u of %u changes were told within %.1f s; %.100s",
                    t->heard, t->made, (double)r->probe->wait_ms / 1000,
                    r->heard.reason[0] ? r->heard.reason
                    : t->is_changed    ? "the resource reads differently now"
                    : t->is_same       ? "the resource reads as before: was it changed?"
                                       : "it cannot be read, so whether it changed is not known");
    } else if (t->heard == 0) {
        probe_found(r, "updates", VERDICT_FAIL, "nothing within %.1f s",
                    (double)r->probe->wait_ms / 1000);
    } else if (is_made) {
        probe_found(r, "updates", VERDICT_PASS, "%u changes, each was told", t->heard);
    } else {
        probe_found(r, "updates", VERDICT_PASS, "%u updates came by themselves", t->heard);
    }
    if (t->heard == 0 || !is_made) {
        probe_found(r, "latency", VERDICT_SKIP, "no change whose moment is known was told");
    } else {
        probe_found(r, "latency", t->worst > SLOW_MS ? VERDICT_WARN : VERDICT_PASS,
                    "%llu to %llu ms from %s to the update", (unsigned long long)t->best,
                    (unsigned long long)t->worst,
                    r->probe->change ? "the end of the command" : "the call of the tool");
    }
}

static void report_heard(struct run *r)
{
    const struct heard_messages *h = &r->heard;
    if (h->foreign > 0) {
        probe_found(r, "filtered", probe_stray_verdict(r), "%u updates of something else, as %s",
                    h->foreign, h->foreign_uri);
    } else if (h->updates > 0) {
        probe_found(r, "filtered", VERDICT_PASS, "%u updates, all of what was subscribed to",
                    h->updates);
    } else {
        probe_found(r, "filtered", VERDICT_SKIP, "nothing was told");
    }
    unsigned all = h->updates + h->foreign;
    if (all == 0) {
        probe_found(r, "correlated", VERDICT_SKIP, "nothing was told");
    } else if (h->wrong > 0) {
        probe_found(r, "correlated", VERDICT_FAIL,
                    "%u of %u updates name subscription %s; it was acknowledged as %s", h->wrong,
                    all, h->wrong_id, h->id);
    } else if (h->bare > 0) {
        probe_found(r, "correlated", r->is_modern ? VERDICT_FAIL : VERDICT_WARN,
                    "%u of %u updates do not say which subscription they belong to", h->bare, all);
    } else {
        probe_found(r, "correlated", VERDICT_PASS, "each of %u updates names its subscription",
                    all);
    }
}

/* Modern: the acknowledgement. */
static void report_acknowledged(struct run *r)
{
    const struct heard_messages *h = &r->heard;
    if (h->early > 0) {
        probe_found(r, "acknowledged", VERDICT_FAIL, "%u updates came before the acknowledgement",
                    h->early);
    } else if (!h->id[0]) {
        probe_found(r, "acknowledged", VERDICT_FAIL, "the acknowledgement has no subscriptionId");
    } else {
        probe_found(r, "acknowledged", VERDICT_PASS, "first, as subscription %s", h->id);
    }
}

/* How the connection did meanwhile. */
static void report_stream(struct run *r)
{
    const struct heard_messages *h = &r->heard;
    double lived = (double)((h->losses > 0 ? h->lost_ms : now_ms()) - h->watched_ms) / 1000;
    if (h->losses > 0) {
        probe_found(r, "stream", VERDICT_WARN, "lost %u times, first after %.1f s: %.120s",
                    h->losses, lived, h->reason);
    } else if (probe_reopened(r) > 0) {
        probe_found(r, "stream", VERDICT_WARN,
                    "ended %u times within %.1f s, and was taken up again after Last-Event-ID",
                    probe_reopened(r), lived);
    } else {
        probe_found(r, "stream", VERDICT_PASS, "open for %.1f s", lived);
    }
    r->watched_ms += (uint64_t)(lived * 1000);
}

/* Ending it, and what is heard then. */
static void check_unsubscribe(struct run *r, struct tidings_subscription *sub)
{
    struct tidings_error err = {0};
    tidings_subscription_end(sub);
    probe_listen(r, PROBE_LATE_MS, false);
    char *answer = tidings_client_request(r->client, "resources/list", "{}", &err);
    tidings_free(answer); /* whatever it is: what was sent before has been dealt with */
    probe_listen(r, PROBE_LATE_MS, false);
    if (!r->is_told) {
        probe_found(r, "unsubscribe", VERDICT_SKIP, "nothing was told before");
        return;
    }
    memset(&r->heard, 0, sizeof(r->heard));
    if (probe_change(r, r->client, &err) < 0) {
        probe_found(r, "unsubscribe", VERDICT_SKIP, "%.150s", err.text);
        return;
    }
    uint64_t silence = probe_silence(r);
    probe_doing(r->probe, "nothing must come after unsubscribing");
    probe_ask_person(r, "once more: nothing must come");
    probe_listen(r, silence, false);
    unsigned late = r->heard.updates + r->heard.foreign;
    probe_found(r, "unsubscribe", late > 0 ? probe_stray_verdict(r) : VERDICT_PASS,
                "%u updates within %.1f s after it", late, (double)silence / 1000);
}

void probe_updates(struct run *r)
{
    struct tidings_error err = {0};
    struct update_delays told = {0};
    struct other other = {0};
    if (r->uri) {
        probe_doing(r->probe, "subscribing to %.100s", r->uri);
    }
    struct tidings_subscription *sub = r->uri ? probe_subscribe(r) : NULL;
    if (!sub) {
        if (r->uri) {
            probe_found(r, "subscribe", r->heard.verdict, "%.80s: %.100s%s", r->uri,
                        r->heard.reason,
                        r->declares_subscribe ? "" : "; resources.subscribe is not declared");
        }
        return;
    }
    probe_found(r, "subscribe", VERDICT_PASS, "%.120s, accepted", r->uri);
    probe_other_open(r, &other);
    if (change_and_hear(r, &told, &err) < 0) {
        probe_found(r, "updates", VERDICT_SKIP, "no change was made: %.150s", err.text);
    } else {
        report_told(r, &told);
    }
    report_heard(r);
    if (r->is_modern) {
        report_acknowledged(r);
    }
    probe_other_report(r, &other);
    probe_lists(r, &other);
    tidings_client_destroy(other.client);
    report_stream(r);
    check_unsubscribe(r, sub);
}
