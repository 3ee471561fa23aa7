/* SPDX-License-Identifier: MIT
 *
 * The contract of a store on PostgreSQL, and the same random batches on it and in memory, with
 * reconnects in between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "cluster/postgres_store.h"
#include "contract/store_suite.h"
#include "store/memory_store.h"
#include "support/postgres.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

static struct store *open_again(void)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    if (postgres_store_open(url, STR("tidings"), &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return r;
}

static struct store *make(void)
{
    postgres_server_fresh(server, url);
    return open_again();
}

static void random_batches_match_memory_store(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 4; round++) {
        struct store *store = make(), *memory = memory_store_create(NULL);
        uint64_t seed = round, same = round;
        for (unsigned i = 0; i < 15; i++) {
            store_random_batch(store, &seed);
            store_random_batch(memory, &same);
            assert_true(seed == same);
            if (i % 7 == 3) {
                store->ops->destroy(store);
                store = open_again();
            }
            struct buf a, b;
            buf_init(&a, 1u << 20);
            buf_init(&b, 1u << 20);
            store_dump(store, &a);
            store_dump(memory, &b);
            assert_string_equal(a.ptr, b.ptr);
            buf_deinit(&a);
            buf_deinit(&b);
        }
        store->ops->destroy(store);
        memory->ops->destroy(memory);
    }
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_batches_match_memory_store),
    };
    int failed = store_suite("the store in PostgreSQL", make);
    failed += cmocka_run_group_tests_name("PostgreSQL", tests, NULL, NULL);
    return failed;
}

int main(void)
{
    return postgres_server_run(run);
}
