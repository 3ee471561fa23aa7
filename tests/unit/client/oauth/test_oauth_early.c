/* SPDX-License-Identifier: MIT
 *
 * Token renewal: before expiry, without waiters, and by another process; and the token data that
 * stays in memory afterwards.
 */
#include <tidings/oauth.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/secret_alloc.h"

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "support/remove_tree.h"
#include "support/scripted_server.h"

#define SERVER "http://127.0.0.1:9/mcp"

/* An authorization server, a token file, credentials that use both, and a request. */
struct scene {
    struct scripted_server issuer;
    char folder[40], path[64];
    struct tidings_oauth *oauth;
    const struct tidings_credentials *credentials;
    atomic_int refuses, asked;
    int go[2];   /* a byte lets the token endpoint answer; closed: it always answers */
    int came[2]; /* a byte: it was asked */
    int told, opened;
    struct tidings_error why;
    char shown[128];
};

static void on_token(struct scripted_server *server, const struct scripted_request *r)
{
    struct scene *s = server->user;
    char byte = 0, body[256];
    int count = ++s->asked;
    assert_non_null(strstr(r->body, "refresh_token="));
    assert_int_equal(write(s->came[1], &byte, 1), 1);
    (void)!read(s->go[0], &byte, 1);
    snprintf(body, sizeof(body),
             "{\"access_token\":\"new-access-%d\",\"refresh_token\":\"new-refresh-%d\","
             "\"token_type\":\"Bearer\",\"expires_in\":3600}",
             count, count);
    scripted_reply(r, s->refuses ? 400 : 200, "", "application/json",
                   s->refuses ? "{\"error\":\"invalid_grant\"}" : body);
}

static void write_tokens(const struct scene *s, const char *access, const char *scope,
                         int64_t left_ms)
{
    char text[1024];
    int n = snprintf(text, sizeof(text),
                     "{\"tokens\":[{\"resource\":\"" SERVER "\",\"issuer\":\"https://as.test\","
                     "\"token_endpoint\":\"%s\",\"client_id\":\"c\",\"access_token\":\"%s\","
                     "\"refresh_token\":\"old-refresh\",\"scope\":\"%s\",\"expires_ms\":%lld,"
                     "\"life_ms\":3600000}]}",
                     s->issuer.url, access, scope,
                     (long long)(left_ms ? clock_wall_ms() + left_ms : 0));
    int fd = open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, (size_t)n), n);
    close(fd);
}

static bool file_has(const struct scene *s, const char *text)
{
    char all[4096] = "";
    int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, all, sizeof(all) - 1) > 0);
    close(fd);
    return strstr(all, text) != NULL;
}

static int on_open(void *user, const char *url)
{
    struct scene *s = user;
    (void)url;
    s->opened++;
    return 0;
}

static void begin(struct scene *s, int64_t left_ms)
{
    *s = (struct scene){.folder = "/tmp/tidings-early-XXXXXX"};
    assert_int_equal(pipe2(s->go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(s->came, O_CLOEXEC), 0);
    scripted_start(&s->issuer, on_token, s);
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->path, sizeof(s->path), "%s/tokens", s->folder);
    write_tokens(s, "old-access", "a", left_ms);
    struct tidings_oauth_options options = {.token_file = s->path, .on_open = on_open, .user = s};
    s->oauth = tidings_oauth_create(&options, NULL);
    assert_non_null(s->oauth);
    s->credentials = tidings_oauth_credentials(s->oauth);
}

static void release(struct scene *s)
{
    if (s->go[1] >= 0) {
        close(s->go[1]);
        s->go[1] = -1;
    }
}

static void end(struct scene *s)
{
    release(s);
    tidings_oauth_destroy(s->oauth);
    scripted_stop(&s->issuer);
    close(s->go[0]);
    close(s->came[0]);
    close(s->came[1]);
    remove_tree(s->folder);
}

static void on_done(void *to, const struct tidings_error *why)
{
    struct scene *s = to;
    s->told++;
    s->why = why ? *why : (struct tidings_error){0};
}

static int refuse(struct scene *s, long status, const char *challenge)
{
    struct tidings_error err = {0};
    struct tidings_credentials_refusal refusal = {
        .url = SERVER,
        .status = status,
        .challenge = tidings_str(challenge),
        .shown = tidings_str("Authorization: Bearer old-access"),
    };
    return s->credentials->refused(s->credentials->user, &refusal, on_done, s, &err);
}

static const struct tidings_credentials_request request = {.method = "POST", .url = SERVER};

static int prepare(struct scene *s)
{
    return s->credentials->prepare(s->credentials->user, &request, on_done, s);
}

static int put(void *to, const char *line)
{
    snprintf(((struct scene *)to)->shown, sizeof(((struct scene *)to)->shown), "%s", line);
    return 0;
}

static const char *shown(struct scene *s)
{
    assert_int_equal(s->credentials->show(s->credentials->user, &request, put, s), 0);
    return s->shown;
}

/* Whichever comes first. */
static void step(struct scene *s)
{
    struct pollfd p[] = {{.fd = s->credentials->fd(s->credentials->user), .events = POLLIN},
                         {.fd = s->came[0], .events = POLLIN}};
    assert_true(poll(p, 2, 10000) > 0);
    s->credentials->step(s->credentials->user);
}

/* Waits until the authorization server has the refresh token, before its answer. */
static void await_exchange(struct scene *s)
{
    struct pollfd p = {.fd = s->came[0], .events = POLLIN};
    char byte;
    while (poll(&p, 1, 0) == 0) {
        step(s);
    }
    assert_int_equal(read(s->came[0], &byte, 1), 1);
}

static void issued_token_is_kept_without_waiters(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 0);
    assert_int_equal(refuse(&s, 401, "Bearer"), 1);
    await_exchange(&s);
    s.credentials->forget(s.credentials->user, &s);
    release(&s);
    while (!file_has(&s, "new-refresh-1")) {
        step(&s);
    }
    assert_int_equal(s.told, 0);
    assert_string_equal(shown(&s), "Authorization: Bearer new-access-1");
    end(&s);
}

static void issued_token_is_kept_if_credentials_are_freed(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 0);
    assert_int_equal(refuse(&s, 401, "Bearer"), 1);
    await_exchange(&s);
    s.credentials->forget(s.credentials->user, &s);
    release(&s);
    tidings_oauth_destroy(s.oauth);
    s.oauth = NULL;
    assert_true(file_has(&s, "new-refresh-1"));
    end(&s);
}

static void wider_token_of_another_process_is_reused(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 0);
    write_tokens(&s, "wide-access", "a b", 0);
    assert_int_equal(refuse(&s, 403, "Bearer error=\"insufficient_scope\", scope=\"a b\""), 1);
    while (s.told == 0) {
        step(&s);
    }
    assert_int_equal(s.why.code, 0);
    assert_int_equal(s.opened, 0);
    assert_int_equal(s.asked, 0);
    assert_string_equal(shown(&s), "Authorization: Bearer wide-access");
    end(&s);
}

static void expiring_token_is_renewed_before_request(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 10000);
    release(&s);
    assert_int_equal(s.credentials->renewals(s.credentials->user), 0);
    assert_int_equal(prepare(&s), 1);
    while (s.told == 0) {
        step(&s);
    }
    assert_int_equal(s.why.code, 0);
    assert_string_equal(shown(&s), "Authorization: Bearer new-access-1");
    assert_int_equal(s.credentials->renewals(s.credentials->user), 1);
    assert_int_equal(prepare(&s), 0); /* that token is valid for an hour */
    end(&s);
}

/* With HTTP+SSE, messages go to another address than that of the server, which owns the token. */
static void expiring_token_is_renewed_before_request_to_other_address(void **state)
{
    struct tidings_credentials_request message = {
        .method = "POST", .url = SERVER "-messages", .server = SERVER};
    struct scene s;
    (void)state;
    begin(&s, 10000);
    release(&s);
    assert_int_equal(s.credentials->prepare(s.credentials->user, &message, on_done, &s), 1);
    while (s.told == 0) {
        step(&s);
    }
    assert_int_equal(s.why.code, 0);
    assert_string_equal(shown(&s), "Authorization: Bearer new-access-1");
    end(&s);
}

static void token_without_near_expiry_is_sent_unchanged(void **state)
{
    static const int64_t left[] = {0, 40000};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct scene s;
        begin(&s, left[i]);
        assert_int_equal(prepare(&s), 0);
        assert_string_equal(shown(&s), "Authorization: Bearer old-access");
        end(&s);
    }
}

static void token_in_use_is_renewed_without_request(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 30300);
    release(&s);
    assert_string_equal(shown(&s), "Authorization: Bearer old-access");
    while (s.credentials->renewals(s.credentials->user) == 0) {
        step(&s);
    }
    assert_string_equal(shown(&s), "Authorization: Bearer new-access-1");
    end(&s);
}

static void valid_token_waits_briefly_for_renewal(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 10000);
    assert_int_equal(prepare(&s), 1);
    while (s.told == 0) { /* the authorization server does not answer */
        step(&s);
    }
    assert_int_equal(s.why.code, 0);
    assert_string_equal(shown(&s), "Authorization: Bearer old-access");
    assert_int_equal(prepare(&s), 0); /* the next request does not wait at all */
    release(&s);
    while (!file_has(&s, "new-refresh-1")) { /* … but the renewal continues */
        step(&s);
    }
    end(&s);
}

/* A login takes minutes; a request with a valid token does not depend on it. */
static void valid_token_does_not_wait_for_login(void **state)
{
    struct scene s;
    struct scene refused = {0};
    (void)state;
    begin(&s, 10000);
    assert_int_equal(prepare(&s), 1);
    await_exchange(&s);
    struct tidings_credentials_refusal refusal = {
        .url = SERVER,
        .status = 401,
        .challenge = tidings_str("Bearer"),
        .shown = tidings_str("Authorization: Bearer old-access"),
    };
    assert_int_equal(s.credentials->refused(s.credentials->user, &refusal, on_done, &refused, NULL),
                     1);
    while (s.told == 0) {
        step(&s);
    }
    assert_int_equal(refused.told, 0);
    s.credentials->forget(s.credentials->user, &refused);
    end(&s);
}

static void login_starts_only_after_rejection(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, 10000);
    release(&s);
    s.refuses = 1;
    assert_int_equal(prepare(&s), 1);
    while (s.told == 0) {
        step(&s);
    }
    assert_int_equal(s.why.code, TIDINGS_E_DENIED);
    assert_int_equal(s.opened, 0);
    assert_false(file_has(&s, "old-refresh"));
    assert_string_equal(shown(&s), "Authorization: Bearer old-access"); /* it is still valid */
    assert_int_equal(prepare(&s), 0);
    assert_int_equal(s.asked, 1);
    end(&s);
}

/* The new tokens as received, and the old one as sent. */
static void memory_that_held_tokens_is_wiped(void **state)
{
    static const char *const secrets[] = {"new-refresh-1", "new-access-1", "old-refresh"};
    (void)state;
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        struct scene s;
        secret_alloc_start(tidings_str(secrets[i]));
        begin(&s, 10000);
        release(&s);
        assert_int_equal(prepare(&s), 1);
        while (s.told == 0) {
            step(&s);
        }
        end(&s);
        long found = secret_alloc_stop();
        if (found > 0) {
            print_error("%ld blocks held '%s'\n", found, secrets[i]);
        }
        assert_int_equal(found, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(issued_token_is_kept_without_waiters),
        cmocka_unit_test(issued_token_is_kept_if_credentials_are_freed),
        cmocka_unit_test(wider_token_of_another_process_is_reused),
        cmocka_unit_test(expiring_token_is_renewed_before_request),
        cmocka_unit_test(expiring_token_is_renewed_before_request_to_other_address),
        cmocka_unit_test(token_without_near_expiry_is_sent_unchanged),
        cmocka_unit_test(token_in_use_is_renewed_without_request),
        cmocka_unit_test(valid_token_waits_briefly_for_renewal),
        cmocka_unit_test(valid_token_does_not_wait_for_login),
        cmocka_unit_test(login_starts_only_after_rejection),
        cmocka_unit_test(memory_that_held_tokens_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
