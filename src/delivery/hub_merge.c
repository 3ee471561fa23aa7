/* SPDX-License-Identifier: MIT
 *
 * The table by which equal announcements are found: their fingerprints, without locks. Each step is
 * one atomic operation on one word. Merging writes the word that is there once more, so that what
 * its thread did before happened before the hub ends the mark and the change is told.
 *
 * A mark may be ended by an older announcement that says the same: then the newer one is merged
 * into less. It never stays when its announcement is gone.
 */
#include "delivery/hub_merge.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

int hub_merge_init(struct hub_merge *m)
{
    m->slots = mem_zalloc(HUB_MERGE_SLOTS * sizeof(*m->slots));
    return m->slots ? random_bytes(&m->seed, sizeof(m->seed)) : TIDINGS_E_NOMEM;
}

void hub_merge_deinit(struct hub_merge *m)
{
    mem_free(m->slots);
    m->slots = NULL;
}

static uint64_t *slot_at(struct hub_merge *m, uint64_t hash)
{
    return &m->slots[hash & (HUB_MERGE_SLOTS - 1)];
}

struct hub_merge_mark hub_merge_mark(struct hub_merge *m, const struct tidings_change *change)
{
    uint64_t hash = str_hash(change->uri, m->seed);
    struct hub_merge_mark mark = {.slot = slot_at(m, hash)};
    if (change->kind != TIDINGS_CHANGE_UPDATED) {
        return mark;
    }
    const struct tidings_str texts[] = {change->metadata, change->etag,   change->checksum,
                                        change->origin,   change->target, change->from};
    const int64_t numbers[] = {change->modified_ms, change->size,
                               change->has_size + 2 * change->not_subscribable};
    for (uint64_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hash = texts[i].len > 0 ? str_hash(texts[i], hash + i + 1) : hash;
    }
    if (numbers[0] != 0 || numbers[1] != 0 || numbers[2] != 0) {
        hash = str_hash(tidings_strn((const char *)numbers, sizeof(numbers)), hash);
    }
    mark.print = hash != 0 ? hash : 1;
    return mark;
}

bool hub_merge_find(const struct hub_merge_mark *mark)
{
    uint64_t is = mark->print;
    return is != 0 && __atomic_load_n(mark->slot, __ATOMIC_RELAXED) == is &&
           __atomic_compare_exchange_n(mark->slot, &is, is, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

bool hub_merge_begin(struct hub_merge *m, const struct hub_merge_mark *mark,
                     const struct tidings_change *change)
{
    if (mark->print == 0) {
        __atomic_store_n(mark->slot, 0, __ATOMIC_RELEASE);
        if (change->from.len > 0) { /* a move is a change of both */
            __atomic_store_n(slot_at(m, str_hash(change->from, m->seed)), 0, __ATOMIC_RELEASE);
        }
        return true;
    }
    return __atomic_exchange_n(mark->slot, mark->print, __ATOMIC_ACQ_REL) != mark->print;
}

void hub_merge_end(const struct hub_merge_mark *mark)
{
    uint64_t is = mark->print;
    if (is != 0) {
        (void)__atomic_compare_exchange_n(mark->slot, &is, 0, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED);
    }
}
