/* SPDX-License-Identifier: MIT
 *
 * The etag of content that is at hand as a whole: 32 hexadecimal digits, equal for equal bytes.
 */
#ifndef PROVIDER_ETAG_H
#define PROVIDER_ETAG_H

#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"

#define ETAG_SIZE 33u /* with its NUL */

static inline struct tidings_str etag_of(struct tidings_str content, char out[ETAG_SIZE])
{
    (void)snprintf(out, ETAG_SIZE, "%016" PRIx64 "%016" PRIx64, str_hash(content, 1),
                   str_hash(content, 2));
    return tidings_strn(out, ETAG_SIZE - 1);
}

#endif
