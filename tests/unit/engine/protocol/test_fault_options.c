/* SPDX-License-Identifier: MIT
 *
 * Subscriptions with options without memory. With any failed allocation nothing leaks and no watch
 * remains. Each client with a confirmed subscription receives a later change or a truncated update,
 * or is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

static struct harness b;
static struct stub stub;
static long live_before;

static void begin(void)
{
    fail_alloc_start(0);
    live_before = fail_alloc_live();
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", STUB_QUERY);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    stub_add(&stub, "mem://x/dir/", true);
    harness_update(&b, "mem://x/a"); /* 1: a change to miss */
    harness_update(&b, "mem://x/b");
    harness_run_until_idle(&b);
}

/* `forgotten`: a watch that cannot be released without memory stays; nothing is lost. */
static void end(unsigned forgotten)
{
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    assert_int_equal(b.worker[0]->delivery->windows.count, 0);
    assert_true(stub_watched_all(&stub) <= forgotten);
    harness_stop(&b);
    assert_int_equal(fail_alloc_live(), live_before);
}

struct life {
    const char *uris, *options;
};

static const struct life lives[] = {
    {"[\"mem://x/a\"]", "{\"windowMs\":60000}"},
    {"[\"mem://x/a\",\"mem://x/\"]", "{\"include\":\"value\"}"},
    {"[\"mem://x/a\",\"mem://x/*\"]", "{\"initial\":true}"},
    {"[\"mem://x/a\",\"mem://x/**\"]", "{\"since\":\"EPOCH.0\"}"},
    {"[\"mem://x/a\",\"mem://x/{n}\"]", "{\"since\":\"1.1\",\"rateMs\":50}"},
    {"[\"mem://x/a\",\"mem://x?pattern=*\"]", "{\"origin\":\"me\",\"echo\":false}"},
    {"[\"mem://x/a\",\"mem://x/*\"]",
     "{\"filter\":{\"properties\":{\"uri\":{\"pattern\":\"a\"}}}}"},
    {"[\"mem://x/a\"]", "{\"match\":\"regex\",\"include\":\"metadata\"}"},
};

/* The subscription to mem://x/a was confirmed: returns true if the change numbered `seq` or its
 * loss was sent. */
static bool knows(const struct client *c, uint64_t seq)
{
    if (c->is_gone) {
        return true; /* cut: it resumes */
    }
    for (size_t i = 0; i < update_count(c, "mem://x/a"); i++) {
        const char *text = update_nth(c, "mem://x/a", i);
        if (json_at(text, "params|_meta|dev.tidings/truncated") || version_of(text) >= seq) {
            return true;
        }
    }
    return false;
}

/* Fails the n-th allocation of a listen and its updates; returns true if that allocation was
 * reached. */
static bool live(const struct life *l, long n)
{
    char options[128];
    const char *mark = strstr(l->options, "EPOCH");
    begin();
    snprintf(options, sizeof(options), "%.*s%llx%s", mark ? (int)(mark - l->options) : 0,
             l->options, (unsigned long long)b.worker[0]->epoch, mark ? mark + 5 : "");
    struct client *c = client_http(&b);
    fail_alloc_start(n);
    client_listen_with(c, "1", l->uris, mark ? options : l->options);
    harness_run_until_idle(&b);
    for (unsigned i = 0; i < 3; i++) {
        struct tidings_change change = {.uri = STR("mem://x/a"), .metadata = STR("{\"n\":1}")};
        (void)hub_announce(b.hub, &change, NULL);
        harness_run_until_idle(&b);
    }
    harness_end_windows(&b);
    bool reached = fail_alloc_stop();
    /* With memory, one more change: a lost number shows as a gap. */
    harness_update(&b, "mem://x/a");
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    bool promised = !c->is_gone && client_count(c, SAID_ACK) == 1 && is_honoured(c, "mem://x/a");
    if (promised && !knows(c, b.worker[0]->last_seq)) {
        fail_msg("with %s, allocation %ld: change %llu was lost in silence", l->options, n,
                 (unsigned long long)b.worker[0]->last_seq);
    }
    client_free(c);
    end(0);
    return reached;
}

static void listens_survive_any_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        long n = 1;
        while (live(&lives[i], n)) {
            n++;
        }
        assert_true(n > 20);
    }
    fail_alloc_end();
}

/* The same for a client that resubscribes on a pipe, with a rate set in between. */
static bool live_on_a_pipe(long n)
{
    begin();
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    harness_run_until_idle(&b);
    fail_alloc_start(n);
    for (size_t i = 0; i < 3; i++) {
        client_legacy(pipe, NULL, "5", "resources/subscribe",
                      text_of("\"uri\":\"mem://x/a\",\"_meta\":{\"dev.tidings/options\":%s}",
                              lives[i].options));
        harness_run_until_idle(&b);
        struct tidings_change change = {.uri = STR("mem://x/a")};
        (void)hub_announce(b.hub, &change, NULL);
        (void)hub_set_rate(b.hub, STR("mem://x/a"), 5 * i, NULL);
        (void)hub_announce(b.hub, &change, NULL);
        (void)hub_announce_everything(b.hub, NULL);
        harness_run_until_idle(&b);
    }
    bool reached = fail_alloc_stop();
    client_free(pipe);
    end(1);
    return reached;
}

static void resubscriptions_survive_any_failure(void **state)
{
    (void)state;
    long n = 1;
    while (live_on_a_pipe(n)) {
        n++;
    }
    assert_true(n > 30);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listens_survive_any_failure),
        cmocka_unit_test(resubscriptions_survive_any_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
