/* SPDX-License-Identifier: MIT
 *
 * Pages beside the endpoint, and the server's own state as resources.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

/* ---- pages ----------------------------------------------------------------------------------- */

static void page(void *user, const struct tidings_http_request *request,
                 struct tidings_http_response *response)
{
    struct ears *e = user;
    char text[1024];
    snprintf(text, sizeof(text), "%.*s %.*s ?%.*s %.*s [%.*s]", (int)request->method.len,
             request->method.ptr, (int)request->path.len, request->path.ptr,
             (int)request->query.len, request->query.ptr, (int)request->content_type.len,
             request->content_type.ptr, (int)request->body.len, request->body.ptr);
    if (e) {
        tidings_http_reply(response, 201, "text/plain", tidings_str(text));
        tidings_http_reply(response, 500, "text/plain", tidings_str("a second one is not heard"));
    }
}

static void pages_are_served_beside_the_endpoint(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct ears e;
    ears_init(&e);
    assert_int_equal(tidings_server_add_route(served(), "/page", page, &e, &err), 0);
    assert_int_equal(tidings_server_add_route(served(), "/silent", page, NULL, &err), 0);
    assert_int_equal(tidings_server_add_route(served(), "page", page, &e, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_add_route(served(), NULL, page, &e, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_add_route(served(), "/x", NULL, &e, &err), TIDINGS_E_INVALID);
    served_run();
    static const struct {
        const char *head, *body, *status, *has;
    } rows[] = {
        {"GET /page?x=1&y HTTP/1.1", "", "201", "GET /page ?x=1&y  []"},
        {"POST /page HTTP/1.1\r\nContent-Type: text/x", "hello", "201",
         "POST /page ? text/x [hello]"},
        {"PUT /page HTTP/1.1", "", "201", "PUT /page"},
        {"GET /silent HTTP/1.1", "", "204", ""},
        {"GET /pag HTTP/1.1", "", "404", ""},
        {"GET /page/x HTTP/1.1", "", "404", ""},
        {"GET /page HTTP/1.1\r\nOrigin: http://evil.example", "", "403", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *answer = served_http(rows[i].head, rows[i].body);
        if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strncmp(answer + 9, rows[i].status, 3) != 0 ||
            !strstr(answer, rows[i].has)) {
            fail_msg("%s: %.400s", rows[i].head, answer);
        }
    }
    assert_non_null(strstr(served_modern("resources/read", "app:///a"), "\"text\":\"app:///a\""));
}

static void publish(void *user, const struct tidings_http_request *request,
                    struct tidings_http_response *response)
{
    (void)user;
    struct tidings_error err = {0, ""};
    struct tidings_change change;
    memset(&change, 0, sizeof(change));
    change.uri = tidings_str("app:///b");
    change.metadata = request->body;
    if (tidings_announce(served(), &change, &err) < 0) {
        tidings_http_reply(response, 400, "text/plain", tidings_str(err.text));
    }
}

static void page_handler_can_announce_changes(void **state)
{
    (void)state;
    struct ears e;
    struct tidings_error err = {0, ""};
    ears_init(&e);
    served_subscribe("app:///b", NULL, &e);
    assert_int_equal(tidings_server_add_route(served(), "/publish", publish, NULL, &err), 0);
    served_run();
    size_t n = served_await_subscribed("app:///b", &e);
    assert_non_null(strstr(served_http("POST /publish HTTP/1.1", "{\"n\":42}"), " 204 "));
    while (!strstr(ears_await(&e, n - 1).metadata, "\"n\":42")) {
        n++; /* markers still in transit */
    }
    assert_non_null(strstr(served_http("POST /publish HTTP/1.1", "[]"), " 400 "));
    assert_non_null(strstr(served_http("POST /publish HTTP/1.1", "{"), " 400 "));
}

/* ---- the server's own state ------------------------------------------------------------------ */

static void server_state_is_hidden_by_default(void **state)
{
    (void)state;
    served_run();
    const char *answer = served_modern("resources/read", "tidings://self/stats");
    assert_non_null(strstr(answer, "\"error\""));
    assert_null(strstr(answer, "deliveries"));
}

static void server_state_is_a_resource_if_enabled(void **state)
{
    (void)state;
    struct ears stats, a;
    ears_init(&stats);
    ears_init(&a);
    served_set("self", "true");
    served_subscribe("tidings://self/stats", "{\"include\":\"value\"}", &stats);
    served_subscribe("app:///a", NULL, &a);
    served_run();
    served_await_subscribed("app:///a", &a);
    const char *answer = served_modern("resources/read", "tidings://self/stats");
    static const char *const members[] = {"requests",  "deliveries",    "coalesced",
                                          "truncated", "subscriptions", "subscribers",
                                          "sessions",  "lastChange"};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char key[64];
        snprintf(key, sizeof(key), "\\\"%s\\\":", members[i]);
        if (!strstr(answer, key)) {
            fail_msg("%s is not in %s", key, answer);
        }
    }
    /* Each arrives in its own update: the second may follow a few turns later. */
    for (int i = 0; i < 1000 && !strstr(answer, "\\\"subscriptions\\\":2"); i++) {
        answer = served_modern("resources/read", "tidings://self/stats");
    }
    assert_non_null(strstr(answer, "\\\"subscriptions\\\":2"));
    answer = served_modern("resources/read", "tidings://self/subscriptions");
    assert_non_null(strstr(answer, "\\\"subscribedUri\\\":\\\"app:///a\\\""));
    answer = served_modern("resources/read", "tidings://self/peers");
    assert_non_null(strstr(answer, "\\\"transport\\\":\\\"local\\\""));
    assert_non_null(strstr(answer, "\\\"listener\\\":\\\"program\\\""));
    answer = served_modern("resources/read", "tidings://self/status");
    assert_non_null(strstr(answer, "\\\"ready\\\":true"));
    assert_non_null(strstr(served_modern("resources/read", "tidings://self/none"), "\"error\""));
    assert_non_null(strstr(served_modern("resources/list", ""), "tidings://self/peers"));
    /* Server state changes constantly; its subscribers are notified from time to time. */
    struct told t = ears_await(&stats, 0);
    assert_string_equal(t.uri, "tidings://self/stats");
    assert_non_null(strstr(t.value, "deliveries"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(pages_are_served_beside_the_endpoint),
        SERVED_BOTH(page_handler_can_announce_changes),
        SERVED_BOTH(server_state_is_hidden_by_default),
        SERVED_BOTH(server_state_is_a_resource_if_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
