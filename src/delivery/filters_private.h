/* SPDX-License-Identifier: MIT
 *
 * What a filter is, for filters.c, which makes them, and filters_pass.c, which asks them.
 */
#ifndef DELIVERY_FILTERS_PRIVATE_H
#define DELIVERY_FILTERS_PRIVATE_H

#include "delivery/filters.h"
#include "json/schema.h"

/* Enough for any filter a person writes; a judgement stays below half a millisecond. */
#define FILTER_MAX_STEPS 200000u
#define FILTER_MAX_SUBSCHEMAS 256u
#define FILTER_MAX_DEPTH 32u

struct filter {
    struct filters *all; /* NULL: they are gone */
    struct json_schema *schema;
    size_t refs;
    struct allowance *owner;     /* whose it counts for */
    uint64_t judged_seq;         /* the change it judged last … */
    enum schema_verdict verdict; /* … and how */
    size_t len;
    char text[];
};

#endif
