/* SPDX-License-Identifier: MIT
 *
 * Unsubscribable resources: no subscription covers them, live, from the log or in the initial
 * state. The registration, the template or the change can mark them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;
static struct stub files;

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

static void add_mute(const char *uri)
{
    struct tidings_resource about = tidings_resource(uri, "a name", "text/plain");
    about.not_subscribable = true;
    bool is_template = strchr(uri, '{') != NULL;
    struct catalog_entry *e = catalog_entry_create(&about, is_template, read_nothing, NULL, NULL);
    assert_int_equal(hub_add_entry(b.hub, e, NULL), 0);
    harness_run_until_idle(&b);
}

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&files, &b, "mem://x/srv/", STUB_QUERY);
    stub_add(&files, "mem://x/srv/a", false);
    harness_add(&b, "app:///one");
    add_mute("app:///dark/one");
    add_mute("app:///dark/{more}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static void subscriptions_do_not_cover_unsubscribable_resources(void **state)
{
    (void)state;
    static const struct {
        const char *spelled, *options;
    } covering[] = {
        {"app:///", NULL},
        {"app:///**", NULL},
        {"app:///{+rest}", NULL},
        {"app:///?k=v", NULL},
        {"one$", "{\"match\":\"regex\"}"},
        {"**", NULL},
    };
    for (size_t i = 0; i < COUNT(covering); i++) {
        struct client *c =
            listen_with(&b, text_of("[\"%s\"]", covering[i].spelled), covering[i].options);
        static const char *const silent[] = {"app:///dark/one", "app:///dark/7one"};
        for (size_t k = 0; k < COUNT(silent); k++) {
            harness_announce(&b, &(struct tidings_change){.uri = tidings_str(silent[k]),
                                                          .metadata = STR("{\"k\":\"v\"}")});
        }
        harness_announce(&b, &(struct tidings_change){.uri = STR("app:///own/one"),
                                                      .metadata = STR("{\"k\":\"v\"}"),
                                                      .not_subscribable = true});
        harness_announce(&b, &(struct tidings_change){.uri = STR("app:///dark/one"),
                                                      .from = STR("app:///dark/xone"),
                                                      .metadata = STR("{\"k\":\"v\"}"),
                                                      .kind = TIDINGS_CHANGE_MOVED});
        harness_run_until_idle(&b);
        if (update_count(c, NULL) > 0) {
            fail_msg("'%s' was told %s", covering[i].spelled, update_nth(c, NULL, 0));
        }
        harness_announce(&b, &(struct tidings_change){.uri = STR("app:///one"),
                                                      .metadata = STR("{\"k\":\"v\"}")});
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 1);
        client_free(c);
    }
}

static void unsubscribable_resource_is_not_replayed(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"app:///\"]", NULL);
    char cursor[64];
    snprintf(cursor, sizeof(cursor), "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    client_free(c);
    harness_update(&b, "app:///dark/one");
    harness_update(&b, "app:///one");
    harness_run_until_idle(&b);
    c = listen_with(&b, "[\"app:///\"]", text_of("{\"since\":\"%s\"}", cursor));
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), "params|uri", "app:///one");
    client_free(c);
}

static void initial_state_omits_unsubscribable_resources(void **state)
{
    (void)state;
    stub_add(&files, "mem://x/srv/b", false);
    files.is_mute[1] = true;
    struct client *c = listen_with(&b, "[\"app:///**\",\"mem://x/srv/\"]", "{\"initial\":true}");
    assert_int_equal(update_count(c, "app:///**"), 1);
    assert_json(update_nth(c, "app:///**", 0), "params|uri", "app:///one");
    assert_int_equal(update_count(c, "mem://x/srv/"), 1);
    assert_json(update_nth(c, "mem://x/srv/", 0), "params|uri", "mem://x/srv/a");
    client_free(c);
}

static void resource_is_covered_again_after_a_new_registration(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"app:///**\"]", NULL);
    harness_remove(&b, "app:///dark/{more}");
    harness_remove(&b, "app:///dark/one");
    harness_add(&b, "app:///dark/one");
    harness_update(&b, "app:///dark/one");
    harness_update(&b, "app:///dark/two");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 2);
    client_free(c);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(subscriptions_do_not_cover_unsubscribable_resources),
        WITH_BENCH(unsubscribable_resource_is_not_replayed),
        WITH_BENCH(initial_state_omits_unsubscribable_resources),
        WITH_BENCH(resource_is_covered_again_after_a_new_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
