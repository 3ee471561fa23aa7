/* SPDX-License-Identifier: MIT
 *
 * Changes posted by clients: malformed lists, changes that are accepted and refused one by one, and
 * access with and without rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/notify.h"
#include "security/limits.h"
#include "support/fail_alloc.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ANSWER_MAX (1u << 20)

static struct harness b;
static struct stub files, api;
static struct buf answer;
static struct notify_outcome outcome;
static char refused[64];
static struct tidings_error err;
static const struct principal nobody = {.kind = PRINCIPAL_ANONYMOUS};

static int begin(void **state)
{
    (void)state;
    harness_access_start(&b, &files);
    stub_mount(&api, &b, "api:///", STUB_UNWATCHED | STUB_WRITES);
    harness_add(&b, "api:///own");
    buf_init(&answer, ANSWER_MAX);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buf_deinit(&answer);
    harness_stop(&b);
    return 0;
}

static void answered(void *user, const struct notify_outcome *o, struct buf *text)
{
    (void)user;
    outcome = *o;
    snprintf(refused, sizeof(refused), "%.*s", STR_ARG(o->uri)); /* a slice of `said` */
    buf_clear(&answer);
    (void)buf_puts(&answer, buf_str(text));
}

static int say_with(struct quota *quota, const struct principal *principal, const char *text)
{
    const struct notify n = {.worker = b.worker[0], .principal = principal, .quota = quota};
    struct json *said = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &said, &err), 0);
    buf_clear(&answer);
    err = (struct tidings_error){0, ""};
    int rc = notify_begin(&n, said, answered, NULL, &err);
    jv_unref(said);
    harness_run_until_idle(&b);
    return rc;
}

static int say(const struct principal *principal, const char *text)
{
    return say_with(NULL, principal, text);
}

/* One change of `uri`: "" if it was accepted, else the reason. */
static const char *reason_of(const struct principal *principal, const char *uri)
{
    static char reason[64];
    struct json *root = NULL;
    char text[512];
    snprintf(text, sizeof(text), "{\"changes\":[{\"uri\":\"%s\"}]}", uri);
    assert_int_equal(say(principal, text), 0);
    assert_int_equal(outcome.notified + outcome.refused, 1);
    assert_int_equal(jv_parse(buf_str(&answer), JSON_MAX_DEPTH, &root, NULL), 0);
    struct json *row = jv_at(jv_get(root, "results"), 0);
    struct tidings_str why = jv_str(jv_get(row, "reason"));
    assert_int_equal(jv_is_true(jv_get(row, "told")), outcome.notified == 1);
    assert_true(str_eq(why, jv_str(jv_get(root, "reason"))));
    snprintf(reason, sizeof(reason), "%.*s", STR_ARG(why));
    jv_unref(root);
    return reason;
}

static void malformed_list_is_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } table[] = {
        {"[]", "without other members"},
        {"{}", "without other members"},
        {"{\"changes\":{}}", "without other members"},
        {"{\"changes\":[]}", "without other members"},
        {"{\"changes\":[{\"uri\":\"api:///a\"}],\"x\":1}", "without other members"},
        {"{\"changes\":[{\"uri\":\"api:///a\"},null]}", "changes[1] must be an object"},
        {"{\"changes\":[{\"uri\":\"api:///a\"},{}]}", "changes[1].uri"},
        {"{\"changes\":[{\"uri\":\"api:///a\"},{\"uri\":\"\"}]}", "changes[1].uri"},
        {"{\"changes\":[{\"uri\":\"api:///a\",\"kind\":1}]}", "changes[0].kind"},
        {"{\"changes\":[{\"uri\":\"api:///a\",\"kind\":\"\"}]}", "changes[0].kind"},
        {"{\"changes\":[{\"uri\":\"api:///a\",\"kind\":\"moved\"}]}", "changes[0].kind"},
        {"{\"changes\":[{\"uri\":\"api:///a\",\"metadata\":\"x\"}]}", "changes[0].metadata"},
        {"{\"changes\":[{\"uri\":\"api:///a\",\"etag\":\"x\"}]}", "unknown member 'etag'"},
    };
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"api:///\"]");
    harness_run_until_idle(&b);
    for (size_t i = 0; i < COUNT(table); i++) {
        assert_int_equal(say(NULL, table[i].text), TIDINGS_E_INVALID);
        if (!strstr(err.text, table[i].part)) {
            fail_msg("%s: %s", table[i].text, err.text);
        }
    }
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_free(c);
}

static void changes_over_the_limit_are_refused_and_counted(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, ANSWER_MAX);
    buf_puts(&text, STR("{\"changes\":["));
    for (size_t i = 0; i <= NOTIFY_MAX; i++) {
        buf_puts(&text, i > 0 ? STR(",{\"uri\":\"api:///a\"}") : STR("{\"uri\":\"api:///a\"}"));
    }
    buf_puts(&text, STR("]}"));
    assert_int_equal(say(NULL, text.ptr), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "1001 changes; at most 1000"));
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_NOTIFY], 1);
    buf_deinit(&text);
}

static void posted_change_is_delivered_with_kind_and_metadata(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"api:///events?type=error\"]");
    harness_run_until_idle(&b);
    assert_int_equal(say(&nobody, "{\"changes\":["
                                  "{\"uri\":\"api:///events/1\",\"metadata\":{\"type\":\"info\"}},"
                                  "{\"uri\":\"API:///events/%32\",\"kind\":\"deleted\","
                                  "\"metadata\":{\"type\":\"error\"}}]}"),
                     0);
    assert_int_equal(outcome.notified, 2);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    const char *text = client_nth(c, SAID_UPDATED, 0);
    assert_json(text, "params|uri", "api:///events/2");
    assert_json(text, "params|_meta|dev.tidings/change", "deleted");
    assert_json(text, "params|_meta|dev.tidings/metadata|type", "error");
    client_free(c);
}

static void clients_announce_only_writable_resources_without_rules(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *nobody, *program;
    } table[] = {
        {"api:///x", "", ""},
        {"api:///", "", ""},
        {"mem://x/a", "denied", ""},  /* a read-only mount */
        {"api:///own", "denied", ""}, /* registered by the program */
        {"mem://y/a", "denied", ""},
        {"none:///x", "not_found", "not_found"},
        {"no URI", "invalid", "invalid"},
        {"**", "denied", ""},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        assert_string_equal(reason_of(&nobody, table[i].uri), table[i].nobody);
        assert_string_equal(reason_of(NULL, table[i].uri), table[i].program);
    }
}

static void rules_decide_the_announcements_of_each_client(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {
        {"ann", NULL, "api:///ann/", HARNESS_ALL}, {"bob", NULL, "mem://x/open/", HARNESS_ALL},
        {"bob", NULL, "api:///ann/", HARNESS_SEE}, {"eve", NULL, "", 1u << ACCESS_WRITE},
        {"root", NULL, "", HARNESS_ALL},
    };
    static const struct {
        const char *who, *uri, *reason;
    } table[] = {
        {"ann", "api:///ann/x", ""},
        {"ann", "api:///bob/x", "denied"},
        {"ann", "mem://x/open/d", "denied"},
        {"ann", "**", "denied"},
        {"bob", "api:///ann/x", "denied"},
        {"bob", "mem://x/open/d", ""},
        {"bob", "mem://x/hidden/b", "denied"},
        {"eve", "api:///ann/x", "denied"},
        {"eve", "**", "denied"},
        {"root", "mem://x/hidden/b", ""},
        {"root", "api:///own", ""},
        {"root", "**", ""},
        {"root", "none:///x", "not_found"},
        {"", "api:///ann/x", "denied"},
    };
    harness_rules(&b, rules, COUNT(rules));
    for (size_t i = 0; i < COUNT(table); i++) {
        harness_is(&b, table[i].who, NULL);
        struct client *c = client_http(&b);
        const char *reason = reason_of(c->channel.principal, table[i].uri);
        if (strcmp(reason, table[i].reason) != 0) {
            fail_msg("'%s' of %s: '%s'", table[i].who, table[i].uri, reason);
        }
        client_free(c);
    }
}

static void everything_takes_neither_kind_nor_metadata(void **state)
{
    (void)state;
    assert_int_equal(say(NULL, "{\"changes\":[{\"uri\":\"**\",\"kind\":\"created\"}]}"), 0);
    assert_int_equal(outcome.err.code, TIDINGS_E_INVALID);
    assert_int_equal(say(NULL, "{\"changes\":[{\"uri\":\"**\",\"metadata\":{}}]}"), 0);
    assert_int_equal(outcome.err.code, TIDINGS_E_INVALID);
}

static void changes_each_count_as_one_request(void **state)
{
    (void)state;
    const struct quotas_options options = {
        .remote = {.requests = {.count = 1, .burst = 3, .period_ms = 1000}},
        .max_clients = 4,
    };
    struct quotas *quotas = quotas_create(b.worker[0]->limit_counters);
    struct quota *quota = NULL;
    struct refusal why = {0};
    quotas_set(quotas, &options);
    uint64_t now = loop_now_ms(b.loop);
    assert_int_equal(quotas_enter(quotas, STR("far"), false, now, &quota, &why), 0);
    assert_int_equal(
        say_with(quota, &nobody,
                 "{\"changes\":[{\"uri\":\"api:///1\"},{\"uri\":\"api:///2\"},"
                 "{\"uri\":\"api:///3\"},{\"uri\":\"api:///4\"},{\"uri\":\"api:///5\"},"
                 "{\"uri\":\"api:///6\"},{\"uri\":\"api:///7\"}]}"),
        0);
    assert_int_equal(outcome.notified, 4); /* the first was already charged */
    assert_int_equal(outcome.refused, 3);
    assert_int_equal(outcome.limit.limit, LIMIT_REQUEST_RATE);
    assert_string_equal(refused, "api:///5");
    assert_non_null(strstr(answer.ptr, "\"reason\":\"limit\",\"limit\":\"request-rate\""));
    /* It reached the limit once, whatever the number of changes after it. */
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_REQUEST_RATE], 1);
    quota_leave(quota);
    quotas_destroy(quotas);
}

static void failed_allocation_is_reported_as_nomem(void **state)
{
    (void)state;
    struct json *said = NULL;
    const struct notify n = {.worker = b.worker[0], .principal = &nobody};
    assert_int_equal(jv_parse(STR("{\"changes\":[{\"uri\":\"api:///1\",\"metadata\":{\"a\":1}}]}"),
                              JSON_MAX_DEPTH, &said, NULL),
                     0);
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        outcome = (struct notify_outcome){0};
        (void)buf_reserve(&answer, 4096);
        fail_alloc_start(nth);
        int rc = notify_begin(&n, said, answered, NULL, &err);
        failed = fail_alloc_stop();
        assert_true(rc == 0 || (failed && rc == TIDINGS_E_NOMEM));
        assert_true(failed || outcome.notified == 1);
        assert_true(outcome.refused == 0 || outcome.err.code == TIDINGS_E_NOMEM);
        harness_run_until_idle(&b);
    }
    jv_unref(said);
}

#define WITH_BENCH(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BENCH(malformed_list_is_refused_whole),
        WITH_BENCH(changes_over_the_limit_are_refused_and_counted),
        WITH_BENCH(posted_change_is_delivered_with_kind_and_metadata),
        WITH_BENCH(clients_announce_only_writable_resources_without_rules),
        WITH_BENCH(rules_decide_the_announcements_of_each_client),
        WITH_BENCH(everything_takes_neither_kind_nor_metadata),
        WITH_BENCH(changes_each_count_as_one_request),
        WITH_BENCH(failed_allocation_is_reported_as_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
