/* SPDX-License-Identifier: MIT
 *
 * The content of a resource that changed, for `tidings watch`: its contents now, and what differs
 * from those seen before. What was seen is kept up to CONTENT_KEPT_MAX bytes and CONTENT_COUNT_MAX
 * resources, those told of last; of a content that is no text, or is larger than CONTENT_TEXT_MAX,
 * its size alone.
 */
#ifndef BIN_CONTENT_H
#define BIN_CONTENT_H

#include <tidings/client.h>

#define CONTENT_TEXT_MAX (4u << 20)
#define CONTENT_KEPT_MAX (64u << 20)
#define CONTENT_COUNT_MAX 10000u

struct content_kept;

struct content {
    char *contents;   /* JSON array; NULL: it was not, or could not be read */
    char *difference; /* see diff.h; NULL: there is none to tell */
    bool has_before, has_after;
    uint64_t before, after;   /* bytes */
    struct tidings_error err; /* why it could not be read; code 0: it could */
};

/* NULL: no memory. */
struct content_kept *content_create(void);
void content_destroy(struct content_kept *kept);

/* Keep what the resource holds now, so that its first change can be told; for a container, what
 * those hold whose contents come with it. */
void content_begin(struct content_kept *kept, struct tidings_client *client, const char *uri);

/* Read it and compare it with what was kept (NULL: read it only), then keep this. For a resource
 * that was deleted nothing is asked, and what was kept of it is forgotten. */
void content_read(struct content_kept *k, struct tidings_client *client,
                  const struct tidings_update *u, struct content *c);
void content_release(struct content *c);

#endif
