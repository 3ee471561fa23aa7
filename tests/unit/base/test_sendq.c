/* SPDX-License-Identifier: MIT
 *
 * Send queues: what arrives, in how few pieces, and what happens when the other side is slow, gone,
 * or the callback changes the batch.
 */
#include "base/sendq.h"

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

struct wire {
    struct sendq_batch batch;
    struct sendq q;
    int fds[2]; /* queue, reader */
    int calls;
    enum sendq_state last;
};

static void on_flushed(struct sendq *q, enum sendq_state state, void *user)
{
    struct wire *w = user;
    assert_ptr_equal(q, &w->q);
    w->calls++;
    w->last = state;
}

static void wire_open(struct wire *w, int type)
{
    *w = (struct wire){0};
    sendq_batch_init(&w->batch);
    if (type) {
        assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, w->fds), 0);
    } else {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        w->fds[0] = ends[1];
        w->fds[1] = ends[0];
    }
    sendq_init(&w->q, &w->batch, w->fds[0], on_flushed, w);
    assert_int_equal(w->q.is_socket, type != 0);
}

static void wire_close(struct wire *w)
{
    sendq_deinit(&w->q);
    assert_int_equal(w->q.pending, 0);
    close(w->fds[0]);
    if (w->fds[1] >= 0) {
        close(w->fds[1]);
    }
}

/* Everything that lies in the reader's end. */
static void read_all(const struct wire *w, struct buf *out)
{
    char bytes[65536];
    ssize_t n;
    int flags = fcntl(w->fds[1], F_GETFL);
    assert_int_equal(fcntl(w->fds[1], F_SETFL, flags | O_NONBLOCK), 0);
    while ((n = read(w->fds[1], bytes, sizeof bytes)) > 0) {
        assert_int_equal(buf_put(out, bytes, (size_t)n), 0);
    }
}

static char *pattern(size_t len, char first)
{
    char *p = mem_alloc(len);
    assert_non_null(p);
    for (size_t i = 0; i < len; i++) {
        p[i] = (char)(first + (char)(i % 23));
    }
    return p;
}

static void a_turns_output_is_one_write(void **state)
{
    (void)state;
    struct wire w;
    char got[4096];
    wire_open(&w, SOCK_SEQPACKET); /* one packet per system call */
    assert_int_equal(sendq_puts(&w.q, STR("id: 1\n")), 0);
    char *room = sendq_room(&w.q, 6);
    memcpy(room, "data: ", 6);
    assert_non_null(sendq_room(&w.q, 0));
    struct shared_bytes *small = shared_bytes_take(pattern(10, 'a'), 10);
    assert_int_equal(sendq_share(&w.q, small), 0);
    shared_bytes_unref(small);
    assert_int_equal(sendq_take(&w.q, pattern(3000, 'A'), 3000), 0);
    assert_int_equal(sendq_put(&w.q, "\n\n", 2), 0);
    assert_int_equal(sendq_put(&w.q, NULL, 0), 0);
    assert_int_equal(w.q.pending, 6 + 6 + 10 + 3000 + 2);
    assert_int_equal(read(w.fds[1], got, sizeof got), -1); /* nothing before the flush */
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(w.q.pending, 0);
    assert_int_equal(w.q.written, 3024);
    assert_int_equal(read(w.fds[1], got, sizeof got), 3024);
    assert_memory_equal(got, "id: 1\ndata: abcdefghijABCDEFG", 29);
    assert_memory_equal(got + 3022, "\n\n", 2);
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.calls, 1); /* clean: nothing to say */
    wire_close(&w);
}

static void an_idle_queue_owns_no_memory(void **state)
{
    (void)state;
    struct wire w;
    fail_alloc_start(0);
    wire_open(&w, SOCK_STREAM);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(sendq_puts(&w.q, STR("0123456789")), 0);
    }
    assert_int_equal(fail_alloc_live(), 1); /* one chunk that grew */
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(fail_alloc_live(), 0);
    wire_close(&w);
    fail_alloc_end();
}

static void shared_bytes_live_until_the_last_queue_wrote_them(void **state)
{
    (void)state;
    struct wire a, b;
    struct buf got;
    fail_alloc_start(0);
    buf_init(&got, 100000);
    wire_open(&a, SOCK_STREAM);
    wire_open(&b, SOCK_STREAM);
    struct shared_bytes *s = shared_bytes_take(pattern(5000, 'a'), 5000);
    assert_int_equal(sendq_share(&a.q, s), 0);
    assert_int_equal(sendq_share(&b.q, s), 0);
    assert_int_equal(sendq_share(&b.q, s), 0);
    shared_bytes_unref(s);
    sendq_batch_flush(&a.batch);
    read_all(&a, &got);
    assert_int_equal(got.len, 5000);
    sendq_batch_flush(&b.batch);
    read_all(&b, &got);
    assert_int_equal(got.len, 15000);
    assert_memory_equal(got.ptr + 10000, got.ptr, 5000);
    buf_deinit(&got);
    shared_bytes_unref(NULL);
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
        assert_int_equal(sendq_take(q, bytes, len), 0);
        return;
    case 1: {
        struct shared_bytes *s = shared_bytes_take(bytes, len);
        assert_int_equal(sendq_share(q, s), 0);
        shared_bytes_unref(s);
        return;
    }
    case 2:
        assert_int_equal(sendq_put(q, bytes, len), 0);
        break;
    default:
        memcpy(sendq_room(q, len), bytes, len);
        break;
    }
    mem_free(bytes);
}

static void a_slow_reader_gets_every_byte_in_order(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) {
        struct wire w;
        struct buf want, got;
        uint32_t x = 3;
        bool has_waited = false;
        wire_open(&w, type ? SOCK_STREAM : 0);
        buf_init(&want, 100 << 20);
        buf_init(&got, 100 << 20);
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < 10; i++) {
                x = x * 1664525u + 1013904223u;
                put_random(&w.q, &want, x >> 16);
            }
            sendq_batch_flush(&w.batch);
            assert_int_equal(w.q.written + w.q.pending, want.len);
            if (w.last == SENDQ_WAITING) {
                has_waited = true;
                int calls = w.calls;
                assert_int_equal(sendq_puts(&w.q, STR("!")), 0);
                assert_int_equal(buf_putc(&want, '!'), 0);
                sendq_batch_flush(&w.batch); /* leaves it alone until it is writable */
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

static void a_blocking_pipe_is_never_blocked_on(void **state)
{
    (void)state;
    struct wire w;
    wire_open(&w, 0);
    assert_int_equal(sendq_take(&w.q, pattern(1 << 20, 'a'), 1 << 20), 0);
    sendq_batch_flush(&w.batch); /* the test hangs here otherwise */
    assert_int_equal(w.last, SENDQ_WAITING);
    assert_true(w.q.written >= 4096);
    assert_int_equal(fcntl(w.fds[0], F_GETFL) & O_NONBLOCK, 0);
    wire_close(&w);
}

static void a_file_takes_everything(void **state)
{
    (void)state;
    char name[] = "/tmp/tidings-sendq-XXXXXX";
    struct wire w = {.fds = {mkostemp(name, O_CLOEXEC), -1}};
    assert_true(w.fds[0] >= 0);
    assert_int_equal(unlink(name), 0);
    sendq_batch_init(&w.batch);
    sendq_init(&w.q, &w.batch, w.fds[0], on_flushed, &w);
    assert_int_equal(sendq_take(&w.q, pattern(10000, 'a'), 10000), 0);
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_int_equal(lseek(w.fds[0], 0, SEEK_END), 10000);
    wire_close(&w);
}

static void a_closed_reader_breaks_the_queue(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) { /* SIGPIPE has its default action: it must not come */
        struct wire w;
        wire_open(&w, type ? SOCK_STREAM : 0);
        close(w.fds[1]);
        w.fds[1] = -1;
        assert_int_equal(sendq_puts(&w.q, STR("x")), 0);
        sendq_batch_flush(&w.batch);
        assert_int_equal(w.last, SENDQ_BROKEN);
        assert_int_equal(w.q.error, EPIPE);
        assert_int_equal(w.q.pending, 0);
        assert_int_equal(sendq_puts(&w.q, STR("x")), TIDINGS_E_CLOSED);
        assert_int_equal(sendq_take(&w.q, pattern(5000, 'a'), 5000), TIDINGS_E_CLOSED);
        assert_null(sendq_room(&w.q, 1));
        sendq_batch_flush(&w.batch);
        assert_int_equal(w.calls, 1);
        assert_int_equal(sendq_flush(&w.q), SENDQ_BROKEN);
        wire_close(&w);
    }
}

static void any_failed_allocation_breaks_the_queue_and_is_told(void **state)
{
    (void)state;
    bool reached = true;
    int broken = 0;
    for (long n = 1; reached; n++) {
        struct wire w;
        wire_open(&w, SOCK_STREAM);
        fail_alloc_start(0);
        char *a = pattern(3000, 'a');
        char *b = pattern(3000, 'b');
        fail_alloc_start(n);
        struct shared_bytes *s = shared_bytes_take(b, 3000);
        int rc = s ? sendq_puts(&w.q, STR("x")) : 0;
        rc = rc < 0 || !s ? rc : sendq_share(&w.q, s);
        rc = rc < 0 ? rc : sendq_puts(&w.q, STR("x"));
        char *room = rc < 0 ? NULL : sendq_room(&w.q, 4000);
        if (room) {
            memset(room, 'r', 4000);
        }
        rc = rc < 0 || !room ? TIDINGS_E_NOMEM : 0;
        int taken = sendq_take(&w.q, a, 3000);
        reached = fail_alloc_stop();
        bool is_broken = rc < 0 || taken < 0;
        if (s) { /* otherwise the queue had nothing to do with it */
            assert_true(reached || !is_broken);
            assert_int_equal(w.q.error, is_broken ? ENOMEM : 0);
            sendq_batch_flush(&w.batch);
            assert_int_equal(w.calls, 1);
            assert_int_equal(w.last, is_broken ? SENDQ_BROKEN : SENDQ_EMPTY);
            broken += is_broken;
        }
        shared_bytes_unref(s);
        wire_close(&w);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    /* copy, shared, copy, taken; a chunk that cannot grow is followed by another one */
    assert_int_equal(broken, 4);
    fail_alloc_end();
}

/* ---- callbacks that change the batch ------------------------------------------------------- */

enum { QUEUES = 4 };
static struct sendq_batch shared_batch;
static struct sendq queues[QUEUES];
static char order[32];

static void on_busy_flushed(struct sendq *q, enum sendq_state state, void *user)
{
    size_t at = strlen(order);
    int index = (int)(q - queues);
    (void)user;
    assert_int_equal(state, SENDQ_EMPTY);
    order[at] = (char)('0' + index);
    order[at + 1] = '\0';
    if (at == 0) {
        sendq_deinit(&queues[1]);                              /* is waiting for its turn */
        assert_int_equal(sendq_puts(&queues[3], STR("c")), 0); /* is clean */
        assert_int_equal(sendq_puts(q, STR("again")), 0);
    } else if (index == 3) {
        sendq_deinit(q); /* itself */
    }
}

static void callbacks_may_close_and_fill_any_queue(void **state)
{
    (void)state;
    int fds[2];
    char got[64] = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    sendq_batch_init(&shared_batch);
    for (int i = 0; i < QUEUES; i++) {
        sendq_init(&queues[i], &shared_batch, fds[0], on_busy_flushed, NULL);
    }
    assert_int_equal(sendq_puts(&queues[0], STR("a")), 0);
    assert_int_equal(sendq_puts(&queues[1], STR("never")), 0);
    assert_int_equal(sendq_puts(&queues[2], STR("b")), 0);
    sendq_batch_flush(&shared_batch);
    assert_string_equal(order, "0230");
    assert_int_equal(read(fds[1], got, sizeof got), 8);
    assert_string_equal(got, "abcagain");
    for (int i = 0; i < QUEUES; i++) {
        sendq_deinit(&queues[i]); /* twice is fine */
    }
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turns_output_is_one_write),
        cmocka_unit_test(an_idle_queue_owns_no_memory),
        cmocka_unit_test(shared_bytes_live_until_the_last_queue_wrote_them),
        cmocka_unit_test(a_slow_reader_gets_every_byte_in_order),
        cmocka_unit_test(a_blocking_pipe_is_never_blocked_on),
        cmocka_unit_test(a_file_takes_everything),
        cmocka_unit_test(a_closed_reader_breaks_the_queue),
        cmocka_unit_test(any_failed_allocation_breaks_the_queue_and_is_told),
        cmocka_unit_test(callbacks_may_close_and_fill_any_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
