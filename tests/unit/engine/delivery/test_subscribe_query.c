/* SPDX-License-Identifier: MIT
 *
 * The server refuses queries that no change can satisfy, and no others: changes without metadata,
 * other announcements beside them, and notifications by clients.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

static struct harness b;
static struct stub bare, inner;

static void begin(bool allow_write)
{
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.self.allow_write = allow_write;
    harness_start(&b);
    stub_mount(&bare, &b, "bare:///", STUB_BARE | STUB_UNWATCHED);
    stub_mount(&inner, &b, "bare:///in/api/", STUB_UNWATCHED);
    harness_add(&b, "bare:///own/one");
}

/* `reason` NULL: honoured. */
static void check(const char *uri, const char *reason)
{
    struct client *c = listen_with(&b, text_of("[\"%s\"]", uri), NULL);
    const char *why = refused_reason(c, uri);
    if (reason ? !why || !strstr(why, reason) : why || !is_honoured(c, uri)) {
        fail_msg("'%s': %s", uri, why ? why : "honoured");
    }
    client_free(c);
    harness_run_until_idle(&b);
}

static void check_bare(bool allow_write, const char *reason)
{
    begin(allow_write);
    check("bare:///x?type=error", reason);
    check("bare:///owl?type=error", reason);
    check("bare:///own-x?type=error", reason);
    check("bare:///x?type=error&change_type=created", reason);
    /* The server adds that to every change … */
    check("bare:///x?change_type=updated", NULL);
    check("bare:///x?version=1&size=2&checksum=3&updated_at=4&timestamp=5", NULL);
    /* … and other changes are announced there too. */
    check("bare:///?type=error", NULL);
    check("bare:///in?type=error", NULL);
    check("bare:///in/api?type=error", NULL);
    check("bare:///own?type=error", NULL);
    check("bare:///own/one?type=error", NULL);
    harness_stop(&b);
}

static void query_of_unavailable_metadata_is_refused(void **state)
{
    (void)state;
    check_bare(false, "no change can match this: changes of 'bare:///");
}

static void query_is_accepted_if_clients_can_notify(void **state)
{
    (void)state;
    check_bare(true, NULL);
}

static void unknown_change_type_is_refused(void **state)
{
    (void)state;
    begin(true);
    check("bare:///x?change_type=gone", "one of created, updated, deleted, moved");
    check("bare:///x?change_type=", "one of created, updated, deleted, moved");
    check("bare:///x?change_type=created&change_type=deleted", "no change can match this");
    check("bare:///x?change_type=moved&change_type=moved&type=a&type=b", NULL);
    harness_stop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_of_unavailable_metadata_is_refused),
        cmocka_unit_test(query_is_accepted_if_clients_can_notify),
        cmocka_unit_test(unknown_change_type_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
