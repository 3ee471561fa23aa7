/* SPDX-License-Identifier: MIT
 *
 * Writes one message to the stream of a subscriber.
 */
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"
#include "worker/worker.h"

static size_t event_id(struct subscriber *subscriber, const struct log_cursor *at,
                       char out[EVENT_ID_MAX])
{
    return subscriber->ops && subscriber->ops->event_id
               ? subscriber->ops->event_id(subscriber, at, out)
               : 0;
}

bool subscriber_send(struct subscriber *subscriber, const struct buf *message)
{
    struct sink *sink = subscriber->sink;
    if (!sink) {
        return false;
    }
    if (message->failed) {
        sink->ops->cut(sink, "out of memory");
        return false;
    }
    char id[EVENT_ID_MAX];
    struct log_cursor at = subscriber_cursor(subscriber);
    size_t id_len = event_id(subscriber, &at, id);
    char *room = sink->ops->room(sink, tidings_strn(id, id_len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    return true;
}

void subscriber_warn(struct subscriber *subscriber, const char *text)
{
    if (!subscriber->sink || subscriber->log_level > LOG_LEVEL_WARNING) {
        return;
    }
    struct buf message;
    buf_init(&message, 4096);
    dialect_put_log_message(&message, STR("warning"), STR_EMPTY, tidings_str(text));
    subscriber_send(subscriber, &message);
    buf_deinit(&message);
}

struct room_request {
    struct subscriber *subscriber;
    const struct log_cursor *at;
};

static char *take_room(void *user, size_t size)
{
    struct room_request *r = user;
    struct subscriber *subscriber = r->subscriber;
    char id[EVENT_ID_MAX];
    size_t id_len = event_id(subscriber, r->at, id);
    return subscriber->sink->ops->room(subscriber->sink, tidings_strn(id, id_len), size);
}

bool subscriber_write_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub, uint64_t waited_us)
{
    struct worker *worker = subscriber->worker;
    if (subscriber->ops && subscriber->ops->on_update) {
        subscriber->ops->on_update(subscriber, u, sub);
    } else {
        struct room_request r = {.subscriber = subscriber, .at = &u->cursor};
        if (!dialect_updated_write(u, take_room, &r)) {
            return false;
        }
        if (sub) {
            listen_counts(sub->listen)->deliveries++;
        }
    }
    worker->stats.deliveries++;
    lag_count(&worker->delivery->lag, waited_us);
    return true;
}
