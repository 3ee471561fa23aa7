/* SPDX-License-Identifier: MIT
 *
 * Sends bookmarks: the timer of a worker, and who asked for them.
 */
#include "delivery/bookmark.h"

#include "access/access.h"
#include "base/mem.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"

/* While subscriptions of a listen want bookmarks. */
struct listen_bookmarks {
    struct list link; /* in worker->delivery->bookmarked */
    struct listen *listen;
    uint64_t seq;   /* the newest number it was told that way */
    uint32_t count; /* of its subscriptions that want them */
};

static void bookmark_tell(struct listen_bookmarks *b, struct buf *message)
{
    struct listen *listen = b->listen;
    struct subscriber *subscriber = listen->subscriber;
    bool is_called =
        subscriber->ops && subscriber->ops->on_update; /* by the program itself: it has no stream */
    if (!subscriber->sink || !listen->is_open || is_called || subscriber_is_blocked(subscriber)) {
        return;
    }
    char text[CURSOR_TEXT];
    struct log_cursor at = subscriber_cursor(subscriber);
    if (access_is_full(subscriber->principal) && at.seq == b->seq) {
        return;
    }
    buf_clear(message);
    dialect_put_bookmark(message,
                         cursor_seal_put(subscriber->worker, subscriber->principal, &at, text),
                         listen_id(listen));
    if (subscriber_send(subscriber, message)) {
        b->seq = at.seq;
    }
}

void bookmark_on_period(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    struct buf message;
    buf_init(&message, 16u * 1024u); /* an id of a kilobyte may escape to six */
    list_each (it, next, &worker->delivery->bookmarked) {
        bookmark_tell(list_entry(it, struct listen_bookmarks, link), &message);
    }
    buf_deinit(&message);
    if (!list_empty(&worker->delivery->bookmarked)) {
        loop_timer_start(timer, worker->limits->bookmark_ms, 0);
    }
}

bool bookmark_want(struct subscription *sub)
{
    struct worker *worker = sub->subscriber->worker;
    struct listen_bookmarks *b = sub->listen->bookmarks;
    if (!b) {
        b = mem_zalloc(sizeof(*b));
        if (!b) {
            return false;
        }
        b->listen = sub->listen;
        b->seq = worker->last_seq; /* what it is told now */
        list_append(&worker->delivery->bookmarked, &b->link);
        sub->listen->bookmarks = b;
    }
    b->count++;
    sub->bookmarks = true;
    if (!loop_timer_is_running(worker->delivery->bookmark_timer)) {
        loop_timer_start(worker->delivery->bookmark_timer, worker->limits->bookmark_ms, 0);
    }
    return true;
}

void bookmark_leave(struct subscription *sub)
{
    struct listen_bookmarks *b = sub->listen->bookmarks;
    if (sub->bookmarks && --b->count == 0) {
        list_remove(&b->link);
        mem_free(b);
        sub->listen->bookmarks = NULL;
    }
}
