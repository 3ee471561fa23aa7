/* SPDX-License-Identifier: MIT
 *
 * The ids of events on the streams of a session, `stream.n.cursor`: writing them, and finding out
 * where a client that comes back with one has been.
 */
#include "protocol/session_private.h"

#include <stdio.h>

#include "access/access.h"
#include "base/sha256.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "worker/worker.h"

int session_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Kind and name of whoever it is, in short; nothing secret, and the same after a restart. */
void session_make_tag(struct session *session)
{
    const struct principal *principal = session->principal;
    if (!principal || principal->kind == PRINCIPAL_ANONYMOUS) {
        return;
    }
    unsigned char kind = (unsigned char)principal->kind, hash[SHA256_BYTES];
    struct sha256 h;
    sha256_init(&h);
    sha256_put(&h, &kind, 1);
    sha256_put(&h, principal->name.ptr, principal->name.len);
    sha256_end(&h, hash);
    snprintf(session->tag, sizeof(session->tag), "%02x%02x%02x%02x-", hash[0], hash[1], hash[2],
             hash[3]);
}

size_t session_event_id(struct subscriber *subscriber, const struct log_cursor *at,
                        char out[EVENT_ID_MAX])
{
    struct session *session = subscriber->owner;
    struct session_stream *stream = session_newest_stream(session);
    struct tidings_str sealed = cursor_seal_make(subscriber->worker, subscriber->principal, at);
    int n = snprintf(out, EVENT_ID_MAX, "%s%x.%llu.", session->tag, stream ? stream->no : 0,
                     (unsigned long long)++session->next_event);
    size_t len = n > 0 ? (size_t)n : 0;
    char text[CURSOR_TEXT];
    if (sealed.len == 0 && session->moving) { /* a number says nothing to another node */
        sealed = cursor_print(at, text);
    }
    if (sealed.len > 0) {
        n = snprintf(out + len, EVENT_ID_MAX - len, "%.*s", STR_ARG(sealed));
    } else {
        struct tidings_str lost = at->lost > 0 ? cursor_print_lost(at, text) : STR_EMPTY;
        n = snprintf(out + len, EVENT_ID_MAX - len, "%llu%.*s", (unsigned long long)at->seq,
                     STR_ARG(lost));
    }
    return n > 0 ? len + (size_t)n : 0;
}

/* Is it the id of an event of another than whose session this is? */
bool session_is_foreign_event(const struct session *session, struct tidings_str id)
{
    struct tidings_str own = tidings_str(session->tag), rest = id;
    bool has_tag = id.len > SESSION_TAG_LEN && id.ptr[SESSION_TAG_LEN - 1] == '-';
    for (size_t i = 0; has_tag && i < SESSION_TAG_LEN - 1; i++) {
        has_tag = session_hex(id.ptr[i]) >= 0;
    }
    bool is_event = false; /* of somebody without a tag: 1.2.3 */
    str_cut(rest, '.', &rest, &is_event);
    return has_tag ? !str_starts(id, own) || own.len == 0 : is_event && own.len > 0;
}

/* The number in it; from those who are shown none it must be sealed. */
static bool parse_event_cursor(const struct session *session, struct tidings_str text,
                               struct log_cursor *ret)
{
    struct tidings_str lost;
    bool has_lost = false;
    struct tidings_str number = str_cut(text, '~', &lost, &has_lost);
    *ret = (struct log_cursor){.epoch = session->worker->epoch};
    if (access_is_full(session->principal) && str_to_u64(number, &ret->seq)) {
        return ret->seq <= session->worker->last_seq && (!has_lost || cursor_parse_lost(lost, ret));
    }
    if (!cursor_seal_open(session->worker, session->principal, text, ret)) {
        return false;
    }
    /* What an event of another node stands for may have its number, and be on its way here. */
    return ret->epoch == session->worker->epoch ? ret->seq <= session->worker->last_seq
                                                : session_moving_resume(session, ret);
}

bool session_read_event(struct worker *worker, const struct principal *principal,
                        struct tidings_str id, struct session_event *ret)
{
    struct tidings_str text;
    *ret = (struct session_event){.number = 0};
    (void)str_cut(id, '.', &text, NULL);
    return str_to_u64(str_cut(text, '.', &text, NULL), &ret->number) &&
           cursor_seal_open(worker, principal, text, &ret->at) && ret->at.has_position;
}

/* The number of a stream; 0: it is none. */
static unsigned parse_stream(struct tidings_str text)
{
    unsigned no = 0;
    for (size_t i = 0; i < text.len && text.len <= 7; i++) {
        int digit = session_hex(text.ptr[i]);
        if (digit < 0) {
            return 0;
        }
        no = no * 16 + (unsigned)digit;
    }
    return no;
}

/* Is it the id of an event of ours, and known what followed it? */
bool session_parse_event_id(const struct session *session, struct tidings_str id,
                            struct event_cursor *ret)
{
    struct tidings_str rest, n;
    struct tidings_str stream = str_cut(str_skip(id, strlen(session->tag)), '.', &rest, NULL);
    n = str_cut(rest, '.', &rest, NULL);
    uint64_t event = 0;
    struct log_cursor at;
    unsigned no = parse_stream(stream);
    if (!str_to_u64(n, &event) || !parse_event_cursor(session, rest, &at) || no == 0 ||
        no > session->next_stream || event > session->next_event) {
        return false;
    }
    ret->event = event;
    ret->stream = no; /* it goes on under its number even when its past is forgotten */
    bool remembered = false, is_below = true;
    for (size_t i = 0; i < SESSION_PAST_STREAMS; i++) {
        remembered = remembered || session->past[i].no == no;
        is_below = is_below && !(session->past[i].no == no && at.seq >= session->past[i].from);
    }
    if (remembered) {
        ret->cursor = at.seq < session->delivered_upto ? at.seq : session->delivered_upto;
        ret->id = at;
        ret->rewound = is_below; /* a subscription had gone back, and not yet caught up */
        bool is_told = session->lists.stream == no && session->lists.event <= event;
        ret->lists_upto = is_told ? session->lists.upto : 0;
    }
    if (!remembered && session_is_adopted(session)) {
        /* Of a stream at the node it came from: whatever others carried, there and here, is told
         * again rather than not at all. */
        remembered = ret->rewound = ret->is_foreign = true;
        ret->cursor = at.seq;
        ret->id = at;
        if (!session_was_written(session, no) && session->delivered_upto < at.seq) {
            ret->cursor =
                session->delivered_upto; /* of a copy that knew nothing of what came later */
        }
    }
    for (unsigned i = 0; i < session->rewind_count; i++) {
        if (event > session->rewinds[i].event) {
            continue;
        }
        if (session->rewinds[i].to < ret->cursor) {
            ret->rewound = true;
            ret->cursor = session->rewinds[i].to;
        }
        return remembered && !session->rewinds[i].is_lost;
    }
    return remembered;
}
