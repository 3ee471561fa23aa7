/* SPDX-License-Identifier: MIT
 *
 * JSON pointers (RFC 6901): "/filter/0/a~1b".
 */
#ifndef JSON_POINTER_H
#define JSON_POINTER_H

#include "json/json.h"

/* The value a pointer leads to below `root`; the empty pointer: `root` itself. NULL when there is
 * none, or when it is not a pointer. A member's name may be up to 1024 bytes long. */
struct json *jv_point(struct json *root, struct tidings_str pointer);

#endif
