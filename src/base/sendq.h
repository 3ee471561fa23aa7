/* SPDX-License-Identifier: MIT
 *
 * What waits to be written to one socket, and the one place that writes to sockets.
 *
 * Small pieces are copied into one buffer; large ones (> SENDQ_SHARE) may be handed over or shared
 * by reference. A sendq never writes by itself: it is *dirty* until its batch is flushed at the end
 * of the turn, with everything it holds in as few writes as possible. What the kernel does not take
 * stays, and the owner is asked to wait for writability; until it flushes then, the batch leaves
 * the queue alone. A queue whose socket failed, or that ran out of memory, is *broken*: it forgets
 * what it held and refuses more.
 *
 * Sockets are written to without SIGPIPE. For pipes there is no such option: a program that writes
 * to one ignores SIGPIPE.
 *
 * Not thread-safe: one loop owns a batch and its queues.
 */
#ifndef BASE_SENDQ_H
#define BASE_SENDQ_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/str.h"

#define SENDQ_SHARE 2048u

/* Immutable bytes shared by many queues and threads. */
struct shared_bytes {
    struct tidings_str bytes;
    /* private */
    char *memory;
    atomic_uint refs;
};
/* Takes `memory` (mem_alloc family), also on failure. One reference. */
struct shared_bytes *shared_bytes_take(char *memory, size_t len);
struct shared_bytes *shared_bytes_ref(struct shared_bytes *s);
void shared_bytes_unref(struct shared_bytes *s);

struct sendq_batch { /* one per loop */
    struct list dirty;
};
void sendq_batch_init(struct sendq_batch *batch);

enum sendq_state {
    SENDQ_EMPTY,   /* all written */
    SENDQ_WAITING, /* the kernel is full: wait for writability, then sendq_flush again */
    SENDQ_BROKEN,  /* the socket failed: `error` says why */
};

struct sendq;
/* Told after each flush by the batch. May close the connection, may add to other queues. */
typedef void (*sendq_flushed_fn)(struct sendq *q, enum sendq_state state, void *user);

struct sendq {
    struct list dirty_link;
    struct sendq_batch *batch;
    struct list pieces; /* private */
    size_t pending;     /* bytes not yet taken by the kernel */
    uint64_t written;   /* bytes taken so far: progress, for the stall deadline */
    int fd;
    int error; /* errno once broken */
    bool is_socket;
    bool is_waiting; /* private: the kernel was full at the last flush */
    sendq_flushed_fn flushed;
    void *user;
};

/* `fd` non-blocking socket, or any descriptor (pipe, file): then it is written to only as far as
 * poll(2) says it will not block, PIPE_BUF bytes at a time, its flags untouched. */
void sendq_init(struct sendq *q, struct sendq_batch *batch, int fd, sendq_flushed_fn flushed,
                void *user);
void sendq_deinit(struct sendq *q); /* drops what is pending */

/* These fail with TIDINGS_E_NOMEM, which breaks the queue, or when it is broken already. */
int sendq_put(struct sendq *q, const void *bytes, size_t len); /* copies */
int sendq_puts(struct sendq *q, struct tidings_str s);
int sendq_take(struct sendq *q, char *memory,
               size_t len); /* takes mem_alloc memory, also on failure */
int sendq_share(struct sendq *q, struct shared_bytes *s); /* adds a reference */
/* Room for exactly `len` bytes to be filled in by the caller before the next call; NULL on
 * failure. */
char *sendq_room(struct sendq *q, size_t len);

enum sendq_state sendq_flush(struct sendq *q); /* now, without the callback */
/* End of turn. Goes on until nothing is dirty, also for what the callbacks add. */
void sendq_batch_flush(struct sendq_batch *batch);

#endif
