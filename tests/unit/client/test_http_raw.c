/* SPDX-License-Identifier: MIT
 *
 * tidings_client_http: requests are sent unchanged, and answers are reported as they arrive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/fake_transport.h"
#include "support/scripted_server.h"

struct told {
    char text[256];
    long status;
    unsigned silences;
    unsigned enough_silences; /* 0: never */
};

static int on_bytes(void *user, long status, struct tidings_str bytes)
{
    struct told *t = user;
    size_t len = strlen(t->text);
    t->status = status;
    t->silences += bytes.len == 0 ? 1 : 0;
    snprintf(t->text + len, sizeof(t->text) - len, "%.*s", (int)bytes.len, bytes.ptr);
    return t->enough_silences > 0 && t->silences == t->enough_silences;
}

static void echoing(struct scripted_server *s, const struct scripted_request *r)
{
    char seen[512];
    (void)s;
    snprintf(seen, sizeof(seen), "%s %s %d %d %d", r->method, r->body,
             strcasestr(r->head, "\r\nX-Own: 1\r\n") != NULL,
             strcasestr(r->head, "\r\nX-Given: 2\r\n") != NULL,
             strcasestr(r->head, "\r\nAuthorization: Bearer t\r\n") != NULL);
    scripted_reply(r, 418, "Mcp-Session-Id: s1\r\n", "text/plain; charset=utf-8", seen);
}

static void on_wire(void *user, const struct tidings_client_wire *w)
{
    char *said = user;
    size_t len = strlen(said);
    snprintf(said + len, 256 - len, "%c%.*s%.*s %ld\n", w->is_sent ? '>' : '<', (int)w->text.len,
             w->text.ptr, (int)w->reason.len, w->reason.ptr, w->status);
}

static void raw_request_is_sent_unchanged(void **state)
{
    (void)state;
    static const char *const own[] = {"X-Own: 1", NULL}, *const given[] = {"X-Given: 2", NULL};
    struct scripted_server server;
    struct told t = {.status = 0};
    char wire[256] = "";
    struct tidings_client_options o = {
        .headers = own, .token = "t", .on_wire = on_wire, .wire_user = wire};
    scripted_start(&server, echoing, NULL);
    struct tidings_client *c = tidings_client_create(server.url, &o, NULL);
    struct tidings_client_http q = {
        .method = "POST", .headers = given, .body = "{broken", .on_bytes = on_bytes, .user = &t};
    struct tidings_client_http_answer a;
    assert_int_equal(tidings_client_http(c, &q, &a, NULL), 0);
    assert_string_equal(t.text, "POST {broken 1 1 1");
    assert_int_equal(t.status, 418);
    assert_int_equal(a.status, 418);
    assert_string_equal(a.content_type, "text/plain");
    assert_string_equal(a.session, "s1");
    assert_true(a.is_complete);
    assert_string_equal(wire, ">{broken 0\n<the HTTP request ended 418\n");
    tidings_client_destroy(c);
    scripted_stop(&server);
}

static void streaming(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_stream(r, "");
    scripted_send(r, "id: 1\n\n");
    scripted_await_close(r);
}

static void raw_stream_reports_data_and_silence(void **state)
{
    (void)state;
    struct scripted_server server;
    struct told t = {.enough_silences = 3}; /* the head is one of them */
    scripted_start(&server, streaming, NULL);
    struct tidings_client *c = tidings_client_create(server.url, NULL, NULL);
    struct tidings_client_http q = {.method = "GET", .on_bytes = on_bytes, .user = &t};
    struct tidings_client_http_answer a;
    assert_int_equal(tidings_client_http(c, &q, &a, NULL), 0);
    assert_string_equal(t.text, "id: 1\n\n");
    assert_false(a.is_complete);
    assert_string_equal(a.content_type, "text/event-stream");

    struct tidings_error err = {0};
    q = (struct tidings_client_http){.method = "GET", .timeout_ms = 100};
    assert_int_equal(tidings_client_http(c, &q, &a, &err), TIDINGS_E_TIMEOUT);
    tidings_client_destroy(c);
    scripted_stop(&server);
}

static void nobody(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)f;
    (void)method;
    (void)id;
    (void)m;
}

static void invalid_raw_request_is_rejected(void **state)
{
    (void)state;
    static const char *const many[] = {"A: 1", "A: 2", "A: 3", "A: 4", "A: 5",
                                       "A: 6", "A: 7", "A: 8", "A: 9", NULL};
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client_http_answer a;
    struct tidings_client_http q = {.method = "GET", .headers = many};
    struct tidings_client *c = fake_client(&f, nobody, NULL, NULL);
    assert_int_equal(tidings_client_http(c, &q, &a, &err), TIDINGS_E_UNSUPPORTED);
    tidings_client_destroy(c);
    c = tidings_client_create("http://127.0.0.1:1/", NULL, NULL);
    assert_int_equal(tidings_client_http(c, &q, &a, &err), TIDINGS_E_LIMIT);
    q.headers = NULL;
    assert_int_equal(tidings_client_http(c, &q, &a, &err), TIDINGS_E_IO);
    assert_int_equal(a.status, 0);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_request_is_sent_unchanged),
        cmocka_unit_test(raw_stream_reports_data_and_silence),
        cmocka_unit_test(invalid_raw_request_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
