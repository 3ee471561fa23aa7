/* SPDX-License-Identifier: MIT
 *
 * Send queues: the unsent output of a socket, in pieces.
 *
 * Invariant: `pending` is the total length of the pieces, including those to be encrypted, no piece
 * is empty, and a broken queue (error != 0) has none. A queue is in its batch's dirty list if a
 * flush must still handle it: it has bytes that were not offered to the kernel yet, or it broke. An
 * idle queue owns no memory: a piece is released as soon as it is written. Chunks of the smallest
 * size then go to the batch, which keeps some of them, so that a turn with many small writes does
 * not allocate.
 *
 * Deliberately uses neither loops nor timers: the owner waits for writability and enforces the
 * deadline of a slow reader.
 */
#include "base/net/sendq.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/net/uring.h"

/* -------------------------------------------------------------------------------------------------
 * Offers the front of a queue to the kernel, and updates the queue with the kernel's answer.
 */

#define SENDQ_PIECES 64        /* per send */
#define SENDQ_OFFER (1u << 30) /* bytes per send, so that a result fits an int */
#define SENDQ_SPARE_MAX 256u   /* chunks kept by a batch: flushes handle this many at a time */

enum sendq_piece_kind { PIECE_COPIED, PIECE_TAKEN, PIECE_SOURCE };

/* A piece: a contiguous run of unsent bytes. The pieces of a queue form a ring without a head. */
struct sendq_piece {
    struct list link;
    const char *start;
    size_t len;
    union {
        const char *end; /* copied: the bytes follow the struct; end of its room */
        char *taken;
        struct sendq_source *source; /* `len` is its remaining length */
    } memory;
    size_t size; /* taken: size of its memory */
    enum sendq_piece_kind kind;
    char bytes[];
};

/* Plaintext to be encrypted. With TLS, `pieces` contains only records. */
struct sendq_tls {
    struct tls_session *session;
    struct sendq_piece *plain; /* like sendq.pieces */
    size_t plain_bytes;
};

static bool sendq_make_piece(struct sendq *q, struct sendq_piece **ring);

/* If a ring begins with a source, lets it produce a piece. Returns false if that broke the queue.
 * If it has no bytes yet, the ring still begins with it. */
static inline bool sendq_make(struct sendq *q, struct sendq_piece **ring)
{
    return !*ring || (*ring)->kind != PIECE_SOURCE || sendq_make_piece(q, ring);
}
static inline bool sendq_begins_with_source(const struct sendq_piece *ring)
{
    return ring && ring->kind == PIECE_SOURCE;
}

/* -------------------------------------------------------------------------------------------------
 * Sources of send queues. A source is a piece whose length is the number of bytes that it has yet
 * to produce. When it is first in its ring, it produces one copied piece, which is put before it.
 * So only that piece is in memory.
 */

static void sendq_added(struct sendq *q, struct sendq_piece **ring, struct sendq_piece *piece,
                        size_t len);

static int sendq_out_of_memory(struct sendq *q);

static struct sendq_piece **sendq_inlet(struct sendq *q);

static struct sendq_piece *sendq_piece_create(struct sendq_piece **ring, enum sendq_piece_kind kind,
                                              const char *start);

int sendq_put_source(struct sendq *q, struct sendq_source *source)
{
    if (q->error || source->left == 0) {
        source->destroy(source);
        return q->error ? error_code_from_errno(q->error) : 0;
    }
    struct sendq_piece *piece = sendq_piece_create(sendq_inlet(q), PIECE_SOURCE, NULL);
    if (!piece) {
        source->destroy(source);
        return sendq_out_of_memory(q);
    }
    piece->memory.source = source;
    source->queue = q;
    sendq_added(q, sendq_inlet(q), piece, source->left);
    return 0;
}

/* Puts the new chunk before the source, and removes the source if it is finished. */
static void sendq_source_made(struct sendq_piece **ring, struct sendq_piece *chunk, size_t len)
{
    struct sendq_piece *piece = *ring;
    struct sendq_source *source = piece->memory.source;
    chunk->start = chunk->bytes;
    chunk->len = len;
    chunk->memory.end = chunk->bytes + len;
    chunk->kind = PIECE_COPIED;
    list_append(&piece->link, &chunk->link);
    *ring = chunk;
    source->left -= len;
    piece->len -= len;
    if (piece->len == 0) {
        list_remove(&piece->link);
        source->destroy(source);
        mem_free(piece);
    }
}

static enum sendq_state sendq_break(struct sendq *q, int errnum);

static bool sendq_make_piece(struct sendq *q, struct sendq_piece **ring)
{
    struct sendq_source *source = (*ring)->memory.source;
    size_t len = source->left < SENDQ_MADE ? source->left : SENDQ_MADE;
    struct sendq_piece *chunk = mem_alloc(sizeof *chunk + len);
    ssize_t made = chunk ? source->make(source, chunk->bytes, len) : -ENOMEM;
    if (made == -EAGAIN) {
        mem_free(chunk);
        return true;
    }
    if (made <= 0 || (size_t)made > len) {
        mem_free(chunk);
        (void)sendq_break(q, made < 0 ? (int)-made : EIO);
        return false;
    }
    sendq_source_made(ring, chunk, (size_t)made);
    return true;
}

static void sendq_mark_dirty(struct sendq *q);

void sendq_source_ready(struct sendq_source *source)
{
    struct sendq *q = source->queue;
    if (q->awaits_source) {
        q->awaits_source = q->is_waiting = false;
        sendq_mark_dirty(q);
    }
}

static void sendq_ring_follow(struct sendq *q, const struct sendq_piece *ring)
{
    const struct sendq_piece *piece = ring;
    while (piece) {
        if (piece->kind == PIECE_SOURCE) {
            piece->memory.source->queue = q;
        }
        piece = list_entry(piece->link.next, struct sendq_piece, link);
        piece = piece == ring ? NULL : piece;
    }
}

/* Updates the queue pointers of its sources after a move in memory. */
static void sendq_follow_sources(struct sendq *q)
{
    sendq_ring_follow(q, q->pieces);
    sendq_ring_follow(q, q->tls ? q->tls->plain : NULL);
}

/* Returns true if a source is next. */
static bool sendq_makes(const struct sendq *q)
{
    return q->is_socket && (sendq_begins_with_source(q->pieces) ||
                            (q->tls && sendq_begins_with_source(q->tls->plain)));
}

const char *sendq_reason(const struct sendq *q)
{
    return q->error == ESTALE ? "the content changed while it was sent" : "write failed";
}

static size_t sendq_ring_held(const struct sendq_piece *ring, size_t *by_sources)
{
    size_t held = 0;
    const struct sendq_piece *piece = ring;
    while (piece) {
        if (piece->kind == PIECE_SOURCE) {
            *by_sources += piece->memory.source->held;
        } else if (piece->kind == PIECE_TAKEN) {
            held += piece->size;
        } else {
            held += (size_t)(piece->memory.end - (const char *)piece);
        }
        piece = list_entry(piece->link.next, struct sendq_piece, link);
        piece = piece == ring ? NULL : piece;
    }
    return held;
}

size_t sendq_held(const struct sendq *q, size_t *ret_by_sources)
{
    *ret_by_sources = 0;
    size_t held = sendq_ring_held(q->pieces, ret_by_sources);
    return held + (q->tls ? sendq_ring_held(q->tls->plain, ret_by_sources) : 0);
}

/* ---------------------------------------------------------------------------------------------- */

#define MAX_CHUNK 65536u  /* maximum size of a growing copied piece, including its header */
#define FIRST_CHUNK 1024u /* usually enough for one event */

/* ---- pieces --------------------------------------------------------------------------------- */

static struct sendq_piece *next_piece(const struct sendq_piece *piece)
{
    return list_entry(piece->link.next, struct sendq_piece, link);
}

static struct sendq_piece *last_piece(const struct sendq_piece *ring)
{
    return list_entry(ring->link.prev, struct sendq_piece, link);
}

static void link_piece(struct sendq_piece **ring, struct sendq_piece *piece)
{
    if (*ring) {
        /* in a ring, before the first is after the last */
        list_append(&(*ring)->link, &piece->link);
    } else {
        list_init(&piece->link);
        *ring = piece;
    }
}

static void unlink_piece(struct sendq_piece **ring, struct sendq_piece *piece)
{
    struct sendq_piece *next = next_piece(piece);
    list_remove(&piece->link);
    if (*ring == piece) {
        *ring = next == piece ? NULL : next;
    }
}

/* The ring that new data enters. */
static struct sendq_piece **sendq_inlet(struct sendq *q)
{
    return q->tls ? &q->tls->plain : &q->pieces;
}

static void chunk_free(struct sendq_batch *batch, struct sendq_piece *chunk)
{
    if (chunk->memory.end - (const char *)chunk == FIRST_CHUNK &&
        batch->spare_count < batch->spare_max && batch->spare_count < batch->queue_count) {
        list_prepend(&batch->spare, &chunk->link);
        batch->spare_count++;
    } else {
        mem_free(chunk);
    }
}

static void sendq_drop_first(struct sendq *q, struct sendq_piece **ring)
{
    struct sendq_piece *piece = *ring;
    unlink_piece(ring, piece);
    if (piece->kind == PIECE_COPIED) {
        chunk_free(q->batch, piece);
        return;
    }
    if (piece->kind == PIECE_SOURCE) {
        piece->memory.source->destroy(piece->memory.source);
    } else {
        mem_free(piece->memory.taken);
    }
    mem_free(piece);
}

/* Removes the first bytes of a ring. They no longer count as pending. */
static void sendq_drop(struct sendq *q, struct sendq_piece **ring)
{
    while (*ring) {
        q->pending -= (*ring)->len;
        sendq_drop_first(q, ring);
    }
}

static void drop_all(struct sendq *q)
{
    sendq_drop(q, &q->pieces);
    if (q->tls) {
        sendq_drop(q, &q->tls->plain);
        q->tls->plain_bytes = 0;
    }
}

static void sendq_mark_dirty(struct sendq *q)
{
    if (list_empty(&q->dirty_link)) {
        list_append(&q->batch->dirty, &q->dirty_link);
    }
}

/* Drops all data, rejects more. */
static enum sendq_state sendq_break(struct sendq *q, int errnum)
{
    q->error = (uint16_t)errnum;
    q->is_waiting = q->awaits_source = false;
    drop_all(q);
    return SENDQ_BROKEN;
}

/* Breaks the queue; TIDINGS_E_NOMEM. */
static int sendq_out_of_memory(struct sendq *q)
{
    (void)sendq_break(q, ENOMEM);
    sendq_mark_dirty(q); /* the owner must be notified */
    return TIDINGS_E_NOMEM;
}

/* Appends a piece for external bytes; NULL: out of memory. sendq_added then sets its length. */
static void sendq_added(struct sendq *q, struct sendq_piece **ring, struct sendq_piece *piece,
                        size_t len)
{
    piece->len += len;
    q->pending += len;
    if (ring != &q->pieces) {
        q->tls->plain_bytes += len;
    }
    if (!q->is_waiting) {
        sendq_mark_dirty(q);
    }
}

/* The size of a chunk for `need` bytes, including the header: doubled until it fits. */
static size_t chunk_size(size_t need)
{
    size_t size = FIRST_CHUNK;
    while (size < need && size < MAX_CHUNK) {
        size *= 2;
    }
    return size < need ? need : size;
}

/* Appends a chunk with room for `len` bytes to a ring; NULL: out of memory. */
static struct sendq_piece *chunk_create(struct sendq_batch *batch, struct sendq_piece **ring,
                                        size_t len)
{
    struct sendq_piece *chunk;
    size_t size = chunk_size(sizeof *chunk + len);
    if (size == FIRST_CHUNK && batch->spare_count > 0) {
        chunk = list_entry(batch->spare.next, struct sendq_piece, link);
        list_remove(&chunk->link);
        batch->spare_count--;
    } else {
        chunk = mem_alloc(size);
    }
    if (chunk) {
        chunk->start = chunk->bytes;
        chunk->len = 0;
        chunk->memory.end = (const char *)chunk + size;
        chunk->kind = PIECE_COPIED;
        link_piece(ring, chunk);
    }
    return chunk;
}

/* Enlarges the last piece in place if it is a copied one that can hold `len` more bytes below the
 * maximum; otherwise NULL. */
static struct sendq_piece *extend_last(struct sendq_piece **ring, size_t len)
{
    struct sendq_piece *last = *ring ? last_piece(*ring) : NULL;
    if (!last || last->kind != PIECE_COPIED) {
        return NULL;
    }
    size_t offset = (size_t)(last->start - last->bytes);
    size_t used = sizeof *last + offset + last->len;
    if ((size_t)(last->memory.end - (const char *)last) - used >= len) {
        return last;
    }
    if (len > MAX_CHUNK || used + len > MAX_CHUNK) {
        return NULL;
    }
    size_t size = chunk_size(used + len);
    unlink_piece(ring, last);
    struct sendq_piece *grown = mem_realloc(last, size);
    link_piece(ring, grown ? grown : last);
    if (!grown) {
        return NULL;
    }
    grown->start = grown->bytes + offset;
    grown->memory.end = (const char *)grown + size;
    return grown;
}

static struct sendq_piece *sendq_piece_create(struct sendq_piece **ring, enum sendq_piece_kind kind,
                                              const char *start)
{
    struct sendq_piece *piece = mem_alloc(sizeof *piece);
    if (piece) {
        *piece = (struct sendq_piece){.start = start, .kind = kind};
        link_piece(ring, piece);
    }
    return piece;
}

/* ---- adding data ---------------------------------------------------------------------------- */

void sendq_init(struct sendq *q, struct sendq_batch *batch, int fd, sendq_flushed_fn flushed)
{
    int type;
    socklen_t size = sizeof type;
    *q = (struct sendq){.batch = batch, .fd = fd, .flushed = flushed};
    q->is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    list_init(&q->dirty_link);
    batch->queue_count++;
}

void sendq_limit_kernel(struct sendq *q)
{
    /* Instead of half a megabyte. Not less: the kernel doubles it, and two segments of the loopback
     * device (64 KiB each) must fit. With one segment in flight, each would wait for an
     * acknowledgement, which the reader's kernel delays by 40 ms. */
    int size = 64 * 1024;
    setsockopt(q->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static void sendq_close_tls(struct sendq *q);

void sendq_deinit(struct sendq *q)
{
    struct sendq_batch *batch = q->batch;
    if (q->tls) {
        sendq_close_tls(q);
    }
    list_remove(&q->dirty_link);
    drop_all(q);
    batch->queue_count--;
    /* spare chunks shrink with the number of queues */
    if (batch->spare_count > batch->queue_count) {
        struct list *chunk = batch->spare.next;
        list_remove(chunk);
        mem_free(list_entry(chunk, struct sendq_piece, link));
        batch->spare_count--;
    }
}

static void sendq_follow_tls(struct sendq *q);

void sendq_move(struct sendq *to, struct sendq *from, sendq_flushed_fn flushed)
{
    *to = *from;
    to->flushed = flushed;
    list_init(&to->dirty_link);
    if (!list_empty(&from->dirty_link)) {
        /* takes the place of `from`, which is removed */
        list_append(&from->dirty_link, &to->dirty_link);
        list_remove(&from->dirty_link);
    }
    if (to->tls) {
        sendq_follow_tls(to);
    }
    sendq_follow_sources(to);
    from->pieces = NULL;
    from->tls = NULL;
    from->pending = 0;
    from->fd = -1;
    from->is_waiting = from->awaits_source = false;
    from->batch->queue_count++;
}

/* Reserves `len` bytes, not 0, at the end of a ring. NULL: out of memory; nothing has changed. */
static char *sendq_reserve_in(struct sendq *q, struct sendq_piece **ring, size_t len)
{
    struct sendq_piece *piece = extend_last(ring, len);
    if (!piece) {
        piece = chunk_create(q->batch, ring, len);
    }
    if (!piece) {
        return NULL;
    }
    char *room = piece->bytes + (piece->start - piece->bytes) + piece->len;
    sendq_added(q, ring, piece, len);
    return room;
}

char *sendq_reserve(struct sendq *q, size_t len)
{
    static char nothing[1];
    if (len == 0 && !q->error) {
        return nothing;
    }
    if (q->error || len > PTRDIFF_MAX - sizeof(struct sendq_piece)) {
        return NULL;
    }
    char *room = sendq_reserve_in(q, sendq_inlet(q), len);
    if (!room) {
        (void)sendq_out_of_memory(q);
    }
    return room;
}

int sendq_put(struct sendq *q, const void *bytes, size_t len)
{
    if (q->error) {
        return error_code_from_errno(q->error);
    }
    if (len == 0) {
        return 0;
    }
    char *room = sendq_reserve(q, len);
    if (!room) {
        return TIDINGS_E_NOMEM;
    }
    memcpy(room, bytes, len);
    return 0;
}

int sendq_puts(struct sendq *q, struct tidings_str s)
{
    return sendq_put(q, s.ptr, s.len);
}

int sendq_take(struct sendq *q, char *memory, size_t len)
{
    if (q->error || len <= SENDQ_LARGE) {
        int rc = sendq_put(q, memory, len);
        mem_free(memory);
        return rc;
    }
    struct sendq_piece *piece = sendq_piece_create(sendq_inlet(q), PIECE_TAKEN, memory);
    if (!piece) {
        mem_free(memory);
        return sendq_out_of_memory(q);
    }
    piece->memory.taken = memory;
    piece->size = len;
    sendq_added(q, sendq_inlet(q), piece, len);
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static unsigned sendq_gather(const struct sendq_piece *ring, struct iovec *iov, unsigned max_pieces,
                             size_t max_bytes, size_t *offered)
{
    unsigned count = 0;
    size_t left = max_bytes;
    const struct sendq_piece *piece = ring;
    if (piece) {
        do {
            if (piece->kind == PIECE_SOURCE) {
                break; /* the pieces before it must be sent first */
            }
            size_t len = piece->len < left ? piece->len : left;
            /* iov_base is not const because readv writes to it; sending does not. */
            iov[count].iov_base = (void *)(uintptr_t)piece->start;
            iov[count].iov_len = len;
            left -= len;
            count++;
            piece = next_piece(piece);
        } while (piece != ring && count < max_pieces && left > 0);
    }
    *offered = max_bytes - left;
    return count;
}

static void sendq_consume(struct sendq *q, struct sendq_piece **ring, size_t len)
{
    q->pending -= len;
    while (len > 0) {
        struct sendq_piece *piece = *ring;
        assert(piece); /* no more was consumed than offered */
        if (len < piece->len) {
            piece->start += len;
            piece->len -= len;
            return;
        }
        len -= piece->len;
        sendq_drop_first(q, ring);
    }
}

/* Handles the kernel's answer to an offer: the bytes taken, or a negative errno. SENDQ_EMPTY: it
 * took all, or was interrupted; continue with the rest, if any. */
static enum sendq_state sendq_answered(struct sendq *q, ssize_t result, size_t offered)
{
    if (result == -EINTR) {
        return SENDQ_EMPTY;
    }
    if (result < 0 && result != -EAGAIN && result != -EWOULDBLOCK) {
        return sendq_break(q, (int)-result);
    }
    if (result > 0) {
        sendq_consume(q, &q->pieces, (size_t)result);
        q->written += (size_t)result;
        q->batch->bytes += (size_t)result;
    }
    q->awaits_source = false;
    /* A socket that takes less than offered is full, so do not try again. */
    q->is_waiting = result < 0 || ((size_t)result < offered && q->is_socket);
    return q->is_waiting ? SENDQ_WAITING : SENDQ_EMPTY;
}

/* Returns 1 if a descriptor that is not a socket has room, 0 if not, or -1 with errno. */
static int has_room(int fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLOUT};
    int n;
    do {
        n = poll(&ask, 1, 0);
    } while (n < 0 && errno == EINTR);
    if (n > 0 && ask.revents & (POLLERR | POLLNVAL)) {
        errno = ask.revents & POLLNVAL ? EBADF : EPIPE;
        return -1;
    }
    return n > 0 && ask.revents & POLLOUT ? 1 : n < 0 ? -1 : 0;
}

/* Pipes have no MSG_NOSIGNAL, so SIGPIPE, which a failed write sends only to this thread, is
 * blocked and then removed. A signal that was already pending stays. */
static ssize_t writev_quietly(int fd, const struct iovec *iov, int count)
{
    static const struct timespec at_once;
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t n = writev(fd, iov, count);
    int saved = errno;
    if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE)) {
        (void)sigtimedwait(&pipe_only, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return n;
}

static ssize_t write_some(const struct sendq *q, struct iovec *iov, unsigned count)
{
    if (!q->is_socket) {
        return writev_quietly(q->fd, iov, (int)count);
    }
    if (count == 1) {
        return send(q->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    return sendmsg(q->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool sendq_seal(struct sendq *q);

/* Writes with one system call. SENDQ_EMPTY: continue with the rest. */
static enum sendq_state flush_some(struct sendq *q)
{
    int room = q->is_socket ? 1 : has_room(q->fd);
    if (room <= 0) {
        return sendq_answered(q, room < 0 ? -errno : -EAGAIN, 0);
    }
    if ((q->tls && !sendq_seal(q)) || !sendq_make(q, &q->pieces)) {
        return SENDQ_BROKEN;
    }
    if (!q->pieces || sendq_begins_with_source(q->pieces)) {
        q->is_waiting = q->awaits_source = true;
        return SENDQ_WAITING;
    }
    struct iovec iov[SENDQ_PIECES];
    size_t offered;
    /* A pipe that polls writable takes PIPE_BUF bytes without blocking; more is not guaranteed. */
    unsigned count =
        sendq_gather(q->pieces, iov, SENDQ_PIECES, q->is_socket ? SENDQ_OFFER : PIPE_BUF, &offered);
    ssize_t n = write_some(q, iov, count);
    n = n < 0 ? -errno : n;
    q->batch->writes++;
    q->batch->sends++;
    return sendq_answered(q, n, offered);
}

enum sendq_state sendq_flush(struct sendq *q)
{
    enum sendq_state state = q->error ? SENDQ_BROKEN : SENDQ_EMPTY;
    uint64_t begun = q->written;
    while (state == SENDQ_EMPTY && q->pending > 0) {
        state = flush_some(q);
        if (state == SENDQ_EMPTY && q->written - begun >= SENDQ_TURN && sendq_makes(q)) {
            q->is_waiting = true;
            state = SENDQ_WAITING;
        }
    }
    list_remove(&q->dirty_link);
    return state;
}

/* -------------------------------------------------------------------------------------------------
 * Send queues with a TLS session. Data stays unencrypted until the flush. It is then encrypted, as
 * many pieces per record as fit, no further ahead than one send: a large response is never in
 * memory twice.
 */

#define SEAL_AHEAD 65536u /* unsent record bytes; one more record can exceed it */

/* Receives records, including those of the handshake. The function that made the session write
 * reports failures. */
static int on_records(void *user, const char *bytes, size_t len)
{
    struct sendq *q = user;
    char *room = q->error ? NULL : sendq_reserve_in(q, &q->pieces, len);
    if (!room) {
        return TIDINGS_E_NOMEM;
    }
    memcpy(room, bytes, len);
    return 0;
}

int sendq_use_tls(struct sendq *q, struct tls_session *session)
{
    struct sendq_tls *t = mem_zalloc(sizeof *t);
    if (!t) {
        tls_session_destroy(session);
        return TIDINGS_E_NOMEM;
    }
    t->session = session;
    q->tls = t;
    tls_session_set_outlet(session, on_records, q);
    return 0;
}

/* Updates the session's outlet after the queue moved in memory. */
static void sendq_follow_tls(struct sendq *q)
{
    tls_session_set_outlet(q->tls->session, on_records, q);
}

struct tls_session *sendq_tls(const struct sendq *q)
{
    return q->tls ? q->tls->session : NULL;
}

struct tls_session *sendq_detach_tls(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    if (!t) {
        return NULL;
    }
    struct tls_session *session = t->session;
    sendq_drop(q, &t->plain);
    q->tls = NULL;
    mem_free(t);
    return session;
}

/* Closes the session and frees its data. */
static void sendq_close_tls(struct sendq *q)
{
    if (q->pending == 0 && !q->error) {
        tls_seal_end(q->tls->session);
        (void)sendq_flush(q);
    }
    tls_session_destroy(sendq_detach_tls(q));
}

void sendq_end(struct sendq *q)
{
    if (q->tls && !q->error) {
        tls_seal_end(q->tls->session);
        (void)sendq_flush(q);
    }
    (void)shutdown(q->fd, SHUT_WR);
}

/* Encrypts the next record: directly from a piece that fills it or is the only one, else from
 * joined pieces. */
static int seal_some(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    struct iovec iov[SENDQ_PIECES];
    char joined[TLS_RECORD];
    const char *bytes = joined;
    size_t len, at = 0;
    unsigned count = sendq_gather(t->plain, iov, SENDQ_PIECES, TLS_RECORD, &len);
    if (count == 1) {
        bytes = iov[0].iov_base;
    }
    for (unsigned i = 0; i < count && count > 1; i++) {
        memcpy(joined + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    int rc = tls_seal(t->session, bytes, len);
    if (rc == 0) {
        sendq_consume(q, &t->plain, len);
        t->plain_bytes -= len;
    }
    return rc;
}

/* Encrypts pending data, as much as one send can take. False: that broke the queue. */
static bool sendq_seal(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    while (t->plain && q->pending - t->plain_bytes < SEAL_AHEAD) {
        if (!sendq_make(q, &t->plain)) {
            return false;
        }
        if (sendq_begins_with_source(t->plain)) {
            break; /* the source has no bytes yet */
        }
        if (seal_some(q) < 0) {
            (void)sendq_break(q, q->error ? q->error : EPROTO);
            return false;
        }
    }
    return !q->error;
}

/* -------------------------------------------------------------------------------------------------
 * Flushes all send queues at the end of a turn: one after the other with plain writes, or many
 * sockets at a time through a ring (base/net/uring.h).
 *
 * Invariant: after a ring has run, no send is in flight, and each of its queues is in the same
 * state as after a separate flush; only then are callbacks called. So callbacks may do anything in
 * either case. A callback never reports a queue as empty that was filled again since: such a queue
 * is dirty again, and its callback follows the next write.
 */

#define RING_SENDS 256u /* per system call */
#define RING_PIECES 512u
#define RING_WORTH 4u   /* fewer sockets than this get plain writes */
#define RING_REFUSALS 8 /* failed rings before plain writes are used for good */

struct sendq_ring {
    struct uring *uring; /* NULL after a refusal, until needed again */
    unsigned refusals;
    struct sendq *queues[RING_SENDS];
    size_t offered[RING_SENDS];
    struct uring_send sends[RING_SENDS];
    struct iovec pieces[RING_PIECES];
};

void sendq_batch_init(struct sendq_batch *batch)
{
    *batch = (struct sendq_batch){.spare_max = SENDQ_SPARE_MAX};
    list_init(&batch->dirty);
    list_init(&batch->spare);
}

static void ring_close(struct sendq_batch *batch)
{
    if (batch->ring) {
        uring_destroy(batch->ring->uring);
        mem_free(batch->ring);
        batch->ring = NULL;
    }
    batch->is_uring_wanted = false;
}

bool sendq_batch_gathers(const struct sendq_batch *batch)
{
    return batch->is_uring_wanted;
}

void sendq_batch_deinit(struct sendq_batch *batch)
{
    ring_close(batch);
    list_each (it, next, &batch->spare) {
        mem_free(it); /* a chunk starts with its link */
    }
    list_init(&batch->spare);
    batch->spare_count = 0;
    batch->spare_max = 0;
}

int sendq_batch_use_uring(struct sendq_batch *batch, struct tidings_error *err)
{
    int rc = uring_probe(err);
    if (rc < 0) {
        return rc;
    }
    batch->is_uring_wanted = true;
    return 0;
}

/* ---- through the ring ----------------------------------------------------------------------- */

static bool can_ride(const struct sendq *q)
{
    return q->is_socket && q->pending > 0;
}

/* Returns true if the front of the dirty list has enough sockets. */
static bool is_worth_it(const struct sendq_batch *batch)
{
    unsigned count = 0;
    list_each (it, next, &batch->dirty) {
        if (!can_ride(list_entry(it, struct sendq, dirty_link))) {
            return false;
        }
        if (++count == RING_WORTH) {
            return true;
        }
    }
    return false;
}

/* False, permanently, if no ring can be created. */
static bool ring_open(struct sendq_batch *batch)
{
    if (!batch->ring) {
        batch->ring = mem_alloc(sizeof *batch->ring);
        if (!batch->ring) {
            batch->is_uring_wanted = false;
            return false;
        }
        batch->ring->uring = NULL;
        batch->ring->refusals = 0;
    }
    struct sendq_ring *ring = batch->ring;
    if (!ring->uring && uring_create(&ring->uring, RING_SENDS, NULL) < 0) {
        ring_close(batch);
        return false;
    }
    return true;
}

void sendq_batch_open_ring(struct sendq_batch *batch)
{
    if (batch->is_uring_wanted) {
        (void)ring_open(batch);
    }
}

/* The ring is unusable. The next flush may create another one. */
static void ring_refused(struct sendq_batch *batch)
{
    struct sendq_ring *ring = batch->ring;
    uring_destroy(ring->uring);
    ring->uring = NULL;
    if (++ring->refusals == RING_REFUSALS) {
        ring_close(batch);
    }
}

/* Prepares sends for the first dirty queues, which stay in the list. Returns their number. */
static unsigned sendq_batch_collect(struct sendq_batch *batch)
{
    struct sendq_ring *ring = batch->ring;
    unsigned count = 0, pieces = 0;
    list_each (it, next, &batch->dirty) {
        struct sendq *q = list_entry(it, struct sendq, dirty_link);
        unsigned room = RING_PIECES - pieces;
        if (count == RING_SENDS || room == 0 || !can_ride(q)) {
            break;
        }
        if ((q->tls && !sendq_seal(q)) || !sendq_make(q, &q->pieces)) {
            break; /* its own flush reports that it broke */
        }
        struct iovec *iov = &ring->pieces[pieces];
        unsigned used = sendq_gather(q->pieces, iov, room < SENDQ_PIECES ? room : SENDQ_PIECES,
                                     SENDQ_OFFER, &ring->offered[count]);
        if (used == 0) {
            break; /* the source has no bytes yet: a plain flush reports it */
        }
        ring->sends[count] = (struct uring_send){.fd = q->fd, .count = used, .iov = iov};
        ring->queues[count] = q;
        pieces += used;
        count++;
    }
    return count;
}

/* Moves queues whose data was sent from the dirty list to `done`. */
static void sendq_batch_take_results(struct sendq_batch *batch, unsigned count, struct list *done)
{
    const struct sendq_ring *ring = batch->ring;
    for (unsigned i = 0; i < count; i++) {
        struct sendq *q = ring->queues[i];
        if (ring->sends[i].result == URING_UNSENT) {
            continue;
        }
        (void)sendq_answered(q, ring->sends[i].result, ring->offered[i]);
        /* the source had its turn */
        q->is_waiting = q->is_waiting || (!q->error && sendq_makes(q));
        batch->sends++;
        list_remove(&q->dirty_link);
        list_append(done, &q->dirty_link);
    }
}

/* One at a time from the front: a callback can unlink any queue. */
static void sendq_batch_notify(struct list *done)
{
    while (!list_empty(done)) {
        struct sendq *q = list_entry(done->next, struct sendq, dirty_link);
        list_remove(&q->dirty_link);
        if (q->pending > 0 && !q->is_waiting) {
            sendq_mark_dirty(q); /* filled again, or its data did not fit one send */
        } else if (q->flushed) {
            enum sendq_state state = q->error        ? SENDQ_BROKEN
                                     : q->is_waiting ? SENDQ_WAITING
                                                     : SENDQ_EMPTY;
            q->flushed(q, state);
        }
    }
}

/* False: continue with plain writes. */
static bool flush_by_ring(struct sendq_batch *batch)
{
    struct list done;
    if (!ring_open(batch)) {
        return false;
    }
    unsigned count = sendq_batch_collect(batch);
    if (count == 0) {
        return false;
    }
    int rc = uring_send(batch->ring->uring, batch->ring->sends, count);
    unsigned calls = rc < 0 ? 1 : (unsigned)rc;
    batch->writes += calls;
    batch->uring_batches += calls;
    list_init(&done);
    sendq_batch_take_results(batch, count, &done);
    if (rc < 0) {
        ring_refused(batch);
    }
    sendq_batch_notify(&done);
    return rc >= 0;
}

void sendq_batch_flush(struct sendq_batch *batch)
{
    bool with_ring = true;
    while (!list_empty(&batch->dirty)) {
        if (with_ring && batch->is_uring_wanted && is_worth_it(batch)) {
            with_ring = flush_by_ring(batch);
            continue;
        }
        /* One at a time from the front: a callback can unlink any queue and append any. */
        struct sendq *q = list_entry(batch->dirty.next, struct sendq, dirty_link);
        enum sendq_state state = sendq_flush(q);
        if (q->flushed) {
            q->flushed(q, state);
        }
    }
}
