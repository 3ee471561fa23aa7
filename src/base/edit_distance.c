/* SPDX-License-Identifier: MIT
 *
 * Levenshtein distance by the table of distances between all prefixes of the two words, row by row;
 * of each row only the cells at most `most` away from the diagonal, because those farther off are
 * above `most` anyway.
 */
#include "base/edit_distance.h"

#include <assert.h>

static unsigned least_of(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most)
{
    assert(most <= EDIT_DISTANCE_MAX);
    const unsigned beyond = most + 1;
    unsigned row[2 * EDIT_DISTANCE_MAX + 3]; /* cell k: i letters of a, i + k - most - 1 of b … */
    if (a.len > b.len + most || b.len > a.len + most) {
        return beyond;
    }
    for (unsigned k = 0; k <= 2 * most + 2; k++) { /* … with one on each side that is too far */
        row[k] =
            k >= most + 1 && k <= 2 * most + 1 && k - most - 1 <= b.len ? k - most - 1 : beyond;
    }
    for (size_t i = 1; i <= a.len; i++) {
        unsigned nearest = beyond;
        for (unsigned k = 1; k <= 2 * most + 1; k++) {
            size_t j = i + k; /* of b, and most + 1 more */
            if (j < most + 1 || j - most - 1 > b.len) {
                row[k] = beyond;
                continue;
            }
            j -= most + 1;
            unsigned replaced = j == 0 ? beyond : row[k] + (a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1);
            unsigned d = least_of(replaced, row[k + 1] + 1, row[k - 1] + 1);
            row[k] = d < beyond ? d : beyond;
            nearest = row[k] < nearest ? row[k] : nearest;
        }
        if (nearest == beyond) {
            return beyond;
        }
    }
    return row[b.len + most + 1 - a.len];
}
