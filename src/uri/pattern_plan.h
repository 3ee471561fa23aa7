/* SPDX-License-Identifier: MIT
 *
 * A plan: a glob or a template as steps from segment to segment, for an index over many.
 *
 * Steps follow one another from the start of the URI: `a/b/` (a run of literal segments), one
 * segment with wildcards (a *part*), any number of segments; and one that ends it. The plan of a
 * pattern matches at least what the pattern matches; when it is exact, nothing else.
 */
#ifndef URI_PATTERN_PLAN_H
#define URI_PATTERN_PLAN_H

#include "uri/pattern.h"
#include "uri/template.h"
#include "uri/uri.h"

#define PLAN_MAX_RUN 32u    /* segments of one run; longer ones become several */
#define PLAN_MAX_LOOPS 8u   /* `**` of one pattern */
#define PLAN_MAX_PART 1024u /* bytes of one segment with wildcards */
/* Each wildcard ends a part or a loop, with a run before it; runs are cut at their maximum. */
#define PLAN_MAX_STEPS (2 * GLOB_MAX_WILDCARDS + 2 + URI_MAX / PLAN_MAX_RUN)

enum plan_kind {
    PLAN_RUN,  /* `text`: `segments` literal segments, each with the slash behind it */
    PLAN_PART, /* `text`: a segment with wildcards (see pattern_part.h), a slash behind it */
    PLAN_LOOP, /* any number of segments, each with a slash behind it */
    /* These end the plan. */
    PLAN_END,      /* `text`: `segments` literal segments, then the end */
    PLAN_PART_END, /* `text`: a segment with wildcards, then the end */
    PLAN_ALL,      /* anything */
    PLAN_REST,     /* `text`, then anything; never exact */
};

struct plan_step {
    uint8_t kind;
    uint8_t segments;
    struct tidings_str text; /* in the plan's own memory */
};

struct pattern_plan {
    bool exact;
    size_t count;
    struct plan_step steps[PLAN_MAX_STEPS];
    char text[URI_MAX];
};

/* Refuses what glob_check_uri refuses, and what a plan cannot hold (TIDINGS_E_INVALID). */
int plan_glob(struct pattern_plan *plan, struct tidings_str pattern, bool question,
              struct tidings_error *err);
/* Of a canonical template. Not exact when there is any doubt, also about whether it is well formed:
 * the caller then asks template_create. */
int plan_template(struct pattern_plan *plan, struct tidings_str text, struct tidings_error *err);

#endif
