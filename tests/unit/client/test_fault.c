/* SPDX-License-Identifier: MIT
 *
 * If an allocation fails, the client reports it or continues without; it never waits for an
 * impossible event, and nothing leaks.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/transport_http.h"
#include "support/fail_alloc.h"
#include "support/fake_transport.h"

#define UPDATED                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":"     \
    "\"x:/a/b\",\"subscribedUri\":\"x:/a/\"}}"

static void modern(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (fake_modern(f, method, id)) {
        return;
    }
    if (strcmp(method, "subscriptions/listen") == 0) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                  "\"params\":{\"notifications\":{\"resourceSubscriptions\":[\"x:/a/\"]},\"_meta\":"
                  "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "}}}",
                  id);
        fake_say(f, UPDATED);
    } else if (strcmp(method, "resources/list") == 0) {
        fake_result(f, id, "{\"resources\":[{\"uri\":\"x:/a/b\"},{\"uri\":\"x:/a/c/\"}]}");
    } else if (id > 0) {
        fake_result(f, id, "{\"resource\":{},\"contents\":[],\"completion\":{}}");
    }
}

static void legacy(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (fake_legacy(f, method, id)) {
        return;
    }
    if (strcmp(method, "resources/subscribe") == 0) {
        fake_say(f, UPDATED);
    }
    if (id > 0) {
        fake_result(f, id, "{\"tools\":[],\"contents\":[]}");
    }
}

struct notifications {
    struct tidings_client *client;
    int updates;
};

static void on_update(void *user, const struct tidings_update *u)
{
    struct notifications *h = user;
    h->updates++;
    tidings_free(tidings_client_read(h->client, "x:/a/b", NULL));
    tidings_subscription_end(u->subscription);
    tidings_client_stop(h->client);
}

static int pass(void *user, struct tidings_str item)
{
    (void)user;
    (void)item;
    return 0;
}

static int pass_entry(void *user, const struct tidings_walk_entry *e)
{
    (void)user;
    (void)e;
    return 0;
}

/* Runs everything once; true: all of it worked. */
static bool live(fake_fn server, bool is_modern)
{
    static const char *const headers[] = {"X-A: b", NULL};
    struct tidings_client_options o = {
        .timeout_ms = 50, .probe_ms = 50, .retry_min_ms = 1, .retry_max_ms = 1, .headers = headers};
    struct tidings_subscribe_options on = {.fn = on_update, .options = "{\"windowMs\":0}"};
    struct notifications h = {0};
    struct tidings_error err = {0};
    struct fake f;
    h.client = fake_client(&f, server, NULL, &o);
    on.user = &h;
    if (!h.client) {
        return false;
    }
    bool ok = tidings_client_subscribe(h.client, "x:/a/", &on, &err) != NULL;
    ok = tidings_client_list(h.client, TIDINGS_LISTING_TOOLS, pass, NULL, &err) >= -100 && ok;
    if (is_modern) {
        ok = tidings_client_walk(h.client, "x:/a/", NULL, pass_entry, NULL, &err) == 0 && ok;
        char *text = tidings_client_metadata(h.client, "x:/a/b", &err);
        ok = text && ok;
        tidings_free(text);
    }
    for (int i = 0; i < 20 && h.updates == 0; i++) {
        int rc = tidings_client_step(h.client, 5, &err);
        if (rc <= 0) {
            break;
        }
    }
    tidings_client_destroy(h.client);
    return ok && h.updates == 1;
}

static void client_survives_a_failed_allocation(void **state)
{
    fake_fn server = *state ? legacy : modern;
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(n);
        bool worked = live(server, server == modern);
        reached = fail_alloc_stop();
        if (!reached) {
            assert_true(worked);
        }
        if (fail_alloc_live() != 0) {
            fail_msg("allocation %ld: %ld are left", n, fail_alloc_live());
        }
        assert_true(n < 10000);
    }
    fail_alloc_end();
}

static void headers_survive_a_failed_allocation(void **state)
{
    (void)state;
    static const char *const argv[] = {"nothing", NULL};
    struct tidings_client_options o = {.token = "t"};
    struct transport_message m = {.method = "resources/read", .name = STR("x:/\xc3\xa4")};
    struct header_state s = {.session = "s"};
    bool reached = true;
    fail_alloc_start(0);
    struct tidings_client *c = tidings_client_launch(argv, &o, NULL);
    long before = fail_alloc_live();
    for (long n = 1; reached; n++) {
        struct header_lines h;
        fail_alloc_start(n);
        int rc = header_lines_init(&h, c, &m, &s);
        reached = fail_alloc_stop();
        header_lines_deinit(&h);
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(fail_alloc_live(), before);
    }
    tidings_client_destroy(c);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_survives_a_failed_allocation),
        cmocka_unit_test_prestate(client_survives_a_failed_allocation, (void *)1),
        cmocka_unit_test(headers_survive_a_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
