/* SPDX-License-Identifier: MIT
 *
 * Patches without memory, and their cost. With any failed allocation nothing leaks and no client
 * receives a patch that it cannot apply. A thousand subscribers cost no more allocations and
 * patches than ten.
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
#include "support/harness_docs.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define DATA "params|_meta|dev.tidings/data"
#define A "doc:///a"

static struct harness b;
static struct docs docs;
static long live_before;

static void begin(unsigned flags)
{
    fail_alloc_start(0);
    live_before = fail_alloc_live();
    docs_begin(&docs, &b, flags);
    docs_write(&docs, A, "{\"n\":1}");
}

static void end(void)
{
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    docs_end(&docs);
    assert_int_equal(fail_alloc_live(), live_before);
}

/* Each patch starts at the previous version; the last leads to the current value. */
static void check_chain(const struct client *c, const char *uri, const char *begun)
{
    char at[16];
    snprintf(at, sizeof(at), "%s", begun);
    bool truncated = false;
    for (size_t i = 0; i < update_count(c, uri); i++) {
        const char *text = update_nth(c, uri, i);
        truncated = truncated || json_at(text, "params|_meta|dev.tidings/truncated");
        if (json_at(text, DATA "|patch")) {
            assert_json(text, DATA "|baseline", at);
        }
        if (json_at(text, DATA "|patch") || json_at(text, DATA "|full")) {
            snprintf(at, sizeof(at), "%s", json_at(text, DATA "|etag"));
        }
    }
    assert_true(truncated || strcmp(at, docs_etag(&docs, A)) == 0);
}

static bool live(unsigned flags, const char *uri, const char *options, long n)
{
    begin(flags);
    struct client *c = client_http(&b);
    fail_alloc_start(n);
    client_listen_with(c, "1", text_of("[\"%s\"]", uri), options);
    harness_run_until_idle(&b);
    docs_put(&docs, A, "{\"n\":2}", NULL);
    harness_run_until_idle(&b);
    docs_put(&docs, A, "{\"n\":3,\"s\":[1]}", "me");
    harness_run_until_idle(&b);
    docs_put(&docs, A, NULL, NULL);
    harness_run_until_idle(&b);
    docs_put(&docs, A, "{\"n\":null}", NULL);
    harness_run_until_idle(&b);
    bool reached = fail_alloc_stop();
    docs_put(&docs, A, "{\"n\":5}", NULL);
    harness_run_until_idle(&b);
    if (!c->is_gone && client_count(c, SAID_ACK) == 1 && is_honoured(c, uri)) {
        /* An omitted patch is known only to its author, and no client here is the author. */
        check_chain(c, uri, "v0001");
    }
    client_free(c);
    end();
    return reached;
}

static void allocation_failures_leave_patch_base_valid(void **state)
{
    (void)state;
    static const struct {
        unsigned flags;
        const char *uri, *options;
    } lives[] = {
        {0, A, "{\"include\":\"patch\",\"initial\":true,\"windowMs\":0}"},
        {0, "doc:///*", "{\"include\":\"patch\",\"windowMs\":0}"},
        {DOCS_PATCHING, A, "{\"include\":\"patch\",\"initial\":true,\"windowMs\":0}"},
        {DOCS_PATCHING, A "/patch", "{\"baseline\":\"v0001\",\"initial\":true,\"windowMs\":0}"},
    };
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        long n = 1;
        while (live(lives[i].flags, lives[i].uri, lives[i].options, n)) {
            n++;
        }
        assert_true(n > 30);
    }
    fail_alloc_end();
}

/* ---- cost ------------------------------------------------------------------------------------ */

#define FAR 1000000

/* Allocations of one change for `count` subscribers, and the patches computed for it. */
static long tell(unsigned flags, unsigned count, uint64_t *ret_patches)
{
    static struct client *clients[1000];
    begin(flags);
    for (unsigned i = 0; i < count; i++) {
        clients[i] = listen_with(&b, "[\"" A "\"]",
                                 "{\"include\":\"patch\",\"initial\":true,\"windowMs\":0}");
    }
    docs_put(&docs, A, "{\"n\":2}", NULL);
    harness_run_until_idle(&b);
    uint64_t before = b.worker[0]->delivery->contents.patches;
    fail_alloc_start(FAR);
    docs_put(&docs, A, "{\"n\":3}", NULL);
    harness_run_until_idle(&b);
    long allocations = FAR - fail_alloc.until_failure;
    assert_false(fail_alloc_stop());
    *ret_patches = b.worker[0]->delivery->contents.patches - before;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(update_count(clients[i], NULL), 3);
        assert_json(update_nth(clients[i], NULL, 2), DATA "|patch", "{\"n\":3}");
        client_free(clients[i]);
    }
    end();
    return allocations;
}

static void thousand_subscribers_share_one_patch_and_no_extra_memory(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags <= DOCS_PATCHING; flags++) {
        uint64_t few = 0, many = 0;
        long with_few = tell(flags, 10, &few), with_many = tell(flags, 1000, &many);
        assert_int_equal(few, 1);
        assert_int_equal(many, 1);
        assert_int_equal(with_few, with_many);
    }
    fail_alloc_end();
}

/* Each has a separate query; an answer is kept until it was sent, whatever the number of waiting
 * clients. */
static void waiting_subscribers_are_each_notified(void **state)
{
    (void)state;
    enum { WAITING = 600 };
    static struct client *clients[WAITING];
    begin(DOCS_PATCHING);
    docs.holds = true;
    for (unsigned i = 0; i < WAITING; i++) {
        clients[i] = listen_with(&b, "[\"" A "\"]", "{\"include\":\"patch\",\"initial\":true}");
    }
    assert_int_equal(docs.held_count, WAITING);
    for (unsigned i = 0; i < WAITING; i++) {
        docs_release_one(&docs);
        harness_run_until_idle(&b);
    }
    assert_int_equal(docs.held_count, 0);
    for (unsigned i = 0; i < WAITING; i++) {
        assert_int_equal(update_count(clients[i], NULL), 1);
        client_free(clients[i]);
    }
    end();
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation_failures_leave_patch_base_valid),
        cmocka_unit_test(thousand_subscribers_share_one_patch_and_no_extra_memory),
        cmocka_unit_test(waiting_subscribers_are_each_notified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
