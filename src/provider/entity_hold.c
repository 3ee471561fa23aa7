/* SPDX-License-Identifier: MIT
 *
 * Holding versions of entities: those that subscriptions begin their patches at are kept from
 * compaction. The keeper is told in the order in which it happened, so the version that a
 * subscription is at now is held before the one it was at is let go.
 */
#include "base/mem.h"
#include "provider/entity_private.h"

struct entity_hold {
    struct keeper_job take, drop;
    int64_t from;
    bool is_taken; /* the keeper's */
    size_t id_len;
    char id[];
};

static int run_take(struct keeper_job *job, struct entities *e)
{
    struct entity_hold *h = list_entry(job, struct entity_hold, take);
    h->is_taken = entities_hold(e, tidings_strn(h->id, h->id_len), h->from) == 0;
    return 0;
}

static void take_done(struct keeper_job *job, int code)
{
    (void)job;
    (void)code;
}

static int run_drop(struct keeper_job *job, struct entities *e)
{
    const struct entity_hold *h = list_entry(job, struct entity_hold, drop);
    if (h->is_taken) {
        entities_release(e, tidings_strn(h->id, h->id_len), h->from);
    }
    return 0;
}

static void drop_done(struct keeper_job *job, int code)
{
    (void)code;
    mem_free(list_entry(job, struct entity_hold, drop));
}

void *entity_hold(struct tidings_provider *p, struct tidings_str text, struct tidings_str etag)
{
    struct entity_uri uri;
    int64_t from;
    if (entity_uri_parse(text, &uri, NULL) < 0 || uri.id.len == 0 ||
        timeline_parse(etag, &from, NULL) < 0) {
        return NULL;
    }
    struct entity_hold *h = mem_zalloc(sizeof(*h) + uri.id.len);
    if (!h) {
        return NULL; /* then what follows is told whole, perhaps */
    }
    h->take = (struct keeper_job){.is_aside = true, .run = run_take, .done = take_done};
    h->drop = (struct keeper_job){.is_aside = true, .run = run_drop, .done = drop_done};
    list_init(&h->take.letter.link);
    list_init(&h->drop.letter.link);
    h->from = from;
    h->id_len = uri.id.len;
    memcpy(h->id, uri.id.ptr, uri.id.len);
    keeper_submit(entity_keeper(p), &h->take);
    return h;
}

void entity_release(struct tidings_provider *p, void *held)
{
    keeper_submit(entity_keeper(p), &((struct entity_hold *)held)->drop);
}
