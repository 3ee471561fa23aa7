/* SPDX-License-Identifier: MIT
 *
 * The contract of a store in memory, and the full rollback of a batch after any failed allocation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "contract/store_suite.h"
#include "store/memory_store.h"
#include "support/fail_alloc.h"

static struct store *make(void)
{
    return memory_store_create(NULL);
}

static int write_batch(struct store *r)
{
    struct tidings_error err;
    const struct entity_type_row type = {STR("t"), STR("1"), STR("{}"), STR(""), STR("")};
    struct entity_version v = {.id = STR("x"), .value = STR("1"), .from = 1};
    int rc = r->ops->begin(r, &err);
    rc = rc == 0 ? r->ops->put_type(r, &type, &err) : rc;
    for (int i = 1; rc == 0 && i < 8; i++) {
        v.from = i;
        rc = r->ops->put(r, &v, i == 3, &err);
    }
    rc = rc == 0 ? r->ops->forget(r, v.id, 4, &err) : rc;
    v.id = STR("y");
    rc = rc == 0 ? r->ops->put(r, &v, false, &err) : rc;
    const struct entity_key key = {.owner = STR("o"), .key = STR("k"), .text = STR("t"), .at = 1};
    rc = rc == 0 ? r->ops->put_key(r, &key, &err) : rc;
    rc = rc == 0 ? r->ops->commit(r, &err) : rc;
    if (rc < 0) {
        r->ops->rollback(r);
    }
    return rc;
}

static void failed_allocation_rolls_back_batch(void **state)
{
    (void)state;
    struct buf before, after;
    buf_init(&before, 1u << 16);
    buf_init(&after, 1u << 16);
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        struct store *r = make();
        buf_clear(&before);
        store_dump(r, &before);
        buf_deinit(&after);
        fail_alloc_start(n);
        int rc = write_batch(r);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        if (reached) {
            store_dump(r, &after);
            assert_string_equal(before.ptr, after.ptr);
        }
        r->ops->destroy(r);
        buf_deinit(&before);
        buf_deinit(&after);
        assert_int_equal(fail_alloc_live(), 0);
        fail_alloc_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_allocation_rolls_back_batch),
    };
    return store_suite("memory", make) + cmocka_run_group_tests(tests, NULL, NULL);
}
