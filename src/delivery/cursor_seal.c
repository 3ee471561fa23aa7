/* SPDX-License-Identifier: MIT
 *
 * Seals cursors for clients that may not see everything, and keeps what was sealed in this turn of
 * the loop.
 */
#include "delivery/cursor_seal.h"

#include "access/access.h"
#include "base/mem.h"
#include "base/seal.h"
#include "delivery/delivery.h"

_Static_assert(CURSOR_TEXT >= 58 + CURSOR_LOST_TEXT, "the longest is 72 bytes");

#define PURPOSE STR("cursor")
/* Bytes of what is sealed: else its length would tell how long the numbers are. */
#define PADDED 72u
/* In base64url, without padding. */
_Static_assert((SEAL_SALT + SEAL_NONCE + PADDED + SEAL_TAG + 2) / 3 * 4 <= CURSOR_SEALED,
               "bytes of a seal");
#define NONE STR("-") /* nothing could be sealed: who comes back with it reads again */

#define PLACES 256u /* of numbers that follow one another: what one stream is told in a turn */

struct cursor_seals {
    struct buf sealed; /* the last one, while it is made */
    unsigned turn;
    struct {
        unsigned turn; /* it was sealed in */
        struct log_cursor cursor;
        size_t len;
        char text[CURSOR_SEALED];
    } at[PLACES];
};

void cursor_seal_free(struct cursor_seals *all)
{
    if (all) {
        buf_deinit(&all->sealed);
        mem_free(all);
    }
}

void cursor_seal_end_turn(struct cursor_seals *all)
{
    if (all) {
        all->turn++;
    }
}

static bool is_equal(const struct log_cursor *a, const struct log_cursor *b)
{
    return a->epoch == b->epoch && a->seq == b->seq && a->has_position == b->has_position &&
           a->position == b->position && a->lost == b->lost && a->lost_to == b->lost_to;
}

/* Into `out`; its length, 0: there is no randomness or memory. */
static size_t seal(struct worker *worker, const struct log_cursor *cursor, char out[CURSOR_SEALED])
{
    char plain[CURSOR_TEXT];
    struct tidings_str text = cursor_print(cursor, plain);
    memset(plain + text.len, ' ', PADDED - text.len);
    struct buf *sealed = &worker->delivery->seals->sealed;
    buf_clear(sealed);
    if (seal_put(&worker->sealer, sealed, PURPOSE, tidings_strn(plain, PADDED)) < 0) {
        return 0;
    }
    memcpy(out, sealed->ptr, sealed->len);
    return sealed->len;
}

struct tidings_str cursor_seal_make(struct worker *worker, const struct principal *principal,
                                    const struct log_cursor *cursor)
{
    if (access_is_full(principal)) {
        return STR_EMPTY;
    }
    if (!worker->delivery->seals) {
        worker->delivery->seals = mem_zalloc(sizeof(*worker->delivery->seals));
        if (worker->delivery->seals) {
            buf_init(&worker->delivery->seals->sealed, CURSOR_SEALED);
            cursor_seal_end_turn(worker->delivery->seals); /* nothing is from this one yet */
        }
    }
    struct cursor_seals *all = worker->delivery->seals;
    if (!all) {
        return NONE;
    }
    size_t i = cursor->seq % PLACES;
    if (all->at[i].turn != all->turn || !is_equal(&all->at[i].cursor, cursor)) {
        all->at[i].len = seal(worker, cursor, all->at[i].text);
        all->at[i].cursor = *cursor;
        all->at[i].turn = all->turn;
    }
    return all->at[i].len > 0 ? tidings_strn(all->at[i].text, all->at[i].len) : NONE;
}

struct tidings_str cursor_seal_put(struct worker *worker, const struct principal *principal,
                                   const struct log_cursor *cursor, char out[CURSOR_TEXT])
{
    struct tidings_str sealed = cursor_seal_make(worker, principal, cursor);
    return sealed.len > 0 ? sealed : cursor_print(cursor, out);
}

bool cursor_seal_open(struct worker *worker, const struct principal *principal,
                      struct tidings_str text, struct log_cursor *ret)
{
    if (cursor_parse(text, ret)) {
        return access_is_full(principal);
    }
    struct buf plain;
    buf_init(&plain, CURSOR_SEALED);
    bool good = text.len <= CURSOR_SEALED &&
                seal_open(&worker->sealer, &plain, PURPOSE, text) == 0 &&
                cursor_parse(str_trim(buf_str(&plain), " "), ret);
    buf_deinit(&plain);
    return good;
}
