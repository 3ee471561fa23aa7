/* SPDX-License-Identifier: MIT
 *
 * The root itself changes: it is removed and recreated, swapped by a rename, moved with its parent,
 * reached through a link that is switched, or hidden by a mount. The provider reads the current
 * root and notifies watchers of every difference. */
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "support/file_fixture.h"

/* A path next to the root. */
static const char *beside(const struct fixture *f, const char *name)
{
    static char texts[4][4200];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    (void)snprintf(text, sizeof texts[0], "%s/%s", f->base, name);
    return text;
}

static void put_beside(const struct fixture *f, const char *name, const char *text)
{
    FILE *file = fopen(beside(f, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void check_absent(struct fixture *f, const char *uri)
{
    struct host_answer *a = host_read(f->host, uri);
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void recreated_root_is_read(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    serve(f, "");
    check_read(f, MOUNT "a", "1");
    for (int i = 0; i < 3; i++) {
        remove_file(f, "a");
        assert_int_equal(rmdir(f->root), 0);
        check_absent(f, MOUNT "a");
        struct host_answer *list = host_list(f->host, "", 10);
        assert_int_equal(list->code, 0);
        assert_int_equal(list->count, 0);
        host_answer_free(list);
        assert_int_equal(mkdir(f->root, 0755), 0);
        put(f, "a", "2");
        check_read(f, MOUNT "a", "2");
        assert_true(is_listed(f, MOUNT "a"));
    }
}

static void recreated_root_notifies_watchers(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "a", "1");
    put(f, "d/b", "1");
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT), 0);
    for (int i = 0; i < 3; i++) {
        remove_file(f, "d/b");
        remove_file(f, "a");
        assert_int_equal(rmdir(at(f, "d")), 0);
        assert_int_equal(rmdir(f->root), 0);
        host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "a");
        host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/b");
        host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT);
        assert_int_equal(mkdir(f->root, 0755), 0);
        host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT);
        make_dir(f, "d");
        put(f, "d/b", "2");
        put(f, "a", "2");
        host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "a");
        host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/b");
    }
    put(f, "d/b", "3");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/b");
    assert_int_equal(host_watch(f->host, MOUNT "d/c"), 0); /* a new watcher */
    put(f, "d/c", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/c");
}

static void root_swapped_by_rename_is_compared(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/both", "1");
    put(f, "d/old", "1");
    put(f, "one", "1");
    assert_int_equal(mkdir(beside(f, "next"), 0755), 0);
    assert_int_equal(mkdir(beside(f, "next/d"), 0755), 0);
    put_beside(f, "next/d/both", "2");
    put_beside(f, "next/d/new", "2");
    put_beside(f, "next/one", "2");
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT), 0);
    assert_int_equal(host_watch(f->host, MOUNT "one"), 0);
    assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, beside(f, "next"), AT_FDCWD, f->root, 2), 0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "one");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/both");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/new");
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/old");
    check_read(f, MOUNT "d/both", "2");
    put_beside(f, "next/d/both", "x"); /* the old root, which is not watched */
    put(f, "d/new", "3");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/new");
    assert_int_equal(host_untaken(f->host, MOUNT "d/both"), 0);
}

static void switched_link_is_followed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(beside(f, "releases"), 0755), 0);
    assert_int_equal(mkdir(beside(f, "releases/1"), 0755), 0);
    assert_int_equal(mkdir(beside(f, "releases/2"), 0755), 0);
    put_beside(f, "releases/1/a", "1");
    put_beside(f, "releases/2/a", "2");
    assert_int_equal(symlink("releases/1", beside(f, "current")), 0);
    (void)snprintf(f->root, sizeof f->root, "%s/current", f->base);
    serve(f, "");
    check_read(f, MOUNT "a", "1");
    assert_int_equal(host_watch(f->host, MOUNT "a"), 0);
    assert_int_equal(symlink("releases/2", beside(f, "next")), 0);
    assert_int_equal(rename(beside(f, "next"), f->root), 0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    check_read(f, MOUNT "a", "2");
    put_beside(f, "releases/2/a", "3");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    assert_int_equal(rename(beside(f, "releases"), beside(f, "gone")), 0);
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "a");
    check_absent(f, MOUNT "a");
    assert_int_equal(rename(beside(f, "gone"), beside(f, "releases")), 0);
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "a");
    check_read(f, MOUNT "a", "3");
}

static void subscription_without_a_root_is_notified_when_it_appears(void **state)
{
    struct fixture *f = *state;
    serve(f, "");
    assert_int_equal(rmdir(f->root), 0);
    assert_int_equal(host_watch(f->host, MOUNT "d/a"), 0);
    assert_int_equal(host_watch(f->host, MOUNT "e/"), 0);
    assert_int_equal(mkdir(f->root, 0755), 0);
    make_dir(f, "d");
    make_dir(f, "e");
    put(f, "d/a", "1");
    put(f, "e/x", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/a");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "e/x");
}

/* One file may be in both roots; reading it does not identify the root. */
static void root_swapped_for_one_with_the_same_file_is_read(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "old");
    assert_int_equal(mkdir(beside(f, "other"), 0755), 0);
    put_beside(f, "other/b", "new");
    put_beside(f, "other/c", "2");
    serve(f, "");
    check_read(f, MOUNT "b", "old");
    char twin[PATH_MAX];
    snprintf(twin, sizeof twin, "%s", beside(f, "other/a"));
    assert_int_equal(link(at(f, "a"), twin), 0);
    assert_int_equal(rename(f->root, beside(f, "first")), 0);
    assert_int_equal(rename(beside(f, "other"), f->root), 0);
    check_read(f, MOUNT "a", "1");
    check_read(f, MOUNT "b", "new");
    check_read(f, MOUNT "c", "2");
    remove_file(f, "a");
    check_absent(f, MOUNT "a"); /* it is still in the first */
}

/* A user who can write next to the root cannot choose what the server serves. */
static void root_of_another_owner_is_not_served(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0) {
        skip();
    }
    put(f, "a", "1");
    assert_int_equal(mkdir(beside(f, "other"), 0755), 0);
    put_beside(f, "other/a", "secret");
    assert_int_equal(chown(beside(f, "other"), 12345, 12345), 0);
    serve(f, "");
    assert_int_equal(rename(f->root, beside(f, "first")), 0);
    assert_int_equal(rename(beside(f, "other"), f->root), 0);
    check_absent(f, MOUNT "a");
    assert_int_equal(rename(f->root, beside(f, "other")), 0);
    assert_int_equal(symlink("first", f->root), 0);
    check_read(f, MOUNT "a", "1");
    assert_int_equal(unlink(f->root), 0);
    assert_int_equal(mkdir(beside(f, "third"), 0755), 0);
    put_beside(f, "third/a", "secret");
    assert_int_equal(symlink("third", f->root), 0);
    assert_int_equal(lchown(f->root, 12345, 12345), 0);
    check_absent(f, MOUNT "a");
    assert_int_equal(unlink(f->root), 0);
    assert_int_equal(rename(beside(f, "first"), f->root), 0);
    check_read(f, MOUNT "a", "1");
}

static void file_system_mounted_on_a_directory_is_announced(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a", "1");
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "", MS_REC | MS_PRIVATE, NULL) < 0) {
        skip();
    }
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT), 0);
    assert_int_equal(mount("none", at(f, "d"), "tmpfs", 0, NULL), 0);
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/a");
    put(f, "d/b", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/b");
    check_read(f, MOUNT "d/b", "1");
    assert_int_equal(umount2(at(f, "d"), MNT_DETACH), 0);
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/b");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/a");
    assert_int_equal(mount("none", f->root, "tmpfs", 0, NULL), 0);
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/a");
    put(f, "c", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "c");
    assert_int_equal(umount2(f->root, MNT_DETACH), 0);
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/a");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recreated_root_is_read),
        TEST(recreated_root_notifies_watchers),
        TEST(root_swapped_by_rename_is_compared),
        TEST(switched_link_is_followed),
        TEST(subscription_without_a_root_is_notified_when_it_appears),
        TEST(root_swapped_for_one_with_the_same_file_is_read),
        TEST(root_of_another_owner_is_not_served),
        TEST(file_system_mounted_on_a_directory_is_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
