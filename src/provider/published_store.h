/* SPDX-License-Identifier: MIT
 *
 * What lies in the store, shared by published_store.c (putting) and published.c (serving).
 */
#ifndef PROVIDER_PUBLISHED_STORE_H
#define PROVIDER_PUBLISHED_STORE_H

#include "base/shelf.h"
#include "provider/published.h"

struct mime_table;

struct published {
    struct shelf *shelf; /* of struct published_item */
    struct mime_table *mime;
    const uint64_t *max_count, *max_bytes;
    uint64_t count, bytes; /* touched only inside shelf_update */
};

/* One block: the description's texts and the content follow the struct. Immutable. */
struct published_item {
    struct shelf_value value;
    struct tidings_resource about;
    struct tidings_str content;
    size_t memory; /* bytes that count */
    bool is_text;
    bool is_reserved; /* registered by the program: not ours to serve */
    char etag[PUBLISHED_ETAG_SIZE];
};

static inline struct published_item *published_item_of(const struct shelf_value *value)
{
    return (struct published_item *)(uintptr_t)value; /* its first member */
}

/* The last segment of a URI, or the whole when it has none. */
struct tidings_str published_name(struct tidings_str uri);

#endif
