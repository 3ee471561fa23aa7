/* SPDX-License-Identifier: MIT
 * An open file as content that is read in pieces (tidings_read_pieces). It keeps its descriptor
 * until a client has received all of it. So the process uses at most a sixteenth of its descriptors
 * for such files.
 */
#ifndef PROVIDER_FILE_PIECES_H
#define PROVIDER_FILE_PIECES_H

#include <sys/stat.h>

#include <tidings/provider.h>

#define FILE_PIECES_SHARE 16u

struct pool;

/* Takes `fd` on success. Fails with TIDINGS_E_BUSY if there are too many, or TIDINGS_E_NOMEM.
 * Pieces that are not in the page cache are read on `readers`, which outlive it. */
int file_pieces_open(struct tidings_pieces *ret, int fd, const struct stat *st,
                     struct pool *readers);

#endif
