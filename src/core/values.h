/* SPDX-License-Identifier: MIT
 *
 * The content behind a change, for subscriptions that want it in the notification: read once per
 * change and worker, kept for as long as somebody is likely to need it, bounded.
 */
#ifndef CORE_VALUES_H
#define CORE_VALUES_H

#include "base/list.h"

#include <tidings/types.h>

struct change;
struct core;

struct values {
    struct list entries; /* oldest first */
    size_t count, bytes;
};

void values_init(struct values *v);
void values_deinit(struct values *v); /* nothing is being read any more */

enum value_state {
    VALUE_READING, /* come back; peers that wait are marked dirty when it is there */
    VALUE_READY,   /* *ret_json is an array of content elements */
    VALUE_NONE,    /* gone, unreadable or too large: tell without it */
};
/* The content of what changed; asks for it when nobody has. */
enum value_state values_get(struct core *core, const struct change *change,
                            struct tidings_str *ret_json);

#endif
