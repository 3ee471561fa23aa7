/* SPDX-License-Identifier: MIT
 *
 * The contract of a change log as cases. Every case opens its own log and checks, after destroying
 * it, that no memory and no reference to a record is left.
 */
#include "contract/changelog_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "store/change.h"
#include "support/fail_alloc.h"

static changelog_factory_fn factory;

static const struct changelog_limits roomy = {.max_entries = 1000, .max_bytes = 1u << 20};

static struct changelog *open_log(const struct changelog_limits *limits)
{
    struct tidings_error err = {0};
    fail_alloc_start(0);
    struct changelog *log = factory(limits, &err);
    if (!log) {
        fail_msg("%s", err.text);
    }
    return log;
}

static void close_log(struct changelog *log)
{
    log->ops->destroy(log);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

/* Numbers and appends one change; `uri` NULL: list_changed. */
static uint64_t put(struct changelog *log, const char *uri, enum tidings_change_kind kind)
{
    struct tidings_change change = {.uri = tidings_str(uri), .kind = kind};
    uint64_t seq = log->ops->next(log);
    uint64_t epoch = log->ops->epoch(log);
    struct change *c = uri ? change_create(&change, epoch, seq)
                           : change_create_list_event(CHANGE_LIST, epoch, seq);
    assert_non_null(c);
    assert_int_equal(log->ops->append(log, c), 0);
    change_unref(c);
    return seq;
}

struct listing {
    struct buf text; /* "seq uri created, …" */
    size_t stop_after;
};

static bool list_one(void *user, const struct changelog_row *row)
{
    struct listing *l = user;
    assert_true(row->replaced_seq < row->change->seq);
    buf_putf(&l->text, "%llu %.*s %llu,", (unsigned long long)row->change->seq,
             STR_ARG(row->change->uri), (unsigned long long)row->created_seq);
    return --l->stop_after > 0;
}

static void assert_listing(struct changelog *log, uint64_t after, size_t stop_after,
                           const char *expected)
{
    struct listing l = {.stop_after = stop_after};
    buf_init(&l.text, 4096);
    buf_puts(&l.text, STR(""));
    size_t reported = log->ops->each(log, after, list_one, &l);
    assert_string_equal(l.text.ptr, expected);
    size_t commas = 0;
    for (const char *p = expected; *p; p++) {
        commas += *p == ',';
    }
    assert_int_equal(reported, commas);
    buf_deinit(&l.text);
}

static void new_log_is_empty_and_has_an_epoch(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    assert_int_not_equal(log->ops->epoch(log), 0);
    assert_int_equal(log->ops->last(log), 0);
    assert_int_equal(log->ops->floor(log), 0);
    assert_int_equal(log->ops->count(log), 0);
    assert_int_equal(log->ops->bytes(log), 0);
    assert_non_null(log->ops->name);
    assert_listing(log, 0, 100, "");
    close_log(log);
}

static void logs_have_distinct_epochs(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy), *other = open_log(&roomy);
    assert_int_not_equal(log->ops->epoch(log), other->ops->epoch(other));
    other->ops->destroy(other);
    close_log(log);
}

static void numbers_rise_by_one_even_without_append(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    assert_int_equal(log->ops->next(log), 1);
    assert_int_equal(put(log, "x:///a", TIDINGS_CHANGE_UPDATED), 2);
    assert_int_equal(log->ops->next(log), 3);
    assert_int_equal(log->ops->last(log), 3);
    assert_listing(log, 0, 100, "2 x:///a 0,");
    assert_int_equal(log->ops->floor(log), 0);
    close_log(log);
}

static void changes_are_listed_in_order_after_cursor(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    put(log, "x:///c", TIDINGS_CHANGE_UPDATED);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    put(log, "x:///b", TIDINGS_CHANGE_DELETED);
    assert_listing(log, 0, 100, "1 x:///c 0,2 x:///a 0,3 x:///b 0,");
    assert_listing(log, 1, 100, "2 x:///a 0,3 x:///b 0,");
    assert_listing(log, 2, 100, "3 x:///b 0,");
    assert_listing(log, 3, 100, "");
    assert_listing(log, 99, 100, "");
    assert_listing(log, 0, 2, "1 x:///c 0,2 x:///a 0,");
    close_log(log);
}

static void log_keeps_newest_change_of_each_uri(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    put(log, "x:///b", TIDINGS_CHANGE_UPDATED);
    size_t bytes = log->ops->bytes(log);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 2);
    assert_int_equal(log->ops->bytes(log), bytes);
    assert_listing(log, 0, 100, "2 x:///b 0,3 x:///a 0,");
    assert_listing(log, 2, 100, "3 x:///a 0,");
    put(log, NULL, TIDINGS_CHANGE_UPDATED);
    put(log, NULL, TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 3);
    assert_listing(log, 3, 100, "5  0,");
    close_log(log);
}

static void numbers_appended_out_of_order_are_sorted(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    uint64_t epoch = log->ops->epoch(log);
    struct change *made[3];
    static const char *const uris[] = {"x:///a", "x:///b", "x:///a"};
    for (size_t i = 0; i < 3; i++) {
        struct tidings_change change = {.uri = tidings_str(uris[i])};
        made[i] = change_create(&change, epoch, log->ops->next(log));
        assert_non_null(made[i]);
    }
    for (size_t i = 3; i-- > 0;) {
        assert_int_equal(log->ops->append(log, made[i]), 0);
        change_unref(made[i]);
    }
    assert_listing(log, 0, 100, "2 x:///b 0,3 x:///a 0,");
    close_log(log);
}

static void log_keeps_creation_time_of_resource(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    put(log, "x:///a", TIDINGS_CHANGE_CREATED); /* 1 */
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED); /* 2 */
    put(log, "x:///b", TIDINGS_CHANGE_UPDATED); /* 3 */
    assert_listing(log, 0, 100, "2 x:///a 1,3 x:///b 0,");
    put(log, "x:///a", TIDINGS_CHANGE_DELETED); /* 4 */
    assert_listing(log, 3, 100, "4 x:///a 1,");
    put(log, "x:///a", TIDINGS_CHANGE_CREATED); /* 5 */
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED); /* 6 */
    assert_listing(log, 3, 100, "6 x:///a 5,");
    close_log(log);
}

static void log_evicts_oldest_change_if_count_exceeds_limit(void **state)
{
    (void)state;
    struct changelog *log =
        open_log(&(struct changelog_limits){.max_entries = 2, .max_bytes = 1u << 20});
    put(log, "x:///a", TIDINGS_CHANGE_CREATED);
    put(log, "x:///b", TIDINGS_CHANGE_UPDATED);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->floor(log), 0);
    put(log, "x:///c", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->floor(log), 2);
    assert_listing(log, 2, 100, "3 x:///a 1,4 x:///c 0,");
    put(log, "x:///b", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->floor(log), 3);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED); /* its past is forgotten */
    assert_listing(log, 0, 100, "5 x:///b 0,6 x:///a 0,");
    assert_int_equal(log->ops->count(log), 2);
    close_log(log);
}

static void log_evicts_oldest_changes_if_memory_exceeds_limit(void **state)
{
    (void)state;
    struct changelog *log =
        open_log(&(struct changelog_limits){.max_entries = 1000, .max_bytes = 4096});
    char uri[40];
    for (int i = 0; i < 100; i++) {
        struct buf text;
        buf_init(&text, sizeof(uri) - 1);
        buf_putf(&text, "x:///%d", i);
        memcpy(uri, text.ptr, text.len + 1);
        buf_deinit(&text);
        put(log, uri, TIDINGS_CHANGE_UPDATED);
        assert_in_range(log->ops->bytes(log), 1, 4096);
        assert_int_equal(log->ops->floor(log) + log->ops->count(log), i + 1);
    }
    assert_in_range(log->ops->count(log), 2, 50);
    close_log(log);
}

static void oversized_change_raises_the_floor(void **state)
{
    (void)state;
    static char uri[3000];
    memset(uri, 'a', sizeof(uri) - 1);
    memcpy(uri, "x:///", 5);
    struct changelog *log =
        open_log(&(struct changelog_limits){.max_entries = 1000, .max_bytes = 2048});
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    put(log, uri, TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 0);
    assert_int_equal(log->ops->bytes(log), 0);
    assert_int_equal(log->ops->floor(log), 2);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    assert_listing(log, 0, 100, "3 x:///a 0,");
    close_log(log);
}

static void log_without_capacity_keeps_nothing(void **state)
{
    (void)state;
    struct changelog *log =
        open_log(&(struct changelog_limits){.max_entries = 0, .max_bytes = 1u << 20});
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 0);
    assert_int_equal(log->ops->floor(log), 1);
    close_log(log);
}

static void records_are_held_while_listed_and_freed_when_replaced(void **state)
{
    (void)state;
    struct changelog *log = open_log(&roomy);
    struct tidings_change change = {.uri = STR("x:///a")};
    struct change *mine = change_create(&change, log->ops->epoch(log), log->ops->next(log));
    assert_non_null(mine);
    assert_int_equal(log->ops->append(log, mine), 0);
    assert_int_equal(mine->refs, 2);
    put(log, "x:///a", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(mine->refs, 1);
    assert_true(str_eq(mine->uri, STR("x:///a"))); /* ours lives on */
    change_unref(mine);
    close_log(log);
}

static void failed_allocation_keeps_nothing_and_raises_the_floor(void **state)
{
    (void)state;
    bool failed_once = false;
    for (long n = 1;; n++) {
        struct changelog *log = open_log(&roomy);
        put(log, "x:///old", TIDINGS_CHANGE_UPDATED);
        struct tidings_change change = {.uri = STR("x:///new")};
        uint64_t seq = log->ops->next(log);
        struct change *c = change_create(&change, log->ops->epoch(log), seq);
        assert_non_null(c);
        fail_alloc_start(n);
        int rc = log->ops->append(log, c);
        bool reached = fail_alloc_stop();
        assert_int_equal(c->refs, reached ? 1 : 2);
        change_unref(c);
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(log->ops->floor(log), reached ? seq : 0);
        assert_int_equal(log->ops->count(log), reached ? 1 : 2);
        put(log, "x:///later", TIDINGS_CHANGE_UPDATED);
        assert_listing(log, seq, 100, "3 x:///later 0,");
        close_log(log);
        failed_once = failed_once || reached;
        if (!reached) {
            break;
        }
    }
    assert_true(failed_once);
}

static void creation_reports_failed_allocation(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct tidings_error err = {0};
        fail_alloc_start(n);
        struct changelog *log = factory(&roomy, &err);
        bool reached = fail_alloc_stop();
        assert_int_equal(log == NULL, reached);
        assert_int_equal(err.code, reached ? TIDINGS_E_NOMEM : 0);
        if (log) {
            log->ops->destroy(log);
        }
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

static void memory_depends_on_uris_not_changes(void **state)
{
    (void)state;
    struct changelog *log =
        open_log(&(struct changelog_limits){.max_entries = 5000, .max_bytes = 1u << 22});
    long live = 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < 100000; i++) {
        char uri[] = "x:///000";
        for (size_t k = 0, n = i % 1000; k < 3; k++, n /= 10) {
            uri[7 - k] = (char)('0' + n % 10);
        }
        put(log, uri, TIDINGS_CHANGE_UPDATED);
        if (i == 20000) {
            live = fail_alloc_live();
            bytes = log->ops->bytes(log);
        }
    }
    assert_int_equal(log->ops->count(log), 1000);
    assert_int_equal(log->ops->floor(log), 0);
    assert_int_equal(fail_alloc_live(), live);
    assert_in_range(log->ops->bytes(log), bytes, bytes + 1000 * 8); /* longer numbers */
    close_log(log);
}

static void expired_changes_are_evicted_and_raise_the_floor(void **state)
{
    (void)state;
    struct clock_fake fake = {.monotonic_ns = 5000000000u};
    clock_set_fake(&fake);
    struct changelog *log = open_log(
        &(struct changelog_limits){.max_entries = 100, .max_bytes = 1u << 20, .max_age_ms = 1000});
    uint64_t old = put(log, "x:///old", TIDINGS_CHANGE_UPDATED);
    fake.monotonic_ns += 900u * 1000000u;
    put(log, "x:///young", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 2);
    fake.monotonic_ns += 200u * 1000000u;
    put(log, "x:///new", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(log->ops->count(log), 2);
    assert_int_equal(log->ops->floor(log), old);
    clock_set_fake(NULL);
    close_log(log);
}

int changelog_suite(const char *name, changelog_factory_fn create)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_log_is_empty_and_has_an_epoch),
        cmocka_unit_test(logs_have_distinct_epochs),
        cmocka_unit_test(numbers_rise_by_one_even_without_append),
        cmocka_unit_test(changes_are_listed_in_order_after_cursor),
        cmocka_unit_test(log_keeps_newest_change_of_each_uri),
        cmocka_unit_test(numbers_appended_out_of_order_are_sorted),
        cmocka_unit_test(log_keeps_creation_time_of_resource),
        cmocka_unit_test(log_evicts_oldest_change_if_count_exceeds_limit),
        cmocka_unit_test(log_evicts_oldest_changes_if_memory_exceeds_limit),
        cmocka_unit_test(oversized_change_raises_the_floor),
        cmocka_unit_test(log_without_capacity_keeps_nothing),
        cmocka_unit_test(records_are_held_while_listed_and_freed_when_replaced),
        cmocka_unit_test(failed_allocation_keeps_nothing_and_raises_the_floor),
        cmocka_unit_test(creation_reports_failed_allocation),
        cmocka_unit_test(memory_depends_on_uris_not_changes),
        cmocka_unit_test(expired_changes_are_evicted_and_raise_the_floor),
    };
    factory = create;
    print_message("change log '%s'\n", name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
