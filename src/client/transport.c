/* SPDX-License-Identifier: MIT
 *
 * Hands what a transport reports to the functions of its client, and every message to the one that
 * hears them all (for -v).
 */
#include "client/transport.h"

static void tell_wire(struct transport *t, const struct tidings_client_wire *wire)
{
    if (t->events->wire) {
        t->events->wire(t->client, wire);
    }
}

int transport_send(struct transport *t, const struct transport_message *m,
                   struct tidings_error *err)
{
    struct tidings_client_wire wire = {.is_sent = true, .text = m->text};
    tell_wire(t, &wire);
    return t->ops->send(t, m, err);
}

void transport_opened(struct transport *t)
{
    t->events->opened(t->client);
}

void transport_received(struct transport *t, struct tidings_str text, int64_t exchange, long status)
{
    struct tidings_client_wire wire = {.text = text, .status = status};
    tell_wire(t, &wire);
    t->events->received(t->client, text, exchange, status);
}

void transport_unanswered(struct transport *t, int64_t id, long status,
                          const struct tidings_error *why)
{
    struct tidings_client_wire wire = {.reason = tidings_str(why->text), .status = status};
    tell_wire(t, &wire);
    t->events->unanswered(t->client, id, status, why);
}

void transport_session_lost(struct transport *t, int64_t id, bool is_present)
{
    struct tidings_client_wire wire = {.reason = STR("the server does not know the session"),
                                       .status = 404};
    tell_wire(t, &wire);
    t->events->session_lost(t->client, id, is_present);
}

void transport_streaming(struct transport *t, bool is_seamless)
{
    t->events->streaming(t->client, is_seamless);
}

void transport_delivered(struct transport *t, const struct tidings_error *why)
{
    t->events->delivered(t->client, why);
}

void transport_active(struct transport *t, int64_t exchange, bool is_beat)
{
    t->events->active(t->client, exchange, is_beat);
}

void transport_admitted(struct transport *t)
{
    t->events->admitted(t->client);
}

void transport_lost(struct transport *t, const struct tidings_error *why)
{
    struct tidings_client_wire wire = {.reason = tidings_str(why->text)};
    tell_wire(t, &wire);
    t->events->lost(t->client, why);
}
