/* SPDX-License-Identifier: MIT
 *
 * Suggesting tools and prompts whose names are nearly the one that was asked for.
 */
#include "base/edit_distance.h"
#include "base/str.h"
#include "handler/feature.h"

#define LETTERS 3u

size_t feature_suggest(const struct feature_list *list, struct tidings_str name,
                       struct tidings_str ret[FEATURE_SUGGESTIONS])
{
    unsigned distances[FEATURE_SUGGESTIONS];
    size_t found = 0, count = list ? list->count : 0, at = feature_list_after(list, name);
    size_t from = at > FEATURE_SUGGEST_SCAN / 2 ? at - FEATURE_SUGGEST_SCAN / 2 : 0;
    size_t end = count - from < FEATURE_SUGGEST_SCAN ? count : from + FEATURE_SUGGEST_SCAN;
    unsigned most = name.len / 2 > LETTERS ? LETTERS : (unsigned)name.len / 2;
    for (size_t i = from; list && i < end; i++) {
        unsigned d = edit_distance(name, list->at[i]->name, most);
        size_t rank = found;
        while (rank > 0 && d < distances[rank - 1]) {
            rank--;
        }
        if (d > most || rank == FEATURE_SUGGESTIONS) {
            continue;
        }
        found += found < FEATURE_SUGGESTIONS;
        for (size_t k = found - 1; k > rank; k--) {
            ret[k] = ret[k - 1];
            distances[k] = distances[k - 1];
        }
        ret[rank] = list->at[i]->name;
        distances[rank] = d;
    }
    return found;
}
