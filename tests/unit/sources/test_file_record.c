/* SPDX-License-Identifier: MIT
 *
 * Directory records: a written record reads back, and any other record is rejected, whatever it
 * claims. */
#include "sources/file_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

#define PATH STR("a/b")

static struct tidings_str led; /* target of the last link */
static char led_text[64];

static struct tidings_str target(const struct file_node *node)
{
    return node->extra ? tidings_str(node->extra) : STR_EMPTY;
}

static int lead(void *user, struct file_node *node, struct tidings_str to)
{
    (void)user;
    (void)node;
    assert_true(to.len < sizeof led_text);
    memcpy(led_text, to.ptr, to.len);
    led = tidings_strn(led_text, to.len);
    return 0;
}

static void add(struct file_tree *t, const char *name, struct file_state state)
{
    struct file_node *node = file_tree_add(t, t->root, tidings_str(name));
    assert_non_null(node);
    file_node_set(node, &state);
}

static struct buf write_record(struct file_tree *t)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    file_record_write(t->root, PATH, target, &out);
    assert_int_equal(out.failed, 0);
    return out;
}

static struct buf sample(void)
{
    struct file_tree t;
    static char where[] = "/x/y";
    assert_int_equal(file_tree_init(&t, 100), 0);
    add(&t, "file",
        (struct file_state){.is_present = true, .print = 0x1122334455667788, .inode = 7});
    add(&t, "dir\xff", (struct file_state){.is_present = true, .print = 2, .is_directory = true});
    add(&t, "link", (struct file_state){.is_present = true, .print = 3, .is_link = true});
    add(&t, "absent", (struct file_state){0});
    assert_non_null(file_tree_add(&t, t.root, STR("not looked at")));
    file_tree_find(&t, t.root, STR("link"))->extra = where;
    file_node_set_complete(t.root, true);
    struct buf record = write_record(&t);
    file_tree_find(&t, t.root, STR("link"))->extra = NULL;
    file_tree_deinit(&t);
    return record;
}

static int read_record(struct file_tree *t, struct tidings_str record)
{
    assert_int_equal(file_tree_init(t, 100), 0);
    return file_record_read(t, t->root, PATH, record, lead, NULL);
}

static void records_read_back_as_written(void **state)
{
    (void)state;
    struct buf record = sample();
    struct file_tree t;
    assert_int_equal(read_record(&t, buf_str(&record)), 0);
    assert_int_equal(t.count, 4);
    const struct file_node *file = file_tree_find(&t, t.root, STR("file"));
    assert_int_equal(file->print, 0x1122334455667788);
    assert_int_equal(file->inode, 7);
    assert_int_equal(file->flags, FILE_NODE_KNOWN | FILE_NODE_PRESENT);
    assert_int_equal(file_tree_find(&t, t.root, STR("dir\xff"))->flags,
                     FILE_NODE_KNOWN | FILE_NODE_PRESENT | FILE_NODE_DIRECTORY);
    assert_int_equal(file_tree_find(&t, t.root, STR("absent"))->flags, FILE_NODE_KNOWN);
    assert_true(str_eq(led, STR("/x/y")));
    assert_true(t.root->flags & FILE_NODE_COMPLETE);
    assert_false(t.root->flags & FILE_NODE_UNSAVED);
    file_tree_deinit(&t);
    buf_deinit(&record);
}

static void record_is_rejected_if_cut_or_changed(void **state)
{
    (void)state;
    struct buf record = sample();
    struct file_tree t;
    for (size_t len = 0; len < record.len; len++) {
        assert_int_equal(read_record(&t, tidings_strn(record.ptr, len)), TIDINGS_E_PARSE);
        file_tree_deinit(&t);
    }
    for (size_t bit = 0; bit < 8 * record.len; bit++) {
        record.ptr[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(read_record(&t, buf_str(&record)), TIDINGS_E_PARSE);
        assert_int_equal(t.count, 0);
        file_tree_deinit(&t);
        record.ptr[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(file_tree_init(&t, 100), 0);
    assert_int_equal(file_record_read(&t, t.root, STR("elsewhere"), buf_str(&record), lead, NULL),
                     TIDINGS_E_PARSE);
    file_tree_deinit(&t);
    buf_deinit(&record);
}

/* A record with that entry and a correct checksum, which an attacker with write access can create.
 * */
static int read_forged(const char *entry, size_t len)
{
    struct file_tree t;
    struct buf out;
    buf_init(&out, 1u << 20);
    buf_put(&out, "\1\0", 2);
    buf_put(&out, entry, len);
    uint64_t sum = str_hash(buf_str(&out), str_hash(PATH, FILE_RECORD_SEED));
    for (int i = 0; i < 8; i++) {
        buf_putc(&out, (char)(sum >> 8 * i & 0xff));
    }
    int rc = read_record(&t, buf_str(&out));
    file_tree_deinit(&t);
    buf_deinit(&out);
    return rc;
}

#define FORGED(entry) read_forged(entry, sizeof(entry) - 1)
#define PRINT "12345678"
#define INODE "1234"

static void impossible_record_is_rejected_despite_a_correct_checksum(void **state)
{
    (void)state;
    assert_int_equal(FORGED("\1\1" PRINT INODE "a"), 0);
    assert_int_equal(FORGED("\1\0" PRINT INODE), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\1\1" PRINT INODE "."), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\5\2" PRINT INODE ".."), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\1\3" PRINT INODE "a/b"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\1\3" PRINT INODE "a\0b"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\1\2" PRINT INODE "a"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\3\1" PRINT INODE "a"), TIDINGS_E_PARSE); /* KNOWN is not set */
    /* absent, but with a fingerprint */
    assert_int_equal(FORGED("\0\1" PRINT INODE "a"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\4\1\0\0\0\0\0\0\0\0" INODE "a"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\1\1" PRINT INODE "a\1\1" PRINT INODE "a"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\11\1" PRINT INODE "a"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\11\1" PRINT INODE "a\2\0x"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\11\1" PRINT INODE "a\1\0\0"), TIDINGS_E_PARSE);
    assert_int_equal(FORGED("\11\1" PRINT INODE "a\1\0/"), 0);
}

static void full_tree_and_failed_allocation_are_reported(void **state)
{
    (void)state;
    struct buf record = sample();
    struct file_tree t;
    assert_int_equal(file_tree_init(&t, 2), 0);
    assert_int_equal(file_record_read(&t, t.root, PATH, buf_str(&record), lead, NULL),
                     TIDINGS_E_LIMIT);
    file_tree_deinit(&t);
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        assert_int_equal(file_tree_init(&t, 100), 0);
        fail_alloc_start(n);
        int rc = file_record_read(&t, t.root, PATH, buf_str(&record), lead, NULL);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        file_tree_deinit(&t);
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
    buf_deinit(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_read_back_as_written),
        cmocka_unit_test(record_is_rejected_if_cut_or_changed),
        cmocka_unit_test(impossible_record_is_rejected_despite_a_correct_checksum),
        cmocka_unit_test(full_tree_and_failed_allocation_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
