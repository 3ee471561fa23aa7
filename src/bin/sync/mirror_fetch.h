/* SPDX-License-Identifier: MIT
 *
 * Reads the content of a resource into a file. Servers that can give parts are asked for one after
 * the other, so that neither the size of a message nor memory bounds it; all parts are of one state
 * of the resource, or it is begun again.
 */
#ifndef BIN_MIRROR_FETCH_H
#define BIN_MIRROR_FETCH_H

#include <tidings/client.h>

#define FETCH_ETAG_MAX 256u /* longer ones are not kept */

struct fetch {
    struct tidings_client *client;
    const char *uri;
    int fd; /* of an empty file */
    /* filled: */
    char etag[FETCH_ETAG_MAX]; /* "": not known */
    int errnum; /* not 0: the file cannot be written, which is no error of the server */
    /* state: */
    char *state; /* the etag of the first part */
    int64_t total, piece;
};

/* TIDINGS_E_BUSY: it changes faster than it can be read; TIDINGS_E_LIMIT: it is too large for the
 * client, and the server gives no parts. */
int fetch_run(struct fetch *f, struct tidings_error *err);

#endif
