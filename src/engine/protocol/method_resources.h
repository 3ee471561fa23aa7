/* SPDX-License-Identifier: MIT
 *
 * Access to completions: a restricted principal receives only those suggested values of a template
 * variable that lead to resources it may list.
 */
#ifndef ENGINE_PROTOCOL_METHOD_RESOURCES_H
#define ENGINE_PROTOCOL_METHOD_RESOURCES_H

#include "engine/catalog/job.h"

/* Returns true if the value of the template variable may be suggested to the principal. */
bool completion_access_allows(const struct tidings_complete *c, struct tidings_str value);

#endif
