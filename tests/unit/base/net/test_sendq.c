/* SPDX-License-Identifier: MIT
 *
 * Send queues: the bytes that arrive, the number of writes, and a peer that is slow or
 * disconnected. test_sendq_source.c tests sources, test_sendq_batch.c batches of many queues. */
#include "base/net/sendq.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"
#include "support/sendq_wire.h"

static char *pattern(size_t len, char first)
{
    char *p = mem_alloc(len);
    assert_non_null(p);
    for (size_t i = 0; i < len; i++) {
        p[i] = (char)(first + (char)(i % 23));
    }
    return p;
}

static void output_of_a_turn_is_one_write(void **state)
{
    enum path path = path_of(state);
    struct wire w;
    char got[4096];
    wire_open(&w, path, SOCK_SEQPACKET); /* one packet per system call */
    assert_int_equal(sendq_puts(&w.q, STR("id: 1\n")), 0);
    char *room = sendq_reserve(&w.q, 6);
    memcpy(room, "data: ", 6);
    assert_non_null(sendq_reserve(&w.q, 0));
    assert_int_equal(sendq_take(&w.q, pattern(10, 'a'), 10), 0); /* small: copied */
    assert_int_equal(sendq_take(&w.q, pattern(3000, 'A'), 3000), 0);
    assert_int_equal(sendq_put(&w.q, "\n\n", 2), 0);
    assert_int_equal(sendq_put(&w.q, NULL, 0), 0);
    assert_int_equal(w.q.pending, 6 + 6 + 10 + 3000 + 2);
    assert_int_equal(read(w.fds[1], got, sizeof got), -1); /* nothing before the flush */
    turn(&w);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(w.q.pending, 0);
    assert_int_equal(w.q.written, 3024);
    assert_int_equal(read(w.fds[1], got, sizeof got), 3024);
    assert_memory_equal(got, "id: 1\ndata: abcdefghijABCDEFG", 29);
    assert_memory_equal(got + 3022, "\n\n", 2);
    turn(&w);
    assert_int_equal(w.calls, 1); /* clean: no call */
    wire_close(&w);
}

static void moved_queue_writes_its_old_and_new_bytes(void **state)
{
    enum path path = path_of(state);
    struct wire w;
    struct sendq other;
    char got[4096];
    wire_open(&w, path, SOCK_SEQPACKET);
    assert_int_equal(sendq_puts(&w.q, STR("before ")), 0);
    sendq_move(&other, &w.q, NULL);
    assert_int_equal(w.q.pending, 0);
    assert_int_equal(w.q.fd, -1);
    sendq_deinit(&w.q); /* its bytes have moved */
    assert_int_equal(sendq_puts(&other, STR("and after")), 0);
    sendq_move(&w.q, &other, on_flushed);
    sendq_deinit(&other);
    turn(&w);
    assert_int_equal(w.calls, 1); /* the callback of its current place */
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(read(w.fds[1], got, sizeof got), 16);
    assert_memory_equal(got, "before and after", 16);
    wire_close(&w);
}

/* Allocations other than cached chunks. */
static long in_use(const struct wire *w)
{
    return fail_alloc_live() - (long)w->batch.spare_count;
}

static void idle_queue_owns_no_memory(void **state)
{
    enum path path = path_of(state);
    struct wire w;
    fail_alloc_start(0);
    wire_open(&w, path, SOCK_STREAM);
    turn(&w); /* a ring lives as long as its batch */
    long before = in_use(&w);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(sendq_puts(&w.q, STR("0123456789")), 0);
    }
    assert_int_equal(in_use(&w), before + 1); /* one grown chunk */
    turn(&w);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(in_use(&w), before);
    assert_null(w.q.pieces);
    wire_close(&w);
    fail_alloc_end();
}

static void submitted_bytes_are_kept_until_written(void **state)
{
    enum path path = path_of(state);
    struct wire a, b;
    struct buf got;
    fail_alloc_start(0);
    buf_init(&got, 100000);
    wire_open(&a, path, SOCK_STREAM);
    wire_open(&b, path, SOCK_STREAM);
    assert_int_equal(sendq_take(&a.q, pattern(5000, 'a'), 5000), 0);
    assert_int_equal(sendq_take(&b.q, pattern(5000, 'a'), 5000), 0);
    assert_int_equal(sendq_take(&b.q, pattern(5000, 'a'), 5000), 0);
    turn(&a);
    read_all(&a, &got);
    assert_int_equal(got.len, 5000);
    turn(&b);
    read_all(&b, &got);
    assert_int_equal(got.len, 15000);
    assert_memory_equal(got.ptr + 10000, got.ptr, 5000);
    buf_deinit(&got);
    wire_close(&a);
    wire_close(&b);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void put_random(struct sendq *q, struct buf *want, unsigned random)
{
    static const size_t lengths[] = {1, 17, 300, 2048, 2049, 9000, 70000};
    size_t len = lengths[(random >> 3) % 7];
    char *bytes = pattern(len, (char)('!' + random % 60));
    assert_int_equal(buf_put(want, bytes, len), 0);
    switch (random >> 6 & 3) {
    case 0:
    case 1:
        assert_int_equal(sendq_take(q, bytes, len), 0);
        return;
    case 2:
        assert_int_equal(sendq_put(q, bytes, len), 0);
        break;
    default:
        memcpy(sendq_reserve(q, len), bytes, len);
        break;
    }
    mem_free(bytes);
}

static void slow_reader_gets_every_byte_in_order(void **state)
{
    enum path path = path_of(state);
    for (int type = 0; type < 2; type++) {
        struct wire w;
        struct buf want, got;
        uint32_t x = 3;
        bool has_waited = false;
        wire_open(&w, path, type ? SOCK_STREAM : 0);
        buf_init(&want, 100 << 20);
        buf_init(&got, 100 << 20);
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < 10; i++) {
                x = x * 1664525u + 1013904223u;
                put_random(&w.q, &want, x >> 16);
            }
            turn(&w);
            assert_int_equal(w.q.written + w.q.pending, want.len);
            if (w.last == SENDQ_WAITING) {
                has_waited = true;
                int calls = w.calls;
                assert_int_equal(sendq_puts(&w.q, STR("!")), 0);
                assert_int_equal(buf_putc(&want, '!'), 0);
                turn(&w); /* ignores it until it is writable */
                assert_int_equal(w.calls, calls);
            }
            read_all(&w, &got);
            (void)sendq_flush(&w.q);
        }
        while (w.q.pending > 0) {
            read_all(&w, &got);
            assert_int_not_equal(sendq_flush(&w.q), SENDQ_BROKEN);
        }
        read_all(&w, &got);
        assert_true(has_waited);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.ptr, want.ptr, want.len);
        buf_deinit(&want);
        buf_deinit(&got);
        wire_close(&w);
    }
}

static void full_pipe_never_blocks_the_queue(void **state)
{
    enum path path = path_of(state);
    struct wire w;
    wire_open(&w, path, 0);
    assert_int_equal(sendq_take(&w.q, pattern(1 << 20, 'a'), 1 << 20), 0);
    turn(&w); /* the test hangs here otherwise */
    assert_int_equal(w.last, SENDQ_WAITING);
    assert_true(w.q.written >= 4096);
    assert_int_equal(fcntl(w.fds[0], F_GETFL) & O_NONBLOCK, 0);
    wire_close(&w);
}

static void file_accepts_all_bytes(void **state)
{
    enum path path = path_of(state);
    char name[] = "/tmp/tidings-sendq-XXXXXX";
    struct wire w;
    int file = mkostemp(name, O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(unlink(name), 0);
    wire_adopt(&w, path, file, -1);
    assert_int_equal(sendq_take(&w.q, pattern(10000, 'a'), 10000), 0);
    turn(&w);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(lseek(w.fds[0], 0, SEEK_END), 10000);
    wire_close(&w);
}

static void closed_reader_breaks_the_queue(void **state)
{
    enum path path = path_of(state);
    /* SIGPIPE has its default action, so it must not be raised */
    for (int type = 0; type < 2; type++) {
        struct wire w;
        wire_open(&w, path, type ? SOCK_STREAM : 0);
        close(w.fds[1]);
        w.fds[1] = -1;
        assert_int_equal(sendq_puts(&w.q, STR("x")), 0);
        turn(&w);
        assert_int_equal(w.last, SENDQ_BROKEN);
        assert_int_equal(w.q.error, EPIPE);
        assert_int_equal(w.q.pending, 0);
        assert_int_equal(sendq_puts(&w.q, STR("x")), TIDINGS_E_CLOSED);
        assert_int_equal(sendq_take(&w.q, pattern(5000, 'a'), 5000), TIDINGS_E_CLOSED);
        assert_null(sendq_reserve(&w.q, 1));
        turn(&w);
        assert_int_equal(w.calls, 1);
        assert_int_equal(sendq_flush(&w.q), SENDQ_BROKEN);
        wire_close(&w);
    }
}

static void failed_allocation_breaks_the_queue_and_is_reported(void **state)
{
    enum path path = path_of(state);
    bool reached = true;
    int broken = 0;
    for (long n = 1; reached; n++) {
        struct wire w;
        fail_alloc_start(0);
        wire_open(&w, path, SOCK_STREAM);
        char *a = pattern(3000, 'a');
        char *b = pattern(3000, 'b');
        fail_alloc_start(n);
        int rc = sendq_puts(&w.q, STR("x"));
        int first = sendq_take(&w.q, b, 3000);
        rc = rc < 0 ? rc : first;
        rc = rc < 0 ? rc : sendq_puts(&w.q, STR("x"));
        char *room = rc < 0 ? NULL : sendq_reserve(&w.q, 4000);
        if (room) {
            memset(room, 'r', 4000);
        }
        rc = rc < 0 || !room ? TIDINGS_E_NOMEM : 0;
        int taken = sendq_take(&w.q, a, 3000);
        reached = fail_alloc_stop();
        bool is_broken = rc < 0 || taken < 0;
        assert_true(reached || !is_broken);
        assert_int_equal(w.q.error, is_broken ? ENOMEM : 0);
        turn(&w);
        assert_int_equal(w.calls, 1);
        assert_int_equal(w.last, is_broken ? SENDQ_BROKEN : SENDQ_EMPTY);
        broken += is_broken;
        wire_close(&w);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    /* copy, referenced, copy, referenced; a chunk that cannot grow is followed by another chunk */
    assert_int_equal(broken, 4);
    fail_alloc_end();
}

static void pieces_beyond_one_send_all_arrive(void **state)
{
    enum path path = path_of(state);
    struct wire w;
    struct buf want, got;
    wire_open(&w, path, SOCK_STREAM);
    buf_init(&want, 1 << 20);
    buf_init(&got, 1 << 20);
    for (int i = 0; i < 40; i++) { /* two pieces each */
        char *bytes = pattern(2049, 'a');
        assert_int_equal(buf_put(&want, bytes, 2049), 0);
        assert_int_equal(sendq_take(&w.q, bytes, 2049), 0);
        assert_int_equal(sendq_put(&w.q, &"0123456789"[i % 10], 1), 0);
        assert_int_equal(buf_putc(&want, "0123456789"[i % 10]), 0);
    }
    turn(&w);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.last, SENDQ_EMPTY);
    read_all(&w, &got);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.ptr, want.ptr, want.len);
    buf_deinit(&want);
    buf_deinit(&got);
    wire_close(&w);
}

/* One segment of the loopback device is 64 KiB. While only one is in flight, its acknowledgement is
 * delayed. */
static void limited_kernel_buffer_holds_two_loopback_segments_and_few_more(void **state)
{
    struct wire w;
    int size = 0;
    socklen_t len = sizeof size;
    wire_adopt(&w, path_of(state), socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1);
    sendq_limit_kernel(&w.q);
    assert_int_equal(getsockopt(w.fds[0], SOL_SOCKET, SO_SNDBUF, &size, &len), 0);
    assert_in_range(size, 2 * 65536, 4 * 65536);
    wire_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(output_of_a_turn_is_one_write),
        BOTH(moved_queue_writes_its_old_and_new_bytes),
        BOTH(idle_queue_owns_no_memory),
        BOTH(submitted_bytes_are_kept_until_written),
        BOTH(slow_reader_gets_every_byte_in_order),
        BOTH(full_pipe_never_blocks_the_queue),
        BOTH(file_accepts_all_bytes),
        BOTH(closed_reader_breaks_the_queue),
        BOTH(failed_allocation_breaks_the_queue_and_is_reported),
        BOTH(pieces_beyond_one_send_all_arrive),
        BOTH(limited_kernel_buffer_holds_two_loopback_segments_and_few_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
