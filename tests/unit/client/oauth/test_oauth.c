/* SPDX-License-Identifier: MIT
 *
 * OAuth credentials as the client uses them: which waiters get a callback, and which operations a
 * renewal blocks.
 */
#include <tidings/oauth.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/remove_tree.h"

#define SERVER "http://127.0.0.1:9/mcp"

static const struct tidings_credentials *credentials;

/* A waiting request; its callback ends another one of them. */
struct waiting {
    int told;
    struct waiting *ends; /* NULL: none */
    bool asks_again;      /* … and then it is rejected once more */
    const char *endpoint; /* the address it was sent to; NULL: that of the server */
    struct tidings_error why;
};

static int refuse(struct waiting *w);

static void on_done(void *to, const struct tidings_error *why)
{
    struct waiting *w = to;
    w->told++;
    w->why = why ? *why : (struct tidings_error){0};
    if (w->asks_again) {
        w->asks_again = false;
        assert_int_equal(refuse(w), 1);
    }
    if (w->ends) {
        credentials->forget(credentials->user, w->ends);
    }
}

static int refuse(struct waiting *w)
{
    struct tidings_error err = {0};
    struct tidings_credentials_refusal refusal = {
        .url = w->endpoint ? w->endpoint : SERVER,
        .server = w->endpoint ? SERVER : NULL,
        .status = 401,
        .challenge = tidings_str("Bearer"),
        .shown = tidings_str("Authorization: Bearer a"),
    };
    return credentials->refused(credentials->user, &refusal, on_done, w, &err);
}

static void step(void)
{
    struct pollfd p = {.fd = credentials->fd(credentials->user), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
    credentials->step(credentials->user);
}

static struct tidings_oauth *create(const char *path)
{
    struct tidings_oauth_options options = {.token_file = path};
    struct tidings_oauth *o = tidings_oauth_create(&options, NULL);
    assert_non_null(o);
    credentials = tidings_oauth_credentials(o);
    return o;
}

/* No authorization server is available here, so this ends soon. */
static void waiter_gets_no_callback_if_another_callback_ends_it(void **state)
{
    struct waiting last = {0}, second = {0}, first = {.ends = &second};
    (void)state;
    struct tidings_oauth *o = create(NULL);
    assert_int_equal(refuse(&first), 1);
    assert_int_equal(refuse(&second), 1);
    assert_int_equal(refuse(&last), 1);
    while (first.told == 0) {
        step();
    }
    assert_int_equal(first.why.code, TIDINGS_E_DENIED);
    assert_int_equal(second.told, 0); /* its memory may be reused by now */
    assert_int_equal(last.told, 1);
    tidings_oauth_destroy(o);
}

static void waiter_gets_new_callback_if_it_asks_again(void **state)
{
    struct waiting last = {0}, first = {.asks_again = true};
    (void)state;
    struct tidings_oauth *o = create(NULL);
    assert_int_equal(refuse(&first), 1);
    assert_int_equal(refuse(&last), 1);
    while (first.told == 0) {
        step();
    }
    assert_int_equal(first.told, 1);
    assert_int_equal(last.told, 1);
    while (first.told == 1) {
        step();
    }
    assert_int_equal(first.told, 2);
    assert_int_equal(last.told, 1);
    tidings_oauth_destroy(o);
}

/* HTTP+SSE: the stream uses the server's address, messages another address of the same host. */
static void requests_to_other_addresses_wait_for_same_token(void **state)
{
    struct waiting stream = {0}, message = {.endpoint = SERVER "/../messages?session=1"};
    (void)state;
    struct tidings_oauth *o = create(NULL);
    assert_int_equal(refuse(&message), 1);
    assert_int_equal(refuse(&stream), 1);
    while (stream.told == 0) {
        step();
    }
    assert_int_equal(message.told, 1);
    assert_int_equal(stream.why.code, message.why.code);
    tidings_oauth_destroy(o);
}

static void logout_is_rejected_during_token_renewal(void **state)
{
    static const char text[] =
        "{\"tokens\":[{\"resource\":\"" SERVER "\",\"issuer\":\"https://as.test\","
        "\"token_endpoint\":\"http://127.0.0.1:9/"
        "token\",\"client_id\":\"c\",\"access_token\":\"a\","
        "\"scope\":\"\"}]}";
    char folder[] = "/tmp/tidings-oauth-XXXXXX", path[64];
    struct waiting w = {0};
    struct tidings_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/tokens", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    struct tidings_oauth *o = create(path);
    assert_int_equal(refuse(&w), 1);
    assert_int_equal(tidings_oauth_logout(o, SERVER, &err), TIDINGS_E_BUSY);
    assert_int_equal(tidings_oauth_tokens(o, NULL, NULL, NULL), 1);
    while (w.told == 0) {
        step();
    }
    assert_int_equal(tidings_oauth_logout(o, SERVER, &err), 0);
    assert_int_equal(tidings_oauth_tokens(o, NULL, NULL, NULL), 0);
    tidings_oauth_destroy(o);
    remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiter_gets_no_callback_if_another_callback_ends_it),
        cmocka_unit_test(waiter_gets_new_callback_if_it_asks_again),
        cmocka_unit_test(requests_to_other_addresses_wait_for_same_token),
        cmocka_unit_test(logout_is_rejected_during_token_renewal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
