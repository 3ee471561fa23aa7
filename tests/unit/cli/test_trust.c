/* SPDX-License-Identifier: MIT
 *
 * Trusted entries: valid only for the same file, name and content, limited in number, and
 * revocable.
 */
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

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/trust.h"

static char state_home[64], path[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(state_home, sizeof(state_home), "/tmp/test_trust.XXXXXX");
    assert_non_null(mkdtemp(state_home));
    snprintf(path, sizeof(path), "%s/tidings/trusted", state_home);
    return setenv("XDG_STATE_HOME", state_home, 1);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    rmdir(path);
    return rmdir(state_home);
}

/* The digest of a number. */
static struct trusted entry_of(const char *file, const char *name, unsigned content)
{
    static char digests[4][TIDINGS_DIGEST_MAX];
    static unsigned next;
    char text[16];
    int n = snprintf(text, sizeof(text), "%u", content);
    char *digest = digests[next++ % 4];
    tidings_digest(tidings_strn(text, (size_t)n), digest);
    return (struct trusted){tidings_str(file), tidings_str(name), tidings_str(digest),
                            tidings_str("")};
}

static int is_trusted(const char *file, const char *name, unsigned content)
{
    struct tidings_error err = {0, ""};
    struct trusted e = entry_of(file, name, content);
    return trust_find(&e, &err);
}

static void trust(const char *file, const char *name, unsigned content)
{
    struct tidings_error err = {0, ""};
    struct trusted e = entry_of(file, name, content);
    if (trust_add(&e, 0, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void hear(void *user, const struct trusted *e)
{
    char *out = user;
    size_t n = strlen(out);
    snprintf(out + n, 256 - n, "%.*s %.*s %.*s;", (int)e->file.len, e->file.ptr, (int)e->name.len,
             e->name.ptr, (int)e->since.len, e->since.ptr);
}

static void trust_requires_same_file_name_and_content(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(is_trusted("/a", "n", 1), 0); /* the file does not exist yet */
    trust("/a", "n", 1);
    assert_int_equal(is_trusted("/a", "n", 1), 1);
    assert_int_equal(is_trusted("/b", "n", 1), 0);
    assert_int_equal(is_trusted("/a", "m", 1), 0);
    assert_int_equal(is_trusted("/a", "n", 2), 0);
    trust("/a", "n", 2);
    assert_int_equal(is_trusted("/a", "n", 1), 1);
    trust("/a \"quoted\"\n", "\x1b", 1);
    assert_int_equal(is_trusted("/a \"quoted\"\n", "\x1b", 1), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void name_is_revoked_in_all_files(void **state)
{
    (void)state;
    char out[256] = "";
    struct tidings_error err = {0, ""};
    trust("/a", "n", 1);
    trust("/b", "m", 1);
    trust("/c", "n", 3);
    assert_int_equal(trust_forget(tidings_str("n"), hear, out, &err), 2);
    assert_string_equal(out, "/a n 1970-01-01T00:00:00.000Z;/c n 1970-01-01T00:00:00.000Z;");
    assert_int_equal(is_trusted("/a", "n", 1), 0);
    assert_int_equal(is_trusted("/b", "m", 1), 1);
    assert_int_equal(trust_forget(tidings_str("n"), hear, out, &err), 0);
}

static void trust_file_evicts_oldest_entries(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    char name[TRUST_NAME_MAX + 2];
    for (unsigned i = 0; i < TRUST_MAX + 3; i++) {
        trust("/a", "n", i);
    }
    assert_int_equal(is_trusted("/a", "n", 2), 0);
    assert_int_equal(is_trusted("/a", "n", 3), 1);
    assert_int_equal(is_trusted("/a", "n", TRUST_MAX + 2), 1);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct trusted e = entry_of("/a", name, 1);
    assert_int_equal(trust_add(&e, 0, &err), TIDINGS_E_LIMIT);
}

static void malformed_entries_are_ignored(void **state)
{
    (void)state;
    char out[256] = "";
    trust_parse(
        TIDINGS_STR("\n\nx\n{}\n{\"file\":\"/a\"}\n[]\n{\"file\":1,\"name\":2,\"digest\":3}\n"
                    "{\"file\":\"/a\",\"name\":\"n\",\"digest\":\"short\"}\n{\"file\":\"/a\""),
        hear, out);
    assert_string_equal(out, "");
}

static void world_writable_trust_file_is_an_error(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    trust("/a", "n", 1);
    assert_int_equal(chmod(path, 0602), 0);
    struct trusted e = entry_of("/a", "n", 1);
    assert_int_equal(trust_find(&e, &err), TIDINGS_E_DENIED);
    assert_int_equal(trust_add(&e, 0, &err), TIDINGS_E_DENIED);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(trust_find(&e, &err), 0);
    assert_int_equal(trust_add(&e, 0, &err), TIDINGS_E_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(trust_requires_same_file_name_and_content, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(name_is_revoked_in_all_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trust_file_evicts_oldest_entries, set_up, tear_down),
        cmocka_unit_test(malformed_entries_are_ignored),
        cmocka_unit_test_setup_teardown(world_writable_trust_file_is_an_error, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
