/* SPDX-License-Identifier: MIT
 *
 * The open questions of a client.
 */
#include "request/asking.h"

#include "base/mem.h"

struct asking *asking_create(unsigned can)
{
    struct asking *asking = can ? mem_zalloc(sizeof(*asking)) : NULL;
    if (asking) {
        list_init(&asking->open);
        asking->can = can;
    }
    return asking;
}

void asking_destroy(struct asking *asking)
{
    while (asking && !list_empty(&asking->open)) {
        struct asked *asked = list_entry(asking->open.next, struct asked, link);
        asked->ops->lost(asked);
    }
    mem_free(asking);
}

bool asking_add(struct asking *asking, struct asked *asked)
{
    if (asking->count >= ASKING_MAX) {
        return false;
    }
    asked->asking = asking;
    asked->id = ++asking->next_id;
    asking->count++;
    list_append(&asking->open, &asked->link);
    return true;
}

void asking_remove(struct asked *asked)
{
    if (asked->asking) {
        list_remove(&asked->link);
        asked->asking->count--;
        asked->asking = NULL;
    }
}

void asking_answer(struct asking *asking, const struct json *id, struct json *message)
{
    if (!asking || !jv_is(id, JV_INT)) {
        return;
    }
    list_each (it, next, &asking->open) {
        struct asked *asked = list_entry(it, struct asked, link);
        if (asked->id == (uint64_t)jv_int(id)) {
            asking_remove(asked);
            asked->ops->answered(asked, jv_get(message, "result"), jv_get(message, "error"));
            return;
        }
    }
}
