/* SPDX-License-Identifier: MIT
 *
 * The JSON Schema of an object, made of a table: names, types and descriptions of its members, for
 * the arguments of a tool or its structured result.
 *
 *     static const struct tidings_schema_field fields[] = {
 *         {.name = "city", .description = "Where", .is_required = true},
 *         {.name = "days", .type = TIDINGS_SCHEMA_INTEGER, .rules = "{\"minimum\":1}"},
 *     };
 *     char *schema = tidings_schema_object(fields, 2, &err);
 *     about.input_schema = tidings_str(schema);
 *     tidings_server_add_tool(server, &about, forecast, NULL, &err);
 *     tidings_free(schema);
 *
 * Since 0.1.
 */
#ifndef TIDINGS_SCHEMA_H
#define TIDINGS_SCHEMA_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tidings_schema_type {
    TIDINGS_SCHEMA_STRING = 0,
    TIDINGS_SCHEMA_INTEGER = 1,
    TIDINGS_SCHEMA_NUMBER = 2,
    TIDINGS_SCHEMA_BOOLEAN = 3,
    TIDINGS_SCHEMA_STRINGS = 4, /* an array of strings */
    TIDINGS_SCHEMA_OBJECT = 5,  /* any object, unless `rules` say more */
    TIDINGS_SCHEMA_ANY = 6,     /* any value */
};

/* One member: a row of a table, so it has no room to grow. What is zero is not said. */
struct tidings_schema_field {
    const char *name; /* required, each once */
    enum tidings_schema_type type;
    const char *description; /* for the model, and for people who fill in a form */
    bool is_required;
    const char *const *choices; /* the strings it may be, NULL at the end */
    /* What else JSON Schema can say of it, a JSON object: {"minimum":1,"default":3}. Not type,
     * description or enum, which are said above. */
    const char *rules;
};

/* Make the JSON Schema of an object from a table of its members. The text is to be released with
 * tidings_free; other members than these are forbidden by it. NULL on failure: TIDINGS_E_INVALID: a
 * row without a name, a name that stands twice, choices of something that is no string;
 * TIDINGS_E_PARSE: rules that are no JSON object; TIDINGS_E_LIMIT: it is longer than 1 MiB;
 * TIDINGS_E_NOMEM. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_schema_object(const struct tidings_schema_field *fields, size_t count,
                      struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
