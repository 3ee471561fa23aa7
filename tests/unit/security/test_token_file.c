/* SPDX-License-Identifier: MIT
 *
 * The token file: valid and invalid lines, and lookups of created tokens. */
#include "security/token_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

/* SHA-256 of "abc" and of the empty string. */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct token_file *parse(const char *text)
{
    struct token_file *f = NULL;
    struct tidings_error err = {0, ""};
    if (token_file_parse(&f, "t", tidings_str(text), &err) < 0) {
        fail_msg("%s", err.text);
    }
    return f;
}

static void drop(struct token_file *f)
{
    shared_value_unref(token_file_value(f));
}

static struct identity *find(const struct token_file *f, const char *token)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    struct identity *i = NULL;
    sha256_init(&hash);
    sha256_put(&hash, token, strlen(token));
    sha256_end(&hash, digest);
    assert_int_equal(token_file_find(f, digest, &i), 0);
    return i;
}

static void token_is_found_by_its_hash(void **state)
{
    (void)state;
    struct token_file *f =
        parse("# who comes\n\n  alice\t" ABC "  read   write \r\nbob " EMPTY "\n");
    struct identity *i = find(f, "abc");
    assert_non_null(i);
    assert_true(str_eq(i->is.name, STR("alice")));
    assert_int_equal(i->is.scope_count, 2);
    assert_true(str_eq(i->is.scopes[0], STR("read")));
    assert_true(str_eq(i->is.scopes[1], STR("write")));
    assert_int_equal(i->is.expires_ms, 0);
    assert_int_equal(i->is.kind, AUTH_BY_FILE);
    identity_destroy(i);
    i = find(f, "");
    assert_true(str_eq(i->is.name, STR("bob")));
    assert_int_equal(i->is.scope_count, 0);
    identity_destroy(i);
    assert_null(find(f, "abd"));
    drop(f);
}

static void empty_file_has_no_tokens(void **state)
{
    (void)state;
    struct token_file *f = parse("# nobody yet\n");
    assert_null(find(f, "abc"));
    drop(f);
}

static void error_names_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"alice " ABC "\nbob 1234\n", "t:2: the name is followed by the SHA-256"},
        {"alice\n", "t:1: the name is followed by"},
        {"alice " ABC "00\n", "t:1: the name is followed by"},
        {"alice g" ABC "\n", "t:1: the name is followed by"},
        {"\n\nali\001ce " ABC "\n", "t:3: a line begins with a name"},
        {"alice " ABC "\nbob " ABC "\n", "t:2: this token is on an earlier line"},
        {"alice " ABC " a\"b\n", "t:1: scopes must be"},
        {"alice " ABC " caf\xc3\xa9\n", "t:1: scopes must be"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct token_file *f = NULL;
        struct tidings_error err = {0, ""};
        assert_int_equal(token_file_parse(&f, "t", tidings_str(cases[i].text), &err),
                         TIDINGS_E_PARSE);
        if (!strstr(err.text, cases[i].says)) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
}

static void number_of_tokens_is_limited(void **state)
{
    (void)state;
    struct buf text;
    struct token_file *f = NULL;
    struct tidings_error err = {0, ""};
    buf_init(&text, TOKEN_FILE_MAX);
    for (unsigned i = 0; i < TOKEN_FILE_LINES; i++) {
        buf_putf(&text, "n%u %064x\n", i, i);
    }
    assert_int_equal(token_file_parse(&f, "t", buf_str(&text), &err), 0);
    drop(f);
    buf_puts(&text, STR("more " ABC "\n"));
    assert_int_equal(token_file_parse(&f, "t", buf_str(&text), &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "t:4097: more than 4096 tokens");
    buf_deinit(&text);
}

static void created_token_is_found(void **state)
{
    (void)state;
    struct buf token, line;
    struct tidings_error err = {0, ""};
    buf_init(&token, 256);
    buf_init(&line, 4096);
    assert_int_equal(token_make(STR("alice"), STR("read  write"), &token, &line, &err), 0);
    assert_int_equal(token.len, 4 + 43);
    struct token_file *f = parse(line.ptr);
    struct identity *i = find(f, token.ptr);
    assert_non_null(i);
    assert_true(str_eq(i->is.name, STR("alice")));
    assert_int_equal(i->is.scope_count, 2);
    identity_destroy(i);
    drop(f);
    struct buf other;
    buf_init(&other, 256);
    assert_int_equal(token_make(STR("alice"), STR_EMPTY, &other, &line, &err), 0);
    assert_false(str_eq(buf_str(&token), buf_str(&other)));
    buf_deinit(&other);
    buf_deinit(&token);
    buf_deinit(&line);
}

static void token_with_invalid_name_or_scope_is_not_created(void **state)
{
    (void)state;
    static const struct {
        const char *name, *scopes;
    } cases[] = {{"", ""}, {"a b", ""}, {"a\tb", ""}, {"#a", ""}, {"a\nb", ""}, {"a", "x\\y"}};
    struct buf token, line;
    buf_init(&token, 256);
    buf_init(&line, 4096);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0, ""};
        assert_int_equal(token_make(tidings_str(cases[i].name), tidings_str(cases[i].scopes),
                                    &token, &line, &err),
                         TIDINGS_E_INVALID);
        assert_int_equal(token.len + line.len, 0);
    }
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct token_file *f = NULL;
        struct identity *i = NULL;
        unsigned char digest[SHA256_BYTES] = {0};
        fail_alloc_start(n);
        int rc = token_file_parse(&f, "t", tidings_str("a " ABC " s\nb " EMPTY), NULL);
        if (rc == 0) {
            struct sha256 hash;
            sha256_init(&hash);
            sha256_put(&hash, "abc", 3);
            sha256_end(&hash, digest);
            rc = token_file_find(f, digest, &i);
        }
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        identity_destroy(i);
        if (f) {
            drop(f);
        }
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_is_found_by_its_hash),
        cmocka_unit_test(empty_file_has_no_tokens),
        cmocka_unit_test(error_names_the_line),
        cmocka_unit_test(number_of_tokens_is_limited),
        cmocka_unit_test(created_token_is_found),
        cmocka_unit_test(token_with_invalid_name_or_scope_is_not_created),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
