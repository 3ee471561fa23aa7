/* SPDX-License-Identifier: MIT
 *
 * Rings, as the send queues use them. Every send is complete when the call returns, whatever the
 * socket's flags. A full socket gives a result; it does not wait. */
#include "base/net/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/fail_alloc.h"

enum { SENDS = 8 };

static struct uring *open_ring(void)
{
    struct uring *u = NULL;
    struct tidings_error err = {0};
    if (uring_probe(&err) < 0 || uring_create(&u, SENDS, &err) < 0) {
        print_message("no ring here: %s\n", err.text);
        skip();
    }
    return u;
}

static struct uring_send one_send(int fd, const struct iovec *iov, unsigned count)
{
    return (struct uring_send){.fd = fd, .iov = iov, .count = count};
}

static void full_socket_gives_a_result_without_waiting(void **state)
{
    (void)state;
    static char much[1 << 20];
    static const int flags[] = {SOCK_NONBLOCK, 0};
    struct uring *u = open_ring();
    for (size_t i = 0; i < 2; i++) {
        int full[2], idle[2];
        char got[16];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | flags[i], 0, full), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | flags[i], 0, idle), 0);
        struct iovec big = {much, sizeof much};
        char text[] = "together";
        struct iovec parts[] = {{text, 2}, {text + 2, 6}};
        struct uring_send sends[] = {one_send(full[0], &big, 1), one_send(full[0], &big, 1),
                                     one_send(idle[0], parts, 2), one_send(-1, &big, 1)};
        assert_int_equal(uring_send(u, sends, 4), 1); /* the test hangs here otherwise */
        assert_in_range(sends[0].result, 1, sizeof much - 1);
        assert_int_equal(sends[1].result, -EAGAIN);
        assert_int_equal(sends[2].result, 8);
        assert_int_equal(sends[3].result, -EBADF);
        assert_int_equal(read(idle[1], got, sizeof got), 8);
        assert_memory_equal(got, "together", 8);

        /* No send was left in flight: the kernel does not refill the drained socket. */
        ssize_t drained = 0, n;
        while ((n = recv(full[1], much, sizeof much, MSG_DONTWAIT)) > 0) {
            drained += n;
        }
        assert_int_equal(drained, sends[0].result);

        close(full[1]);
        assert_int_equal(uring_send(u, sends, 1), 1); /* SIGPIPE must not be raised */
        assert_int_equal(sends[0].result, -EPIPE);
        close(full[0]);
        close(idle[0]);
        close(idle[1]);
    }
    uring_destroy(u);
}

static void ring_can_be_filled_repeatedly(void **state)
{
    (void)state;
    struct uring *u = open_ring();
    int fds[2];
    char byte = 'x', got[SENDS];
    struct iovec iov = {&byte, 1};
    struct uring_send sends[SENDS];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < SENDS; i++) {
            sends[i] = one_send(fds[0], &iov, 1);
        }
        assert_int_equal(uring_send(u, sends, SENDS), 1);
        for (unsigned i = 0; i < SENDS; i++) {
            assert_int_equal(sends[i].result, 1);
        }
        assert_int_equal(read(fds[1], got, sizeof got), SENDS);
    }
    close(fds[0]);
    close(fds[1]);
    uring_destroy(u);
}

static void failed_allocation_is_reported_without_leaks(void **state)
{
    (void)state;
    struct uring *u = open_ring();
    struct tidings_error err = {0};
    uring_destroy(u);
    uring_destroy(NULL);
    fail_alloc_start(1);
    assert_int_equal(uring_create(&u, SENDS, &err), TIDINGS_E_NOMEM);
    assert_true(fail_alloc_stop());
    assert_string_equal(err.text, "out of memory");
    assert_int_equal(uring_create(&u, SENDS, NULL), 0);
    uring_destroy(u);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

/* The descriptor of the ring; no function returns it. */
static int find_ring(void)
{
    for (int fd = 3; fd < 256; fd++) {
        char path[32], to[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, to, sizeof to - 1) > 0 && strcmp(to, "anon_inode:[io_uring]") == 0) {
            return fd;
        }
    }
    return -1;
}

/* A ring performs operations that a system call filter does not see. Registering shows the
 * restriction: forbidden operations fail, and no more can be allowed. */
static void ring_is_restricted_permanently(void **state)
{
    (void)state;
    char probe[4096] = "";
    struct {
        uint16_t kind;
        uint8_t operation, room[13];
    } more = {.kind = 1 /* operations of entries */, .operation = 18 /* open */};
    struct uring *u = open_ring();
    int fd = find_ring();
    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_io_uring_register, fd, 8 /* probe */, probe, 0), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(syscall(SYS_io_uring_register, fd, 11 /* restrict */, &more, 1), -1);
    assert_int_not_equal(errno, EFAULT);
    uring_destroy(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_socket_gives_a_result_without_waiting),
        cmocka_unit_test(ring_can_be_filled_repeatedly),
        cmocka_unit_test(ring_is_restricted_permanently),
        cmocka_unit_test(failed_allocation_is_reported_without_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
