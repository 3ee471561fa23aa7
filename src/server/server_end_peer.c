/* SPDX-License-Identifier: MIT
 *
 * Ending clients: one letter to each worker, which ends those that are meant on its own thread. A
 * session ends with its streams, a listen gets its result, a connection of messages is closed; of
 * one that takes nothing any more, the stream is cut. Standard input stays open, since the server
 * would end with it: what it has subscribed ends.
 */
#include "server/server_end_peer.h"

#include <tidings/tool.h>

#include <stdio.h>

#include "access/access.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/subscriber.h"
#include "handler/call.h"
#include "request/channel.h"
#include "server/server_private.h"
#include "server/server_tools.h"

#define PEERS_URI ACCESS_OPERATOR_URI

struct ending_part {
    struct letter letter;
    struct ending *ending;
};

struct ending {
    struct tidings_call *call;
    uint64_t peer; /* 0: by principal */
    char principal[PRINCIPAL_MAX];
    uint64_t count; /* atomic: ended */
    size_t left;    /* atomic: workers that have not answered */
    struct ending_part parts[];
};

/* ---- on a worker ----------------------------------------------------------------------------- */

static void end_one(struct subscriber *subscriber)
{
    struct channel *channel = subscriber_channel(subscriber);
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    bool is_stdio = facts.listener && strcmp(facts.listener, "stdio") == 0;
    if (channel && !channel->ops->is_http && !is_stdio) {
        static const struct response_headers none;
        struct sink *sink = channel->ops->stream(channel, &none);
        sink->ops->cut(sink, "ended by end_peer");
        return;
    }
    if (subscriber->sink && facts.stalled_ms > 0) {
        bool is_session = subscriber->ops && subscriber->ops->session_id;
        subscriber->sink->ops->cut(subscriber->sink, "ended by end_peer");
        if (!is_session) {
            return; /* it went with its stream */
        }
    }
    subscriber_disconnect(subscriber);
}

static bool is_meant(const struct ending *e, const struct subscriber *subscriber)
{
    const struct principal *p = subscriber->principal;
    return e->peer > 0 ? subscriber_id(subscriber) == e->peer
                       : p && p->name.len > 0 && str_eq(p->name, tidings_str(e->principal));
}

static void end_on_worker(struct ending *e, const struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (is_meant(e, subscriber)) {
            __atomic_add_fetch(&e->count, 1, __ATOMIC_RELAXED);
            end_one(subscriber);
        }
    }
}

/* ---- the way there and back ------------------------------------------------------------------ */

static void end_peer_finish(struct ending *e)
{
    struct tidings_call *call = e->call;
    struct tidings_error err = {0};
    char text[48];
    int n = snprintf(text, sizeof(text), "{\"ended\":%llu}", (unsigned long long)e->count);
    int rc = tidings_call_structured(call, tidings_strn(text, (size_t)n), &err);
    mem_free(e);
    tidings_call_done(call, rc, &err);
}

static void end_peer_part_done(struct ending_part *part)
{
    struct ending *e = part->ending;
    if (__atomic_sub_fetch(&e->left, 1, __ATOMIC_ACQ_REL) == 0) {
        end_peer_finish(e);
    }
}

static void end_peer_deliver(struct letter *letter, void *owner)
{
    struct ending_part *part = list_entry(letter, struct ending_part, letter);
    end_on_worker(part->ending, owner);
    end_peer_part_done(part);
}

static void end_peer_drop(struct letter *letter)
{
    end_peer_part_done(list_entry(letter, struct ending_part, letter));
}

static void end_peer_log(const struct tidings_call *call, const struct ending *e)
{
    struct tidings_str reason = tidings_call_string(call, "reason");
    const struct principal *by = call->principal;
    const char *asked = !by ? "program" : by->name.len > 0 ? by->name.ptr : "anonymous";
    log_info(LOG_DELIVERY, "ending peers",
             e->peer > 0 ? KV("peer", e->peer) : KV("principal", tidings_str(e->principal)),
             KV("by", asked), KV("reason", reason));
}

/* Whom? The schema has let exactly one of both through. */
static int end_peer_read(const struct tidings_call *call, struct ending *e,
                         struct tidings_error *err)
{
    struct tidings_str peer = tidings_call_string(call, "peer");
    struct tidings_str principal = tidings_call_string(call, "principal");
    if (principal.len > 0) {
        snprintf(e->principal, sizeof(e->principal), "%.*s", STR_ARG(principal));
        return 0;
    }
    return str_to_u64(peer, &e->peer) && e->peer > 0
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "'peer' must be a number, as 'peer' in " PEERS_URI " says it");
}

static void end_peer_call(void *user, struct tidings_call *call)
{
    struct tidings_server *s = user;
    struct tidings_error err = {0};
    size_t count = s->worker_count;
    struct ending *e = mem_zalloc(sizeof(*e) + count * sizeof(e->parts[0]));
    int rc =
        e ? end_peer_read(call, e, &err) : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(e);
        tidings_call_done(call, rc, &err);
        return;
    }
    e->call = call;
    e->left = count;
    end_peer_log(call, e);
    for (size_t i = 0; i < count; i++) {
        e->parts[i].ending = e;
        e->parts[i].letter.deliver = end_peer_deliver;
        e->parts[i].letter.drop = end_peer_drop;
    }
    for (size_t i = 0; i < count; i++) { /* with the last it may be gone */
        mailbox_send(s->cores[i]->mailbox, &e->parts[i].letter);
    }
}

/* ---- the tool -------------------------------------------------------------------------------- */

static const char end_peer_input[] =
    "{\"type\":\"object\",\"properties\":{\"peer\":{\"type\":\"string\",\"pattern\":\"^[0-9]{1,20}$"
    "\",\"description\":\"the peer to end, as tidings://self/peers names it\"},\"principal\":{"
    "\"type\":\"string\",\"minLength\":1,\"maxLength\":255,\"description\":\"end all peers of this "
    "principal\"},\"reason\":{\"type\":\"string\",\"maxLength\":200,\"description\":\"for the log "
    "of the server\"}},\"oneOf\":[{\"required\":[\"peer\"]},{\"required\":[\"principal\"]}],"
    "\"additionalProperties\":false}";
static const char end_peer_output[] =
    "{\"type\":\"object\",\"properties\":{\"ended\":{\"type\":\"integer\",\"minimum\":0,"
    "\"description\":\"how many there were\"}},\"required\":[\"ended\"]}";

int server_end_peer_add(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_tool about = {
        .name = STR("end_peer"),
        .title = STR("End a client"),
        .description =
            STR("Ends a client of this server: its session, its streams, its connection. "
                "It may come back. Give the peer that tidings://self/peers lists, or a "
                "principal to end all of its peers."),
        .input_schema = tidings_str(end_peer_input),
        .output_schema = tidings_str(end_peer_output),
        .annotations = STR("{\"readOnlyHint\":false,\"destructiveHint\":true,"
                           "\"idempotentHint\":true,\"openWorldHint\":false}"),
    };
    return server_tools_add_for(s, &about, end_peer_call, s, STR(PEERS_URI), err);
}

void server_end_peer_remove(struct tidings_server *s)
{
    (void)tidings_server_remove_tool(s, STR("end_peer"), NULL);
}
