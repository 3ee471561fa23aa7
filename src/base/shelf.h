/* SPDX-License-Identifier: MIT
 *
 * Values by name that several threads share: what one of them puts here, all of them see at once.
 *
 * A value is immutable and reference-counted; whoever gets one may use it for as long as it likes,
 * also after another took its place. Changing the shelf is one step that nobody sees half of:
 * shelf_update holds it while `decide` looks at what is there and says what shall be.
 *
 * Keys ascend by bytes. Looking up is a binary search; adding and removing move pointers, so a
 * shelf is for thousands of values, not for millions. How many there may be is its owner's to
 * decide.
 */
#ifndef BASE_SHELF_H
#define BASE_SHELF_H

#include <tidings/types.h>

struct shelf;

/* Embedded in what is kept. */
struct shelf_value {
    struct tidings_str key; /* in the value's own memory */
    void (*destroy)(struct shelf_value *value);
    unsigned refs; /* atomic; whoever makes it sets 1 */
};
struct shelf_value *shelf_value_ref(struct shelf_value *value);
void shelf_value_unref(struct shelf_value *value); /* any thread; NULL is fine */

struct shelf *shelf_create(struct tidings_error *err);
void shelf_destroy(struct shelf *s); /* no thread uses it any more; NULL is fine */

/* A new reference, or NULL. */
struct shelf_value *shelf_find(struct shelf *s, struct tidings_str key);
/* The same for the first key greater than `after`. */
struct shelf_value *shelf_next(struct shelf *s, struct tidings_str after);

enum shelf_decision {
    SHELF_KEEP = 0,
    SHELF_REPLACE = 1, /* `fresh` is there now */
    SHELF_REMOVE = 2,
};
/* Called with what is there (NULL: nothing) while nobody else can look or change. Must be short and
 * must not use the shelf. A negative code changes nothing. */
typedef int (*shelf_decide_fn)(void *user, const struct shelf_value *old);

/* Change what is at `key`, which is that of `fresh` (NULL when nothing may come there). The
 * caller's reference to `fresh` stays the caller's. Returns what `decide` did, or TIDINGS_E_NOMEM
 * without having asked; not when something is there already. */
int shelf_update(struct shelf *s, struct tidings_str key, struct shelf_value *fresh,
                 shelf_decide_fn decide, void *user);

#endif
