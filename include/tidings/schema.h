/* SPDX-License-Identifier: MIT
 *
 * Build the JSON Schema of an object from a table of its members: names, types and descriptions,
 * for the arguments or the structured result of a tool.
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
    TIDINGS_SCHEMA_OBJECT = 5,  /* any object, unless `rules` restrict it */
    TIDINGS_SCHEMA_ANY = 6,     /* any value */
};

/* A member of the object. This table row never grows. The schema leaves out zeroed fields. */
struct tidings_schema_field {
    const char *name; /* required, unique */
    enum tidings_schema_type type;
    const char *description; /* for the model, and for people who fill in a form */
    bool is_required;
    const char *const *choices; /* the accepted strings, NULL-terminated */
    /* Other JSON Schema keywords, a JSON object: {"minimum":1,"default":3}. Not type, description
     * or enum, which have members above. */
    const char *rules;
};

/* Make the JSON Schema of an object from a table of its members. The schema forbids other members.
 *
 * Returns a string that the caller releases with tidings_free, or NULL on failure.
 * TIDINGS_E_INVALID: a name is missing or duplicate, or a field that is not a string has choices.
 * TIDINGS_E_PARSE: rules are not a JSON object. TIDINGS_E_LIMIT: the schema is longer than 1 MiB.
 * TIDINGS_E_NOMEM: memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_schema_object(const struct tidings_schema_field *fields, size_t count,
                      struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
