/* SPDX-License-Identifier: MIT
 *
 * One of our JSON values as one of jansson's, so that the two parsers can be compared.
 */
#ifndef SUPPORT_JANSSON_VALUE_H
#define SUPPORT_JANSSON_VALUE_H

#include <jansson.h>

#include "formats/json.h"

/* A new reference. */
static inline json_t *jansson_value(struct json *v)
{
    json_t *made = NULL;
    switch (jv_type(v)) {
    case JV_NULL:
        return json_null();
    case JV_FALSE:
        return json_false();
    case JV_TRUE:
        return json_true();
    case JV_INT:
        return json_integer(jv_int(v));
    case JV_REAL:
        return json_real(jv_real(v));
    case JV_STRING:
        return json_stringn(jv_str(v).ptr, jv_str(v).len);
    case JV_ARRAY:
        made = json_array();
        for (size_t i = 0; i < jv_count(v); i++) {
            (void)json_array_append_new(made, jansson_value(jv_at(v, i)));
        }
        return made;
    case JV_OBJECT:
        made = json_object();
        struct tidings_str key;
        struct json *member;
        for (void *at = NULL; (at = jv_next(v, at, &key, &member)) != NULL;) {
            (void)json_object_setn_new(made, key.ptr, key.len, jansson_value(member));
        }
        return made;
    }
    return made;
}

#endif
