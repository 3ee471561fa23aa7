/* SPDX-License-Identifier: MIT
 *
 * A session that went on here: whether it did, what cursors of other nodes stand for, and what is
 * told of subscriptions that could not come along.
 */
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "protocol/session_moving_private.h"
#include "protocol/session_private.h"

bool session_is_adopted(const struct session *session)
{
    return session->moving && session->moving->is_adopted;
}

bool session_was_written(const struct session *session, unsigned stream)
{
    return session->moving && stream <= session->moving->taken_stream;
}

bool session_moving_resume(const struct session *session, struct log_cursor *cursor)
{
    uint64_t seq = 0;
    if (!session->moving || !cursor->has_position ||
        !hub_resume(session->worker->hub, cursor, true, &seq)) {
        return false;
    }
    cursor->epoch = session->worker->epoch;
    cursor->seq = seq;
    return true;
}

/* A subscription that was not made here again is one that is not evaluated any more. */
static bool tell_refused(struct subscriber *subscriber, struct tidings_str uri_json)
{
    struct log_cursor at = subscriber_cursor(subscriber);
    const struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = uri_json,
        .subscribed_json = uri_json,
        .cursor = at,
        .sealed = cursor_seal_make(subscriber->worker, subscriber->principal, &at),
        .suspended = true,
        .profile = subscriber->worker->self->profile,
    };
    return subscriber_write_update(subscriber, &u, NULL, 0);
}

void session_moving_streams(struct session *session)
{
    struct buf *refused = session->moving ? &session->moving->refused : NULL;
    size_t told = 0;
    struct tidings_str rest = refused ? buf_str(refused) : STR_EMPTY;
    while (rest.len > 0) {
        struct tidings_str uri_json = str_cut(rest, '\n', &rest, NULL);
        if (!session->subscriber->sink || !tell_refused(session->subscriber, uri_json)) {
            break;
        }
        told += uri_json.len + 1;
    }
    if (told > 0) {
        buf_consume(refused, told);
    }
}
