/* SPDX-License-Identifier: MIT
 *
 * Finds the nearest word by edits (Levenshtein). Words longer than any command are not measured.
 */
#include "bin/cli/suggest.h"

#include <string.h>

#define WORD_MAX 32u

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

static unsigned distance(const char *a, const char *b)
{
    unsigned row[WORD_MAX + 1];
    size_t len = strlen(b);
    for (size_t j = 0; j <= len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= len; j++) {
            unsigned above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
            diagonal = above;
        }
    }
    return row[len];
}

const char *suggest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t len = strlen(word);
    unsigned best_distance = len < 3 ? (unsigned)len : 3; /* something of the word must be left */
    if (len > WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; candidates[i]; i++) {
        unsigned d = strlen(candidates[i]) <= WORD_MAX ? distance(word, candidates[i]) : 3;
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}
