/* SPDX-License-Identifier: MIT
 *
 * What is shown of a URL never holds its password, however badly it was written.
 */
#include "formats/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check(const char *text, const char *expected)
{
    char out[URL_REDACTED_MAX];
    assert_string_equal(url_redact(text, out), expected);
}

static void what_holds_no_password_is_shown_as_it_is(void **state)
{
    (void)state;
    static const char *const plain[] = {
        "",
        ":memory:",
        "/var/lib/tidings/store.db",
        "C:@x",
        "postgres://app@db.example:5432/tidings",
        "postgres://a:1,b:2/tidings?target_session_attrs=read-write&options=-csearch_path%3Dx",
        "postgresql:///d?host=%2Ftmp",
        "https://pub.example/a@b",
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        check(plain[i], plain[i]);
    }
}

static void a_password_is_not_shown(void **state)
{
    (void)state;
    check("postgres://app:hunter2@db.example/tidings", "postgres://app:***@db.example/tidings");
    check("postgresql://:hunter2@/d", "postgresql://:***@/d");
    check("postgre://app:hunter2@h/d?x=1", "postgre://app:***@h/d?x=1");
    check("postgres://h/d?password=hunter2", "postgres://h/d?password=***");
    check("postgres://h/d?a=1&sslpassword=hunter2&b=2", "postgres://h/d?a=1&sslpassword=***&b=2");
    check("postgres://h/d?PassWord=hunter2", "postgres://h/d?PassWord=***");
    check("postgres://h/d?pass%77ord=hunter2", "postgres://h/d?pass%77ord=***");
    check("host=x password=hunter2 dbname=d", "host=x password=*** dbname=d");
    check("user=a@b password=hunter2", "user=a@b password=***");
}

/* Characters that should have been encoded. */
static void nor_one_that_was_written_badly(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "postgres://app:hunter2@hunter2@h/d",  "postgres://app:hunter2/hunter2@h/d",
        "postgres://app:hunter2?hunter2@h/d",  "postgres://app:hunter2#hunter2@h/d",
        "postgres://app:hunter2:hunter2@h/d",  "postgres://app:hunter2&hunter2 hunter2@h/d",
        "postgres://app:hunter2://hunter2@h/", "x://a:hunter2@h?password=hunter2@",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char out[URL_REDACTED_MAX];
        if (strstr(url_redact(bad[i], out), "hunter2")) {
            fail_msg("'%s' is shown as '%s'", bad[i], out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_no_password_is_shown_as_it_is),
        cmocka_unit_test(a_password_is_not_shown),
        cmocka_unit_test(nor_one_that_was_written_badly),
    };
    return cmocka_run_group_tests_name("URLs as they are shown", tests, NULL, NULL);
}
