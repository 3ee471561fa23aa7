/* SPDX-License-Identifier: MIT
 *
 * Streams that go on with renewed credentials: a server ends a stream with the token it was begun
 * with, so it is begun anew before. In the modern era the one before is ended when the new one is
 * acknowledged; in the legacy era there is one at a time, which goes on after its last event.
 */
#include "client/connection.h"
#include "client/state.h"
#include "client/subscriptions_private.h"

void subscriptions_renewed(struct tidings_client *c)
{
    const struct transport_ops *ops = c->transport->ops;
    struct tidings_error err = {0};
    if (c->stage != STAGE_READY || !ops->has_exchanges) {
        return; /* a connection shows what it began with */
    }
    if (c->listen > 0 || c->coming > 0) {
        modern_changed(c);
    } else if (c->era == TIDINGS_ERA_LEGACY && c->is_streaming) {
        ops->hang_up(c->transport);
        if (ops->stream(c->transport, &err) < 0) {
            connection_lose(c, &err);
        }
    }
}
