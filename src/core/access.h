/* SPDX-License-Identifier: MIT
 *
 * Who may do what with which URI: one question, asked by list, read, subscribe and completion, and
 * again at delivery, once per change and class of peers.
 *
 * A principal is whoever a transport says the peer is; NULL is anybody. Everything is allowed until
 * rules are configured.
 */
#ifndef CORE_ACCESS_H
#define CORE_ACCESS_H

#include "core/principal.h"

enum access_op {
    ACCESS_LIST,
    ACCESS_READ,
    ACCESS_SUBSCRIBE,
    ACCESS_WRITE,
};

bool access_allows(const struct principal *who, enum access_op op, struct tidings_str uri);

#endif
