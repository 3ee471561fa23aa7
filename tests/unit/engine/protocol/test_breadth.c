/* SPDX-License-Identifier: MIT
 *
 * Subscriptions that cover whole mounts are bounded per principal, over all its connections,
 * workers and both eras. A client that leaves returns its share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.worker_count = 2;
    b.self.list_changed = b.options.list_changed = false;
    b.limits.max_broad = 2;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static struct client *listen_from(const char *address, size_t worker, const char *uri)
{
    struct client *c = client_http_at(&b, worker);
    c->address = address;
    client_listen_with(c, "1", text_of("[\"%s\"]", uri), NULL);
    harness_run_until_idle(&b);
    return c;
}

static void connections_of_one_principal_share_its_breadth(void **state)
{
    (void)state;
    struct client *one = listen_from("ada", 0, "mem://**");
    struct client *two = listen_from("ada", 1, "mem://*/**");
    assert_true(is_honoured(one, "mem://**"));
    assert_true(is_honoured(two, "mem://*/**"));
    struct client *three = listen_from("ada", 0, "mem://*/a");
    const char *reason = refused_reason(three, "mem://*/a");
    assert_non_null(reason);
    assert_non_null(strstr(reason, "at most 2 "));
    assert_non_null(strstr(reason, "'ada'"));
    assert_non_null(strstr(reason, "--max-breadth"));
    struct client *narrow = listen_from("ada", 1, "mem://x/a");
    assert_true(is_honoured(narrow, "mem://x/a"));
    struct client *other = listen_from("bob", 0, "mem://*/a");
    assert_true(is_honoured(other, "mem://*/a"));

    /* A subscription removed on one worker makes room on the other. */
    client_free(two);
    harness_run_until_idle(&b);
    struct client *four = listen_from("ada", 0, "mem://*/a");
    assert_true(is_honoured(four, "mem://*/a"));
    client_free(one);
    client_free(three);
    client_free(narrow);
    client_free(other);
    client_free(four);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void subscription_refused_for_another_reason_uses_no_breadth(void **state)
{
    (void)state;
    b.limits.max_subscriptions = 1;
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", NULL));
    for (unsigned i = 0; i < 4; i++) {
        assert_json(pipe_subscribe_with(pipe, text_of("%u", 10 + i), "mem://**", NULL),
                    "error|data|uri", "mem://**");
    }
    client_legacy(pipe, NULL, "3", "resources/unsubscribe", "\"uri\":\"mem://x/a\"");
    harness_run_until_idle(&b);
    assert_empty_result(pipe_subscribe_with(pipe, "4", "mem://**", NULL));
    client_free(pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_of_one_principal_share_its_breadth, begin, end),
        cmocka_unit_test_setup_teardown(subscription_refused_for_another_reason_uses_no_breadth,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
