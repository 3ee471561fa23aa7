/* SPDX-License-Identifier: MIT
 *
 * A change log beside a store: one in memory (store/changelog.h) that begins where the store stood;
 * the store decides about cursors of earlier epochs, or of other nodes.
 */
#ifndef STORE_CHANGELOG_DURABLE_H
#define STORE_CHANGELOG_DURABLE_H

#include "store/changelog.h"

struct changelog_durable_ops {
    /* As `resume` of struct changelog_ops: any thread. */
    bool (*resume)(void *user, uint64_t epoch, uint64_t position, bool is_durable, uint64_t *ret);
    /* As `knows`; may be NULL: any thread. */
    bool (*knows)(void *user, uint64_t epoch, uint64_t position);
    /* A change was appended; may be NULL. On the thread of the log. */
    void (*appended)(void *user, const struct change *change);
    void (*destroy)(void *user); /* of `user` */
};

/* Takes `user` with a success. */
int changelog_durable_create(const struct changelog_limits *limits, uint64_t first,
                             const struct changelog_durable_ops *ops, void *user,
                             struct changelog **ret, struct tidings_error *err);

#endif
