/* SPDX-License-Identifier: MIT
 *
 * The remembered tree: finding, comparing, removing, and what it costs.
 */
#include "sources/file_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"

static const struct file_state absent;
static const struct file_state file_1 = {.is_present = true, .print = 1};
static const struct file_state file_2 = {.is_present = true, .print = 2};
static const struct file_state link_1 = {.is_present = true, .print = 1, .is_link = true};
static const struct file_state dir_1 = {.is_present = true, .print = 1, .is_directory = true};
static const struct file_state dir_2 = {.is_present = true, .print = 2, .is_directory = true};

static int open_tree(void **state)
{
    struct file_tree *t = mem_zalloc(sizeof *t);
    *state = t;
    return t ? file_tree_init(t, 200000) : -1;
}

static int close_tree(void **state)
{
    file_tree_deinit(*state);
    mem_free(*state);
    return 0;
}

static struct file_node *add(struct file_tree *t, struct file_node *dir, const char *name,
                             const struct file_state *state)
{
    struct file_node *node = file_tree_add(t, dir, tidings_str(name));
    assert_non_null(node);
    file_node_set(node, state);
    return node;
}

static void difference_from_a_known_state_is_a_change(void **state)
{
    struct file_tree *t = *state;
    const struct {
        const struct file_state *was, *is;
        enum file_verdict verdict;
    } rows[] = {
        {&absent, &absent, FILE_SAME},    {&absent, &file_1, FILE_CREATED},
        {&absent, &dir_1, FILE_CREATED},  {&file_1, &absent, FILE_DELETED},
        {&file_1, &file_1, FILE_SAME},    {&file_1, &file_2, FILE_UPDATED},
        {&file_1, &link_1, FILE_UPDATED}, {&file_1, &dir_1, FILE_REPLACED},
        {&dir_1, &dir_1, FILE_SAME},      {&dir_1, &dir_2, FILE_REPLACED},
        {&dir_1, &file_1, FILE_REPLACED}, {&dir_1, &absent, FILE_DELETED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file_node *node = add(t, t->root, "x", rows[i].was);
        assert_int_equal(file_tree_compare(t->root, node, rows[i].is), rows[i].verdict);
    }
}

static void first_scan_is_a_baseline_unless_the_directory_was_complete(void **state)
{
    struct file_tree *t = *state;
    assert_int_equal(file_tree_compare(t->root, NULL, &file_1), FILE_SAME);
    struct file_node *unknown = file_tree_add(t, t->root, tidings_str("unknown"));
    assert_non_null(unknown);
    assert_int_equal(file_tree_compare(t->root, unknown, &file_1), FILE_SAME);
    t->root->flags |= FILE_NODE_COMPLETE;
    assert_int_equal(file_tree_compare(t->root, NULL, &file_1), FILE_CREATED);
    assert_int_equal(file_tree_compare(t->root, NULL, &absent), FILE_SAME);
}

static void path_leads_to_its_node_and_back(void **state)
{
    struct file_tree *t = *state;
    struct file_node *a = add(t, t->root, "a", &dir_1);
    struct file_node *b = add(t, a, "b", &dir_1);
    struct file_node *c = add(t, b, "c", &file_1);
    assert_ptr_equal(file_tree_walk(t, tidings_str("a/b/c")), c);
    assert_ptr_equal(file_tree_walk(t, tidings_str("")), t->root);
    assert_null(file_tree_walk(t, tidings_str("a/c")));
    assert_int_equal(file_node_depth(c), 3);
    struct buf path;
    buf_init(&path, 100);
    file_node_path(c, &path);
    assert_string_equal(path.ptr, "a/b/c");
    buf_clear(&path);
    file_node_path(t->root, &path);
    assert_string_equal(path.ptr, "");
    buf_deinit(&path);
}

static void equal_names_in_two_directories_have_two_nodes(void **state)
{
    struct file_tree *t = *state;
    struct file_node *a = add(t, t->root, "a", &dir_1);
    struct file_node *b = add(t, t->root, "b", &dir_1);
    struct file_node *ax = add(t, a, "x", &file_1);
    struct file_node *bx = add(t, b, "x", &file_2);
    assert_ptr_not_equal(ax, bx);
    assert_ptr_equal(file_tree_find(t, a, tidings_str("x")), ax);
    assert_ptr_equal(file_tree_add(t, b, tidings_str("x")), bx);
    assert_int_equal(t->count, 4);
}

static void many_names_are_added_found_and_removed(void **state)
{
    struct file_tree *t = *state;
    char name[32];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "file-%d", i);
        add(t, t->root, name, &file_1);
    }
    for (int i = 0; i < 5000; i += 2) {
        (void)snprintf(name, sizeof name, "file-%d", i);
        file_tree_remove(t, file_tree_find(t, t->root, tidings_str(name)));
    }
    assert_int_equal(t->count, 2500);
    size_t listed = 0;
    for (struct file_node *n = t->root->children; n; n = n->next) {
        listed++;
    }
    assert_int_equal(listed, 2500);
    assert_null(file_tree_find(t, t->root, tidings_str("file-0")));
    assert_non_null(file_tree_find(t, t->root, tidings_str("file-4999")));
}

static void full_tree_rejects_new_nodes(void **state)
{
    struct file_tree *t = *state;
    t->max = 2;
    assert_non_null(file_tree_add(t, t->root, tidings_str("a")));
    assert_non_null(file_tree_add(t, t->root, tidings_str("b")));
    assert_null(file_tree_add(t, t->root, tidings_str("c")));
    assert_non_null(file_tree_add(t, t->root, tidings_str("b"))); /* it exists already */
}

static void node_size_stays_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct file_node) <= 80);
}

/* Returns true if it and all its ancestors are marked, so that it is saved. */
static bool take_unsaved(struct file_tree *t, struct file_node *dir)
{
    bool is = (dir->flags & FILE_NODE_UNSAVED) != 0;
    assert_int_equal((t->root->flags & FILE_NODE_UNSAVED_BELOW) != 0, is);
    dir->flags = (uint16_t)(dir->flags & ~FILE_NODE_UNSAVED);
    for (; dir; dir = dir->parent) {
        dir->flags = (uint16_t)(dir->flags & ~FILE_NODE_UNSAVED_BELOW);
    }
    return is;
}

static void unsaved_nodes_are_found_from_the_root(void **state)
{
    struct file_tree *t = *state;
    struct file_node *dir = add(t, t->root, "d", &dir_1);
    struct file_node *sub = add(t, dir, "e", &dir_1);
    assert_true(t->root->flags & FILE_NODE_UNSAVED);
    assert_true(take_unsaved(t, dir));
    struct file_node *node = add(t, sub, "f", &file_1);
    assert_true(take_unsaved(t, sub));
    file_node_set(node, &file_1);
    assert_false(take_unsaved(t, sub));
    node->flags |= FILE_NODE_RACY;
    file_node_set(node, &file_1);
    assert_false(take_unsaved(t, sub));
    file_node_set(node, &link_1);
    assert_true(take_unsaved(t, sub));
    file_node_set_complete(sub, true);
    assert_true(take_unsaved(t, sub));
    file_node_set_complete(sub, true);
    assert_false(take_unsaved(t, sub));
    assert_non_null(file_tree_add(t, sub, STR("not looked at")));
    assert_false(take_unsaved(t, sub));
    file_tree_remove(t, node);
    assert_true(take_unsaved(t, sub));
    file_tree_remove(t, file_tree_find(t, sub, STR("not looked at")));
    assert_false(take_unsaved(t, sub));
}

int main(void)
{
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, open_tree, close_tree)
    const struct CMUnitTest tests[] = {
        TREE_TEST(difference_from_a_known_state_is_a_change),
        TREE_TEST(first_scan_is_a_baseline_unless_the_directory_was_complete),
        TREE_TEST(path_leads_to_its_node_and_back),
        TREE_TEST(equal_names_in_two_directories_have_two_nodes),
        TREE_TEST(many_names_are_added_found_and_removed),
        TREE_TEST(full_tree_rejects_new_nodes),
        TREE_TEST(node_size_stays_small),
        TREE_TEST(unsaved_nodes_are_found_from_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
