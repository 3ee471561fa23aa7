/* SPDX-License-Identifier: MIT
 *
 * Is a subscriber told, of that and nothing else, and only as long as it wants to be?
 */
#include <stdlib.h>
#include <time.h>

#include <tidings/json.h>

#include "probe.h"
#include "remote.h"
#include "target.h"

#define CHANGES 3u       /* how many are made */
#define SETTLE_MS 300u   /* for what belongs to the change before */
#define SILENCE_MS 1000u /* at least, before nothing counts as nothing */
#define SLOW_MS 1000u
/* The client keeps a listen that was replaced for two seconds, where no cursor bridges the gap. */
#define FADE_MS 2500u

uint64_t probe_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

struct tidings_client *probe_open(const struct run *r, bool hears, struct tidings_error *err)
{
    struct cli cli = r->cli;
    cli.list_changes = hears;
    struct tidings_client *client = target_open(&cli, err);
    if (client && tidings_client_connect(client, err) < 0) {
        tidings_client_destroy(client);
        return NULL;
    }
    return client;
}

/* ---- hearing ----------------------------------------------------------------------------------
 */

/* Is an update of `uri` one of what was subscribed to? What is below a container is. */
static bool is_ours(const struct run *r, const char *uri)
{
    size_t n = strlen(r->uri);
    bool is_container = n > 0 && r->uri[n - 1] == '/';
    return strcmp(uri, r->uri) == 0 || (is_container && strncmp(uri, r->uri, n) == 0);
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    struct run *r = user;
    struct heard *h = &r->heard;
    if (method.len > 13 && strncmp(method.ptr + method.len - 13, "/list_changed", 13) == 0) {
        h->lists++;
        return;
    }
    if (strncmp(method.ptr, "notifications/resources/", 24) != 0) {
        return;
    }
    char *uri = text_at(params, "/uri");
    char *id = tidings_json_get(params, "/_meta/io.modelcontextprotocol~1subscriptionId");
    bool mine = uri && is_ours(r, uri);
    h->last_ms = probe_now();
    h->updates += mine ? 1 : 0;
    h->foreign += mine ? 0 : 1;
    if (!mine) {
        snprintf(h->foreign_uri, sizeof(h->foreign_uri), "%.100s", uri ? uri : "(none)");
    }
    h->bare += mine && r->is_modern && !id ? 1 : 0;
    tidings_free(uri);
    tidings_free(id);
}

static void on_update(void *user, const struct tidings_client_update *u)
{
    struct run *r = user;
    bool is_same = tidings_str_eq(u->uri, tidings_str(r->uri));
    r->has_cursor = r->has_cursor || u->cursor.len > 0;
    r->heard.bare += !r->is_modern && !is_same && u->subscribed_uri.len == 0 ? 1 : 0;
}

static void on_state(void *user, const struct tidings_client_event *e)
{
    struct run *r = user;
    r->heard.is_watching = r->heard.is_watching || e->state == TIDINGS_CLIENT_WATCHING;
    r->heard.is_refused = r->heard.is_refused || e->state == TIDINGS_CLIENT_REFUSED;
    r->heard.losses += e->state == TIDINGS_CLIENT_DISCONNECTED ? 1 : 0;
    if (e->reason.len > 0) {
        snprintf(r->heard.reason, sizeof(r->heard.reason), "%.*s", (int)e->reason.len,
                 e->reason.ptr);
    }
}

void probe_listen(struct run *r, uint64_t ms, bool until_update)
{
    struct tidings_error err = {0};
    uint64_t due = probe_now() + ms;
    unsigned before = r->heard.updates;
    int rc = 1;
    for (uint64_t now = probe_now(); now < due && rc > 0; now = probe_now()) {
        if (until_update && r->heard.updates > before) {
            return;
        }
        rc = tidings_client_step(r->client, (int)(due - now < 100 ? due - now : 100), &err);
    }
    if (rc < 0 && !r->heard.reason[0]) {
        snprintf(r->heard.reason, sizeof(r->heard.reason), "%.150s", err.text);
    }
}

uint64_t probe_silence(const struct run *r)
{
    uint64_t ms = 2 * r->delay_ms + SETTLE_MS;
    ms = ms < SILENCE_MS ? SILENCE_MS : ms;
    return ms < r->probe->wait_ms ? ms : r->probe->wait_ms;
}

/* ---- somebody who did not subscribe -----------------------------------------------------------
 */

static void on_stray(void *user, struct tidings_str method, struct tidings_str params)
{
    (void)params;
    unsigned *count = user;
    *count += tidings_str_eq(method, TIDINGS_STR("notifications/resources/updated")) ? 1 : 0;
}

static void step_for(struct tidings_client *client, uint64_t ms)
{
    uint64_t due = probe_now() + ms;
    int rc = 1;
    for (uint64_t now = probe_now(); now < due && rc > 0; now = probe_now()) {
        rc = tidings_client_step(client, (int)(due - now < 100 ? due - now : 100), NULL);
    }
}

/* NULL where there can be none. */
static struct tidings_client *bystander_open(struct run *r, unsigned *strays)
{
    struct tidings_error err = {0};
    if (r->cli.launch) {
        return NULL; /* it would talk to another process */
    }
    struct tidings_client *client = probe_open(r, true, &err);
    if (client) {
        tidings_client_on_notification(client, on_stray, strays);
        step_for(client, SETTLE_MS);
    }
    return client;
}

static void bystander_close(struct run *r, struct tidings_client *client, const unsigned *strays)
{
    if (!client) {
        probe_found(r, "bystander", VERDICT_SKIP, "%s",
                    r->cli.launch ? "a launched server has one client"
                                  : "no second client could connect");
        return;
    }
    step_for(client, SETTLE_MS);
    if (!r->is_told) {
        probe_found(r, "bystander", VERDICT_SKIP, "nothing changed");
    } else if (*strays > 0) {
        probe_found(r, "bystander", VERDICT_FAIL, "%u updates for a client that never subscribed",
                    *strays);
    } else {
        probe_found(r, "bystander", VERDICT_PASS, "a client that did not subscribe heard nothing");
    }
    tidings_client_destroy(client);
}

/* ---- the checks -------------------------------------------------------------------------------
 */

static struct tidings_subscription *subscribe(struct run *r)
{
    struct tidings_error err = {0};
    struct tidings_subscribing on = {.fn = on_update, .user = r};
    tidings_client_on_state(r->client, on_state, r);
    tidings_client_on_notification(r->client, on_notification, r);
    struct tidings_subscription *sub = tidings_client_subscribe(r->client, r->uri, &on, &err);
    uint64_t begun = probe_now();
    uint64_t due = begun + r->probe->wait_ms;
    int rc = sub ? 1 : err.code;
    while (rc > 0 && !r->heard.is_watching && !r->heard.is_refused && probe_now() < due) {
        rc = tidings_client_step(r->client, 100, &err);
    }
    if (r->heard.is_watching) {
        probe_found(r, "subscribe", VERDICT_PASS, "%.120s, accepted", r->uri);
        return sub;
    }
    probe_found(r, "subscribe", VERDICT_FAIL, "%.80s: %.100s", r->uri,
                rc < 0                ? err.text
                : r->heard.reason[0]  ? r->heard.reason
                : r->heard.is_refused ? "refused"
                                      : "no acknowledgement in time");
    return NULL;
}

struct told {
    unsigned made, heard;
    uint64_t best, worst; /* ms */
};

/* Make changes and see them told. */
static int change_and_hear(struct run *r, struct told *t, struct tidings_error *err)
{
    bool is_made = probe_can_change(r);
    for (t->made = 0; t->made < CHANGES;) {
        unsigned before = r->heard.updates;
        uint64_t begun = probe_now();
        int rc = probe_change(r, r->client, err);
        if (rc < 0) {
            return rc;
        }
        if (r->probe->change) {
            begun = probe_now(); /* it has happened by then */
        }
        t->made++;
        probe_listen(r, r->probe->wait_ms, true);
        if (r->heard.updates == before) {
            break;
        }
        uint64_t took = r->heard.last_ms > begun ? r->heard.last_ms - begun : 0;
        t->heard++;
        t->best = t->heard == 1 || took < t->best ? took : t->best;
        t->worst = took > t->worst ? took : t->worst;
        if (is_made && r->toggled != r->client) {
            probe_listen(r, SETTLE_MS, false);
        }
    }
    r->is_told = t->heard > 0;
    r->delay_ms = t->worst;
    return 0;
}

static void report_told(struct run *r, const struct told *t)
{
    bool is_made = probe_can_change(r) && r->toggled != r->client;
    if (t->heard == 0 && !probe_can_change(r)) {
        probe_found(r, "updates", VERDICT_SKIP,
                    "nothing changed within %.1f s; --change or --touch brings changes about",
                    (double)r->probe->wait_ms / 1000);
    } else if (t->heard < t->made && is_made) {
        probe_found(r, "updates", VERDICT_FAIL, "%u of %u changes were told within %.1f s%s%.80s",
                    t->heard, t->made, (double)r->probe->wait_ms / 1000,
                    r->heard.reason[0] ? "; " : "", r->heard.reason);
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
    const struct heard *h = &r->heard;
    if (h->foreign > 0) {
        probe_found(r, "filtered", VERDICT_FAIL, "%u updates of something else, as %s", h->foreign,
                    h->foreign_uri);
    } else if (h->updates > 0) {
        probe_found(r, "filtered", VERDICT_PASS, "%u updates, all of what was subscribed to",
                    h->updates);
    } else {
        probe_found(r, "filtered", VERDICT_SKIP, "nothing was told");
    }
    if (h->updates == 0) {
        probe_found(r, "correlated", VERDICT_SKIP, "nothing was told");
    } else if (h->bare > 0) {
        probe_found(r, "correlated", r->is_modern ? VERDICT_FAIL : VERDICT_WARN,
                    "%u of %u updates do not say which subscription they belong to", h->bare,
                    h->updates);
    } else {
        probe_found(r, "correlated", VERDICT_PASS, "each of %u updates names its subscription",
                    h->updates);
    }
}

/* Ending it, and what is heard then. */
static void check_unsubscribe(struct run *r, struct tidings_subscription *sub)
{
    struct tidings_error err = {0};
    tidings_subscription_end(sub);
    probe_listen(r, SETTLE_MS, false);
    char *answer = tidings_client_request(r->client, "resources/list", "{}", &err);
    tidings_free(answer); /* whatever it is: what was sent before has been dealt with */
    probe_listen(r, r->is_modern && !r->has_cursor ? FADE_MS : SETTLE_MS, false);
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
    probe_listen(r, silence, false);
    unsigned late = r->heard.updates + r->heard.foreign;
    probe_found(r, "unsubscribe", late > 0 ? VERDICT_FAIL : VERDICT_PASS,
                "%u updates within %.1f s after it", late, (double)silence / 1000);
}

static void check_list_changed(struct run *r, unsigned lists)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    bool is_said = info && strstr(info->capabilities, "\"listChanged\":true");
    if (lists > 0) {
        probe_found(r, "list-changed", is_said ? VERDICT_PASS : VERDICT_WARN, "%u came, %s", lists,
                    is_said ? "as advertised" : "though it is not advertised");
    } else {
        probe_found(r, "list-changed", VERDICT_SKIP, "%sadvertised; no list changed meanwhile",
                    is_said ? "" : "not ");
    }
}

void probe_updates(struct run *r)
{
    struct tidings_error err = {0};
    struct told told = {0};
    unsigned strays = 0;
    struct tidings_subscription *sub = r->uri ? subscribe(r) : NULL;
    if (!sub) {
        return;
    }
    struct tidings_client *bystander = bystander_open(r, &strays);
    if (change_and_hear(r, &told, &err) < 0) {
        probe_found(r, "updates", VERDICT_SKIP, "no change was made: %.150s", err.text);
    } else {
        report_told(r, &told);
    }
    report_heard(r);
    bystander_close(r, bystander, &strays);
    unsigned lists = r->heard.lists;
    check_unsubscribe(r, sub);
    check_list_changed(r, lists + r->heard.lists);
}
