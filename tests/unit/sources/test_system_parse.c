/* SPDX-License-Identifier: MIT */
#include "sources/system.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"

static void load_averages_are_read_in_hundredths(void **state)
{
    (void)state;
    struct system_load load;
    assert_true(system_parse_load(STR("0.05 12.30 1024.99 3/456 7890\n"), &load));
    assert_int_equal(load.hundredths[0], 5);
    assert_int_equal(load.hundredths[1], 1230);
    assert_int_equal(load.hundredths[2], 102499);
    assert_int_equal(load.running, 3);
    assert_int_equal(load.threads, 456);
}

static void invalid_load_averages_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "0.05",
        "0.05 0.10 0.02",
        "0.05 0.10 0.02 1",
        "0.5 0.10 0.02 1/2 3",
        "-0.05 0.10 0.02 1/2 3",
        "0.05 0.10 99999999999.00 1/2 3",
        "a.bc 0.10 0.02 1/2 3",
        "42949672.99 0.10 0.02 1/2 3",
    };
    struct system_load load;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(system_parse_load(tidings_str(bad[i]), &load));
    }
}

static void memory_is_read_in_bytes_in_any_order(void **state)
{
    (void)state;
    struct system_memory m;
    assert_true(system_parse_memory(STR("SwapFree:  1 kB\nMemFree: 2 kB\nMemTotal:       16 kB\n"
                                        "Odd: words here\nCached: 3 kB"),
                                    &m));
    assert_int_equal(m.total, 16 * 1024);
    assert_int_equal(m.unused, 2 * 1024);
    assert_int_equal(m.cached, 3 * 1024);
    assert_int_equal(m.swap_free, 1024);
    assert_int_equal(m.available, 0);
    assert_false(system_parse_memory(STR("MemFree: 2 kB\n"), &m));
    assert_false(system_parse_memory(STR("MemTotal: many kB\n"), &m));
    assert_false(system_parse_memory(STR("MemTotal: 18446744073709551615 kB\n"), &m));
}

static void interfaces_are_read_and_headings_skipped(void **state)
{
    (void)state;
    struct tidings_str text = STR("Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n"
                                  "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
                                  "cut: 1 2 3\n"
                                  "eth0:100 2 3 4 5 6 7 8 900 10 11 12 13 14 15 16\n");
    struct system_interface row;
    assert_true(system_next_interface(&text, &row));
    assert_true(str_eq(row.name, STR("lo")));
    assert_int_equal(row.received[3], 4);
    assert_int_equal(row.sent[0], 9);
    assert_int_equal(row.sent[3], 12);
    assert_true(system_next_interface(&text, &row));
    assert_true(str_eq(row.name, STR("eth0")));
    assert_int_equal(row.received[0], 100);
    assert_int_equal(row.sent[0], 900);
    assert_false(system_next_interface(&text, &row));
}

static void local_file_systems_and_the_root_are_read(void **state)
{
    (void)state;
    struct tidings_str text = STR("overlay / overlay rw 0 0\n"
                                  "proc /proc proc rw 0 0\n"
                                  "/dev/sda1 /srv/a\\040b\\134c ext4 rw 0 0\n"
                                  "nfs:/export /mnt nfs rw 0 0\n"
                                  "/dev/sdb1 /odd\\9 xfs\n"
                                  "/dev/sdc1 /nul\\000 xfs\n"
                                  "/dev/sdd1\n");
    struct system_mount row;
    assert_true(system_next_mount(&text, &row));
    assert_string_equal(row.path, "/");
    assert_true(system_next_mount(&text, &row));
    assert_string_equal(row.path, "/srv/a b\\c");
    assert_true(str_eq(row.device, STR("/dev/sda1")));
    assert_true(str_eq(row.type, STR("ext4")));
    assert_true(system_next_mount(&text, &row));
    assert_string_equal(row.path, "/odd\\9");
    assert_false(system_next_mount(&text, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_averages_are_read_in_hundredths),
        cmocka_unit_test(invalid_load_averages_are_rejected),
        cmocka_unit_test(memory_is_read_in_bytes_in_any_order),
        cmocka_unit_test(interfaces_are_read_and_headings_skipped),
        cmocka_unit_test(local_file_systems_and_the_root_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
