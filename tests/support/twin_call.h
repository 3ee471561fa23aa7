/* SPDX-License-Identifier: MIT
 *
 * Choices drawn from bytes, and their values: URIs that match existing items in either world,
 * patterns, subscription options, methods and tools with their arguments. The output in a buffer is
 * JSON.
 */
#ifndef SUPPORT_TWIN_CALL_H
#define SUPPORT_TWIN_CALL_H

#include <tidings/types.h>

#include "base/str.h"

#define TWIN_URI 256
#define TWIN_PICK(c, table) (table)[twin_choose(c, sizeof(table) / sizeof((table)[0]))]
#define TWIN_LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct twin_choices {
    const uint8_t *at;
    size_t len;
    uint64_t state;
};

void twin_choices_init(struct twin_choices *c, const uint8_t *bytes, size_t len);
/* 0 … n - 1. */
unsigned twin_choose(struct twin_choices *c, unsigned n);

void twin_choose_uri(struct twin_choices *c, char out[TWIN_URI]);
/* The URI of one subscription, and its options. */
void twin_put_wish(struct twin_choices *c, struct buf *uri, struct buf *options);
/* Parameters, and after a comma members of _meta. Returns the method. *name: the name for a header
 * field of the request; or NULL. */
const char *twin_put_call(struct twin_choices *c, unsigned number, struct buf *params,
                          struct buf *meta, const char **name);

#endif
