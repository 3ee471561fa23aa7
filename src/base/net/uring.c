/* SPDX-License-Identifier: MIT
 *
 * Rings with liburing, whose shared library is loaded with the first ring: programs that never
 * write to many sockets do not pay for it, and run where it is not installed. Apart from the three
 * functions in `api`, only inline functions of its headers are used.
 *
 * Invariant: between calls of uring_send the submission queue is empty and every completion has
 * been read, or the call has failed and the ring can only be destroyed.
 */
#include "base/net/uring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/library.h"
#include "base/mem.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
LIBRARY(library, "io_uring", "many socket writes in one system call", "recommended", "liburing2",
        "liburing.so.2");
static struct {
    int (*init)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
    int (*submit_and_wait)(struct io_uring *ring, unsigned wait_for);
    void (*exit)(struct io_uring *ring);
} api;

struct uring {
    struct io_uring ring;
    unsigned max_sends;
    struct msghdr messages[]; /* for sends with several pieces */
};

int uring_probe(struct tidings_error *err)
{
    /* No parameters: a kernel that supports rings fails with EFAULT. */
    long rc = syscall(SYS_io_uring_setup, 1, NULL);
    if (rc >= 0) {
        (void)close((int)rc);
        return 0;
    }
    return errno == EFAULT || errno == EINVAL ? 0 : error_errno(err, errno, "io_uring");
}

static void uring_load(void)
{
    const struct library_function wanted[] = {
        {"io_uring_queue_init_params", &api.init},
        {"io_uring_submit_and_wait", &api.submit_and_wait},
        {"io_uring_queue_exit", &api.exit},
    };
    library_open(&library, wanted, sizeof wanted / sizeof wanted[0]);
}

/* Restricts the ring to sending, even if another process gets its descriptor, because its
 * operations bypass system call filters. It was created disabled; kernels before 5.10 do not
 * support that. */
static int restrict_ring(int fd)
{
    struct io_uring_restriction only[] = {
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_SEND},
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_SENDMSG},
        {.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = 0},
    };
    long rc = syscall(SYS_io_uring_register, fd, IORING_REGISTER_RESTRICTIONS, only,
                      sizeof only / sizeof only[0]);
    rc = rc < 0 ? rc : syscall(SYS_io_uring_register, fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    return rc < 0 ? -errno : 0;
}

static int open_ring(struct uring *u, struct tidings_error *err)
{
    /* The first for Linux 5.19 and later: continue after a failed send, and send no interrupts for
     * completions. The others for older kernels. Not SINGLE_ISSUER: it has no measurable benefit,
     * and a host that runs its loop on changing threads would lose the ring. */
    static const unsigned flags[] = {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
                                         IORING_SETUP_R_DISABLED,
                                     IORING_SETUP_R_DISABLED, 0};
    struct io_uring_params params;
    int rc = -EINVAL;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && rc == -EINVAL; i++) {
        params = (struct io_uring_params){.flags = flags[i]};
        rc = api.init(u->max_sends, &u->ring, &params);
        if (rc == 0 && flags[i] != 0) {
            rc = restrict_ring(u->ring.ring_fd);
            if (rc < 0) {
                api.exit(&u->ring);
            }
        }
    }
    if (rc < 0) {
        return error_errno(err, -rc, "io_uring");
    }
    if (!(params.features & IORING_FEAT_FAST_POLL)) { /* since 5.7; the send operation since 5.6 */
        api.exit(&u->ring);
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "io_uring: Linux 5.7 or newer is needed");
    }
    return 0;
}

int uring_create(struct uring **ret_uring, unsigned max_sends, struct tidings_error *err)
{
    struct uring *u = mem_zalloc(sizeof *u + max_sends * sizeof u->messages[0]);
    if (!u) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    u->max_sends = max_sends;
    pthread_once(&once, uring_load);
    int rc = library_check(&library, err);
    if (rc == 0) {
        rc = open_ring(u, err);
    }
    if (rc < 0) {
        mem_free(u);
        return rc;
    }
    *ret_uring = u;
    return 0;
}

void uring_destroy(struct uring *u)
{
    if (u) {
        api.exit(&u->ring);
        mem_free(u);
    }
}

static void uring_prepare(struct uring *u, struct uring_send *sends, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct uring_send *send = &sends[i];
        struct io_uring_sqe *entry = io_uring_get_sqe(&u->ring);
        /* iov_base is not const because readv writes to it; sending does not. */
        struct iovec *iov = (struct iovec *)(uintptr_t)send->iov;
        assert(entry && send->count > 0);
        if (send->count == 1) {
            io_uring_prep_send(entry, send->fd, iov->iov_base, iov->iov_len,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        } else {
            u->messages[i] = (struct msghdr){.msg_iov = iov, .msg_iovlen = send->count};
            io_uring_prep_sendmsg(entry, send->fd, &u->messages[i], MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        io_uring_sqe_set_data64(entry, i);
        send->result = URING_UNSENT;
    }
}

/* Reads the available completions. Returns their number. */
static unsigned uring_take(struct uring *u, struct uring_send *sends)
{
    unsigned head, taken = 0;
    struct io_uring_cqe *done;
    io_uring_for_each_cqe(&u->ring, head, done)
    {
        sends[io_uring_cqe_get_data64(done)].result = done->res;
        taken++;
    }
    io_uring_cq_advance(&u->ring, taken);
    return taken;
}

int uring_send(struct uring *u, struct uring_send *sends, unsigned count)
{
    unsigned submitted = 0, done = 0;
    int rc = 0, calls = 0;
    assert(count > 0 && count <= u->max_sends);
    uring_prepare(u, sends, count);
    while (done < count && rc >= 0) {
        /* The wait ends when the call has submitted all, see the header. */
        rc = api.submit_and_wait(&u->ring, count - done);
        calls++;
        submitted += rc > 0 ? (unsigned)rc : 0;
        done += uring_take(u, sends);
        rc = rc == -EINTR ? 0 : rc == 0 && submitted < count ? -EBUSY : rc;
    }
    if (done == count) {
        return calls;
    }
    /* Started with an unknown result: a second write could duplicate the data. No kernel does this.
     */
    for (unsigned i = 0; i < submitted; i++) {
        sends[i].result = sends[i].result == URING_UNSENT ? -EIO : sends[i].result;
    }
    return rc;
}
