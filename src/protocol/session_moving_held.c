/* SPDX-License-Identifier: MIT
 *
 * Answers that wait until a change of their session is written, and what becomes of them when
 * another node has taken the session meanwhile: it is taken back, and the request is asked again.
 */
#include "base/mem.h"
#include "protocol/method.h"
#include "protocol/session_moving_private.h"
#include "request/request.h"

#define ASKED_AGAIN 3u /* times that a request is, when its session goes meanwhile */

/* An answer that waits until a change of its session is written. */
struct held_answer {
    struct list link; /* in moving->held */
    struct session_wait wait;
    struct request *request;
    uint64_t change;
    int status;
    char id[SESSION_ID_LEN]; /* of its session, once that has gone */
};

void session_take_held(struct session_moving *m, uint64_t upto, struct list *ret)
{
    list_init(ret);
    list_each (it, next, &m->held) {
        if (list_entry(it, struct held_answer, link)->change <= upto) {
            list_remove(it);
            list_append(ret, it);
        }
    }
}

void session_release(struct list *held)
{
    while (!list_empty(held)) {
        struct held_answer *h = list_entry(held->next, struct held_answer, link);
        list_remove(&h->link);
        request_release(h->request, h->status);
        mem_free(h);
    }
}

bool session_hold(struct request *request, int status)
{
    struct session_moving *m = request->cancelled || !request->channel || !request->session
                                   ? NULL
                                   : request->session->moving;
    if (!m || m->is_gone || request->session_change <= m->written || !m->job) {
        return false;
    }
    struct held_answer *h = mem_zalloc(sizeof(*h));
    if (!h) {
        return false;
    }
    h->request = request;
    h->change = request->session_change;
    h->status = status;
    list_append(&m->held, &h->link);
    return true;
}

/* The session is here again, or is not: what was asked of the copy that another node had taken
 * meanwhile is asked of this one. */
static void ask_again(struct session_wait *wait, int code)
{
    struct held_answer *h = list_entry(wait, struct held_answer, wait);
    struct request *request = h->request;
    if (request->cancelled || !request->channel) {
        request_drop(request);
        mem_free(h);
        return;
    }
    struct session *session =
        code < 0
            ? NULL
            : session_find(request->worker, tidings_strn(h->id, sizeof(h->id)), request->principal);
    mem_free(h);
    if (!session) {
        request_fail(request, TIDINGS_E_BUSY, STR_EMPTY,
                     "the session has moved to another node meanwhile; send this again");
        return;
    }
    request->session = session;
    list_append(&session->requests, &request->session_link);
    method_run(request);
}

static void take_back_for(struct held_answer *h)
{
    struct request *request = h->request;
    struct refusal why;
    bool is_awaited = false;
    request_unanswer(request);
    request->session = NULL;
    h->wait.done = ask_again;
    if (!request->cancelled && request->channel && request->moves++ < ASKED_AGAIN) {
        const struct session_asked asked = {.id = tidings_strn(h->id, sizeof(h->id))};
        is_awaited = session_await(&h->wait, request->channel, &asked, &why) == SESSION_AWAITED;
    }
    if (!is_awaited) {
        ask_again(&h->wait, TIDINGS_E_BUSY);
    }
}

void session_ask_again(struct list *held, struct tidings_str id)
{
    while (!list_empty(held)) {
        struct held_answer *h = list_entry(held->next, struct held_answer, link);
        list_remove(&h->link);
        memcpy(h->id, id.ptr, sizeof(h->id));
        take_back_for(h);
    }
}
