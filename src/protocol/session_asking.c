/* SPDX-License-Identifier: MIT
 *
 * What the client of a session is asked, and requests that go on after their stream was lost. The
 * ids of events on the stream of a request are `rREQUEST.EVENT` in hexadecimal digits, after the
 * tag of the session; those on the session's own streams are in session_event_id.c.
 */
#include "protocol/session_private.h"

#include "base/str.h"
#include "handler/call.h"
#include "request/asking.h"
#include "request/request.h"

#define SESSION_QUESTION_MAX (2u << 20) /* bytes of one */

void session_declare(struct session *session, unsigned can)
{
    session->asking = asking_create(can);
    if (session->asking) {
        session->asking->tag = session->tag;
    }
}

struct asking *session_asking(const struct request *request)
{
    return request->session   ? request->session->asking
           : request->channel ? channel_asking(request->channel)
                              : NULL;
}

void session_drop_requests(struct session *session)
{
    struct asking *asking = session->asking;
    asking_destroy(asking); /* who asked is told */
    session->asking = NULL;
    list_each (it, next, &session->requests) {
        struct request *request = list_entry(it, struct request, session_link);
        request->session = NULL;
        list_remove(it);
        if (request->kept_for) {
            request_drop(request);
        }
    }
}

/* ---- on the session's own streams ------------------------------------------------------------ */

static bool session_asking_write(struct session *session, const struct buf *message,
                                 struct asked *asked)
{
    struct session_stream *stream = session_newest_stream(session);
    struct subscriber *subscriber = session->subscriber;
    if (!stream || message->failed) {
        return false;
    }
    char id[EVENT_ID_MAX];
    struct log_cursor at = subscriber_cursor_at(subscriber, subscriber_written(subscriber));
    size_t len = asked ? session_event_id(subscriber, &at, id) : 0;
    char *room = stream->sink->ops->room(stream->sink, tidings_strn(id, len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    if (asked) {
        asked->is_on_session = true;
        asked->event = session->next_event;
    }
    return true;
}

bool session_send(const struct request *request, const struct buf *message, struct asked *asked)
{
    return request->session && session_asking_write(request->session, message, asked);
}

void session_resend_questions(struct session *session, uint64_t event)
{
    if (!session->asking) {
        return;
    }
    list_each (it, next, &session->asking->open) {
        struct asked *asked = list_entry(it, struct asked, link);
        struct buf text;
        if (asked->is_on_session && asked->event > event) {
            buf_init(&text, SESSION_QUESTION_MAX);
            asked->ops->put(asked, &text);
            (void)session_asking_write(session, &text, asked);
            buf_deinit(&text);
        }
    }
}

/* ---- on the stream of a request -------------------------------------------------------------- */

/* A hexadecimal number of at most 7 digits. */
static bool session_read_hex(struct tidings_str text, unsigned *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.len <= 7 ? session_hex(text.ptr[i]) : -1;
        if (digit < 0) {
            return false;
        }
        *ret = *ret * 16 + (unsigned)digit;
    }
    return text.len > 0;
}

bool session_is_request_event(const struct session *session, struct tidings_str id)
{
    size_t tag = strlen(session->tag);
    return id.len > tag && id.ptr[tag] == 'r' && str_starts(id, tidings_str(session->tag));
}

int session_resume_request(struct session *session, struct channel *channel, struct tidings_str id)
{
    struct tidings_str event_text;
    struct tidings_str stream_text =
        str_cut(str_skip(id, strlen(session->tag) + 1), '.', &event_text, NULL);
    unsigned stream = 0, event = 0;
    if (!session_read_hex(stream_text, &stream) || !session_read_hex(event_text, &event)) {
        return TIDINGS_E_NOTFOUND;
    }
    list_each (it, next, &session->requests) {
        struct request *request = list_entry(it, struct request, session_link);
        if (stream == 0 || request->stream != stream) {
            continue;
        }
        struct tidings_str own = arena_dup(&request->arena, id);
        request_resume(request, channel);
        request_prime(request, own.ptr ? own : STR_EMPTY);
        if (request->kept_for) {
            request_answer_kept(request);
        } else {
            call_resume(request, event);
        }
        return 0;
    }
    return TIDINGS_E_NOTFOUND;
}
