/* SPDX-License-Identifier: MIT
 *
 * Reads a resource that grows, a log, from its end: its last lines first, then what is new and no
 * more. Of a server that gives no parts the whole is read each time, and what is new is taken of
 * it. A resource that became shorter, or that holds other bytes than those it had right before
 * what is new, was begun anew, and is read from its beginning.
 */
#ifndef BIN_GROWING_H
#define BIN_GROWING_H

#include <tidings/client.h>

#define GROWING_MARK 256u

enum growing_news {
    GROWING_BYTES,
    GROWING_TRUNCATED, /* it is shorter than it was */
    GROWING_REPLACED,  /* it is another one */
};
struct growing_piece {
    enum growing_news news;
    int64_t from, to; /* of GROWING_BYTES */
    struct tidings_str bytes;
};
/* Told in order. Not 0: no more. */
typedef int (*growing_fn)(void *user, const struct growing_piece *piece);

struct growing {
    struct tidings_client *client;
    const char *uri;
    growing_fn fn;
    void *user;
    bool is_other; /* set by whoever heard that there is another one of this name: deleted, created
                    */
    /* state: */
    int64_t at;    /* what is before was told */
    int64_t piece; /* bytes to ask for at once */
    char mark[GROWING_MARK];
    size_t mark_len; /* the bytes right before `at`, to know it again */
};

/* The last so many lines, and how far that is. What is told does not depend on the size: pieces of
 * at most 1 MiB, or the whole as far as it is a message. 0, what `fn` returned, or an error. */
int growing_begin(struct growing *g, int64_t lines, struct tidings_error *err);
/* What is new, up to 16 pieces. 0: that was all for now; 1: there is more; or what `fn` returned,
 * or an error. */
int growing_more(struct growing *g, struct tidings_error *err);
/* It is gone: what comes in its place is new from its beginning, without a word about it. */
void growing_forget(struct growing *g);

#endif
