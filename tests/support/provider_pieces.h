/* SPDX-License-Identifier: MIT
 *
 * For hosts that have no use for pieces: everything at once.
 */
#ifndef SUPPORT_PROVIDER_PIECES_H
#define SUPPORT_PROVIDER_PIECES_H

#include <tidings/provider.h>

static inline int provider_pieces_read(struct tidings_read *read,
                                       const struct tidings_resource *about,
                                       const struct tidings_pieces *pieces,
                                       struct tidings_error *err)
{
    size_t size = (size_t)pieces->size;
    char *bytes = tidings_alloc(size + 1);
    int rc = bytes ? pieces->read(pieces->user, 0, bytes, size, err) : TIDINGS_E_NOMEM;
    pieces->close(pieces->user);
    if (rc < 0) {
        tidings_free(bytes);
        return rc;
    }
    return tidings_read_take(read, about, bytes, size, err);
}

#endif
