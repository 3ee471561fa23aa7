/* SPDX-License-Identifier: MIT
 *
 * A cache with a token file: answers, cached identities, and the effect of a reload. */
#include "security/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/str.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

struct fixture {
    char path[64];
    struct loop *loop;
    struct mailbox *mailbox;
    struct auth *auth;
    struct token_cache *cache;
};

static unsigned released;

static void on_release(void *attached)
{
    released += *(unsigned *)attached;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    static struct fixture f;
    struct tidings_error err = {0, ""};
    snprintf(f.path, sizeof(f.path), "/tmp/test_token_cache.XXXXXX");
    int fd = mkstemp(f.path);
    assert_true(fd >= 0);
    close(fd);
    write_file(f.path, "alice " ABC " read\n");
    f.loop = loop_create(&err);
    f.mailbox = mailbox_create(f.loop, &f, &err);
    struct auth_options options = {.tokens = f.path};
    assert_int_equal(auth_open(&f.auth, &options, &err), 0);
    assert_int_equal(auth_start(f.auth, &err), 0);
    f.cache = auth_create_cache(f.auth, f.mailbox, on_release, &err);
    assert_non_null(f.cache);
    released = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    token_cache_destroy(f->cache);
    auth_close(f->auth);
    mailbox_close(f->mailbox);
    mailbox_unref(f->mailbox);
    loop_destroy(f->loop);
    unlink(f->path);
    return 0;
}

static struct auth_answer ask(struct fixture *f, struct tidings_str token)
{
    struct auth_answer answer = {.outcome = AUTH_UNAVAILABLE};
    struct pending_token *pending = NULL;
    assert_true(token_cache_ask(f->cache, token, &answer, &pending, NULL, NULL));
    return answer;
}

static void reload(struct fixture *f)
{
    struct auth_files *files = NULL;
    struct tidings_error err = {0, ""};
    assert_int_equal(auth_load_files(f->auth, &files, &err), 0);
    auth_put_files(f->auth, files);
}

static void token_of_the_file_gives_its_name(void **state)
{
    struct fixture *f = *state;
    struct auth_answer answer = ask(f, STR("abc"));
    assert_int_equal(answer.outcome, AUTH_OK);
    assert_true(str_eq(answer.identity->name, STR("alice")));
    assert_int_equal(answer.identity->scope_count, 1);
    assert_int_equal(token_cache_counts(f->cache)->verified, 1);
}

static void unknown_token_is_invalid(void **state)
{
    struct fixture *f = *state;
    struct auth_answer answer = ask(f, STR("abcd"));
    assert_int_equal(answer.outcome, AUTH_INVALID);
    assert_string_equal(answer.description, "the token is not known here");
    assert_int_equal(token_cache_counts(f->cache)->invalid, 1);
}

static void impossible_token_is_malformed(void **state)
{
    struct fixture *f = *state;
    static char longest[AUTH_TOKEN_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(ask(f, STR("")).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, STR("==")).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, STR("a b")).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, STR("a=b")).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, STR("a\0b")).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, tidings_strn(longest, sizeof(longest))).outcome, AUTH_MALFORMED);
    assert_int_equal(ask(f, tidings_strn(longest, sizeof(longest) - 1)).outcome, AUTH_INVALID);
    assert_int_equal(token_cache_counts(f->cache)->malformed, 6);
}

static void identity_is_cached_with_its_attachment(void **state)
{
    struct fixture *f = *state;
    static unsigned one = 1;
    struct auth_answer answer = ask(f, STR("abc"));
    assert_null(answer.identity->attached);
    answer.identity->attached = &one;
    assert_ptr_equal(ask(f, STR("abc")).identity->attached, &one);
    assert_int_equal(token_cache_counts(f->cache)->remembered, 1);
    assert_int_equal(token_cache_counts(f->cache)->verified, 1);
    assert_int_equal(released, 0);
}

static void reload_clears_the_cache(void **state)
{
    struct fixture *f = *state;
    static unsigned one = 1;
    ask(f, STR("abc")).identity->attached = &one;
    write_file(f->path, "bob " ABC "\n");
    assert_true(str_eq(ask(f, STR("abc")).identity->name, STR("alice")));
    reload(f);
    struct auth_answer answer = ask(f, STR("abc"));
    assert_true(str_eq(answer.identity->name, STR("bob")));
    assert_null(answer.identity->attached);
    write_file(f->path, "");
    reload(f);
    assert_int_equal(ask(f, STR("abc")).outcome, AUTH_INVALID);
}

static void on_revoked(void *user, void *attached)
{
    *(unsigned *)user += *(unsigned *)attached;
}

static void removed_token_is_reported_once(void **state)
{
    struct fixture *f = *state;
    static unsigned one = 1;
    unsigned revoked = 0;
    ask(f, STR("abc")).identity->attached = &one;
    reload(f); /* the same file */
    token_cache_review(f->cache, on_revoked, &revoked);
    assert_int_equal(revoked, 0);
    assert_ptr_equal(ask(f, STR("abc")).identity->attached, &one);
    write_file(f->path, "alice " ABC " read write\n"); /* may have other rights now */
    reload(f);
    assert_int_equal(ask(f, STR("abc")).identity->scope_count, 2);
    assert_int_equal(revoked, 0); /* not from within an answer */
    token_cache_review(f->cache, on_revoked, &revoked);
    token_cache_review(f->cache, on_revoked, &revoked);
    assert_int_equal(revoked, 1);
    assert_int_equal(released, 1);
    ask(f, STR("abc")).identity->attached = &one;
    write_file(f->path, "");
    reload(f);
    token_cache_review(f->cache, on_revoked, &revoked); /* without a request */
    assert_int_equal(revoked, 2);
    assert_int_equal(released, 2);
}

static void malformed_file_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct auth_files *files = NULL;
    struct tidings_error err = {0, ""};
    write_file(f->path, "alice\n");
    assert_int_equal(auth_load_files(f->auth, &files, &err), TIDINGS_E_PARSE);
    assert_non_null(strstr(err.text, ":1: the name is followed by"));
    assert_int_equal(ask(f, STR("abc")).outcome, AUTH_OK);
}

static void add_reason(void *user, const char *why, uint64_t count)
{
    struct buf *out = user;
    buf_putf(out, "%s=%u;", why, (unsigned)count);
}

static void refusals_are_counted_by_reason_over_all_caches(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0, ""};
    struct token_cache *first = f->cache,
                       *second = auth_create_cache(f->auth, f->mailbox, NULL, &err);
    assert_non_null(second);
    ask(f, STR("x"));
    ask(f, STR("="));
    ask(f, STR("abc"));
    f->cache = second;
    ask(f, STR("y"));
    ask(f, STR("abc"));
    ask(f, STR("abc"));
    token_cache_destroy(second); /* and its counts are kept */
    f->cache = first;
    struct auth_counts counts;
    auth_get_counts(f->auth, &counts);
    assert_int_equal(counts.verified, 2);
    assert_int_equal(counts.remembered, 1);
    assert_int_equal(counts.invalid, 2);
    assert_int_equal(counts.malformed, 1);
    assert_int_equal(counts.unavailable + counts.waiting, 0);
    struct buf reasons;
    buf_init(&reasons, 4096);
    auth_each_refusal(f->auth, add_reason, &reasons);
    assert_non_null(strstr(reasons.ptr, "the token is not known here=2;"));
    assert_non_null(strstr(reasons.ptr, "that no token has=1;"));
    buf_deinit(&reasons);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(token_of_the_file_gives_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_token_is_invalid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_token_is_malformed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(identity_is_cached_with_its_attachment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reload_clears_the_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removed_token_is_reported_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_file_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_are_counted_by_reason_over_all_caches, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
