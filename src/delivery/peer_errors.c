/* SPDX-License-Identifier: MIT
 *
 * The table of last errors: slots that were given back are used again first.
 */
#include "delivery/peer_errors.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define PEER_ERRORS_FIRST 8u

void peer_errors_deinit(struct peer_errors *all)
{
    mem_free(all->at);
    *all = (struct peer_errors){0};
}

/* 0: there is no room. */
static uint32_t peer_errors_take_slot(struct peer_errors *all)
{
    if (all->free > 0) {
        uint32_t slot = all->free;
        all->free = all->at[slot - 1].next_free;
        return slot;
    }
    if (all->count == all->cap) {
        uint32_t cap = all->cap ? all->cap * 2 : PEER_ERRORS_FIRST;
        struct peer_error *at =
            cap <= PEER_ERRORS_MAX ? mem_realloc(all->at, cap * sizeof(*at)) : NULL;
        if (!at) {
            return 0;
        }
        all->at = at;
        all->cap = cap;
    }
    return ++all->count;
}

void peer_errors_note(struct peer_errors *all, uint32_t *slot, int code, struct tidings_str text)
{
    if (*slot == 0) {
        *slot = peer_errors_take_slot(all);
    }
    if (*slot == 0) {
        return;
    }
    struct peer_error *e = &all->at[*slot - 1];
    size_t len = text.len < PEER_ERROR_TEXT ? text.len : PEER_ERROR_TEXT - 1;
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0u) == 0x80u) {
        len--;
    }
    e->at_ms = clock_wall_coarse_ms();
    e->code = code;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        e->text[i] = c < 0x20 || c == 0x7f ? ' ' : text.ptr[i];
    }
    e->text[len] = '\0';
}

void peer_errors_forget(struct peer_errors *all, uint32_t *slot)
{
    if (*slot > 0) {
        all->at[*slot - 1].next_free = all->free;
        all->free = *slot;
        *slot = 0;
    }
}

const struct peer_error *peer_errors_get(const struct peer_errors *all, uint32_t slot)
{
    return slot > 0 ? &all->at[slot - 1] : NULL;
}
