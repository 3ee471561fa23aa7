/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_MS 20000

static char *const env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin",
                            (char *)(uintptr_t) "ONLY=this", NULL};

static void start(struct spawn *s, const char *script, const char *directory)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script,
                    NULL};
    struct spawn_options o = {.path = "/bin/sh", .argv = argv, .env = env, .directory = directory};
    struct tidings_error err = {0};
    if (spawn_start(s, &o, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void await_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
}

/* Reads to the end of the pipe. */
static size_t slurp(int fd, char *out, size_t room)
{
    size_t len = 0;
    for (;;) {
        await_readable(fd);
        ssize_t n = read(fd, out + len, room - 1 - len);
        assert_true(n >= 0);
        if (n == 0) {
            out[len] = '\0';
            return len;
        }
        len += (size_t)n;
    }
}

static void check_end(struct spawn *s, enum spawn_ending how, int value)
{
    enum spawn_ending got;
    int got_value;
    await_readable(s->pidfd);
    assert_true(spawn_reap(s, &got, &got_value));
    assert_int_equal(got, how);
    assert_int_equal(got_value, value);
    assert_int_equal(s->pid, 0);
    spawn_deinit(s);
}

static void output_errors_and_status_are_returned(void **state)
{
    (void)state;
    struct spawn s;
    char text[256];
    start(&s, "echo out; echo err >&2; exit 7", NULL);
    slurp(s.out, text, sizeof text);
    assert_string_equal(text, "out\n");
    slurp(s.err, text, sizeof text);
    assert_string_equal(text, "err\n");
    check_end(&s, SPAWN_EXITED, 7);
}

/* The programs inspect themselves, because a shell may have its own descriptors and blocked
 * signals. */
static void check_says(const char *script, const char *expected)
{
    struct spawn s;
    char text[1024];
    start(&s, script, "/usr");
    slurp(s.out, text, sizeof text);
    assert_string_equal(text, expected);
    check_end(&s, SPAWN_EXITED, 0);
}

static void child_has_only_its_descriptors_signals_and_environment(void **state)
{
    (void)state;
    sigset_t all, before;
    int stray = open("/dev/null", O_RDONLY); /* deliberately not close-on-exec */
    assert_true(stray > 2);
    signal(SIGPIPE, SIG_IGN);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    check_says("exec ls /proc/self/fd", "0\n1\n2\n3\n"); /* 3 is the folder it reads */
    check_says("exec grep -E 'Sig(Blk|Ign)' /proc/self/status",
               "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    check_says("exec env", "PATH=/usr/bin:/bin\nONLY=this\nPWD=/usr\n");
    check_says("exec cat", "");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(stray);
}

static void kill_ends_the_whole_group(void **state)
{
    (void)state;
    struct spawn s;
    char text[64];
    start(&s, "sleep 1000 & echo $!; exec sleep 1000", NULL);
    await_readable(s.out);
    ssize_t n = read(s.out, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    spawn_kill(&s);
    /* Both held the pipe, so its end means that both have exited. */
    slurp(s.out, text, sizeof text);
    check_end(&s, SPAWN_KILLED, SIGKILL);
}

static void abandoned_program_is_killed_and_reaped(void **state)
{
    (void)state;
    struct spawn s;
    start(&s, "exec sleep 1000", NULL);
    pid_t pid = s.pid;
    spawn_deinit(&s);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
    spawn_deinit(&s);
}

static void failed_start_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *path, *directory;
        int code;
    } cases[] = {
        {"/nowhere/program", NULL, TIDINGS_E_NOTFOUND},
        {"/etc/passwd", NULL, TIDINGS_E_DENIED},
        {"/bin/sh", "/nowhere", TIDINGS_E_NOTFOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *argv[] = {(char *)(uintptr_t) "x", NULL};
        struct spawn_options o = {
            .path = cases[i].path, .argv = argv, .env = env, .directory = cases[i].directory};
        struct tidings_error err = {0};
        struct spawn s;
        assert_int_equal(spawn_start(&s, &o, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].path));
        assert_int_equal(s.pid, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
}

static void spawn_works_without_standard_descriptors(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) { /* a host that has closed everything */
        struct spawn s;
        char text[16];
        char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                        (char *)(uintptr_t) "echo fine; exit 3", NULL};
        struct spawn_options o = {.path = "/bin/sh", .argv = argv, .env = env};
        for (int fd = 0; fd < 8; fd++) {
            close(fd);
        }
        if (spawn_start(&s, &o, NULL) < 0) {
            _exit(1);
        }
        struct pollfd end = {.fd = s.pidfd, .events = POLLIN};
        enum spawn_ending how;
        int value = 0;
        if (poll(&end, 1, DEADLINE_MS) != 1 || !spawn_reap(&s, &how, &value) || value != 3 ||
            read(s.out, text, sizeof text) != 5) {
            _exit(2);
        }
        spawn_deinit(&s);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void program_is_found_by_name_only_in_its_path(void **state)
{
    (void)state;
    char out[64];
    struct tidings_error err = {0};
    assert_int_equal(spawn_find("sh", "/nowhere:/bin", out, sizeof out, &err), 0);
    assert_string_equal(out, "/bin/sh");
    assert_int_equal(spawn_find("./x", "/bin", out, sizeof out, &err), 0);
    assert_string_equal(out, "./x");
    assert_int_equal(spawn_find("sh", "/nowhere", out, sizeof out, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(spawn_find("passwd", "/etc", out, sizeof out, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(spawn_find("/bin/sh", "", out, 4, &err), TIDINGS_E_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_errors_and_status_are_returned),
        cmocka_unit_test(child_has_only_its_descriptors_signals_and_environment),
        cmocka_unit_test(kill_ends_the_whole_group),
        cmocka_unit_test(abandoned_program_is_killed_and_reaped),
        cmocka_unit_test(failed_start_is_reported_and_leaves_nothing),
        cmocka_unit_test(spawn_works_without_standard_descriptors),
        cmocka_unit_test(program_is_found_by_name_only_in_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
