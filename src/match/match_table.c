/* SPDX-License-Identifier: MIT
 *
 * The hash table of the match index: linear probing over tags.
 *
 * Invariant: at most `fill` eighths of the slots are taken, and between an item's home slot and the
 * slot it sits in there is no free one. Removal moves later items back instead of leaving marks.
 * Pointers and tags are one block. An empty table has a single window of free tags.
 */
#include "match/match_table.h"

#include "base/mem.h"

#define MIN_CAP 8u

static uint8_t no_tags[MATCH_TABLE_WINDOW]; /* never written */

static size_t block_bytes(size_t cap)
{
    return cap * (sizeof(struct match_item *) + 1) + MATCH_TABLE_WINDOW;
}

void match_table_init(struct match_table *t, uint8_t fill)
{
    *t = (struct match_table){.tags = no_tags, .cap = 1, .fill = fill};
}

void match_table_deinit(struct match_table *t)
{
    mem_free(t->slots);
    match_table_init(t, t->fill);
}

static void set_tag(struct match_table *t, size_t at, uint8_t tag)
{
    t->tags[at] = tag;
    if (at < MATCH_TABLE_WINDOW) {
        t->tags[t->cap + at] = tag;
    }
}

static void match_table_insert(struct match_table *t, struct match_item *item)
{
    size_t at = item->hash & (t->cap - 1);
    while (t->tags[at]) {
        at = (at + 1) & (t->cap - 1);
    }
    set_tag(t, at, match_table_tag(item->hash));
    t->slots[at] = item;
}

static int match_table_resize(struct match_table *t, size_t cap)
{
    struct match_table bigger = {.cap = cap, .count = t->count, .fill = t->fill};
    if (cap > UINT32_MAX || !(bigger.slots = mem_alloc(block_bytes(cap)))) {
        return TIDINGS_E_NOMEM;
    }
    bigger.tags = (uint8_t *)(bigger.slots + cap);
    memset(bigger.tags, 0, cap + MATCH_TABLE_WINDOW);
    for (size_t i = 0; i < t->cap; i++) {
        if (t->tags[i]) {
            match_table_insert(&bigger, t->slots[i]);
        }
    }
    mem_free(t->slots);
    *t = bigger;
    return 0;
}

int match_table_add(struct match_table *t, struct match_item *item)
{
    if (t->count + 1 > t->cap * t->fill / 8) {
        int rc = match_table_resize(t, t->slots ? t->cap * 2 : MIN_CAP);
        if (rc < 0) {
            return rc;
        }
    }
    match_table_insert(t, item);
    t->count++;
    return 0;
}

/* Close the gap at `gap`: move back every later item of the run that may sit there. */
static void match_table_close_gap(struct match_table *t, size_t gap)
{
    size_t mask = t->cap - 1;
    for (size_t i = (gap + 1) & mask; t->tags[i]; i = (i + 1) & mask) {
        size_t home = t->slots[i]->hash & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            t->slots[gap] = t->slots[i];
            set_tag(t, gap, t->tags[i]);
            gap = i;
        }
    }
    set_tag(t, gap, 0);
}

void match_table_remove(struct match_table *t, const struct match_item *item)
{
    size_t at = item->hash & (t->cap - 1);
    while (t->tags[at] == 0 || t->slots[at] != item) {
        at = (at + 1) & (t->cap - 1);
    }
    match_table_close_gap(t, at);
    t->count--;
    if (t->count == 0) {
        match_table_deinit(t);
    } else if (t->cap > MIN_CAP && t->count < t->cap * t->fill / 40) {
        (void)match_table_resize(t, t->cap / 2); /* too large is still right */
    }
}

size_t match_table_bytes(const struct match_table *t)
{
    return t->slots ? block_bytes(t->cap) : 0;
}
