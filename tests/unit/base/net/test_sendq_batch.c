/* SPDX-License-Identifier: MIT
 *
 * Batches of many send queues: few system calls per turn, bad sockets that harm no other queue,
 * callbacks that change the batch, and a kernel that refuses a ring. Where it matters, cases run
 * twice: with plain writes and through a ring. */
#include "base/net/sendq.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

enum { MANY = 1000, SLICE = 256, EVENT = 320, RING = 256 /* sends per ring call */ };
enum path { PLAIN, URING };

struct line {
    struct sendq q;
    int fds[2]; /* queue, reader */
    int calls;
    enum sendq_state last;
};

static struct sendq_batch batch;
static struct line lines[MANY];
static int line_count;
static sendq_flushed_fn also; /* other work of a case's callback */

static void on_flushed(struct sendq *q, enum sendq_state state)
{
    struct line *line = list_entry(q, struct line, q);
    assert_true(state != SENDQ_EMPTY || q->pending == 0);
    assert_true(state != SENDQ_WAITING || q->pending > 0);
    line->calls++;
    line->last = state;
    if (also) {
        also(q, state);
    }
}

/* Skips the case if the path or that number of sockets is not available. */
static void lines_open(enum path path, int count)
{
    struct tidings_error err = {0};
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < (rlim_t)(2 * count + 64)) {
        print_message("not enough descriptors here: %lu\n", (unsigned long)limit.rlim_max);
        skip();
    }
    sendq_batch_init(&batch);
    if (path == URING && sendq_batch_use_uring(&batch, &err) < 0) {
        print_message("no ring here: %s\n", err.text);
        skip();
    }
    also = NULL;
    line_count = count;
    for (int i = 0; i < count; i++) {
        struct line *line = &lines[i];
        *line = (struct line){0};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line->fds), 0);
        sendq_init(&line->q, &batch, line->fds[0], on_flushed);
    }
}

static void line_close(struct line *line)
{
    sendq_deinit(&line->q); /* a second call is fine */
    for (int end = 0; end < 2; end++) {
        if (line->fds[end] >= 0) {
            close(line->fds[end]);
        }
        line->fds[end] = -1;
    }
}

static void lines_close(void)
{
    for (int i = 0; i < line_count; i++) {
        line_close(&lines[i]);
    }
    sendq_batch_deinit(&batch);
}

/* An event that is unique to its line and round. */
static void event_of(int index, int round, char event[EVENT])
{
    for (int i = 0; i < EVENT; i++) {
        event[i] = (char)(index * 7 + round * 31 + i * (index % 5 + 1));
    }
}

static void put_event(int index, int round)
{
    char event[EVENT];
    event_of(index, round, event);
    assert_int_equal(sendq_put(&lines[index].q, event, EVENT), 0);
}

static ssize_t take(int index, void *bytes, size_t max)
{
    return recv(lines[index].fds[1], bytes, max, MSG_DONTWAIT);
}

static void expect_event(int index, int round)
{
    char want[EVENT], got[EVENT + 1];
    event_of(index, round, want);
    assert_int_equal(take(index, got, sizeof got), EVENT);
    assert_memory_equal(got, want, EVENT);
}

static enum path path_of(void **state)
{
    const enum path *path = *state;
    return *path;
}

/* ---- many queues ---------------------------------------------------------------------------- */

static void thousand_sockets_are_written_in_few_calls(void **state)
{
    enum path path = path_of(state);
    lines_open(path, MANY);
    for (int round = 0; round < 3; round++) {
        uint64_t writes = batch.writes, sends = batch.sends, batches = batch.uring_batches;
        for (int i = 0; i < MANY; i++) {
            put_event(i, round);
        }
        sendq_batch_flush(&batch);
        assert_int_equal(batch.sends - sends, MANY);
        assert_int_equal(batch.writes - writes, path == URING ? (MANY + RING - 1) / RING : MANY);
        assert_int_equal(batch.uring_batches - batches,
                         path == URING ? (MANY + RING - 1) / RING : 0);
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(lines[i].calls, round + 1);
            assert_int_equal(lines[i].last, SENDQ_EMPTY);
            assert_int_equal(lines[i].q.written, EVENT * (round + 1));
            expect_event(i, round);
        }
    }
    lines_close();
}

/* Line `index` must yield `want` until nothing is pending. */
static void expect_rest(int index, const char *want, size_t len)
{
    struct line *line = &lines[index];
    static char got[1 << 20];
    size_t at = 0;
    for (bool is_last = false; !is_last;) {
        is_last = line->q.pending == 0;
        for (ssize_t n; (n = take(index, got, sizeof got)) > 0; at += (size_t)n) {
            assert_true(at + (size_t)n <= len);
            assert_memory_equal(got, want + at, (size_t)n);
        }
        assert_int_not_equal(sendq_flush(&line->q), SENDQ_BROKEN);
    }
    assert_int_equal(at, len);
}

static void stalled_and_dead_readers_do_not_affect_others(void **state)
{
    enum { STALLED = 17, LARGE = 300, DEAD = 511, LARGE_BYTES = 3 << 20 };
    static char filled[8 << 20]; /* zeroes */
    lines_open(path_of(state), MANY);
    ssize_t full = send(lines[STALLED].fds[0], filled, sizeof filled, MSG_DONTWAIT);
    assert_true(full > 0);
    char *large = mem_alloc(LARGE_BYTES), *copy = mem_alloc(LARGE_BYTES);
    for (int i = 0; i < LARGE_BYTES; i++) {
        large[i] = (char)(i * 13);
    }
    memcpy(copy, large, LARGE_BYTES);
    assert_int_equal(sendq_take(&lines[LARGE].q, copy, LARGE_BYTES), 0);
    close(lines[DEAD].fds[1]);
    lines[DEAD].fds[1] = -1;
    for (int i = 0; i < MANY; i++) {
        put_event(i, 0);
    }
    sendq_batch_flush(&batch); /* the test hangs here if the queue waits for one */
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(lines[i].calls, 1);
        if (i == STALLED || i == LARGE) {
            assert_int_equal(lines[i].last, SENDQ_WAITING);
        } else if (i == DEAD) {
            assert_int_equal(lines[i].last, SENDQ_BROKEN);
            assert_int_equal(lines[i].q.error, EPIPE);
        } else {
            assert_int_equal(lines[i].last, SENDQ_EMPTY);
            expect_event(i, 0);
        }
    }
    assert_int_equal(lines[STALLED].q.written, 0);
    assert_in_range(lines[LARGE].q.written, 1, LARGE_BYTES - 1);

    /* They wait, and the others continue. */
    for (int i = 0; i < MANY; i++) {
        if (i != DEAD) {
            put_event(i, 1);
        }
    }
    sendq_batch_flush(&batch);
    assert_int_equal(lines[STALLED].calls + lines[LARGE].calls + lines[DEAD].calls, 3);
    expect_event(MANY - 1, 1);

    struct buf want;
    char event[EVENT];
    buf_init(&want, 16 << 20);
    assert_int_equal(buf_put(&want, filled, (size_t)full), 0);
    for (int round = 0; round < 2; round++) {
        event_of(STALLED, round, event);
        assert_int_equal(buf_put(&want, event, EVENT), 0);
    }
    expect_rest(STALLED, want.ptr, want.len);
    buf_clear(&want);
    assert_int_equal(buf_put(&want, large, LARGE_BYTES), 0);
    for (int round = 0; round < 2; round++) {
        event_of(LARGE, round, event);
        assert_int_equal(buf_put(&want, event, EVENT), 0);
    }
    expect_rest(LARGE, want.ptr, want.len);
    buf_deinit(&want);
    mem_free(large);
    lines_close();
}

static void repeated_turn_allocates_nothing(void **state)
{
    fail_alloc_start(0);
    lines_open(path_of(state), SLICE);
    for (int round = 0; round < 3; round++) {
        if (round > 0) {
            fail_alloc_start(1); /* the first one */
        }
        for (int i = 0; i < SLICE; i++) {
            put_event(i, round);
        }
        sendq_batch_flush(&batch);
        assert_false(fail_alloc_stop());
        for (int i = 0; i < SLICE; i++) {
            assert_null(lines[i].q.pieces);
            expect_event(i, round);
        }
    }
    lines_close();
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void memory_cached_for_reuse_is_limited(void **state)
{
    enum { PIECES = 3000 };
    static struct sendq idle[PIECES];
    (void)state;
    fail_alloc_start(0);
    lines_open(PLAIN, 1);
    for (int i = 0; i < PIECES; i++) {
        sendq_init(&idle[i], &batch, lines[0].fds[0], NULL);
        assert_int_equal(sendq_puts(&idle[i], STR("x")), 0);
    }
    assert_int_equal(fail_alloc_live(), PIECES);
    for (int i = 0; i < PIECES; i++) {
        sendq_deinit(&idle[i]);
    }
    assert_in_range(fail_alloc_live(), 1, SLICE);
    assert_int_equal(sendq_puts(&idle[0], STR("x")), 0);
    sendq_batch_deinit(&batch);
    sendq_deinit(&idle[0]); /* after its batch: nothing is kept */
    assert_int_equal(fail_alloc_live(), 0);
    lines_close();
    fail_alloc_end();
}

/* ---- callbacks that change the batch --------------------------------------------------------- */

static char order[64];

static void close_and_fill(struct sendq *q, enum sendq_state state)
{
    int index = (int)(list_entry(q, struct line, q) - lines);
    size_t at = strlen(order);
    assert_int_equal(state, SENDQ_EMPTY);
    order[at] = (char)('0' + index);
    order[at + 1] = '\0';
    if (at == 0) {
        sendq_deinit(&lines[1].q);                              /* is flushed later */
        assert_int_equal(sendq_puts(&lines[2].q, STR("c")), 0); /* so is this one */
        assert_int_equal(sendq_puts(&lines[7].q, STR("d")), 0); /* is clean */
        assert_int_equal(sendq_puts(q, STR("again")), 0);
    } else if (index == 7) {
        sendq_deinit(q); /* itself */
    }
}

static void callbacks_may_close_and_fill_any_queue(void **state)
{
    enum path path = path_of(state);
    char got[16];
    lines_open(path, 8);
    also = close_and_fill;
    order[0] = '\0';
    for (int i = 0; i < 6; i++) {
        assert_int_equal(sendq_puts(&lines[i].q, STR("a")), 0);
    }
    sendq_batch_flush(&batch);
    /* Each is notified once each time it became empty, in that order. */
    assert_string_equal(order, path == URING ? "0345702" : "0234570");
    for (int i = 0; i < 8; i++) {
        static const char *const want[8] = {"aagain", NULL, "ac", "a", "a", "a", "", "d"};
        ssize_t n = take(i, got, sizeof got);
        if (want[i]) {
            assert_int_equal(n > 0 ? n : 0, strlen(want[i]));
            assert_memory_equal(got, want[i], strlen(want[i]));
        }
    }
    lines_close();
}

static void close_three(struct sendq *q, enum sendq_state state)
{
    struct line *line = list_entry(q, struct line, q);
    (void)state;
    for (int i = 0; i < 3 && line + i < lines + line_count; i++) {
        line_close(line + i);
    }
}

static void callbacks_may_close_each_other(void **state)
{
    int told = 0;
    lines_open(path_of(state), MANY);
    also = close_three;
    for (int i = 0; i < MANY; i++) {
        put_event(i, 0);
    }
    sendq_batch_flush(&batch);
    for (int i = 0; i < MANY; i++) {
        told += lines[i].calls;
        assert_int_equal(lines[i].calls, i % 3 == 0);
    }
    assert_int_equal(told, (MANY + 2) / 3);
    assert_true(list_empty(&batch.dirty));
    lines_close();
}

static void break_next(struct sendq *q, enum sendq_state state)
{
    static char large[100000];
    struct line *line = list_entry(q, struct line, q);
    if (line == lines) {
        fail_alloc_start(1);
        assert_int_equal(sendq_put(&lines[1].q, large, sizeof large), TIDINGS_E_NOMEM);
        (void)fail_alloc_stop();
    } else {
        assert_int_equal(state, line == lines + 1 ? SENDQ_BROKEN : SENDQ_EMPTY);
    }
}

static void queue_that_breaks_before_its_callback_is_notified_once(void **state)
{
    fail_alloc_start(0);
    lines_open(path_of(state), 6);
    also = break_next;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(sendq_puts(&lines[i].q, STR("x")), 0);
    }
    sendq_batch_flush(&batch);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(lines[i].calls, 1);
    }
    assert_int_equal(lines[1].q.error, ENOMEM);
    lines_close();
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

/* ---- a kernel that refuses --------------------------------------------------------------------
 */

/* From now on this process gets `errnum` for system call `number`. */
static bool forbid(unsigned number, unsigned errnum)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum refused { REFUSED_AT_ONCE, REFUSED_LATER, REFUSED_AT_WORK, REFUSALS };
enum { CANNOT_TRY = 77, DIFFERENT = 1, ALLOWED = 2 };

/* In a child: 0 if every event came through plain writes although a ring was requested. */
static int run_refused(enum refused when)
{
    struct tidings_error err = {0};
    bool is_forbidden = when == REFUSED_AT_ONCE && forbid(SYS_io_uring_setup, EPERM);
    int rc = sendq_batch_use_uring(&batch, &err);
    if (when == REFUSED_AT_ONCE) {
        if (rc == 0) {
            return is_forbidden ? ALLOWED : CANNOT_TRY;
        }
    } else if (rc < 0 || !forbid(when == REFUSED_LATER ? SYS_io_uring_setup : SYS_io_uring_enter,
                                 when == REFUSED_LATER ? EPERM : EBUSY)) {
        return CANNOT_TRY;
    }
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < line_count; i++) {
            put_event(i, round);
        }
        sendq_batch_flush(&batch);
        for (int i = 0; i < line_count; i++) {
            char want[EVENT], got[EVENT + 1];
            event_of(i, round, want);
            if (take(i, got, sizeof got) != EVENT || memcmp(got, want, EVENT) != 0 ||
                lines[i].calls != round + 1 || lines[i].last != SENDQ_EMPTY) {
                return DIFFERENT;
            }
        }
    }
    /* Disabled permanently, without further attempts. */
    return batch.is_uring_wanted || batch.uring_batches > 8 ? ALLOWED : 0;
}

static void writes_are_plain_without_a_ring(void **state)
{
    (void)state;
    for (enum refused when = REFUSED_AT_ONCE; when < REFUSALS; when++) {
        int status = 0;
        lines_open(PLAIN, 10);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(run_refused(when));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        lines_close();
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == CANNOT_TRY) {
            print_message("a refusal cannot be tried here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static const enum path plain = PLAIN, uring = URING;
#define BOTH(test)                                                                                 \
    {#test " (plain)", test, NULL, NULL, (void *)(uintptr_t)&plain},                               \
    {                                                                                              \
#test " (uring)", test, NULL, NULL, (void *)(uintptr_t)&uring                              \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(thousand_sockets_are_written_in_few_calls),
        BOTH(stalled_and_dead_readers_do_not_affect_others),
        BOTH(repeated_turn_allocates_nothing),
        cmocka_unit_test(memory_cached_for_reuse_is_limited),
        BOTH(callbacks_may_close_and_fill_any_queue),
        BOTH(callbacks_may_close_each_other),
        BOTH(queue_that_breaks_before_its_callback_is_notified_once),
        cmocka_unit_test(writes_are_plain_without_a_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
