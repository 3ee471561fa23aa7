/* SPDX-License-Identifier: MIT
 *
 * The contract of every implementation of store/change_log.h. A test program calls changelog_suite
 * with its factory and returns the result.
 */
#ifndef CONTRACT_CHANGELOG_SUITE_H
#define CONTRACT_CHANGELOG_SUITE_H

#include "store/change_log.h"

/* A new, empty log; NULL with `err` set on failure. */
typedef struct changelog *(*changelog_factory_fn)(const struct changelog_limits *limits,
                                                  struct tidings_error *err);

/* The number of failed cases. */
int changelog_suite(const char *name, changelog_factory_fn create);

#endif
