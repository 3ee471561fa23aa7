/* SPDX-License-Identifier: MIT
 *
 * The files that a confined process may still open. Each case confines a child process, because
 * confinement cannot be undone. */
#include "security/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/remove_tree.h"

static struct {
    char dir[64]; /* with in/ and out/, each with a file "a" */
    int abi;
} f;

static const char *at(const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, 128, "%s/%s", f.dir, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(f.dir, sizeof f.dir, "/tmp/test_landlock.XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    assert_int_equal(mkdir(at("in"), 0700), 0);
    assert_int_equal(mkdir(at("out"), 0700), 0);
    write_file(at("in/a"), "a");
    write_file(at("out/a"), "a");
    f.abi = landlock_abi(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(f.dir);
    return 0;
}

/* Runs `fn` in a child, which returns the number of the first failed check. */
static void in_child(int (*fn)(void))
{
    if (f.abi == 0) {
        skip();
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(fn());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool confine(struct landlock *l)
{
    bool done = l && landlock_enforce(l, NULL) == 0;
    landlock_destroy(l);
    return done;
}

static int opening(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int errnum = errno;
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 ? 0 : errnum;
}

static int read_only(void)
{
    char word[] = "true", *const argv[] = {word, NULL}, *const env[] = {NULL};
    struct stat st;
    struct landlock *l = landlock_create(0, NULL);
    if (!l || landlock_allow(l, at("in"), LANDLOCK_READ) < 0 ||
        landlock_allow(l, at("none"), LANDLOCK_READ) < 0 || !confine(l)) {
        return 1;
    }
    if (opening(at("in/a"), O_RDONLY) != 0 || opening(at("in"), O_RDONLY | O_DIRECTORY) != 0) {
        return 2;
    }
    if (opening(at("out/a"), O_RDONLY) != EACCES || opening("/etc/passwd", O_RDONLY) != EACCES) {
        return 3;
    }
    if (opening(at("in/a"), O_WRONLY) != EACCES ||
        opening(at("in/b"), O_CREAT | O_RDWR) != EACCES || unlink(at("in/a")) == 0 ||
        rename(at("in/a"), at("in/b")) == 0) {
        return 4;
    }
    if (execve("/bin/true", argv, env) == 0 || errno != EACCES) {
        return 5;
    }
    return stat(at("out/a"), &st) == 0 && opening(at("out/a"), O_PATH) == 0 ? 0 : 6;
}

static void forbidden_files_cannot_be_opened_or_executed(void **state)
{
    (void)state;
    in_child(read_only);
}

static int keeping(void)
{
    struct landlock *l = landlock_create(0, NULL);
    if (!l || landlock_allow(l, at("in"), LANDLOCK_WRITE) < 0 || !confine(l)) {
        return 1;
    }
    if (opening(at("in/b"), O_CREAT | O_RDWR) != 0 || opening(at("in/b"), O_RDWR | O_TRUNC) != 0 ||
        unlink(at("in/b")) != 0) {
        return 2;
    }
    if (mkdir(at("in/c"), 0700) == 0 || symlink("/", at("in/d")) == 0) {
        return 3;
    }
    return opening(at("out/b"), O_CREAT | O_RDWR) == EACCES ? 0 : 4;
}

static void allowed_files_can_be_created_and_removed(void **state)
{
    (void)state;
    in_child(keeping);
}

static int replaced(void)
{
    struct landlock *l = landlock_create(0, NULL);
    if (!l || landlock_allow(l, at("in"), LANDLOCK_READ) < 0) {
        return 1;
    }
    if (rename(at("in"), at("old")) < 0 || mkdir(at("in"), 0700) < 0) {
        return 2;
    }
    int fd = open(at("in/a"), O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || !confine(l)) {
        return 3;
    }
    return opening(at("in/a"), O_RDONLY) == EACCES && opening(at("old/a"), O_RDONLY) == 0 ? 0 : 4;
}

/* The reason for security/helper. */
static void rule_covers_a_directory_not_its_name(void **state)
{
    (void)state;
    in_child(replaced);
}

static int bound(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ? errno : 0;
    close(fd);
    return rc;
}

static int networking(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(9),
                            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    snprintf(local.sun_path, sizeof local.sun_path, "%s", at("in/s"));
    struct landlock *l = landlock_create(LANDLOCK_NO_CONNECT, NULL);
    if (!l || landlock_allow_bind(l, 0) < 0 || landlock_allow(l, at("in"), LANDLOCK_SOCKETS) < 0 ||
        !confine(l)) {
        return 1;
    }
    int path = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(path, (struct sockaddr *)&local, sizeof local) < 0 || unlink(local.sun_path) < 0) {
        return 2;
    }
    if (f.abi < 4) {
        return 0;
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno != EACCES) {
        return 3;
    }
    return bound(0) == 0 && bound(34567) == EACCES ? 0 : 4;
}

static void sockets_are_created_only_where_allowed(void **state)
{
    (void)state;
    in_child(networking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forbidden_files_cannot_be_opened_or_executed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(allowed_files_can_be_created_and_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rule_covers_a_directory_not_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sockets_are_created_only_where_allowed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
