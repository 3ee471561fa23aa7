/* SPDX-License-Identifier: MIT
 *
 * /resource over plain HTTP, as a program uses it: formats of a handler, handlers that answer
 * later, on another thread or after a disconnect; writes.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/prompt.h>
#include <tidings/tool.h>

#include "support/served.h"

/* ---- served resources ------------------------------------------------------------------------ */

static int both_formats(struct tidings_read *read, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    about.name = tidings_str("page");
    about.mime_type = tidings_str("text/markdown");
    int rc = tidings_read_text(read, &about, tidings_str("# Title"), err);
    about.mime_type = tidings_str("text/html");
    return rc < 0 ? rc : tidings_read_text(read, &about, tidings_str("<h1>Title</h1>"), err);
}

static void on_page(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err = {0, ""};
    int rc = both_formats(read, &err);
    tidings_read_done(read, rc, &err);
}

static void on_odd(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    about.name = tidings_str("odd");
    about.mime_type = tidings_str("text/html\r\nSet-Cookie: x=1");
    about.etag = tidings_str("a\"\r\nX: y");
    int rc = tidings_read_text(read, &about, tidings_str("odd"), &err);
    tidings_read_done(read, rc, &err);
}

/* Answered by the test, on its own thread. */
static struct tidings_read *waiting; /* atomic */

static void on_slow(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    __atomic_store_n(&waiting, read, __ATOMIC_RELEASE);
}

static struct tidings_read *await_read(void)
{
    struct tidings_read *read;
    while (!(read = __atomic_exchange_n(&waiting, NULL, __ATOMIC_ACQ_REL))) {
        sched_yield();
    }
    return read;
}

static void answer_slowly(struct tidings_read *read)
{
    size_t len = 300000;
    char *bytes = tidings_alloc(len);
    memset(bytes, 'x', len);
    struct tidings_resource about = {0};
    about.name = tidings_str("slow");
    struct tidings_error err = {0, ""};
    int rc = tidings_read_take(read, &about, bytes, len, &err);
    tidings_read_done(read, rc, &err);
}

static void *answer_later(void *arg)
{
    (void)arg;
    answer_slowly(await_read());
    return NULL;
}

static void add(const char *uri, tidings_read_fn fn)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str("x");
    assert_int_equal(tidings_server_add_resource(served(), &about, fn, NULL, &err), 0);
}

static const char *get(const char *uri, const char *fields)
{
    char head[512];
    snprintf(head, sizeof(head), "GET /resource?uri=%s HTTP/1.1%s%s", uri, fields[0] ? "\r\n" : "",
             fields);
    return served_http(head, "");
}

static void check(const char *answer, const char *status, const char *has, const char *body)
{
    const char *end = strstr(answer, "\r\n\r\n");
    if (!end || strncmp(answer + 9, status, 3) != 0 || !strstr(answer, has) ||
        (body && strcmp(end + 4, body) != 0)) {
        fail_msg("not %s with '%s' and '%s':\n%s", status, has, body ? body : "", answer);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void accept_header_selects_format(void **state)
{
    (void)state;
    add("app:///page", on_page);
    served_run();
    check(get("app:///page", ""), "200", "Content-Type: text/markdown; charset=utf-8", "# Title");
    check(get("app:///page", "Accept: */*"), "200", "Vary: Accept", "# Title");
    check(get("app:///page", "Accept: text/html"), "200", "text/html", "<h1>Title</h1>");
    check(get("app:///page", "Accept: text/html;q=0.1, text/markdown;q=0.2"), "200", "markdown",
          "# Title");
    check(get("app:///page", "Accept: image/png, application/*"), "406",
          "\"reason\":\"not_acceptable\"", NULL);
    check(get("app:///page", "Accept: text/html\r\nRange: bytes=1-2"), "206",
          "Content-Range: bytes 1-2/14", "h1");
}

static void handler_output_cannot_inject_headers(void **state)
{
    (void)state;
    add("app:///odd", on_odd);
    served_run();
    const char *answer = get("app:///odd", "");
    check(answer, "200", "Content-Type: text/plain; charset=utf-8", "odd");
    assert_null(strstr(answer, "Set-Cookie"));
    assert_null(strstr(answer, "X: y"));
    assert_null(strstr(answer, "ETag"));
}

static void handler_can_answer_later_on_another_thread(void **state)
{
    (void)state;
    add("app:///slow", on_slow);
    served_run();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_later, NULL), 0);
    check(get("app:///slow", "Range: bytes=299990-"), "206",
          "Content-Range: bytes 299990-299999/300000", "xxxxxxxxxx");
    pthread_join(thread, NULL);
}

static void client_disconnect_cancels_its_request(void **state)
{
    (void)state;
    add("app:///slow", on_slow);
    served_run();
    int fd = served_ask("GET /resource?uri=app:///slow HTTP/1.1\r\nIf-None-Match: \"x\"", "");
    struct tidings_read *read = await_read();
    close(fd);
    while (!tidings_read_cancelled(read)) {
        sched_yield();
    }
    answer_slowly(
        read); /* no client receives it, and the request is still available for comparison */
    check(get("app:///a", ""), "200", "text/plain", NULL);
}

static void registered_resource_rejects_writes(void **state)
{
    (void)state;
    served_set("allow-write", "true");
    served_set("publish", "app:///");
    struct tidings_error err = {0, ""};
    tidings_server_remove(served(), tidings_str("app:///row/{id}"), &err);
    served_run();
    check(served_http("PUT /resource?uri=app:///a HTTP/1.1", "x"), "405",
          "Allow: GET, HEAD, OPTIONS\r\n", NULL);
    check(served_http("DELETE /resource?uri=app:///a HTTP/1.1", ""), "405",
          "registered by the program", NULL);
    check(served_http("PUT /resource?uri=app:///new HTTP/1.1", "x"), "201", "ETag", "");
    check(get("app:///new", ""), "200", "text/plain", "x");
    check(served_http("PUT /resource?uri=other:///new HTTP/1.1", "x"), "404", "not found", NULL);
}

static void on_own_page(void *user, const struct tidings_http_request *request,
                        struct tidings_http_response *response)
{
    (void)user;
    (void)request;
    tidings_http_reply(response, 200, "text/plain", tidings_str("mine"));
}

static void program_page_wins_over_resource_at_same_path(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_add_route(served(), "/resource", on_own_page, NULL, &err), 0);
    served_run();
    check(get("app:///a", ""), "200", "text/plain", "mine");
}

/* ---- structs filled by the program -------------------------------------------------------------
 */

static void zeroed_description_uses_defaults(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    struct ears ears;
    ears_init(&ears);
    about.uri = tidings_str("app:///zeroed");
    about.name = tidings_str("zeroed");
    assert_int_equal(tidings_server_add_resource(served(), &about, on_page, NULL, &err), 0);
    assert_non_null(served_subscribe("app:///zeroed", NULL, &ears));
    served_run();
    served_await_subscribed("app:///zeroed", &ears); /* it can be subscribed to */
    assert_string_equal(ears_await(&ears, 0).refused, "");
}

static void on_call(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void assert_reserved(int rc, struct tidings_error *err)
{
    assert_int_equal(rc, TIDINGS_E_INVALID);
    assert_non_null(strstr(err->text, "reserved"));
    *err = (struct tidings_error){0};
}

static void uninitialized_struct_is_rejected(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_str uri = tidings_str("app:///reserved"), none = tidings_str("");
    struct tidings_resource about = tidings_resource("app:///reserved", "r", NULL);
    struct tidings_change change = {.uri = uri};
    struct tidings_watch_hook hook = {.watch = NULL};
    struct tidings_server_info info = {.name = tidings_str("n")};
    struct tidings_tool tool = {.name = tidings_str("t")};
    struct tidings_prompt prompt = {.name = tidings_str("p")};
    about.reserved[3] = change.reserved[1] = hook.reserved[3] = &err;
    info.reserved[3] = tool.reserved[2] = prompt.reserved[3] = &err;
    struct tidings_server *s = served();
    assert_reserved(tidings_server_add_resource(s, &about, on_page, NULL, &err), &err);
    assert_reserved(tidings_server_publish(s, &about, none, &err), &err);
    assert_reserved(tidings_announce(s, &change, &err), &err);
    assert_reserved(tidings_server_on_watch(s, uri, &hook, &err), &err);
    assert_reserved(tidings_server_set_info(s, &info, &err), &err);
    assert_reserved(tidings_server_add_tool(s, &tool, on_call, NULL, &err), &err);
    assert_reserved(tidings_server_add_prompt(s, &prompt, on_call, NULL, &err), &err);
}

#define BOTH(name)                                                                                 \
    cmocka_unit_test_prestate_setup_teardown(name, served_begin, served_end, one),                 \
        cmocka_unit_test_prestate_setup_teardown(name, served_begin, served_end, two)

int main(void)
{
    static char one[] = "1", two[] = "2";
    const struct CMUnitTest tests[] = {
        BOTH(accept_header_selects_format),
        BOTH(handler_output_cannot_inject_headers),
        BOTH(handler_can_answer_later_on_another_thread),
        BOTH(client_disconnect_cancels_its_request),
        BOTH(registered_resource_rejects_writes),
        BOTH(zeroed_description_uses_defaults),
        BOTH(uninitialized_struct_is_rejected),
        BOTH(program_page_wins_over_resource_at_same_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
