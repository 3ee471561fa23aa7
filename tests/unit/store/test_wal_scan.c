/* SPDX-License-Identifier: MIT
 *
 * The scan of a log finds damage anywhere before the last transaction, and accepts leftovers of a
 * crash, a rollback or an earlier log. The mark of commits is rejected if any byte changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/sqlite_damage.h"
#include "support/wal_made.h"

static const struct wal_identity one = {3, {0x11223344, 0xa5a5a5a5}};
static const struct wal_identity next = {4, {0x11223345, 0x5a5a0000}};

/* Transactions of 1, 2 and 3 frames, five of them: 1, 3, 6, 7, 9. */
static void wal_scan_make(struct wal_made *w, bool is_big)
{
    memset(w, 0, sizeof *w);
    wal_made_begin(w, &one, is_big);
    for (unsigned i = 0; i < 5; i++) {
        wal_made_add(w, 1 + i % 3, true, (unsigned char)i);
    }
}

static struct wal_facts wal_scan_of(const struct wal_made *w)
{
    struct wal_facts facts;
    wal_made_scan(w, &facts);
    return facts;
}

static void complete_log_is_read_in_both_byte_orders(void **state)
{
    (void)state;
    static struct wal_made w;
    for (int big = 0; big < 2; big++) {
        wal_scan_make(&w, big != 0);
        struct wal_facts f = wal_scan_of(&w);
        assert_true(f.has_header);
        assert_int_equal(f.page_size, WAL_MADE_PAGE);
        assert_int_equal(f.frames, 9);
        assert_int_equal(f.committed, 9);
        assert_false(f.is_damaged);
        assert_memory_equal(&f.id, &one, sizeof one);
    }
}

static void changed_byte_before_the_last_two_commits_is_damage(void **state)
{
    (void)state;
    static struct wal_made w;
    for (int big = 0; big < 2; big++) {
        wal_scan_make(&w, big != 0);
        for (size_t at = 0; at < wal_made_offset(6); at++) {
            w.bytes[at] ^= 0x40;
            struct wal_facts f = wal_scan_of(&w);
            if (!f.is_damaged || f.committed > at / WAL_MADE_FRAME) {
                fail_msg("byte %zu: damaged %d, committed %llu", at, f.is_damaged,
                         (unsigned long long)f.committed);
            }
            w.bytes[at] ^= 0x40;
        }
    }
}

static void torn_last_transaction_is_accepted(void **state)
{
    (void)state;
    static struct wal_made w;
    for (unsigned lost = 1; lost < 8; lost++) { /* any of its three frames */
        memset(&w, 0, sizeof w);
        wal_made_begin(&w, &one, false);
        wal_made_add(&w, 2, true, 1);
        wal_made_add(&w, 1, true, 2);
        wal_made_add(&w, 3, true, 3);
        for (unsigned i = 0; i < 3; i++) {
            if (lost & 1u << i) {
                memset(w.bytes + wal_made_offset(3 + i), 0, WAL_MADE_FRAME);
            }
        }
        struct wal_facts f = wal_scan_of(&w);
        assert_false(f.is_damaged);
        assert_int_equal(f.committed, 3);
    }
    for (size_t size = 0; size < w.size; size += 40) { /* nor a truncated mark */
        struct wal_made cut = w;
        cut.size = size;
        assert_false(wal_scan_of(&cut).is_damaged);
    }
}

static void leftovers_of_a_rollback_are_accepted(void **state)
{
    (void)state;
    static struct wal_made w;
    memset(&w, 0, sizeof w);
    wal_made_begin(&w, &one, false);
    wal_made_add(&w, 2, true, 1);
    const uint32_t sum[2] = {w.sum[0], w.sum[1]};
    wal_made_add(&w, 5, false, 2); /* spilled, then rolled back */
    wal_made_back(&w, 2, sum);
    wal_made_add(&w, 4, true, 3); /* its commit failed during the sync */
    wal_made_back(&w, 2, sum);
    wal_made_add(&w, 1, true, 4);
    struct wal_facts f = wal_scan_of(&w);
    assert_false(f.is_damaged);
    assert_int_equal(f.committed, 3);
}

static void commit_padding_proves_nothing(void **state)
{
    (void)state;
    static struct wal_made w;
    memset(&w, 0, sizeof w);
    wal_made_begin(&w, &one, false);
    wal_made_add(&w, 2, true, 1);
    wal_made_add(&w, 1, true, 2);
    wal_made_pad(&w);
    wal_made_add(&w, 1, true, 3);
    assert_int_equal(wal_scan_of(&w).committed, 5);
    w.bytes[wal_made_offset(4) - 1] ^= 1; /* its end was not synced */
    assert_false(wal_scan_of(&w).is_damaged);
    assert_int_equal(wal_scan_of(&w).committed, 3);
    memset(&w, 0, sizeof w);
    wal_made_begin(&w, &one, false);
    wal_made_add(&w, 2, true, 1);
    wal_made_add(&w, 3, true, 2); /* a commit whose padding failed, so it does not count */
    wal_made_pad(&w);
    w.bytes[wal_made_offset(2)] ^= 1; /* and which the next one overwrites */
    assert_false(wal_scan_of(&w).is_damaged);
}

static void leftovers_of_an_earlier_log_are_accepted(void **state)
{
    (void)state;
    static struct wal_made w;
    wal_scan_make(&w, false);
    wal_made_begin(&w, &next, false);
    assert_false(wal_scan_of(&w).is_damaged);
    wal_made_add(&w, 2, true, 7);
    struct wal_facts f = wal_scan_of(&w);
    assert_false(f.is_damaged);
    assert_int_equal(f.committed, 2);
    assert_true(wal_is_successor(&one, &f.id));
    assert_false(wal_is_successor(&f.id, &one));
    assert_false(wal_is_successor(&one, &one));
}

static void damage_is_found_without_a_header(void **state)
{
    (void)state;
    static struct wal_made w;
    for (int big = 0; big < 2; big++) {
        wal_scan_make(&w, big != 0);
        memset(w.bytes, 0, WAL_HEADER_SIZE);
        struct wal_facts f = wal_scan_of(&w);
        assert_false(f.has_header);
        assert_true(f.is_damaged);
        assert_int_equal(f.proof, 2);
    }
}

static void mark_is_rejected_if_any_byte_changed(void **state)
{
    (void)state;
    const struct commit_mark mark = {
        .epoch = 0x1122334455667788, .position = 1ull << 40, .frames = 999, .log = one};
    unsigned char bytes[COMMIT_MARK_SIZE];
    struct commit_mark back;
    commit_mark_encode(&mark, bytes);
    assert_true(commit_mark_decode(bytes, sizeof bytes, &back));
    unsigned char again[COMMIT_MARK_SIZE];
    commit_mark_encode(&back, again);
    assert_memory_equal(again, bytes, sizeof bytes);
    assert_true(back.epoch == mark.epoch && back.position == mark.position && back.frames == 999);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        assert_false(commit_mark_decode(bytes, sizeof bytes, &back));
        bytes[i] ^= 1;
        assert_false(commit_mark_decode(bytes, i, &back));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_log_is_read_in_both_byte_orders),
        cmocka_unit_test(changed_byte_before_the_last_two_commits_is_damage),
        cmocka_unit_test(torn_last_transaction_is_accepted),
        cmocka_unit_test(leftovers_of_a_rollback_are_accepted),
        cmocka_unit_test(commit_padding_proves_nothing),
        cmocka_unit_test(leftovers_of_an_earlier_log_are_accepted),
        cmocka_unit_test(damage_is_found_without_a_header),
        cmocka_unit_test(mark_is_rejected_if_any_byte_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
