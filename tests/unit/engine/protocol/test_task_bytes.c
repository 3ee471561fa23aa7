/* SPDX-License-Identifier: MIT
 *
 * The arguments of task calls count against their client until the call is done with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "engine/protocol/tasks.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "security/principal.h"

static struct limit_counters counters;
static struct client_accounts *client_accounts;
static struct tasks *all;
static struct loop *loop;
static struct mailbox *home;

static int setup(void **state)
{
    (void)state;
    limit_counters_init(&counters);
    client_accounts = client_accounts_create();
    loop = loop_create(NULL);
    home = mailbox_create(loop, &all, NULL);
    all = tasks_create(&counters);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tasks_destroy(all);
    client_accounts_destroy(client_accounts);
    mailbox_close(home);
    mailbox_unref(home);
    loop_destroy(loop);
    return 0;
}

static int try_open(const char *client, size_t bytes, struct task **ret, struct refusal *why)
{
    static const struct task_ops ops = {0};
    struct client_account *account = client_accounts_find(client_accounts, tidings_str(client), 0);
    const struct principal *nobody = &(const struct principal){.kind = PRINCIPAL_ANONYMOUS};
    const struct task_spec spec = {.principal = nobody,
                                   .client = tidings_str(client),
                                   .account = account,
                                   .max = 100,
                                   .ttl_ms = 1000,
                                   .bytes = bytes,
                                   .home = home};
    int rc = tasks_open(all, &spec, &ops, ret, why);
    client_account_release(account);
    return rc;
}

static void drop(struct task *t)
{
    task_discard(t);
    task_detach(t);
}

static void client_tasks_use_at_most_a_quarter_of_bytes(void **state)
{
    (void)state;
    struct task *first = NULL, *second = NULL, *other = NULL;
    struct refusal why;
    assert_int_equal(try_open("a", TASKS_BYTES / 4 + 1, &first, &why), TIDINGS_E_LIMIT);
    assert_int_equal(try_open("a", TASKS_BYTES / 4, &first, &why), 0);
    assert_int_equal(try_open("a", 1, &second, &why), TIDINGS_E_LIMIT);
    assert_int_equal(why.limit, LIMIT_TASK_BYTES);
    assert_true(why.is_own);
    assert_int_equal(counters.hits[LIMIT_TASK_BYTES], 2);
    assert_int_equal(try_open("b", 1, &other, &why), 0);
    /* The task ends, which has its own budget, and its handler still runs. */
    assert_true(task_end(first, TASK_COMPLETED, STR_EMPTY, STR("{}")));
    assert_int_equal(try_open("a", 1, &second, &why), TIDINGS_E_LIMIT);
    task_detach(first);
    assert_int_equal(try_open("a", 1, &second, &why), 0);
    drop(second);
    drop(other);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 1); /* the result */
}

static void task_bytes_of_all_clients_are_limited(void **state)
{
    (void)state;
    struct task *t[5] = {NULL};
    struct refusal why;
    static const char *const clients[] = {"a", "b", "c", "d"};
    size_t reserve = (size_t)share_reserve(TASKS_BYTES);
    for (int i = 0; i < 4; i++) {
        size_t bytes = TASKS_BYTES / 4 - (i == 3 ? reserve : 0);
        assert_int_equal(try_open(clients[i], bytes, &t[i], &why), 0);
    }
    assert_int_equal(try_open("e", 1, &t[4], &why), TIDINGS_E_LIMIT);
    assert_false(why.is_own);
    drop(t[0]);
    assert_int_equal(try_open("e", TASKS_BYTES / 4, &t[0], &why), 0);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASK_BYTES), TASKS_BYTES - reserve);
    for (int i = 0; i < 4; i++) {
        drop(t[i]);
    }
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 0);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASK_BYTES), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(client_tasks_use_at_most_a_quarter_of_bytes),
        TEST(task_bytes_of_all_clients_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
