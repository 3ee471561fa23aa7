/* SPDX-License-Identifier: MIT
 *
 * No client can read anything outside the root through the file provider: one test per trick. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "support/file_fixture.h"

static void put_outside(const struct fixture *f, const char *path, const char *text)
{
    struct fixture outside = *f;
    memcpy(outside.root, f->base, sizeof f->base);
    put(&outside, path, text);
}

static void containment_refuses_prefix_confusion(void **state)
{
    struct fixture *f = *state;
    struct fixture evil = *f;
    (void)snprintf(evil.root, sizeof evil.root, "%s/root-evil", f->base);
    assert_int_equal(mkdir(evil.root, 0755), 0);
    put(&evil, "secret", "secret");
    serve(f, "");
    check_refused(f, "file://data-evil/secret", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, "file://dat", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "../root-evil/secret", TIDINGS_E_NOTFOUND, "no such file");
}

static void containment_refuses_encoded_dot_dot(void **state)
{
    struct fixture *f = *state;
    static const char *const uris[] = {MOUNT "../secret",
                                       MOUNT "%2e%2e/secret",
                                       MOUNT "%2E%2E/secret",
                                       MOUNT "d/../../secret",
                                       MOUNT "..%2Fsecret",
                                       MOUNT "d/..",
                                       MOUNT ".",
                                       MOUNT "./secret",
                                       MOUNT "d/%2e%2e%2f%2e%2e%2fsecret",
                                       MOUNT "%252e%252e/secret",
                                       MOUNT "..%5C..%5Csecret"};
    make_dir(f, "d");
    put_outside(f, "secret", "secret");
    serve(f, "");
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        check_refused(f, uris[i], TIDINGS_E_NOTFOUND, "");
    }
}

static void containment_refuses_symlink_escape_by_file_and_directory(void **state)
{
    struct fixture *f = *state;
    put_outside(f, "secret", "secret");
    assert_int_equal(symlink("../secret", at(f, "file")), 0);
    assert_int_equal(symlink("..", at(f, "dir")), 0);
    assert_int_equal(symlink("dir/secret", at(f, "chained")), 0);
    assert_int_equal(symlink("/etc", at(f, "etc")), 0);
    assert_int_equal(symlink("/etc/passwd", at(f, "passwd")), 0);
    serve(f, "");
    check_refused(f, MOUNT "file", TIDINGS_E_DENIED, "leads out of the directory");
    check_refused(f, MOUNT "dir/secret", TIDINGS_E_DENIED, "leads out");
    check_refused(f, MOUNT "dir/", TIDINGS_E_DENIED, "leads out");
    check_refused(f, MOUNT "chained", TIDINGS_E_DENIED, "leads out");
    check_refused(f, MOUNT "etc/passwd", TIDINGS_E_DENIED, "leads out");
    check_refused(f, MOUNT "passwd", TIDINGS_E_DENIED, "leads out");
    struct host_answer *a = host_list(f->host, "", 100);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    a = host_children(f->host, MOUNT "dir/", "", 100);
    assert_int_equal(a->code, TIDINGS_E_DENIED);
    host_answer_free(a);
}

static void containment_absolute_symlink_inside_the_root_is_refused(void **state)
{
    struct fixture *f = *state;
    put(f, "target", "inside");
    assert_int_equal(symlink(at(f, "target"), at(f, "absolute")), 0);
    serve(f, "");
    check_refused(f, MOUNT "absolute", TIDINGS_E_DENIED, "leads out");
    assert_false(is_listed(f, MOUNT "absolute"));
}

static void containment_refuses_proc_magic_links(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0};
    f->host = host_open(&provider_file_ops, MOUNT, "{\"root\": \"/proc/self\"}", &err);
    assert_non_null(f->host);
    check_refused(f, MOUNT "root/etc/passwd", TIDINGS_E_DENIED, "link that is not followed");
    check_refused(f, MOUNT "cwd/", TIDINGS_E_DENIED, "");
    check_refused(f, MOUNT "exe", TIDINGS_E_DENIED, "");
    check_refused(f, MOUNT "fd/0", TIDINGS_E_DENIED, "");
    struct host_answer *a = host_read(f->host, MOUNT "comm"); /* procfs reports no sizes */
    assert_int_equal(a->code, 0);
    assert_true(a->rows[0].length > 0);
    host_answer_free(a);
}

static void containment_fifo_does_not_hang(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkfifo(at(f, "fifo"), 0644), 0);
    serve(f, "");
    check_refused(f, MOUNT "fifo", TIDINGS_E_DENIED, "is a device, FIFO or socket");
    assert_false(is_listed(f, MOUNT "fifo"));
}

static void containment_device_and_socket_are_refused(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", at(f, "socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    bool has_device = mknod(at(f, "null"), S_IFCHR | 0666, makedev(1, 3)) == 0;
    assert_true(has_device || errno == EPERM); /* only root may create one */
    serve(f, "");
    check_refused(f, MOUNT "socket", TIDINGS_E_DENIED, "is a device, FIFO or socket");
    assert_false(is_listed(f, MOUNT "socket"));
    if (has_device) {
        check_refused(f, MOUNT "null", TIDINGS_E_DENIED, "is a device, FIFO or socket");
        assert_false(is_listed(f, MOUNT "null"));
    }
    close(fd);
}

/* Opening a FIFO releases a waiting writer; opening a device can have any effect. */
static void containment_special_files_are_never_opened(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    assert_int_equal(mkfifo(at(f, "fifo"), 0644), 0);
    assert_int_equal(mkfifo(at(f, "d/fifo"), 0644), 0);
    assert_int_equal(symlink("fifo", at(f, "link")), 0);
    put(f, "file", "x");
    serve(f, "");
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, at(f, ""), IN_OPEN) >= 0);
    assert_true(inotify_add_watch(watch, at(f, "d"), IN_OPEN) >= 0);
    static const char *const uris[] = {MOUNT "fifo", MOUNT "d/fifo", MOUNT "link", MOUNT "fifo/"};
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct host_answer *a = host_read(f->host, uris[i]);
        assert_true(a->code < 0);
        host_answer_free(a);
        a = host_children(f->host, uris[i], "", 10);
        assert_true(a->code < 0);
        host_answer_free(a);
    }
    char events[4096];
    assert_int_equal(read(watch, events, sizeof events), -1);
    assert_int_equal(errno, EAGAIN);
    check_read(f, MOUNT "file", "x"); /* the events of an open */
    assert_true(read(watch, events, sizeof events) > 0);
    close(watch);
}

struct swapping {
    const struct fixture *f;
    atomic_bool stop;
};

/* "x" is, in turns, a file, a link out of the root, a FIFO and a directory. */
static void *keep_replacing(void *user)
{
    struct swapping *s = user;
    static const char *const kinds[] = {"a-file", "a-link", "a-fifo", "a-dir"};
    char x[300], kind[300];
    (void)snprintf(x, sizeof x, "%s/x", s->f->root);
    for (unsigned i = 0; !atomic_load(&s->stop); i++) {
        (void)snprintf(kind, sizeof kind, "%s/%s", s->f->root, kinds[i % 4]);
        (void)renameat2(AT_FDCWD, kind, AT_FDCWD, x, RENAME_EXCHANGE);
    }
    return NULL;
}

static void containment_holds_if_a_file_is_replaced_during_a_read(void **state)
{
    struct fixture *f = *state;
    put_outside(f, "secret", "a secret");
    put(f, "x", "inside");
    put(f, "a-file", "inside");
    assert_int_equal(symlink("../secret", at(f, "a-link")), 0);
    assert_int_equal(mkfifo(at(f, "a-fifo"), 0644), 0);
    make_dir(f, "a-dir");
    serve(f, "");
    struct swapping s = {.f = f};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_replacing, &s), 0);
    size_t good = 0;
    for (int i = 0; i < 3000; i++) {
        struct host_answer *a = host_read(f->host, MOUNT "x");
        if (a->code == 0 && !a->rows[0].listable) {
            assert_string_equal(a->rows[0].bytes, "inside");
            good++;
        }
        host_answer_free(a);
        a = host_list(f->host, "", 10);
        assert_int_equal(a->code, 0);
        for (size_t row = 0; row < a->count; row++) {
            /* no byte of the outside file, which has another size */
            assert_true(a->rows[row].listable || a->rows[row].size == 6);
        }
        host_answer_free(a);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    assert_true(good > 0);
}

/* ---- a link's target is checked by its own name --------------------------------------------- */

static void check_hidden(struct fixture *f, const char *uri)
{
    struct host_answer *answers[] = {host_read(f->host, uri), host_stat(f->host, uri),
                                     host_children(f->host, uri, "", 10)};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        assert_int_equal(answers[i]->code, TIDINGS_E_NOTFOUND);
        assert_int_equal(answers[i]->count, 0);
        if (!strstr(answers[i]->error, "No such file or directory")) {
            fail_msg("%s", answers[i]->error);
        }
        host_answer_free(answers[i]);
    }
}

static bool holds(const struct host_answer *a, const char *text)
{
    bool found = false;
    for (size_t i = 0; i < a->count; i++) {
        found = found || (a->rows[i].uri && strstr(a->rows[i].uri, text)) ||
                (a->rows[i].name && strstr(a->rows[i].name, text)) ||
                (a->rows[i].bytes && strstr(a->rows[i].bytes, text));
    }
    return found;
}

static void links_to_hidden_files_are_not_followed(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "public");
    make_dir(f, "private");
    put(f, "public/open", "open");
    put(f, "private/secret", "secret");
    assert_int_equal(mkfifo(at(f, "private/fifo"), 0644), 0);
    assert_int_equal(symlink("../private/secret", at(f, "public/link")), 0);
    assert_int_equal(symlink("link", at(f, "public/link2")), 0);
    assert_int_equal(symlink("../private/fifo", at(f, "public/linkfifo")), 0);
    assert_int_equal(symlink("../private", at(f, "public/linkdir")), 0);
    assert_int_equal(symlink("open", at(f, "public/fine")), 0);
    serve(f, "");
    check_read(f, MOUNT "public/link", "secret");
    host_hide(MOUNT "private/");
    static const char *const hidden[] = {
        MOUNT "public/link",
        MOUNT "public/link2",
        MOUNT "public/linkfifo",
        MOUNT "public/linkdir",
        MOUNT "public/linkdir/",
        MOUNT "public/linkdir/secret",
        MOUNT "public/linkdir/secret/",
    };
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        check_hidden(f, hidden[i]);
    }
    check_read(f, MOUNT "public/fine", "open");
    struct host_answer *answers[] = {
        host_list(f->host, "", 100),
        host_children(f->host, MOUNT "public/", "", 100),
        host_read(f->host, MOUNT "public/"),
        host_complete(f->host, MOUNT "{+path}", "path", "public/", 100),
        host_complete(f->host, MOUNT "{+path}", "path", "public/linkdir/", 100),
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        assert_int_equal(answers[i]->code, 0);
        assert_false(holds(answers[i], "link"));
        assert_false(holds(answers[i], i == 0 ? "public/secret" : "secret"));
        assert_true(i == 4 || holds(answers[i], "fine"));
        host_answer_free(answers[i]);
    }
    host_hide(NULL);
    check_read(f, MOUNT "public/linkdir/secret", "secret");
}

int main(void)
{
#define CONTAINMENT_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        CONTAINMENT_TEST(containment_refuses_prefix_confusion),
        CONTAINMENT_TEST(links_to_hidden_files_are_not_followed),
        CONTAINMENT_TEST(containment_refuses_encoded_dot_dot),
        CONTAINMENT_TEST(containment_refuses_symlink_escape_by_file_and_directory),
        CONTAINMENT_TEST(containment_absolute_symlink_inside_the_root_is_refused),
        CONTAINMENT_TEST(containment_refuses_proc_magic_links),
        CONTAINMENT_TEST(containment_fifo_does_not_hang),
        CONTAINMENT_TEST(containment_device_and_socket_are_refused),
        CONTAINMENT_TEST(containment_special_files_are_never_opened),
        CONTAINMENT_TEST(containment_holds_if_a_file_is_replaced_during_a_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
