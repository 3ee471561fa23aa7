/* SPDX-License-Identifier: MIT
 *
 * The table: linear probing over tags.
 *
 * Invariant: at most three quarters of the slots are taken, and between an item's home slot and the
 * slot it sits in there is no free one. Removal moves later items back instead of leaving marks.
 * Pointers and tags are one block.
 */
#include "core/match_table.h"

#include "base/mem.h"

#define MIN_CAP 8u
#define SLOT_BYTES (sizeof(struct match_item *) + 1)

void match_table_init(struct match_table *t)
{
    *t = (struct match_table){0};
}

void match_table_deinit(struct match_table *t)
{
    mem_free(t->slots);
    *t = (struct match_table){0};
}

static void place(struct match_table *t, struct match_item *item)
{
    uint8_t *tags = match_table_tags(t);
    size_t at = item->hash & (t->cap - 1);
    while (tags[at]) {
        at = (at + 1) & (t->cap - 1);
    }
    tags[at] = match_table_tag(item->hash);
    t->slots[at] = item;
}

static int resize(struct match_table *t, size_t cap)
{
    struct match_table bigger = {.cap = cap, .count = t->count};
    if (cap > UINT32_MAX || !(bigger.slots = mem_alloc(cap * SLOT_BYTES))) {
        return TIDINGS_E_NOMEM;
    }
    memset(match_table_tags(&bigger), 0, cap);
    const uint8_t *tags = match_table_tags(t);
    for (size_t i = 0; i < t->cap; i++) {
        if (tags[i]) {
            place(&bigger, t->slots[i]);
        }
    }
    mem_free(t->slots);
    *t = bigger;
    return 0;
}

int match_table_add(struct match_table *t, struct match_item *item)
{
    if (t->count + 1 > t->cap / 4 * 3) {
        int rc = resize(t, t->cap ? t->cap * 2 : MIN_CAP);
        if (rc < 0) {
            return rc;
        }
    }
    place(t, item);
    t->count++;
    return 0;
}

/* Close the gap at `gap`: move back every later item of the run that may sit there. */
static void close_gap(struct match_table *t, size_t gap)
{
    uint8_t *tags = match_table_tags(t);
    size_t mask = t->cap - 1;
    for (size_t i = (gap + 1) & mask; tags[i]; i = (i + 1) & mask) {
        size_t home = t->slots[i]->hash & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            t->slots[gap] = t->slots[i];
            tags[gap] = tags[i];
            gap = i;
        }
    }
    tags[gap] = 0;
}

void match_table_remove(struct match_table *t, const struct match_item *item)
{
    size_t at = item->hash & (t->cap - 1);
    const uint8_t *tags = match_table_tags(t);
    while (tags[at] == 0 || t->slots[at] != item) {
        at = (at + 1) & (t->cap - 1);
    }
    close_gap(t, at);
    t->count--;
    if (t->count == 0) {
        match_table_deinit(t);
    } else if (t->cap > MIN_CAP && t->count < t->cap / 8) {
        (void)resize(t, t->cap / 2); /* too large is still right */
    }
}

size_t match_table_bytes(const struct match_table *t)
{
    return t->cap * SLOT_BYTES;
}
