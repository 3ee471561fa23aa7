/* SPDX-License-Identifier: MIT
 *
 * Hands connections to workers and counts those that each worker has.
 */
#include "transport/worker_inbox.h"

#include <unistd.h>

#include "access/share.h"
#include "base/mem.h"

void handover_destroy(struct handover *h)
{
    tls_session_destroy(h->tls);
    worker_inbox_give_back(h->inbox, h->quota, h->origin);
    close(h->fd);
    buf_deinit(&h->in);
    mem_free(h);
}

static void worker_inbox_drop(struct letter *letter)
{
    handover_destroy(list_entry(letter, struct handover, letter));
}

struct handover *handover_create(int fd, struct tls_session *tls)
{
    struct handover *h = mem_zalloc(sizeof(*h));
    if (!h) {
        tls_session_destroy(tls);
        close(fd);
        return NULL;
    }
    h->letter.drop = worker_inbox_drop;
    h->tls = tls;
    h->fd = fd;
    buf_init(&h->in, 0);
    return h;
}

void worker_inbox_send(struct worker_inbox *r, struct handover *h)
{
    h->letter.deliver = r->adopt;
    __atomic_add_fetch(&r->count, 1, __ATOMIC_RELAXED);
    h->inbox = r;
    mailbox_send(r->mailbox, &h->letter);
}

size_t worker_inbox_count(const struct worker_inbox *r)
{
    return __atomic_load_n(&r->count, __ATOMIC_RELAXED);
}

void worker_inbox_left(struct worker_inbox *r)
{
    __atomic_sub_fetch(&r->count, 1, __ATOMIC_RELAXED);
}

void worker_inbox_give_back(const struct worker_inbox *r, struct quota *quota,
                            struct allowance *origin)
{
    quota_leave(quota);
    if (origin) {
        share_give(r->limit_counters, LIMIT_CONNECTIONS, 1, origin);
    }
}
