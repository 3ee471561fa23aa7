/* SPDX-License-Identifier: MIT
 *
 * A send queue and the other end of its socket. Every case runs twice: with plain writes, and in
 * the company of other sockets through a ring.
 */
#ifndef SUPPORT_SENDQ_WIRE_H
#define SUPPORT_SENDQ_WIRE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/net/sendq.h"

enum { COMPANIONS = 4 }; /* enough to make a ring worth while */
enum path { PLAIN, URING };

struct wire {
    struct sendq_batch batch;
    struct sendq q;
    int fds[2]; /* queue, reader */
    int calls;
    enum sendq_state last;
    enum path path;
    struct sendq companions[COMPANIONS];
    int company[2]; /* they share a socket */
};

/* The path a case runs over; skips it when there is no ring to be had. */
static inline enum path path_of(void **state)
{
    const enum path *wanted = *state;
    enum path path = *wanted;
    struct sendq_batch batch;
    struct tidings_error err = {0};
    sendq_batch_init(&batch);
    if (path == URING && sendq_batch_use_uring(&batch, &err) < 0) {
        print_message("no ring here: %s\n", err.text);
        skip();
    }
    return path;
}

static inline void on_flushed(struct sendq *q, enum sendq_state state)
{
    struct wire *w = list_entry(q, struct wire, q);
    assert_true(state != SENDQ_EMPTY || q->pending == 0);
    w->calls++;
    w->last = state;
}

static inline void wire_adopt(struct wire *w, enum path path, int fd, int reader)
{
    *w = (struct wire){.path = path, .fds = {fd, reader}};
    sendq_batch_init(&w->batch);
    sendq_init(&w->q, &w->batch, fd, on_flushed);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->company), 0);
    for (int i = 0; i < COMPANIONS; i++) {
        sendq_init(&w->companions[i], &w->batch, w->company[0], NULL);
    }
    if (path == URING) {
        assert_int_equal(sendq_batch_use_uring(&w->batch, NULL), 0);
    }
}

static inline void wire_open(struct wire *w, enum path path, int type)
{
    int fds[2];
    if (type) {
        assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    } else {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        fds[0] = ends[1];
        fds[1] = ends[0];
    }
    wire_adopt(w, path, fds[0], fds[1]);
    assert_int_equal(w->q.is_socket, type != 0);
}

/* The end of a turn in which, for a ring, others had something to send as well. */
static inline void turn(struct wire *w)
{
    uint64_t batches = w->batch.uring_batches;
    char got[COMPANIONS];
    if (w->path == PLAIN) {
        sendq_batch_flush(&w->batch);
        assert_int_equal(w->batch.uring_batches, 0);
        return;
    }
    for (int i = 0; i < COMPANIONS; i++) {
        assert_int_equal(sendq_put(&w->companions[i], "o", 1), 0);
    }
    sendq_batch_flush(&w->batch);
    assert_true(w->batch.uring_batches > batches);
    assert_int_equal(read(w->company[1], got, sizeof got), COMPANIONS);
}

static inline void wire_close(struct wire *w)
{
    sendq_deinit(&w->q);
    assert_int_equal(w->q.pending, 0);
    close(w->fds[0]);
    if (w->fds[1] >= 0) {
        close(w->fds[1]);
    }
    for (int i = 0; i < COMPANIONS; i++) {
        sendq_deinit(&w->companions[i]);
    }
    close(w->company[0]);
    close(w->company[1]);
    sendq_batch_deinit(&w->batch);
}

/* Everything that lies in the reader's end. */
static inline void read_all(const struct wire *w, struct buf *out)
{
    char bytes[65536];
    ssize_t n;
    int flags = fcntl(w->fds[1], F_GETFL);
    assert_int_equal(fcntl(w->fds[1], F_SETFL, flags | O_NONBLOCK), 0);
    while ((n = read(w->fds[1], bytes, sizeof bytes)) > 0) {
        assert_int_equal(buf_put(out, bytes, (size_t)n), 0);
    }
}

static const enum path plain = PLAIN, uring = URING;
#define BOTH(test)                                                                                 \
    {#test " (plain)", test, NULL, NULL, (void *)(uintptr_t)&plain},                               \
    {                                                                                              \
#test " (uring)", test, NULL, NULL, (void *)(uintptr_t)&uring                              \
    }

#endif
