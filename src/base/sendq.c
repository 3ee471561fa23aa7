/* SPDX-License-Identifier: MIT
 *
 * Send queues.
 *
 * Invariant: `pending` is the sum of what the pieces hold, no piece is empty, and a broken queue
 * (error != 0) has none. A queue is in its batch's dirty list when it has something to say that no
 * flush has dealt with: bytes the kernel was not offered yet, or that it broke. An idle queue owns
 * no memory: pieces are freed as soon as they are written.
 *
 * Deliberately knows neither loops nor timers: the owner waits for writability and keeps the
 * deadline of a stalled reader.
 */
#include "base/sendq.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/mem.h"

#define MAX_CHUNK 65536u  /* copies go on in the same piece up to here, its header included */
#define FIRST_CHUNK 1024u /* small enough for malloc's fastest path */
#define MAX_PIECES 64     /* per system call */

/* A run of bytes that waits. Exactly one of: copied (they follow the struct, and there may be room
 * for more), taken, shared. */
struct piece {
    struct list link;
    const char *start;
    size_t len;
    size_t room; /* copied: free bytes behind start + len */
    char *taken;
    struct shared_bytes *shared;
    char bytes[];
};

/* ---- shared bytes --------------------------------------------------------------------------- */

struct shared_bytes *shared_bytes_take(char *memory, size_t len)
{
    struct shared_bytes *s = mem_alloc(sizeof *s);
    if (!s) {
        mem_free(memory);
        return NULL;
    }
    s->bytes = tidings_strn(memory, len);
    s->memory = memory;
    atomic_init(&s->refs, 1);
    return s;
}

struct shared_bytes *shared_bytes_ref(struct shared_bytes *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void shared_bytes_unref(struct shared_bytes *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        mem_free(s->memory);
        mem_free(s);
    }
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void piece_destroy(struct piece *piece)
{
    list_remove(&piece->link);
    shared_bytes_unref(piece->shared);
    mem_free(piece->taken);
    mem_free(piece);
}

static void drop_pieces(struct sendq *q)
{
    while (!list_empty(&q->pieces)) {
        piece_destroy(list_entry(q->pieces.next, struct piece, link));
    }
    q->pending = 0;
}

static void mark_dirty(struct sendq *q)
{
    if (list_empty(&q->dirty_link)) {
        list_append(&q->batch->dirty, &q->dirty_link);
    }
}

static enum sendq_state broken(struct sendq *q, int errnum)
{
    q->error = errnum;
    drop_pieces(q);
    return SENDQ_BROKEN;
}

static int out_of_memory(struct sendq *q)
{
    (void)broken(q, ENOMEM);
    mark_dirty(q); /* the owner has to hear of it */
    return TIDINGS_E_NOMEM;
}

static void added(struct sendq *q, struct piece *piece, size_t len)
{
    piece->len += len;
    q->pending += len;
    if (!q->is_waiting) {
        mark_dirty(q);
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

/* The last piece, made larger in place when it is a copied one with `len` bytes to spare below the
 * maximum; NULL when there is none. */
static struct piece *extend_last(struct sendq *q, size_t len)
{
    if (list_empty(&q->pieces)) {
        return NULL;
    }
    struct piece *last = list_entry(q->pieces.prev, struct piece, link);
    if (last->taken || last->shared || last->room >= len) {
        return last->room >= len ? last : NULL;
    }
    size_t offset = (size_t)(last->start - last->bytes);
    size_t used = sizeof *last + offset + last->len;
    if (len > MAX_CHUNK || used + len > MAX_CHUNK) {
        return NULL;
    }
    size_t size = chunk_size(used + len);
    list_remove(&last->link);
    struct piece *grown = mem_realloc(last, size);
    struct piece *result = grown ? grown : last;
    list_append(&q->pieces, &result->link);
    if (!grown) {
        return NULL;
    }
    grown->start = grown->bytes + offset;
    grown->room = size - used;
    return grown;
}

static struct piece *piece_create(struct sendq *q, size_t size)
{
    struct piece *piece = mem_alloc(size);
    if (!piece) {
        return NULL;
    }
    *piece = (struct piece){.start = piece->bytes, .room = size - sizeof *piece};
    list_append(&q->pieces, &piece->link);
    return piece;
}

/* ---- putting in ----------------------------------------------------------------------------- */

void sendq_batch_init(struct sendq_batch *batch)
{
    list_init(&batch->dirty);
}

void sendq_init(struct sendq *q, struct sendq_batch *batch, int fd, sendq_flushed_fn flushed,
                void *user)
{
    int type;
    socklen_t size = sizeof type;
    *q = (struct sendq){.batch = batch, .fd = fd, .flushed = flushed, .user = user};
    q->is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    list_init(&q->dirty_link);
    list_init(&q->pieces);
}

void sendq_deinit(struct sendq *q)
{
    list_remove(&q->dirty_link);
    drop_pieces(q);
}

char *sendq_room(struct sendq *q, size_t len)
{
    static char nothing[1];
    if (len == 0 && !q->error) {
        return nothing;
    }
    if (q->error || len > PTRDIFF_MAX - sizeof(struct piece)) {
        return NULL;
    }
    struct piece *piece = extend_last(q, len);
    if (!piece) {
        piece = piece_create(q, chunk_size(sizeof *piece + len));
    }
    if (!piece) {
        (void)out_of_memory(q);
        return NULL;
    }
    char *room = piece->bytes + (piece->start - piece->bytes) + piece->len;
    piece->room -= len;
    added(q, piece, len);
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
    if (q->error || len <= SENDQ_SHARE) {
        int rc = sendq_put(q, memory, len);
        mem_free(memory);
        return rc;
    }
    struct piece *piece = piece_create(q, sizeof *piece);
    if (!piece) {
        mem_free(memory);
        return out_of_memory(q);
    }
    piece->start = memory;
    piece->taken = memory;
    added(q, piece, len);
    return 0;
}

int sendq_share(struct sendq *q, struct shared_bytes *s)
{
    if (q->error || s->bytes.len <= SENDQ_SHARE) {
        return sendq_puts(q, s->bytes);
    }
    struct piece *piece = piece_create(q, sizeof *piece);
    if (!piece) {
        return out_of_memory(q);
    }
    piece->start = s->bytes.ptr;
    piece->shared = shared_bytes_ref(s);
    added(q, piece, s->bytes.len);
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The first pieces, at most `max` bytes of them. Returns their number. */
static int gather(const struct sendq *q, struct iovec iov[MAX_PIECES], size_t max)
{
    int count = 0;
    list_each(it, next, &q->pieces)
    {
        const struct piece *piece = list_entry(it, struct piece, link);
        if (count == MAX_PIECES || max == 0) {
            break;
        }
        size_t len = piece->len < max ? piece->len : max;
        /* iov_base is not const for the sake of readv; nobody writes to it here. */
        iov[count].iov_base = (void *)(uintptr_t)piece->start;
        iov[count].iov_len = len;
        max -= len;
        count++;
    }
    return count;
}

static size_t total(const struct iovec *iov, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += iov[i].iov_len;
    }
    return sum;
}

static void consume(struct sendq *q, size_t len)
{
    q->pending -= len;
    q->written += len;
    while (len > 0) {
        struct piece *piece = list_entry(q->pieces.next, struct piece, link);
        if (len < piece->len) {
            piece->start += len;
            piece->len -= len;
            return;
        }
        len -= piece->len;
        piece_destroy(piece);
    }
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

static ssize_t write_some(const struct sendq *q, struct iovec *iov, int count)
{
    if (!q->is_socket) {
        return writev(q->fd, iov, count);
    }
    if (count == 1) {
        return send(q->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    return sendmsg(q->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One system call's worth. SENDQ_EMPTY: go on with what is left. */
static enum sendq_state flush_some(struct sendq *q)
{
    int room = q->is_socket ? 1 : has_room(q->fd);
    if (room <= 0) {
        return room < 0 ? broken(q, errno) : SENDQ_WAITING;
    }
    struct iovec iov[MAX_PIECES];
    /* A pipe that polls writable takes PIPE_BUF bytes without blocking, and promises no more. */
    int count = gather(q, iov, q->is_socket ? SIZE_MAX : PIPE_BUF);
    ssize_t n = write_some(q, iov, count);
    if (n < 0) {
        if (errno == EINTR) {
            return SENDQ_EMPTY;
        }
        return errno == EAGAIN || errno == EWOULDBLOCK ? SENDQ_WAITING : broken(q, errno);
    }
    bool is_short = (size_t)n < total(iov, count);
    consume(q, (size_t)n);
    /* A socket that takes less than offered is full: asking again would only say so. */
    return is_short && q->is_socket ? SENDQ_WAITING : SENDQ_EMPTY;
}

enum sendq_state sendq_flush(struct sendq *q)
{
    enum sendq_state state = q->error ? SENDQ_BROKEN : SENDQ_EMPTY;
    while (state == SENDQ_EMPTY && !list_empty(&q->pieces)) {
        state = flush_some(q);
    }
    q->is_waiting = state == SENDQ_WAITING;
    list_remove(&q->dirty_link);
    return state;
}

void sendq_batch_flush(struct sendq_batch *batch)
{
    /* One at a time from the front: a callback may unlink any queue and append any. */
    while (!list_empty(&batch->dirty)) {
        struct sendq *q = list_entry(batch->dirty.next, struct sendq, dirty_link);
        enum sendq_state state = sendq_flush(q);
        if (q->flushed) {
            q->flushed(q, state, q->user);
        }
    }
}
