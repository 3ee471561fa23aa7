/* SPDX-License-Identifier: MIT
 *
 * Credentials of the program: the client queries them before each request, reports each rejection,
 * waits without a deadline, and stops calling once no request waits.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "base/time.h"
#include "support/remove_tree.h"
#include "support/scripted_server.h"

enum reply { SHOW_AGAIN, WAIT, GIVE_UP };

/* The behavior of the program's credentials, and the calls they received. */
struct scene {
    struct scripted_server server;
    struct tidings_client *client;
    struct tidings_credentials credentials;
    enum reply reply;
    atomic_int status; /* of a refusal; 0: 401 */
    int token;         /* the one to send; 0: none */
    atomic_int wanted; /* … and the one that the server expects */
    int shown, refused, forgotten;
    unsigned last_attempt;
    bool fails;        /* the awaited one */
    bool is_socket;    /* the server is reached by WebSocket */
    bool prepares;     /* the next request waits before the client sends it */
    const char *extra; /* an additional line to send; NULL: none */
    int fd;            /* readable: `done` is due */
    uint64_t ticks;    /* steps before it is */
    tidings_credentials_done_fn done;
    void *to;
    struct clock_fake clock;
};

static int show(void *user, const struct tidings_credentials_request *request,
                tidings_credentials_put_fn put, void *to)
{
    struct scene *s = user;
    char line[64];
    s->shown++;
    assert_string_equal(request->method, s->is_socket ? "GET" : "POST");
    assert_string_equal(request->url, s->server.url);
    if (s->token == 0) {
        return 0;
    }
    snprintf(line, sizeof(line), "Authorization: Bearer t-%d", s->token);
    int rc = put(to, line);
    return rc == 0 && s->extra ? put(to, s->extra) : rc;
}

static int refused(void *user, const struct tidings_credentials_refusal *refusal,
                   tidings_credentials_done_fn done, void *to, struct tidings_error *err)
{
    struct scene *s = user;
    uint64_t one = 1;
    s->refused++;
    s->last_attempt = refusal->attempt;
    assert_true(tidings_str_eq(refusal->challenge, tidings_str("Bearer scope=\"a\"")));
    assert_true(tidings_str_eq(refusal->nonce, tidings_str("n")));
    assert_int_equal(refusal->shown.len > 0, s->token > 0);
    if (s->reply == GIVE_UP) {
        return tidings_fail(err, TIDINGS_E_DENIED, "nobody has a better one");
    }
    s->done = done;
    s->to = to;
    if (s->reply == SHOW_AGAIN) {
        s->token++;
        return 0;
    }
    assert_int_equal(write(s->fd, &one, sizeof(one)), sizeof(one));
    return 1;
}

static int prepare(void *user, const struct tidings_credentials_request *request,
                   tidings_credentials_done_fn done, void *to)
{
    struct scene *s = user;
    uint64_t one = 1;
    assert_string_equal(request->url, s->server.url);
    if (!s->prepares) {
        return 0;
    }
    s->prepares = false;
    s->done = done;
    s->to = to;
    assert_int_equal(write(s->fd, &one, sizeof(one)), sizeof(one));
    return 1;
}

static void forget(void *user, void *to)
{
    struct scene *s = user;
    assert_ptr_equal(to, s->to);
    s->forgotten++;
}

static int descriptor(void *user)
{
    return ((struct scene *)user)->fd;
}

static void step(void *user)
{
    struct scene *s = user;
    struct tidings_error why = {0};
    uint64_t count;
    if (s->ticks > 0) {
        s->ticks--;
        s->clock.monotonic_ns += 1000000000; /* a second passes, if the test controls time */
        return;
    }
    assert_int_equal(read(s->fd, &count, sizeof(count)), sizeof(count));
    s->token = s->wanted;
    tidings_fail(&why, TIDINGS_E_DENIED, "the person said no");
    s->done(s->to, s->fails ? &why : NULL);
}

static void answer(struct scripted_server *server, const struct scripted_request *r)
{
    struct scene *s = server->user;
    char line[64];
    snprintf(line, sizeof(line), "\r\nAuthorization: Bearer t-%d\r\n", s->wanted);
    if (!strcasestr(r->head, line)) {
        scripted_reply(r, s->status ? s->status : 401,
                       "WWW-Authenticate: Bearer scope=\"a\"\r\nDPoP-Nonce: n\r\n",
                       "application/json", "{}");
    } else if (!scripted_discovered(r)) {
        bool is_once = !strstr(strcasestr(r->head, "Authorization:") + 1, "Authorization:");
        bool has_extra = !s->extra || strstr(r->head, s->extra);
        scripted_result(r, "", is_once && has_extra ? "{\"contents\":[1]}" : "{\"contents\":[]}");
    }
}

static void begin(struct scene *s)
{
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->credentials = (struct tidings_credentials){.user = s,
                                                  .show = show,
                                                  .refused = refused,
                                                  .forget = forget,
                                                  .fd = descriptor,
                                                  .step = step,
                                                  .prepare = prepare};
    struct tidings_client_options o = {.credentials = &s->credentials, .timeout_ms = 2000};
    scripted_start(&s->server, answer, s);
    char address[80];
    snprintf(address, sizeof(address), "%s%s", s->is_socket ? "ws" : "http", s->server.url + 4);
    s->client = tidings_client_create(address, &o, NULL);
    assert_non_null(s->client);
}

static void end(struct scene *s)
{
    tidings_client_destroy(s->client);
    scripted_stop(&s->server);
    close(s->fd);
}

static void reads(struct scene *s)
{
    char *text = tidings_client_read(s->client, "x:/a", NULL);
    assert_non_null(text);
    assert_string_equal(text, "{\"contents\":[1]}");
    tidings_free(text);
}

static void requests_send_current_credentials(void **state)
{
    struct scene s = {.token = 1, .wanted = 1, .extra = "DPoP: a.b.c"};
    (void)state;
    begin(&s);
    reads(&s);
    assert_int_equal(s.shown, 2); /* discover, read */
    assert_int_equal(s.refused, 0);
    end(&s);
}

static void better_credentials_are_sent_at_once(void **state)
{
    struct scene s = {.wanted = 2, .reply = SHOW_AGAIN, .extra = "DPoP: a.b.c"};
    (void)state;
    begin(&s);
    reads(&s);
    assert_int_equal(s.refused, 2); /* none, the first */
    assert_int_equal(s.last_attempt, 1);
    end(&s);
}

static void credential_wait_extends_the_deadline(void **state)
{
    struct scene s = {.wanted = 7, .reply = WAIT, .ticks = 100};
    (void)state;
    s.clock.monotonic_ns = clock_monotonic_ns();
    clock_set_fake(&s.clock);
    begin(&s);
    int rc = tidings_client_connect(s.client, NULL);
    clock_set_fake(NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(s.ticks, 0); /* a hundred seconds; an answer may take two */
    assert_int_equal(s.refused, 1);
    assert_int_equal(s.forgotten, 0);
    end(&s);
}

/* Even if the renewal failed, because the current credentials may suffice. */
static void request_waits_for_credential_renewal(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct scene s = {.token = 1, .wanted = 7, .prepares = true, .fails = fails};
        begin(&s);
        reads(&s);
        assert_int_equal(s.refused, 0);
        assert_int_equal(s.forgotten, 0);
        end(&s);
    }
}

static void client_can_stop_during_credential_wait(void **state)
{
    struct scene s = {.token = 1, .wanted = 7, .prepares = true, .ticks = UINT64_MAX};
    (void)state;
    begin(&s);
    while (s.prepares) {
        assert_int_equal(tidings_client_step(s.client, 100, NULL), 1);
    }
    end(&s);
    assert_int_equal(s.shown, 0);
    assert_int_equal(s.forgotten, 1);
}

static void unavailable_credentials_fail_the_request(void **state)
{
    struct scene s = {.wanted = 7, .reply = GIVE_UP};
    struct tidings_error err = {0};
    (void)state;
    begin(&s);
    assert_int_equal(tidings_client_connect(s.client, &err), TIDINGS_E_DENIED);
    assert_string_equal(err.text, "nobody has a better one");
    s.reply = WAIT;
    s.fails = true;
    assert_int_equal(tidings_client_connect(s.client, &err), TIDINGS_E_DENIED);
    assert_string_equal(err.text, "the person said no");
    end(&s);
}

static void client_stops_if_server_rejects_all_credentials(void **state)
{
    struct scene s = {.wanted = -1, .reply = SHOW_AGAIN};
    struct tidings_error err = {0};
    (void)state;
    begin(&s);
    assert_int_equal(tidings_client_connect(s.client, &err), TIDINGS_E_DENIED);
    assert_int_equal(s.refused, 4);
    s.status = 403;
    s.refused = 0;
    assert_true(tidings_client_connect(s.client, &err) < 0);
    assert_int_equal(s.refused, 4);
    end(&s);
}

static void pending_credentials_are_dropped_with_client(void **state)
{
    struct scene s = {.wanted = 7, .reply = WAIT, .ticks = UINT64_MAX};
    (void)state;
    begin(&s);
    while (s.refused == 0) {
        assert_int_equal(tidings_client_step(s.client, 100, NULL), 1);
    }
    end(&s);
    assert_int_equal(s.forgotten, 1);
}

/* The server can reject the handshake like any request, and the handshake waits like any
 * request. */
static void websocket_handshake_waits_for_credentials(void **state)
{
    struct tidings_error err = {0};
    (void)state;
    struct scene never = {.token = 1, .wanted = -1, .reply = SHOW_AGAIN, .is_socket = true};
    begin(&never);
    assert_int_equal(tidings_client_connect(never.client, &err), TIDINGS_E_DENIED);
    assert_int_equal(never.refused, 4);
    assert_int_equal(never.token, 5);
    end(&never);

    struct scene no = {.wanted = 7, .reply = WAIT, .fails = true, .is_socket = true};
    begin(&no);
    assert_int_equal(tidings_client_connect(no.client, &err), TIDINGS_E_DENIED);
    assert_string_equal(err.text, "the person said no");
    end(&no);

    for (int prepares = 0; prepares < 2; prepares++) {
        struct scene gone = {.wanted = 7,
                             .reply = WAIT,
                             .ticks = UINT64_MAX,
                             .prepares = prepares,
                             .is_socket = true};
        begin(&gone);
        while (prepares ? gone.prepares : gone.refused == 0) {
            assert_int_equal(tidings_client_step(gone.client, 100, NULL), 1);
        }
        end(&gone);
        assert_int_equal(gone.forgotten, 1);
    }
}

static void invalid_header_lines_are_rejected(void **state)
{
    static const char *const bad[] = {"no colon", "X: a\r\nY: b", ": x", "A B: c", "X: \x1b[2J"};
    struct tidings_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct scene s = {.token = 1, .wanted = 1, .extra = bad[i]};
        begin(&s);
        assert_int_equal(tidings_client_connect(s.client, &err), TIDINGS_E_INVALID);
        end(&s);
    }
}

/* The server at the socket is not "localhost", which may have a token. */
static void unix_socket_server_receives_no_credentials(void **state)
{
    struct scene s = {.token = 1, .wanted = 1};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/tidings-credentials-XXXXXX", address[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", folder);
    snprintf(address, sizeof(address), "http+unix:%s", at.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    begin(&s);
    tidings_client_destroy(s.client);
    struct tidings_client_options o = {.credentials = &s.credentials, .timeout_ms = 2000};
    s.client = tidings_client_create(address, &o, NULL);
    struct pollfd came = {.fd = fd, .events = POLLIN};
    while (poll(&came, 1, 0) == 0) {
        assert_true(tidings_client_step(s.client, 10, NULL) >= 0);
    }
    assert_int_equal(s.shown, 0);
    end(&s);
    close(fd);
    remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_send_current_credentials),
        cmocka_unit_test(better_credentials_are_sent_at_once),
        cmocka_unit_test(credential_wait_extends_the_deadline),
        cmocka_unit_test(request_waits_for_credential_renewal),
        cmocka_unit_test(client_can_stop_during_credential_wait),
        cmocka_unit_test(unavailable_credentials_fail_the_request),
        cmocka_unit_test(client_stops_if_server_rejects_all_credentials),
        cmocka_unit_test(pending_credentials_are_dropped_with_client),
        cmocka_unit_test(websocket_handshake_waits_for_credentials),
        cmocka_unit_test(invalid_header_lines_are_rejected),
        cmocka_unit_test(unix_socket_server_receives_no_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
