/* SPDX-License-Identifier: MIT
 *
 * The engine of the client over a transport without a server: requests, lists, walks.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/client.h"
#include "support/fake_transport.h"

static void legacy(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    (void)fake_legacy(f, method, id);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void answering(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct json *params = jv_get(m, "params");
    if (fake_modern(f, method, id)) {
        return;
    }
    if (strcmp(method, "ok") == 0) {
        assert_int_equal(jv_int(jv_get(params, "n")), 5);
        assert_int_equal(jv_int(jv_get(jv_get(params, "_meta"), "mine")), 6);
        assert_true(str_eq(
            jv_str(jv_get(jv_get(params, "_meta"), "io.modelcontextprotocol/protocolVersion")),
            STR("2026-07-28")));
        fake_result(f, id, "{\"fine\":true}");
    } else if (strcmp(method, "bad") == 0) {
        fake_error(f, id, -32001, "x");
    }
}

static void on_wire(void *user, const struct tidings_client_wire *w)
{
    struct buf *said = user;
    buf_putc(said, w->is_sent ? '>' : '<');
    buf_puts(said, w->text);
    buf_puts(said, w->reason);
    buf_putc(said, '\n');
}

static void messages_are_traced_in_both_directions(void **state)
{
    (void)state;
    struct fake f;
    struct buf said;
    buf_init(&said, 8192);
    struct tidings_client_options o = {.on_wire = on_wire, .wire_user = &said};
    struct tidings_client *c = fake_client(&f, answering, NULL, &o);
    assert_null(tidings_client_request(c, "bad", NULL, NULL));
    buf_putc(&said, '\0');
    const char *asked = strstr(said.ptr, "\"method\":\"bad\"");
    assert_int_equal(said.ptr[0], '>');
    assert_non_null(strstr(said.ptr, "\n<{"));
    assert_non_null(asked);
    assert_non_null(strstr(asked, "\"code\":-32001"));
    tidings_client_destroy(c);
    buf_deinit(&said);
}

static void client_can_call_any_method(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client *c = fake_client(&f, answering, NULL, NULL);
    char *text = tidings_client_request(c, "ok", "{\"n\":5,\"_meta\":{\"mine\":6}}", &err);
    assert_string_equal(text, "{\"fine\":true}");
    mem_free(text);
    assert_null(tidings_client_last_error(c));
    assert_null(tidings_client_request(c, "bad", NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_NOTFOUND);
    assert_string_equal(tidings_client_last_error(c), "{\"code\":-32001,\"message\":\"x\"}");
    assert_null(tidings_client_request(c, "ok", "[1]", &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_null(tidings_client_request(c, "ok", "{", &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    tidings_client_destroy(c);
}

static void not_found_is_recognized_in_every_era(void **state)
{
    (void)state;
    static const struct {
        const char *error;
        int code;
    } cases[] = {
        {"{\"code\":-32002,\"message\":\"x\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32602,\"message\":\"Resource not found\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32602,\"message\":\"x\",\"data\":{\"uri\":\"a\"}}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32601,\"message\":\"Resource not found\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32001,\"message\":\"x\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32602,\"message\":\"x\",\"data\":{\"reason\":\"deleted\"}}", TIDINGS_E_GONE},
        {"{\"code\":-32602,\"message\":\"x\",\"data\":{\"uri\":\"a\",\"reason\":\"too_large\"}}",
         TIDINGS_E_LIMIT},
        {"{\"code\":-32602,\"message\":\"bad cursor\"}", TIDINGS_E_INVALID},
        {"{\"code\":-32601,\"message\":\"x\"}", TIDINGS_E_UNSUPPORTED},
        {"{\"code\":-32603,\"message\":\"x\"}", TIDINGS_E_BUSY},
        {"{}", TIDINGS_E_INVALID},
        {"7", TIDINGS_E_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json *root = NULL;
        struct tidings_error err = {0};
        assert_int_equal(jv_parse(tidings_str(cases[i].error), 64, &root, NULL), 0);
        if (errors_from_response(root, 0, &err) != cases[i].code) {
            fail_msg("%s: %d", cases[i].error, err.code);
        }
        jv_unref(root);
    }
}

static void unanswered_request_is_cancelled(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client_options quick = {.timeout_ms = 1};
    struct tidings_client *c = fake_client(&f, answering, NULL, &quick);
    assert_int_equal(tidings_client_connect(c, &err), 0);
    assert_null(tidings_client_request(c, "never", NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_TIMEOUT);
    assert_non_null(strstr(f.log, "never 2\nnotifications/cancelled 0\n"));
    tidings_client_destroy(c);
}

/* Reports progress four times, past the time limit in total, then answers. */
static void slow(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct json *token = jv_get(jv_get(jv_get(m, "params"), "_meta"), "progressToken");
    if (fake_modern(f, method, id)) {
        return;
    }
    assert_int_equal(jv_int(token), id);
    for (int i = 1; i <= 4; i++) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                  "{\"progressToken\":%" PRId64 ",\"progress\":%d%s}}",
                  id, i, i == 4 ? ",\"total\":4,\"message\":\"done\"" : "");
    }
    fake_result(f, id, "{\"content\":[]}");
}

static void on_progress(void *user, double progress, double total, struct tidings_str message)
{
    char *text = user;
    snprintf(text, 64, "%g/%g %.*s", progress, total, (int)message.len, message.ptr);
}

static void call_reports_progress(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    char told[64] = "";
    struct tidings_client *c = fake_client(&f, slow, NULL, NULL);
    char *text = tidings_client_call(c, "dig", "{\"a\":1}", on_progress, told, &err);
    assert_string_equal(text, "{\"content\":[]}");
    mem_free(text);
    assert_string_equal(told, "4/4 done");
    tidings_client_destroy(c);
}

struct later {
    struct tidings_client *client;
    char text[256];
    int left;
};

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                      struct tidings_str error)
{
    struct later *l = user;
    size_t len = strlen(l->text);
    snprintf(l->text + len, sizeof(l->text) - len, "%.*s%s%.*s\n", (int)result.len, result.ptr,
             err ? tidings_code_text(err->code) : "", (int)error.len, error.ptr);
    if (--l->left == 0) {
        tidings_client_stop(l->client);
    }
}

static void requests_complete_without_blocking_wait(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct later l = {.left = 2};
    l.client = fake_client(&f, answering, NULL, NULL);
    struct tidings_client_asking a = {.method = "never", .on_answer = on_answer, .user = &l};
    int64_t given_up = tidings_client_ask(l.client, &a, &err);
    assert_true(given_up > 0);
    a.method = "bad";
    assert_true(tidings_client_ask(l.client, &a, &err) > given_up);
    a.method = "ok";
    a.params = "{\"n\":5,\"_meta\":{\"mine\":6}}";
    assert_true(tidings_client_ask(l.client, &a, &err) > given_up);
    assert_int_equal(tidings_client_connect(l.client, &err), 0);
    tidings_client_cancel(l.client, given_up);
    tidings_client_cancel(l.client, given_up);
    tidings_client_cancel(l.client, 1); /* not one of these */
    assert_int_equal(tidings_client_run(l.client, &err), 0);
    assert_string_equal(l.text, "not found{\"code\":-32001,\"message\":\"x\"}\n{\"fine\":true}\n");
    assert_non_null(strstr(f.log, "notifications/cancelled"));
    tidings_client_destroy(l.client);
}

static void descriptor_is_ready_when_step_is_due(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct later l = {.left = 1};
    l.client = fake_client(&f, answering, NULL, NULL);
    struct tidings_client_asking a = {.method = "bad", .on_answer = on_answer, .user = &l};
    assert_true(tidings_client_ask(l.client, &a, &err) > 0);
    int rc = 1;
    while (rc == 1) {
        struct pollfd p = {.fd = tidings_client_fd(l.client), .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        rc = tidings_client_step(l.client, 0, &err);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(l.left, 0);
    tidings_client_destroy(l.client);
}

/* ---- a server that asks ---------------------------------------------------------------------- */

static void curious(struct fake *f, const char *method, int64_t id, struct json *m)
{
    char *heard = f->user;
    if (strcmp(method, "notifications/initialized") == 0) {
        fake_say(f, "[{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"},"
                    "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"roots/list\"}]");
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sampling/createMessage\"}");
    } else if (method[0] == '\0') {
        char *text = json_text_of(f->base.client, m, NULL);
        size_t len = strlen(heard);
        snprintf(heard + len, 512 - len, "%s\n", text);
        mem_free(text);
    } else if (!fake_legacy(f, method, id)) {
        fake_result(f, id, "{}");
    }
}

static void server_request_is_answered(void **state)
{
    (void)state;
    struct fake f;
    char heard[512] = "";
    struct tidings_client *c = fake_client(&f, curious, heard, NULL);
    char *text = tidings_client_request(c, "anything", NULL, NULL);
    assert_non_null(text);
    mem_free(text);
    assert_string_equal(heard, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n"
                               "{\"jsonrpc\":\"2.0\",\"id\":8,\"error\":{\"code\":-32601,"
                               "\"message\":\"the server asks for roots, which this client did "
                               "not offer\"}}\n"
                               "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32601,"
                               "\"message\":\"the server asks for a completion of a model "
                               "(sampling), which this client did not offer\"}}\n");
    tidings_client_destroy(c);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Page "b" follows the first, "c" follows "b", and if `user` is set, "b" follows "c". */
static void paging(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct tidings_str cursor = jv_str(jv_get(jv_get(m, "params"), "cursor"));
    if (fake_modern(f, method, id)) {
        return;
    }
    assert_string_equal(method, "tools/list");
    const char *next = cursor.len == 0 ? "b" : cursor.ptr[0] == 'b' ? "c" : f->user ? "b" : NULL;
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":{\"tools\":[{\"name\":\"%.*s1\"},"
              "{\"name\":\"%.*s2\"}]%s%s%s}}",
              id, (int)cursor.len, cursor.ptr, (int)cursor.len, cursor.ptr,
              next ? ",\"nextCursor\":\"" : "", next ? next : "", next ? "\"" : "");
}

static int count_items(void *user, struct tidings_str item)
{
    int *left = user;
    assert_int_equal(item.ptr[0], '{');
    return --*left == 0 ? 77 : 0;
}

static void lists_are_complete_across_pages(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    int left = 100;
    struct tidings_client *c = fake_client(&f, paging, NULL, NULL);
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_TOOLS, count_items, &left, &err), 0);
    assert_int_equal(left, 94);
    left = 3;
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_TOOLS, count_items, &left, &err), 77);
    tidings_client_destroy(c);
    c = fake_client(&f, paging, &left, NULL);
    left = 100;
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_TOOLS, count_items, &left, &err),
                     TIDINGS_E_PARSE);
    assert_string_equal(err.text, "the pages of tools/list go in a circle");
    tidings_client_destroy(c);
}

/* A page with one entry, and always a next page. A walk ignores entries without a URI. */
static void never_ending(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    unsigned *asked = f->user;
    if (!fake_modern(f, method, id)) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
                  ",\"result\":{\"resources\":[{}],\"nextCursor\":\"%u\"}}",
                  id, ++*asked);
    }
}

static int pass_over(void *user, const struct tidings_walk_entry *e)
{
    unsigned *told = user;
    (void)e;
    ++*told;
    return 0;
}

static void endless_lists_are_aborted(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_walk_limits limits = {.entries = 10};
    unsigned asked = 0, told = 0;
    int left = 100000;
    struct tidings_client *c = fake_client(&f, never_ending, &asked, NULL);
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_RESOURCES, count_items, &left, &err),
                     TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "the pages of resources/list do not end");
    assert_int_equal(asked, 10000);
    assert_int_equal(left, 90000);
    asked = 0;
    assert_int_equal(tidings_client_walk(c, "a:/", &limits, pass_over, &told, &err),
                     TIDINGS_E_LIMIT);
    assert_int_equal(asked, 10030);
    tidings_client_destroy(c);
}

/* The same, but each page arrives a second before the deadline; `step_ns` is that time. */
struct dripping {
    struct clock_fake clock;
    uint64_t step_ns;
    unsigned asked;
    bool has_folders; /* each page is a folder in the previous one, and its only entry */
};

static void drip(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    struct dripping *d = f->user;
    if (fake_modern(f, method, id)) {
        return;
    }
    d->clock.monotonic_ns += d->step_ns;
    d->asked++;
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
              ",\"result\":{\"resources\":[{\"uri\":\"m:/%u/\"}]%s%u%s}}",
              id, d->asked, d->has_folders ? ",\"count\":" : ",\"nextCursor\":\"", d->asked,
              d->has_folders ? "" : "\"");
}

static void slow_lists_are_aborted(void **state)
{
    (void)state;
    struct fake f;
    struct dripping d = {.clock = {.monotonic_ns = 1000000}, .step_ns = UINT64_C(29000000000)};
    struct tidings_error err = {0};
    int left = 100000;
    clock_set_fake(&d.clock);
    struct tidings_client *c = fake_client(&f, drip, &d, NULL);
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_RESOURCES, count_items, &left, &err),
                     TIDINGS_E_TIMEOUT);
    assert_string_equal(err.text, "11 pages of resources/list took 319000 ms, and there are more");
    assert_int_equal(d.asked, 11);
    assert_int_equal(left, 100000 - 11); /* received elements were reported */
    d.asked = 0;
    assert_int_equal(tidings_client_children(c, "m:/", count_items, &left, &err),
                     TIDINGS_E_TIMEOUT);
    assert_int_equal(d.asked, 11);
    d.asked = 0;
    assert_null(tidings_client_metadata(c, "m:/none", &err));
    assert_int_equal(err.code, TIDINGS_E_TIMEOUT);
    assert_int_equal(d.asked, 12); /* resources/metadata is the first */
    tidings_client_destroy(c);
    clock_set_fake(NULL);
}

/* The program's own time with an element does not count against the server. */
static int dawdle(void *user, struct tidings_str item)
{
    struct dripping *d = user;
    (void)item;
    d->clock.monotonic_ns += UINT64_C(600000000000);
    return d->asked == 50 ? 7 : 0;
}

static void program_can_process_list_slowly(void **state)
{
    (void)state;
    struct fake f;
    struct dripping d = {.clock = {.monotonic_ns = 1000000}, .step_ns = UINT64_C(5000000000)};
    struct tidings_error err = {0};
    clock_set_fake(&d.clock);
    struct tidings_client *c = fake_client(&f, drip, &d, NULL);
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_RESOURCES, dawdle, &d, &err), 7);
    tidings_client_destroy(c);
    clock_set_fake(NULL);
}

/* Each complete list extends the deadline by three seconds. */
static void walk_deadline_extends_per_list(void **state)
{
    (void)state;
    struct fake f;
    struct dripping d = {
        .clock = {.monotonic_ns = 1000000}, .step_ns = UINT64_C(3000000000), .has_folders = true};
    struct tidings_walk_limits limits = {.depth = 1000};
    unsigned told = 0;
    struct tidings_error err = {0};
    clock_set_fake(&d.clock);
    struct tidings_client *c = fake_client(&f, drip, &d, NULL);
    assert_int_equal(tidings_client_walk(c, "m:/", &limits, pass_over, &told, &err), 0);
    assert_int_equal(told, 1000);
    assert_int_equal(d.asked, 1000); /* 3,000 s, and always a new folder */
    d.step_ns = UINT64_C(29000000000);
    d.asked = 0;
    assert_int_equal(tidings_client_walk(c, "m:/", &limits, pass_over, &told, &err),
                     TIDINGS_E_TIMEOUT);
    assert_string_equal(err.text, "12 pages of resources/list took 348000 ms, and there are more");
    tidings_client_destroy(c);
    clock_set_fake(NULL);
}

/* Every folder contains a file, itself, and folders "1" and "2" below it, endlessly. */
static void maze(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct tidings_str uri = jv_str(jv_get(jv_get(m, "params"), "uri"));
    if (fake_modern(f, method, id)) {
        return;
    }
    assert_string_equal(method, "resources/list");
    if (str_ends(uri, STR("2/"))) {
        fake_error(f, id, -32602, "no");
        return;
    }
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":{\"resources\":["
              "{\"uri\":\"%.*sf\"},{\"uri\":\"%.*s\"},{\"uri\":\"%.*s1/\",\"capabilities\":"
              "{\"list\":true}},{\"uri\":\"%.*s2/\"},{\"uri\":\"%.*s3/\",\"capabilities\":"
              "{\"list\":false}},{}]}}",
              id, STR_ARG(uri), STR_ARG(uri), STR_ARG(uri), STR_ARG(uri), STR_ARG(uri));
}

static int note_entry(void *user, const struct tidings_walk_entry *e)
{
    char *text = user;
    size_t len = strlen(text);
    snprintf(text + len, 1024 - len, "%u %.*s%s%s%s%s\n", e->depth, (int)e->uri.len, e->uri.ptr,
             e->is_repeated ? " again" : "", e->is_cut ? " cut" : "", e->failure ? " failed: " : "",
             e->failure ? e->failure->text : "");
    return 0;
}

static void walk_ends_in_cyclic_tree(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    char text[1024] = "";
    struct tidings_walk_limits limits = {.depth = 2};
    struct tidings_client *c = fake_client(&f, maze, NULL, NULL);
    assert_int_equal(tidings_client_walk(c, "m:/", &limits, note_entry, text, &err), 0);
    assert_string_equal(text, "1 m:/f\n1 m:/ again\n1 m:/1/\n2 m:/1/f\n2 m:/1/ again cut\n"
                              "2 m:/1/1/ cut\n2 m:/1/2/ cut\n2 m:/1/3/\n"
                              "1 m:/2/ failed: no (-32602)\n1 m:/3/\n");
    limits = (struct tidings_walk_limits){.entries = 10};
    text[0] = '\0';
    assert_int_equal(tidings_client_walk(c, "m:/", &limits, note_entry, text, &err),
                     TIDINGS_E_LIMIT);
    tidings_client_destroy(c);
}

static void children_are_not_requested_if_unsupported(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    int left = 9;
    struct tidings_client *c = fake_client(&f, legacy, NULL, NULL);
    assert_int_equal(tidings_client_children(c, "x:/", count_items, &left, &err),
                     TIDINGS_E_UNSUPPORTED);
    assert_null(strstr(f.log, "resources/list"));
    tidings_client_destroy(c);
}

static void skilled(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct tidings_str uri = jv_str(jv_get(jv_get(m, "params"), "uri"));
    if (strcmp(method, "server/discover") == 0) {
        fake_result(f, id,
                    "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"extensions\":"
                    "{\"io.modelcontextprotocol/skills\":{\"directoryRead\":true}}}}");
    } else if (strcmp(method, "resources/directory/read") == 0 && str_eq(uri, STR("x:/"))) {
        fake_result(f, id, "{\"resources\":[{\"uri\":\"x:/a\"}]}");
    }
}

static void children_are_requested_as_server_offers(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    int left = 9;
    struct tidings_client *c = fake_client(&f, skilled, NULL, NULL);
    assert_int_equal(tidings_client_children(c, "x:/", count_items, &left, &err), 0);
    assert_int_equal(left, 8);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_traced_in_both_directions),
        cmocka_unit_test(client_can_call_any_method),
        cmocka_unit_test(not_found_is_recognized_in_every_era),
        cmocka_unit_test(unanswered_request_is_cancelled),
        cmocka_unit_test(call_reports_progress),
        cmocka_unit_test(requests_complete_without_blocking_wait),
        cmocka_unit_test(descriptor_is_ready_when_step_is_due),
        cmocka_unit_test(server_request_is_answered),
        cmocka_unit_test(lists_are_complete_across_pages),
        cmocka_unit_test(endless_lists_are_aborted),
        cmocka_unit_test(slow_lists_are_aborted),
        cmocka_unit_test(program_can_process_list_slowly),
        cmocka_unit_test(walk_deadline_extends_per_list),
        cmocka_unit_test(walk_ends_in_cyclic_tree),
        cmocka_unit_test(children_are_not_requested_if_unsupported),
        cmocka_unit_test(children_are_requested_as_server_offers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
