/* SPDX-License-Identifier: MIT
 *
 * The token file: written tokens can be read, two processes keep each other's tokens, and a file
 * that others can access is rejected.
 */
#include "client/oauth/token_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/oauth/callback.h"
#include "client/oauth/documents.h"
#include "support/remove_tree.h"

static char folder[] = "/tmp/tidings-tokens-XXXXXX", path[128];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/tokens", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

/* Is only read. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static struct token sample(const char *resource, const char *access)
{
    return (struct token){.resource = text(resource),
                          .issuer = text("https://as.test"),
                          .token_endpoint = text("https://as.test/token"),
                          .client_id = text("c"),
                          .client_secret = text("s"),
                          .client_auth = CLIENT_AUTH_POST,
                          .access = text(access),
                          .refresh = text("r"),
                          .scope = text("a b"),
                          .expires_ms = 77};
}

static void add(struct token_store *s, const char *resource, const char *access)
{
    struct tidings_error err = {0};
    struct token t = sample(resource, access);
    assert_int_equal(token_store_lock(s, &err), 1);
    assert_int_equal(token_store_load(s, &err), 0);
    assert_int_equal(token_store_put(s, &t, &err), 0);
    assert_int_equal(token_store_save(s, &err), 0);
    token_store_unlock(s);
}

static void tokens_are_stored_by_issuer_and_resource(void **state)
{
    struct token_store a, b;
    struct tidings_error err = {0};
    struct stat st;
    (void)state;
    assert_int_equal(token_store_init(&a, path), 0);
    assert_int_equal(token_store_init(&b, path), 0);
    assert_int_equal(token_store_load(&a, &err), 0); /* there is none yet */
    add(&a, "https://a.test/mcp", "one");
    add(&b, "https://b.test", "two");
    add(&a, "https://a.test", "wide");
    add(&b, "https://a.test/mcp", "three");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(token_store_load(&a, &err), 0);
    assert_int_equal(a.count, 3);
    const struct token *t = token_store_find(&a, "https://a.test/mcp/x", NULL);
    assert_string_equal(t->access, "three");
    assert_string_equal(t->refresh, "r");
    assert_string_equal(t->scope, "a b");
    assert_string_equal(t->client_secret, "s");
    assert_int_equal(t->client_auth, CLIENT_AUTH_POST);
    assert_int_equal(t->expires_ms, 77);
    assert_string_equal(token_store_find(&a, "https://a.test/other", NULL)->access, "wide");
    assert_null(token_store_find(&a, "https://c.test/mcp", NULL));
    assert_null(token_store_find(&a, "http://a.test/mcp", NULL));
    assert_null(token_store_find(&a, "https://a.test/mcp", "https://other.test"));
    token_store_deinit(&a);
    token_store_deinit(&b);
}

static void lock_is_exclusive(void **state)
{
    struct token_store a, b;
    struct tidings_error err = {0};
    (void)state;
    assert_int_equal(token_store_init(&a, path), 0);
    assert_int_equal(token_store_init(&b, path), 0);
    assert_int_equal(token_store_lock(&a, &err), 1);
    assert_int_equal(token_store_lock(&b, &err), 0);
    token_store_unlock(&a);
    assert_int_equal(token_store_lock(&b, &err), 1);
    token_store_deinit(&a);
    token_store_deinit(&b);
}

static void file_is_rejected_if_others_can_access_it(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0660, 0644};
    struct token_store s;
    struct tidings_error err = {0};
    char link[160];
    (void)state;
    assert_int_equal(token_store_init(&s, path), 0);
    add(&s, "https://a.test/mcp", "secret");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(token_store_load(&s, &err), TIDINGS_E_DENIED);
        assert_non_null(strstr(err.text, "others can read or write it"));
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(token_store_load(&s, &err), 0);
    token_store_deinit(&s);
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(token_store_init(&s, link), 0);
    assert_true(token_store_load(&s, &err) < 0);
    token_store_deinit(&s);
}

static void invalid_token_file_is_rejected(void **state)
{
    static const char *const bad[] = {
        "", "[]", "{}", "{\"tokens\":7}", "{\"tokens\":[{}]}", "{\"tokens\":[7]}"};
    struct token_store s;
    (void)state;
    assert_int_equal(token_store_init(&s, NULL), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tidings_error err = {0};
        assert_int_equal(token_store_parse(&s, tidings_str(bad[i]), &err), TIDINGS_E_PARSE);
        assert_int_equal(s.count, 0);
    }
    token_store_deinit(&s);
}

static void failed_write_leaves_no_temporary_file(void **state)
{
    struct token_store s;
    struct tidings_error err = {0};
    char place[160], beside[168];
    (void)state;
    snprintf(place, sizeof(place), "%s/directory", folder); /* which no file can replace */
    snprintf(beside, sizeof(beside), "%s.new", place);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(token_store_init(&s, place), 0);
    struct token t = sample("https://a.test/mcp", "secret");
    assert_int_equal(token_store_put(&s, &t, &err), 0);
    assert_true(token_store_save(&s, &err) < 0);
    assert_int_not_equal(access(beside, F_OK), 0);
    token_store_deinit(&s);
}

static void token_file_rejects_too_many_tokens(void **state)
{
    struct token_store s;
    struct tidings_error err = {0};
    char resource[64];
    int rc = 0;
    (void)state;
    assert_int_equal(token_store_init(&s, NULL), 0);
    for (unsigned i = 0; i < TOKEN_STORE_MAX; i++) {
        snprintf(resource, sizeof(resource), "https://a.test/%u", i);
        struct token t = sample(resource, "x");
        rc |= token_store_put(&s, &t, &err);
    }
    assert_int_equal(rc, 0);
    struct token more = sample("https://a.test/more", "x");
    assert_int_equal(token_store_put(&s, &more, &err), TIDINGS_E_LIMIT);
    token_store_deinit(&s);
}

/* ---- the answer in a browser ----------------------------------------------------------------- */

static bool reads(const char *query, struct callback_answer *a)
{
    callback_answer_init(a);
    return callback_answer_read(a, tidings_str(query), "STATE");
}

static void callback_is_accepted_only_with_our_state(void **state)
{
    static const char *const others[] = {
        "",
        "code=c",
        "code=c&state=",
        "code=c&state=STATEx",
        "code=c&state=STAT",
        "code=c&state=state",
        "code=c&state=STATE&state=STATE",
        "code=c&code=d&state=STATE",
        "code=c&error=e&state=STATE",
        "state=STATE",
        "code=&state=STATE",
        "code=%zz&state=STATE",
        "code=%00&state=STATE",
    };
    struct callback_answer a;
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (reads(others[i], &a)) {
            fail_msg("accepted: %s", others[i]);
        }
        callback_answer_deinit(&a);
    }
    assert_true(reads("state=STATE&code=c%20d&iss=https%3A%2F%2Fas.test", &a));
    assert_string_equal(a.code.ptr, "c d");
    assert_string_equal(a.issuer.ptr, "https://as.test");
    assert_true(a.has_issuer);
    callback_answer_deinit(&a);
    assert_true(reads("state=STATE&error=access_denied&error_description=no", &a));
    assert_string_equal(a.error.ptr, "access_denied");
    assert_false(a.has_issuer);
    callback_answer_deinit(&a);
    assert_true(reads("state=STATE&code=c&iss=a&iss=b", &a)); /* a state without a match */
    assert_true(a.has_issuer && a.issuer.len == 0);
    callback_answer_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_stored_by_issuer_and_resource),
        cmocka_unit_test(lock_is_exclusive),
        cmocka_unit_test(file_is_rejected_if_others_can_access_it),
        cmocka_unit_test(invalid_token_file_is_rejected),
        cmocka_unit_test(failed_write_leaves_no_temporary_file),
        cmocka_unit_test(token_file_rejects_too_many_tokens),
        cmocka_unit_test(callback_is_accepted_only_with_our_state),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
