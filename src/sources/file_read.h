/* SPDX-License-Identifier: MIT
 *
 * An open file as content that is read in pieces (tidings_read_pieces). It keeps its descriptor
 * until a client has received all of it. So the process uses at most a sixteenth of its descriptors
 * for such files.
 */
#ifndef SOURCES_FILE_READ_H
#define SOURCES_FILE_READ_H

#include <sys/stat.h>

#include <tidings/provider.h>

#define FILE_PIECES_SHARE 16u

struct pool;

#endif
