/* SPDX-License-Identifier: MIT
 *
 * Send queues: what waits to be written to a socket, in pieces.
 *
 * Invariant: `pending` is the sum of what the pieces hold, those to be encrypted among them, no
 * piece is empty, and a broken queue (error != 0) has none. A queue is in its batch's dirty list
 * when it has something to say that no flush has dealt with: bytes the kernel was not offered yet,
 * or that it broke. An idle queue owns no memory: a piece leaves it as soon as it is written.
 * Chunks of the first size then go to the batch, which keeps some of them, so that a turn of many
 * small writes need not allocate.
 *
 * Deliberately knows neither loops nor timers: the owner waits for writability and keeps the
 * deadline of a stalled reader.
 */
#include "base/sendq.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sendq_private.h"

#define MAX_CHUNK 65536u  /* copies go on in the same piece up to here, its header included */
#define FIRST_CHUNK 1024u /* one event, most of the time */

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
        list_append(&(*ring)->link, &piece->link); /* before the first is behind the last */
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

/* Where what is put in begins its way. */
struct sendq_piece **sendq_inlet(struct sendq *q)
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

void sendq_drop(struct sendq *q, struct sendq_piece **ring)
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

void sendq_mark_dirty(struct sendq *q)
{
    if (list_empty(&q->dirty_link)) {
        list_append(&q->batch->dirty, &q->dirty_link);
    }
}

enum sendq_state sendq_break(struct sendq *q, int errnum)
{
    q->error = (uint16_t)errnum;
    q->is_waiting = q->awaits_source = false;
    drop_all(q);
    return SENDQ_BROKEN;
}

int sendq_out_of_memory(struct sendq *q)
{
    (void)sendq_break(q, ENOMEM);
    sendq_mark_dirty(q); /* the owner has to hear of it */
    return TIDINGS_E_NOMEM;
}

void sendq_added(struct sendq *q, struct sendq_piece **ring, struct sendq_piece *piece, size_t len)
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

/* The size of a chunk for `need` bytes, header included: doubled until it fits. */
static size_t chunk_size(size_t need)
{
    size_t size = FIRST_CHUNK;
    while (size < need && size < MAX_CHUNK) {
        size *= 2;
    }
    return size < need ? need : size;
}

/* A chunk with room for `len` bytes at the end of a ring; NULL when out of memory. */
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

/* The last piece, made larger in place when it is a copied one that can hold `len` bytes more below
 * the maximum; NULL when it cannot, or there is none. */
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

struct sendq_piece *sendq_piece_create(struct sendq_piece **ring, enum sendq_piece_kind kind,
                                       const char *start)
{
    struct sendq_piece *piece = mem_alloc(sizeof *piece);
    if (piece) {
        *piece = (struct sendq_piece){.start = start, .kind = kind};
        link_piece(ring, piece);
    }
    return piece;
}

/* ---- putting in ----------------------------------------------------------------------------- */

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
     * device (64 KiB each) must fit. With one under way at a time each would wait for an
     * acknowledgement that the reader's kernel delays by 40 ms. */
    int size = 64 * 1024;
    setsockopt(q->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

void sendq_deinit(struct sendq *q)
{
    struct sendq_batch *batch = q->batch;
    if (q->tls) {
        sendq_close_tls(q);
    }
    list_remove(&q->dirty_link);
    drop_all(q);
    batch->queue_count--;
    if (batch->spare_count > batch->queue_count) { /* what served many goes with them */
        struct list *chunk = batch->spare.next;
        list_remove(chunk);
        mem_free(list_entry(chunk, struct sendq_piece, link));
        batch->spare_count--;
    }
}

void sendq_move(struct sendq *to, struct sendq *from, sendq_flushed_fn flushed)
{
    *to = *from;
    to->flushed = flushed;
    list_init(&to->dirty_link);
    if (!list_empty(&from->dirty_link)) {
        list_append(&from->dirty_link, &to->dirty_link); /* its place, which it leaves now */
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

char *sendq_room_in(struct sendq *q, struct sendq_piece **ring, size_t len)
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

char *sendq_room(struct sendq *q, size_t len)
{
    static char nothing[1];
    if (len == 0 && !q->error) {
        return nothing;
    }
    if (q->error || len > PTRDIFF_MAX - sizeof(struct sendq_piece)) {
        return NULL;
    }
    char *room = sendq_room_in(q, sendq_inlet(q), len);
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
    char *room = sendq_room(q, len);
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

unsigned sendq_gather(const struct sendq_piece *ring, struct iovec *iov, unsigned max_pieces,
                      size_t max_bytes, size_t *offered)
{
    unsigned count = 0;
    size_t left = max_bytes;
    const struct sendq_piece *piece = ring;
    if (piece) {
        do {
            if (piece->kind == PIECE_SOURCE) {
                break; /* the pieces before it go first */
            }
            size_t len = piece->len < left ? piece->len : left;
            /* iov_base is not const for the sake of readv; nobody writes to it here. */
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

void sendq_consume(struct sendq *q, struct sendq_piece **ring, size_t len)
{
    q->pending -= len;
    while (len > 0) {
        struct sendq_piece *piece = *ring;
        assert(piece); /* nobody consumes more than there is */
        if (len < piece->len) {
            piece->start += len;
            piece->len -= len;
            return;
        }
        len -= piece->len;
        sendq_drop_first(q, ring);
    }
}

enum sendq_state sendq_answered(struct sendq *q, ssize_t result, size_t offered)
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
    /* A socket that takes less than offered is full: asking again would only say so. */
    q->is_waiting = result < 0 || ((size_t)result < offered && q->is_socket);
    return q->is_waiting ? SENDQ_WAITING : SENDQ_EMPTY;
}

/* Is there room in what is not a socket? 1, 0, or -1 with errno. */
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

/* A pipe has no MSG_NOSIGNAL: the signal, which a failed write sends to this thread alone, is held
 * back meanwhile and taken away. One that was pending before stays. */
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

/* One system call's worth. SENDQ_EMPTY: go on with what is left. */
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
    /* A pipe that polls writable takes PIPE_BUF bytes without blocking, and promises no more. */
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
