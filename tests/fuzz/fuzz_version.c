/* SPDX-License-Identifier: MIT
 *
 * Any three strings (a line each) as versions: the order is antisymmetric, transitive where it
 * exists, and total for lists; an overlong version has none.
 */
#include <stdlib.h>

#include "base/str.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static int version_sign(int n)
{
    return (n > 0) - (n < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str rest = tidings_strn(size ? (const char *)data : "", size), v[3];
    int order[3][3], sorted[3][3];
    for (size_t i = 0; i < 3; i++) {
        v[i] = str_cut(rest, '\n', &rest, NULL);
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) {
            order[i][k] = version_compare(v[i], v[k]);
            sorted[i][k] = version_sign(version_sort(v[i], v[k]));
            bool is_long = v[i].len > VERSION_MAX || v[k].len > VERSION_MAX;
            require(!is_long || order[i][k] == VERSION_UNKNOWN);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) {
            int back = order[i][k] == VERSION_UNKNOWN ? VERSION_UNKNOWN : -order[i][k];
            require(order[k][i] == back && sorted[k][i] == -sorted[i][k]);
            require((sorted[i][k] == 0) == str_eq(v[i], v[k]));
            for (size_t m = 0; m < 3; m++) {
                if (order[i][k] <= 0 && order[k][m] <= 0) {
                    int least = order[i][k] < order[k][m] ? order[i][k] : order[k][m];
                    require(order[i][m] == least);
                }
                if (sorted[i][k] <= 0 && sorted[k][m] <= 0) {
                    require(sorted[i][m] <= 0);
                }
            }
        }
    }
    return 0;
}
