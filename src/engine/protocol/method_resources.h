/* SPDX-License-Identifier: MIT
 *
 * Access to completions: of the values suggested for a variable of a template, a principal who may
 * not see everything is told those that lead to what it may list.
 */
#ifndef ENGINE_PROTOCOL_METHOD_RESOURCES_H
#define ENGINE_PROTOCOL_METHOD_RESOURCES_H

#include "engine/catalog/job.h"

/* May it be suggested to whoever asks, as a value of the variable of the template? */
bool completion_access_allows(const struct tidings_complete *c, struct tidings_str value);

#endif
