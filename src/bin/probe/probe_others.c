/* SPDX-License-Identifier: MIT
 *
 * `tidings probe` with a second client, which does not subscribe to the resource and wants to be
 * told when lists change; the first does the opposite. So each must hear of one thing, and not of
 * the other.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/probe/probe.h"
#include "bin/remote/remote.h"

#define STEP_MS 50u

static void probe_others_on_notification(void *user, struct tidings_str method,
                                         struct tidings_str params)
{
    struct other *o = user;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/list_changed"))) {
        char *id = tidings_json_get(params, "/_meta/io.modelcontextprotocol~1subscriptionId");
        o->lists++;
        o->bare += id ? 0 : 1;
        tidings_free(id);
    } else if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/updated"))) {
        char *uri = text_at(params, "/uri");
        snprintf(o->uri, sizeof(o->uri), "%.100s", uri && *uri ? uri : "(none)");
        o->updates++;
        tidings_free(uri);
    } else if (tidings_str_eq(method, TIDINGS_STR("notifications/subscriptions/acknowledged"))) {
        o->is_acknowledged = true;
    }
}

static void probe_others_on_state(void *user, const struct tidings_state_event *e)
{
    struct other *o = user;
    o->losses += e->state == TIDINGS_STATE_DISCONNECTED ? 1 : 0;
}

/* Is it a process of its own, which knows nothing of what others are told? */
static bool is_apart(const struct run *r)
{
    return r->cli.launch && !r->probe->change_list;
}

void probe_other_open(struct run *r, struct other *o)
{
    struct tidings_error err = {0};
    if (is_apart(r)) {
        return;
    }
    o->client = probe_open(r, true, &err);
    if (!o->client) {
        return;
    }
    tidings_client_on_notification(o->client, probe_others_on_notification, o);
    tidings_client_on_state(o->client, probe_others_on_state, o);
    uint64_t due = now_ms() + r->probe->wait_ms;
    int rc = 1;
    while (r->is_modern && !o->is_acknowledged && rc > 0 && now_ms() < due) {
        rc = tidings_client_step(o->client, STEP_MS, NULL);
    }
    if (!r->is_modern) {
        (void)probe_step(o->client, PROBE_LATE_MS, NULL, NULL); /* nobody says when it is heard */
    }
}

void probe_other_report(struct run *r, const struct other *o)
{
    if (!o->client || r->cli.launch) {
        probe_found(r, "bystander", VERDICT_SKIP, "%s",
                    r->cli.launch ? "a launched server has one client"
                                  : "no second client could connect");
        return;
    }
    (void)probe_step(o->client, PROBE_LATE_MS, NULL, NULL);
    if (o->updates > 0) {
        probe_found(r, "bystander", probe_stray_verdict(r),
                    "%u updates for a client that never subscribed, as %s", o->updates, o->uri);
    } else if (!r->is_told) {
        probe_found(r, "bystander", VERDICT_SKIP, "nothing changed");
    } else {
        probe_found(r, "bystander", VERDICT_PASS, "a client that did not subscribe heard nothing");
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Those who are to be told of it: whoever asked; legacy, where nobody can ask: everybody. */
static unsigned probe_others_expected(const struct run *r, const struct other *o)
{
    return o->lists + (r->is_modern ? 0 : r->heard.lists);
}

/* Change the list and see it told: 1, or 0: there is no way to, or a negative code. */
static int change_list_and_hear(struct run *r, struct other *o, uint64_t *took, bool *ret_same)
{
    struct tidings_error err = {0};
    struct tidings_client *by = o->client ? o->client : r->client;
    unsigned before = probe_others_expected(r, o);
    uint64_t list = probe_list(r);
    uint64_t begun = now_ms();
    int rc = probe_change_list(r, by, &err);
    if (rc < 0) {
        probe_found(r, "list-changed", VERDICT_SKIP, "%.150s", err.text);
    }
    if (rc <= 0) {
        return rc;
    }
    int alive = 1;
    while (alive > 0 && probe_others_expected(r, o) == before &&
           now_ms() - begun < r->probe->wait_ms) {
        alive = o->client ? tidings_client_step(o->client, STEP_MS, NULL) : 1;
        alive = alive > 0 ? tidings_client_step(r->client, o->client ? 0 : STEP_MS, NULL) : alive;
    }
    *took = now_ms() - begun;
    uint64_t after = probe_list(r);
    *ret_same = list != 0 && list == after;
    probe_listen(r, PROBE_LATE_MS, false); /* for what must not come */
    probe_restore_list(r, by);
    return 1;
}

static void report_lists(struct run *r, const struct other *o, int provoked, bool is_same,
                         uint64_t took)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    bool is_said = info && is_true_at(tidings_str(info->capabilities), "/resources/listChanged");
    double s = (double)r->probe->wait_ms / 1000;
    unsigned n = probe_others_expected(r, o);
    if (n > 0 && !is_said) {
        probe_found(r, "list-changed", VERDICT_WARN, "%u came, though it is not advertised", n);
    } else if (r->is_modern && o->bare > 0) {
        probe_found(r, "list-changed", VERDICT_FAIL,
                    "%u of %u came without the subscriptionId of who asked", o->bare, n);
    } else if (n > 0 && provoked) {
        probe_found(r, "list-changed", VERDICT_PASS, "told %llu ms after the list changed",
                    (unsigned long long)took);
    } else if (n > 0) {
        probe_found(r, "list-changed", VERDICT_PASS, "%u came, as advertised", n);
    } else if (!provoked) {
        probe_found(r, "list-changed", VERDICT_SKIP,
                    "%sadvertised; no list changed meanwhile (--change-list)",
                    is_said ? "" : "not ");
    } else if (!is_said) {
        probe_found(r, "list-changed", VERDICT_SKIP, "not advertised, and not told");
    } else {
        probe_found(r, "list-changed", VERDICT_WARN, "nothing within %.1f s; %s%s", s,
                    is_same ? "the list reads as before: was it changed?"
                            : "the list reads differently now",
                    o->losses > 0 ? "; the stream was lost meanwhile" : "");
    }
}

void probe_lists(struct run *r, struct other *o)
{
    uint64_t took = 0;
    bool is_same = false;
    int provoked = change_list_and_hear(r, o, &took, &is_same);
    if (provoked >= 0) {
        report_lists(r, o, provoked, is_same, took);
    }
    if (!r->is_modern) {
        return;
    }
    if (r->heard.lists > 0) {
        probe_found(r, "list-unasked", VERDICT_FAIL,
                    "%u came to a client that asked for updates of resources alone",
                    r->heard.lists);
    } else if (o->lists == 0) {
        probe_found(r, "list-unasked", VERDICT_SKIP, "no list changed meanwhile");
    } else {
        probe_found(r, "list-unasked", VERDICT_PASS,
                    "a client that did not ask for it heard nothing");
    }
}
