/* SPDX-License-Identifier: MIT
 *
 * The system calls that a confined process can still make. Each case confines a child process,
 * because confinement cannot be undone. */
#include "security/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef TIDINGS_SANITIZED
#define TIDINGS_SANITIZED 0
#endif

static int status_of(int (*fn)(void))
{
    int status = 0;
    if (TIDINGS_SANITIZED || seccomp_probe(NULL) < 0) {
        skip(); /* a sanitizer makes other calls than the program */
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(fn());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void in_child(int (*fn)(void))
{
    int status = status_of(fn);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool fails(long rc, int errnum)
{
    return rc == -1 && errno == errnum;
}

static int forbidden(void)
{
    char word[] = "true", *const argv[] = {word, NULL}, *const env[] = {NULL};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || seccomp_enforce(0, NULL) < 0) {
        return 1;
    }
    if (!fails(execve("/bin/true", argv, env), EPERM) ||
        !fails(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, env, 0), EPERM)) {
        return 2;
    }
    if (!fails(fork(), EPERM) || !fails(syscall(SYS_clone3, NULL, 0), ENOSYS)) {
        return 3;
    }
    if (!fails(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM) ||
        !fails(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0), EPERM) ||
        !fails(syscall(SYS_bpf, 0, NULL, 0), EPERM) ||
        !fails(syscall(SYS_mount, "a", "b", "c", 0, NULL), EPERM) ||
        !fails(syscall(SYS_keyctl, 0, 0), EPERM) ||
        !fails(syscall(SYS_io_uring_setup, 1, NULL), EPERM) ||
        !fails(syscall(SYS_open_by_handle_at, 0, NULL, 0), EPERM) ||
        !fails(syscall(SYS_userfaultfd, 0), EPERM) ||
        !fails(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), EPERM)) {
        return 4;
    }
    if (!fails(socket(AF_INET, SOCK_STREAM, 0), EPERM) ||
        !fails(socket(AF_PACKET, SOCK_RAW, 0), EPERM) || !fails(kill(getppid(), 0), EPERM)) {
        return 5;
    }
    if (!fails(prlimit(0, RLIMIT_NOFILE, &limit, NULL), EPERM) ||
        !fails(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), EPERM)) {
        return 6;
    }
    return fails(syscall(100000), ENOSYS) ? 0 : 7;
}

static void unneeded_system_calls_fail(void **state)
{
    (void)state;
    in_child(forbidden);
}

static int lives;

static void *live(void *user)
{
    lives++;
    (void)prctl(PR_SET_NAME, "lives");
    return user;
}

static int allowed(void)
{
    pthread_t thread;
    struct rlimit limit;
    char byte = 'x';
    int pair[2];
    if (seccomp_enforce(0, NULL) < 0) {
        return 1;
    }
    if (pthread_create(&thread, NULL, live, NULL) != 0 || pthread_join(thread, NULL) != 0 ||
        lives != 1) {
        return 2;
    }
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd) < 0) {
        return 3;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 || write(pair[0], &byte, 1) != 1) {
        return 4;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || kill(getpid(), 0) < 0) {
        return 5;
    }
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && memfd_create("a", MFD_CLOEXEC) >= 0 ? 0 : 6;
}

static void needed_system_calls_work(void **state)
{
    (void)state;
    in_child(allowed);
}

static int connecting(void)
{
    if (seccomp_enforce(SECCOMP_CONNECTS, NULL) < 0) {
        return 1;
    }
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 && socket(AF_INET6, SOCK_DGRAM, 0) >= 0 &&
                   fails(socket(AF_PACKET, SOCK_RAW, 0), EPERM)
               ? 0
               : 2;
}

static void sockets_are_created_only_by_processes_that_fetch(void **state)
{
    (void)state;
    in_child(connecting);
}

static void *wait_and_try(void *user)
{
    int *steps = user; /* 1: enforced */
    while (__atomic_load_n(&steps[0], __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    steps[1] = fails(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    return NULL;
}

static int threads(void)
{
    static int steps[2];
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_and_try, steps) != 0 || seccomp_enforce(0, NULL) < 0) {
        return 1;
    }
    __atomic_store_n(&steps[0], 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return steps[1] ? 0 : 2;
}

static void existing_threads_are_confined_too(void **state)
{
    (void)state;
    in_child(threads);
}

#ifdef __x86_64__
static int other_way(void)
{
    long rc = 20; /* getpid, in the form of 32-bit programs */
    if (seccomp_enforce(0, NULL) == 0) {
        __asm__ volatile("int $0x80" : "+a"(rc) : : "memory");
    }
    return 1;
}

static int x32(void)
{
    return seccomp_enforce(0, NULL) == 0 && syscall(0x40000000 | SYS_getpid) > 0 ? 1 : 2;
}

static void calls_of_other_architectures_end_the_process(void **state)
{
    (void)state;
    int (*const ways[])(void) = {other_way, x32};
    for (size_t i = 0; i < 2; i++) {
        int status = status_of(ways[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unneeded_system_calls_fail),
        cmocka_unit_test(needed_system_calls_work),
        cmocka_unit_test(sockets_are_created_only_by_processes_that_fetch),
        cmocka_unit_test(existing_threads_are_confined_too),
#ifdef __x86_64__
        cmocka_unit_test(calls_of_other_architectures_end_the_process),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
