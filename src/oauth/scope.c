/* SPDX-License-Identifier: MIT
 *
 * Scopes by their words, of which there are few.
 */
#include "oauth/scope.h"

#include "wire/bearer.h"

static bool scope_has_word(struct tidings_str all, struct tidings_str word)
{
    while (all.len > 0) {
        if (str_eq(str_cut(all, ' ', &all, NULL), word)) {
            return true;
        }
    }
    return false;
}

bool scope_has(struct tidings_str all, struct tidings_str part)
{
    while (part.len > 0) {
        struct tidings_str word = str_cut(part, ' ', &part, NULL);
        if (word.len > 0 && !scope_has_word(all, word)) {
            return false;
        }
    }
    return true;
}

void scope_add(struct buf *all, struct tidings_str more)
{
    while (more.len > 0) {
        struct tidings_str word = str_cut(more, ' ', &more, NULL);
        if (bearer_is_scope(word) && !scope_has_word(buf_str(all), word)) {
            buf_puts(all, all->len > 0 ? STR(" ") : STR_EMPTY);
            buf_puts(all, word);
        }
    }
}
