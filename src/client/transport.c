/* SPDX-License-Identifier: MIT
 *
 * What a transport tells goes to the functions its client gave it.
 */
#include "client/transport.h"

void transport_opened(struct transport *t)
{
    t->events->opened(t->client);
}

void transport_received(struct transport *t, struct tidings_str text, int64_t exchange, long status)
{
    t->events->received(t->client, text, exchange, status);
}

void transport_unanswered(struct transport *t, int64_t id, long status,
                          const struct tidings_error *why)
{
    t->events->unanswered(t->client, id, status, why);
}

void transport_session_lost(struct transport *t, int64_t id, bool is_present)
{
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

void transport_heard(struct transport *t, int64_t exchange, bool is_beat)
{
    t->events->heard(t->client, exchange, is_beat);
}

void transport_lost(struct transport *t, const struct tidings_error *why)
{
    t->events->lost(t->client, why);
}
