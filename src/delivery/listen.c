/* SPDX-License-Identifier: MIT
 *
 * Makes and finds groups of subscriptions.
 */
#include "delivery/listen.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/subscriber.h"

struct listen *listen_create(struct subscriber *subscriber, struct tidings_str id_json)
{
    struct listen *listen = mem_zalloc(offsetof(struct listen, id_text) + id_json.len);
    if (!listen) {
        return NULL;
    }
    if (id_json.len > 0) {
        memcpy(listen->id_text, id_json.ptr, id_json.len);
    }
    listen->id_len = (uint32_t)id_json.len;
    listen->subscriber = subscriber;
    list_init(&listen->subs);
    list_init(&listen->list_link);
    list_init(&listen->pending);
    if (id_json.len == 0) {
        listen->legacy = mem_zalloc(sizeof(*listen->legacy));
        if (!listen->legacy) {
            mem_free(listen);
            return NULL;
        }
        map_init(&listen->legacy->by_spelling);
    }
    list_append(&subscriber->listens, &listen->link);
    subscriber->listen_count++;
    return listen;
}

struct subscription *listen_find_sub(const struct listen *listen, struct tidings_str spelled)
{
    return listen->id_len == 0 ? map_find(&listen->legacy->by_spelling, spelled) : NULL;
}

struct listen *listen_find(struct subscriber *subscriber, struct tidings_str id_json)
{
    list_each (it, next, &subscriber->listens) {
        struct listen *listen = list_entry(it, struct listen, link);
        if (str_eq(listen_id(listen), id_json)) {
            return listen;
        }
    }
    return NULL;
}
