/* SPDX-License-Identifier: MIT
 *
 * struct filter and what the files filters*.c share: making filters (filters.c), asking them
 * (filters_pass.c), the document they judge (filters_document.c), and the changes they compare it
 * with (filters_past.c).
 */
#ifndef DELIVERY_FILTERS_PRIVATE_H
#define DELIVERY_FILTERS_PRIVATE_H

#include "delivery/filters.h"
#include "json/schema.h"

struct worker;

/* Enough for any filter a person writes; a judgement stays below half a millisecond. */
#define FILTER_MAX_STEPS 200000u
#define FILTER_MAX_SUBSCHEMAS 256u
#define FILTER_MAX_DEPTH 32u

struct filter {
    struct filters *all; /* NULL: they are gone */
    struct json_schema *schema;
    size_t refs;
    struct allowance *owner;     /* whose it counts for */
    bool sees_time;              /* its document has `time` … */
    bool looks_back;             /* … `previous` and `change` */
    uint64_t judged_seq;         /* the change it judged last … */
    uint64_t judged_before;      /* … after this one; 0: none … */
    uint32_t judged_turn;        /* … in this turn of the loop, if it sees the time … */
    enum schema_verdict verdict; /* … and how */
    size_t len;
    char text[];
};

/* The change of that resource that the subscription was told before; NULL: none is remembered. */
const struct change *filters_previous(const struct subscription *sub, const struct change *change);
/* It passes: the next one is compared with it. */
void filters_remember(struct subscription *sub, const struct change *change);

/* What `f` judges: {"uri": …, "metadata": …} and, if it names them,
 *     "time": {"ageMs": …, "hour": …, "minuteOfDay": …, "weekday": …}        now, in UTC
 *     "previous": metadata of `before`
 *     "change": {"changed": […], "difference": {…}, "ratio": {…}, "version": …}  from there
 * the latter two only where there is a `before`. *ret_bytes: of its text. NULL: out of memory. */
struct json *filters_document(const struct filter *f, const struct worker *worker,
                              const struct change *change, const struct change *before,
                              bool hides_from, size_t *ret_bytes);

#endif
