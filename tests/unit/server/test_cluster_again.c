/* SPDX-License-Identifier: MIT
 *
 * Several servers on one store: writes in a batch that another node overtakes, so the batch reruns.
 * The first run leaves neither decisions nor memory use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "support/cluster.h"
#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

#define LARGE (1000u << 10)
#define COUNT 17u /* twice their values, and twice more, exceed the memory of a call */

static void first_decision_is_discarded_if_batch_reruns(void **state)
{
    (void)state;
    const char *create = "\"uri\":\"entity:///T@1/a\",\"value\":{\"n\":9},\"ifAbsent\":true";
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    shared_memory_overtake(stores[0], true);
    const char *answer = at(0, "upsert-entity", create);
    must_say(answer, "\\\"reason\\\":\\\"exists\\\"");
    must_say(answer, "\\\"current\\\"");
    shared_memory_overtake(stores[0], true);
    shared_memory_lose_answer(db, stores[0], false);
    answer = at(0, "upsert-entity", create);
    must_say(answer, "\\\"reason\\\":\\\"outcomeUnknown\\\"");
    must_not_say(answer, "\\\"current\\\"");
    must_say(upsert(0, "a", 2), "\"changed\":true");
}

/* By another node, outside the servers of the test. */
static void write_large(void)
{
    struct store *other = shared_memory_connect(db);
    char *value = mem_alloc(LARGE);
    assert_non_null(value);
    memset(value, 'x', LARGE);
    memcpy(value, "{\"x\":\"", 6);
    memcpy(value + LARGE - 2, "\"}", 2);
    assert_int_equal(other->ops->begin(other, NULL), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        char id[16];
        snprintf(id, sizeof id, "large%u", i);
        const struct entity_version v = {
            .id = tidings_str(id),
            .from = 1000,
            .since = 1000,
            .type = STR("T"),
            .type_version = STR("1"),
            .value = tidings_strn(value, LARGE),
            .changed_by = STR("[]"),
            .created = true,
        };
        assert_int_equal(other->ops->put(other, &v, false, NULL), 0);
    }
    assert_int_equal(other->ops->commit(other, NULL), 0);
    other->ops->destroy(other);
    mem_free(value);
}

static void rerun_job_gets_its_full_memory_budget(void **state)
{
    (void)state;
    struct buf operations;
    run_all();
    add_type(0);
    write_large();
    buf_init(&operations, 1400);
    buf_puts(&operations, STR("\"operations\":["));
    for (unsigned i = 0; i < COUNT; i++) {
        buf_putf(&operations, "%s{\"op\":\"delete\",\"uri\":\"entity:///T@1/large%u\"}",
                 i > 0 ? "," : "", i);
    }
    buf_puts(&operations, STR("]"));
    await_followed(0);
    shared_memory_overtake(stores[0], false);
    (void)at(0, "transact", operations.ptr); /* the answer contains their values */
    await_followed(1);
    must_say(read_at(1, "entity:///T@1/large16"), "has been deleted");
    buf_deinit(&operations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(first_decision_is_discarded_if_batch_reruns),
        CASE(rerun_job_gets_its_full_memory_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
