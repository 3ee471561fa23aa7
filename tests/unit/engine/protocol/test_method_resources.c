/* SPDX-License-Identifier: MIT
 *
 * resources/list, templates/list and read: pages, cursors, and answers that arrive at once, later,
 * from another thread or from the pool.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/delivery.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    return 0;
}

static int setup_blocking(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    fake_mount_blocking(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->jobs, 0);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    harness_stop(&b);
    assert_int_equal(fake.outstanding_at_close, 0);
    return 0;
}

/* Walk the whole list; returns the URIs joined by blanks. */
static const char *walk(const char *method, const char *rows, const char *uri_key, unsigned page)
{
    static char all[2048];
    const char *cursor = NULL;
    all[0] = '\0';
    unsigned pages = 0;
    do {
        struct client *c = client_http(&b);
        client_modern(c, "1", method,
                      cursor ? text_of("\"pageSize\":%u,\"cursor\":\"%s\"", page, cursor)
                             : text_of("\"pageSize\":%u", page));
        harness_run_until_idle(&b);
        const char *text = client_answer(c)->text;
        assert_json(text, "result|ttlMs", "0");
        unsigned n = 0;
        const char *uri;
        while ((uri = json_at(text, text_of("result|%s|%u|%s", rows, n, uri_key))) != NULL) {
            size_t len = strlen(all);
            snprintf(all + len, sizeof(all) - len, "%s%s", len ? " " : "", uri);
            n++;
        }
        cursor = json_at(text, "result|nextCursor");
        cursor = cursor ? text_of("%s", cursor) : NULL;
        assert_true(n == page || !cursor);
        client_free(c);
        assert_true(++pages < 100);
    } while (cursor);
    return all;
}

static void list_is_the_same_for_every_page_size(void **state)
{
    (void)state;
    harness_add(&b, "app:2");
    harness_add(&b, "app:1");
    harness_add(&b, "app:3");
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    for (unsigned page = 1; page <= 7; page++) {
        assert_string_equal(walk("resources/list", "resources", "uri", page),
                            "app:1 app:2 app:3 mem://x/a mem://x/b");
    }
    fake_clear(&fake);
    assert_string_equal(walk("resources/list", "resources", "uri", 3), "app:1 app:2 app:3");
    assert_string_equal(walk("resources/list", "resources", "uri", 2), "app:1 app:2 app:3");
}

static void templates_are_paged_and_include_mounts(void **state)
{
    (void)state;
    harness_add_template(&b, "b://{x}");
    harness_add_template(&b, "a://{x}");
    assert_string_equal(walk("resources/templates/list", "resourceTemplates", "uriTemplate", 100),
                        "a://{x} b://{x} mem://x/{+path}");
}

static void foreign_cursors_are_refused(void **state)
{
    (void)state;
    static const char *const cursors[] = {
        "\"!!\"",
        "\"AHg\"" /* NUL x */,
        "\"cg\"" /* r */,
        "\"eHg\"" /* xx */,
        "7",
        "{}",
        "\"bW5vcGU6MQ\"" /* m nope:1 */,
        "\"dGE6Ly8\"" /* a cursor of the other list */,
        "\"cv8\"" /* not UTF-8 */,
    };
    harness_add(&b, "app:1");
    for (size_t i = 0; i < COUNT(cursors); i++) {
        struct client *c = client_http(&b);
        client_modern(c, "1", "resources/list", text_of("\"cursor\":%s", cursors[i]));
        assert_json(client_answer(c)->text, "error|code", "-32602");
        client_free(c);
    }
    struct client *c = client_http(&b);
    client_modern(c, "1", "resources/list", "\"cursor\":\"\"");
    assert_json(client_answer(c)->text, "result|resources|0|uri", "app:1");
    client_free(c);
    static const char *const sizes[] = {"0", "-1", "\"5\"", "1.5", "null"};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        c = client_http(&b);
        client_modern(c, "1", "resources/list", text_of("\"pageSize\":%s", sizes[i]));
        assert_json(client_answer(c)->text, "error|code", "-32602");
        client_free(c);
    }
}

static void read_is_answered_in_the_client_s_spelling(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/a");
    struct client *c = client_http(&b);
    client_modern(c, "\"id\"", "resources/read", "\"uri\":\"MEM://x/%61\"");
    const char *text = client_answer(c)->text;
    assert_json(text, "id", "id");
    assert_json(text, "result|contents|0|uri", "MEM://x/%61");
    assert_json(text, "result|contents|0|text", "content of mem://x/a");
    assert_json(text, "result|resultType", "complete");
    client_free(c);
}

static void unreadable_resource_is_reported_by_era(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *modern, *legacy;
    } rows[] = {
        {"\"mem://x/none\"", "-32602", "-32002"},
        {"\"nope:1\"", "-32602", "-32002"},
        {"\"not a uri\"", "-32602", "-32602"},
        {"7", "-32602", "-32602"},
    };
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *pipe = client_pipe(&b);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *params = text_of("\"uri\":%s", rows[i].uri);
        client_modern(pipe, "1", "resources/read", params);
        const char *text = client_nth_kind(pipe, SAID_ANSWER, i)->text;
        assert_json(text, "error|code", rows[i].modern);
        assert_int_equal(client_nth_kind(pipe, SAID_ANSWER, i)->status, 200);
        struct client *c = session_request(&s, "1", "resources/read", params);
        assert_json(client_answer(c)->text, "error|code", rows[i].legacy);
        assert_int_equal(client_answer(c)->status, 200);
        if (i < 2) {
            assert_json(text, "error|data|uri", json_at(rows[i].uri, ""));
            assert_json(client_answer(c)->text, "error|data|uri", json_at(rows[i].uri, ""));
        }
        client_free(c);
    }
    client_free(pipe);
}

static void content_over_the_limit_is_an_error_without_partial_answer(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/a");
    fake.content_bytes = b.limits.max_read_bytes;
    struct client *c = client_http(&b);
    client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    assert_true(client_answer(c)->len > fake.content_bytes);
    client_free(c);
    fake.content_bytes++;
    c = client_http(&b);
    client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    assert_json(client_answer(c)->text, "error|code", "-32602");
    client_free(c);
}

static void answers_can_arrive_later_from_other_threads(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/a");
    for (int on_thread = 0; on_thread < 2; on_thread++) {
        fake.holds_reads = fake.holds_lists = fake.holds_stats = true;
        fake.on_thread = on_thread;
        struct client *read = client_http(&b), *list = client_http(&b), *listen = client_http(&b);
        client_modern(list, "1", "resources/list", NULL);
        client_modern(read, "2", "resources/read", "\"uri\":\"mem://x/a\"");
        harness_run_until_idle(&b);
        assert_int_equal(read->count + list->count, 0);
        fake_finish_reads(&fake);
        fake_finish_lists(&fake);
        client_listen(listen, "3", "[\"mem://x/a\"]");
        fake_finish_stats(&fake);
        harness_run_until_idle(&b);
        assert_json(client_answer(read)->text, "result|contents|0|text", "content of mem://x/a");
        assert_json(client_answer(list)->text, "result|resources|0|uri", "mem://x/a");
        assert_int_equal(client_count(listen, SAID_ACK), 1);
        client_free(read);
        client_free(list);
        client_free(listen);
    }
}

static void list_is_dropped_when_its_client_left(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/a");
    fake.holds_lists = true;
    fake.on_thread = true;
    struct client *c = client_http(&b);
    client_modern(c, "1", "resources/list", NULL);
    client_free(c);
    fake_finish_lists(&fake);
}

/* ---- on the pool ----------------------------------------------------------------------------- */

static bool is_answered(void *user)
{
    struct client *const *all = user;
    return all[0]->count > 0 && all[1]->count > 0 && all[2]->count > 0;
}

static void children_are_dropped_when_their_client_left(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/dir/")->is_listable = true;
    fake.holds_stats = true;
    struct client *c = client_http(&b);
    client_modern(c, "1", "resources/list", "\"uri\":\"mem://x/dir/\"");
    harness_run_until_idle(&b);
    client_vanish(c);
    fake.holds_stats = false;
    fake_finish_stats(&fake);
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 0);
    client_free(c);
}

static void blocking_providers_run_on_the_pool(void **state)
{
    (void)state;
    fake.stops_at_gate = true; /* this thread must not wait in the provider */
    struct client *all[] = {client_http(&b), client_http(&b), client_http(&b)};
    client_modern(all[0], "1", "resources/read", "\"uri\":\"mem://x/a\"");
    client_modern(all[1], "2", "resources/list", NULL);
    client_listen(all[2], "3", "[\"mem://x/b\"]");
    assert_int_equal(all[0]->count, 0);
    sem_post(&fake.gate);
    harness_until(&b, is_answered, all);
    assert_json(client_answer(all[0])->text, "result|contents|0|text", "content of mem://x/a");
    assert_json(client_answer(all[1])->text, "result|resources|1|uri", "mem://x/b");
    assert_int_equal(client_count(all[2], SAID_ACK), 1);
    for (size_t i = 0; i < COUNT(all); i++) {
        client_free(all[i]);
    }
}

static void client_can_leave_during_pool_work(void **state)
{
    (void)state;
    fake.stops_at_gate = true;
    struct client *c = client_http(&b);
    client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->jobs, 1);
    assert_false(core_await_jobs(harness_core(&b, 0), 20)); /* the pool still works on it */
    sem_post(&fake.gate);
    assert_true(core_await_jobs(harness_core(&b, 0), 10000));
    assert_int_equal(fake.reads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define BLOCKING(name) cmocka_unit_test_setup_teardown(name, setup_blocking, teardown)
        TEST(list_is_the_same_for_every_page_size),
        TEST(templates_are_paged_and_include_mounts),
        TEST(foreign_cursors_are_refused),
        TEST(read_is_answered_in_the_client_s_spelling),
        TEST(unreadable_resource_is_reported_by_era),
        TEST(content_over_the_limit_is_an_error_without_partial_answer),
        TEST(answers_can_arrive_later_from_other_threads),
        TEST(list_is_dropped_when_its_client_left),
        TEST(children_are_dropped_when_their_client_left),
        BLOCKING(blocking_providers_run_on_the_pool),
        BLOCKING(client_can_leave_during_pool_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
