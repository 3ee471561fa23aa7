/* SPDX-License-Identifier: MIT
 *
 * A displayed URL never contains its password, even if the URL is malformed. */
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

static void url_without_a_password_is_unchanged(void **state)
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

static void password_is_hidden(void **state)
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
static void password_is_hidden_in_a_malformed_url(void **state)
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
        cmocka_unit_test(url_without_a_password_is_unchanged),
        cmocka_unit_test(password_is_hidden),
        cmocka_unit_test(password_is_hidden_in_a_malformed_url),
    };
    return cmocka_run_group_tests_name("URLs as they are shown", tests, NULL, NULL);
}
