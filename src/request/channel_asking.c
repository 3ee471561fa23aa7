/* SPDX-License-Identifier: MIT
 *
 * What the clients of message connections can be asked, found by their channel.
 */
#include "request/asking.h"
#include "request/channel.h"
#include "request/request.h"

struct asking *channel_asking(const struct channel *channel)
{
    struct tidings_str key = tidings_strn((const char *)&channel, sizeof(channel));
    return channel->revision ? map_find(&channel->worker->requests->asking, key) : NULL;
}

void channel_declare(struct channel *channel, unsigned can)
{
    struct asking *asking = channel_asking(channel);
    if (asking) {
        asking->can = can;
        return;
    }
    asking = asking_create(can);
    if (asking) {
        asking->owner = channel;
        struct tidings_str key = tidings_strn((const char *)&asking->owner, sizeof(asking->owner));
        if (map_put(&channel->worker->requests->asking, key, asking, NULL) < 0) {
            asking_destroy(asking);
        }
    }
}

void channel_end_asking(struct channel *channel)
{
    struct asking *asking = channel_asking(channel);
    if (asking) {
        map_remove(&channel->worker->requests->asking,
                   tidings_strn((const char *)&asking->owner, sizeof(asking->owner)));
        asking_destroy(asking);
    }
}
