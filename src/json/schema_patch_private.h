/* SPDX-License-Identifier: MIT
 *
 * What is known of a full schema while the schema of its merge patches is made. Private to
 * json/schema_patch*.c.
 */
#ifndef JSON_SCHEMA_PATCH_PRIVATE_H
#define JSON_SCHEMA_PATCH_PRIVATE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "json/schema_patch.h"
#include "json/write.h"

#define PATCH_MAX_POINTER 4096u
#define PATCH_MAX_BYTES ((size_t)64 << 20)

struct pointer_row {
    struct pointer_row *next;
    const char *at;
    unsigned number;
    bool is_whole; /* of a value in an array: no patch, but a value that is replaced whole */
};

/* Schemas for one member, any of which will do. */
struct choice {
    struct choice *next;
    unsigned number; /* of its pointer */
};

struct member {
    struct member *next;
    struct tidings_str name;
    struct choice *choices, **choices_end;
};

struct table {
    struct member *members, **members_end;
    struct map by_name;
};

struct maker {
    struct json *full;
    struct arena arena;
    struct map by_pointer; /* of struct pointer_row */
    struct pointer_row *pointers, **pointers_end;
    struct buf out; /* the text of the patch schema */
    struct jw w;
    unsigned n_pointers, steps, depth;
    bool is_whole;       /* references made now are for values in arrays */
    unsigned subschemas; /* that were made */
    int failed;
    struct tidings_error *err;
};

/* What the object or array at one JSON pointer may hold, gathered from all schemas that speak of
 * it. */
struct members {
    struct arena arena;
    struct table named, patterns;
    struct member others; /* what is not named */
    struct table places;  /* of an array: of its first items, by number */
    struct member items;  /* … and of all */
    struct map seen;      /* pointers visited */
    bool closed;          /* additionalProperties: false was said */
    bool never;           /* no object can be valid here */
};

/* schema_patch_gather.c */
void members_init(struct members *into);
void members_deinit(struct members *into);
/* What the schema at `at` says of the object, and all that it refers to. `certain`: every valid
 * value satisfies this schema, so that what it forbids is forbidden. */
int members_gather(struct maker *m, struct members *into, const char *at, bool certain);
/* The number of a JSON pointer (in arrays it has another), which is queued when it is new. */
int patch_refer(struct maker *m, const char *at, unsigned *ret);
int patch_no_memory(struct maker *m); /* says so */

#endif
