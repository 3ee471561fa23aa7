/* SPDX-License-Identifier: MIT
 *
 * Names that are nearly the one that was asked for.
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
    size_t from = at > FEATURE_LOOKED_AT / 2 ? at - FEATURE_LOOKED_AT / 2 : 0;
    size_t end = count - from < FEATURE_LOOKED_AT ? count : from + FEATURE_LOOKED_AT;
    unsigned most = name.len / 2 > LETTERS ? LETTERS : (unsigned)name.len / 2;
    for (size_t i = from; list && i < end; i++) {
        unsigned d = edit_distance(name, list->at[i]->name, most);
        size_t place = found;
        while (place > 0 && d < distances[place - 1]) {
            place--;
        }
        if (d > most || place == FEATURE_SUGGESTIONS) {
            continue;
        }
        found += found < FEATURE_SUGGESTIONS;
        for (size_t k = found - 1; k > place; k--) {
            ret[k] = ret[k - 1];
            distances[k] = distances[k - 1];
        }
        ret[place] = list->at[i]->name;
        distances[place] = d;
    }
    return found;
}
