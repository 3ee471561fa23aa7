/* SPDX-License-Identifier: MIT
 *
 * Making plans of globs and templates for the index, in two passes. First the pattern becomes a
 * text of the same length at most, in which wildcards are single control characters: `*.log` and
 * `{name}.log` differ in one byte from then on. Then that text is cut at its slashes into steps.
 */
#include "uri/pattern_plan.h"

#include "uri/pattern_part.h"
#include "uri/pattern_token.h"

/* ---- globs ----------------------------------------------------------------------------------- */

/* `**` from `at` to `next`: a segment of its own? */
static bool is_whole_segment(struct tidings_str p, size_t at, size_t next)
{
    return (at == 0 || p.ptr[at - 1] == '/') && (next == p.len || p.ptr[next] == '/');
}

/* Writes the marks; returns the length. Nothing behind a `**` inside a segment matters. */
static size_t mark_glob(struct pattern_plan *plan, struct tidings_str p, enum glob_mode mode)
{
    size_t len = 0;
    for (size_t at = 0; at < p.len;) {
        struct glob_token t = glob_token_at(p, at, mode);
        switch (t.kind) {
        case GLOB_LITERAL:
            memcpy(plan->text + len, p.ptr + at, t.next - at);
            len += t.next - at;
            break;
        case GLOB_ANY_ONE:
            plan->text[len++] = PART_ANY;
            break;
        case GLOB_CLASS:
            memcpy(plan->text + len, p.ptr + at, t.next - at);
            plan->text[len] = PART_CLASS;
            len += t.next - at;
            plan->text[len - 1] = PART_CLASS_END;
            break;
        case GLOB_STAR:
            plan->text[len++] = PART_STAR;
            break;
        case GLOB_STAR_STAR:
            if (!is_whole_segment(p, at, t.next)) {
                plan->text[len++] = PART_REST;
                return len;
            }
            plan->text[len++] = PART_LOOP;
            break;
        }
        at = t.next;
    }
    return len;
}

/* ---- templates ------------------------------------------------------------------------------- */

struct template_reader {
    struct tidings_str text;
    size_t at;
    bool in_query;
    bool exact;
    size_t len; /* written */
    size_t name_count;
    struct tidings_str names[TEMPLATE_MAX_VARIABLES];
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name that comes twice must have one value twice: more than a plan can say. False for what no
 * template may hold. */
static bool note_name(struct template_reader *r, struct tidings_str name)
{
    for (size_t i = 0; i < r->name_count; i++) {
        r->exact = r->exact && !str_eq(r->names[i], name);
    }
    if (r->name_count == TEMPLATE_MAX_VARIABLES || name.len == 0) {
        return false;
    }
    r->names[r->name_count++] = name;
    return true;
}

/* One variable: a separator before it, then its mark. `r->at` moves behind its modifiers. */
static void mark_variable(struct template_reader *r, char *out, char separator)
{
    size_t start = r->at;
    while (r->at < r->text.len && is_name_char(r->text.ptr[r->at])) {
        r->at++;
    }
    bool is_sound = note_name(r, tidings_strn(r->text.ptr + start, r->at - start));
    size_t plain_end = r->at;
    while (r->at < r->text.len && r->text.ptr[r->at] != ',' && r->text.ptr[r->at] != '}') {
        r->at++;
    }
    bool exploded = r->at > plain_end && r->text.ptr[r->at - 1] == '*';
    r->exact = r->exact && r->at == plain_end + exploded; /* no prefix, no rare name */
    if (separator) {
        out[r->len++] = separator;
    }
    if (!is_sound || (exploded && separator == '/')) {
        out[r->len++] = PART_REST;
    } else if (r->in_query) {
        out[r->len++] = PART_PARAMETER;
    } else {
        out[r->len++] = PART_VALUE;
    }
}

/* The expression at r->at. False when nothing behind it can be said. */
static bool mark_expression(struct template_reader *r, char *out)
{
    char op = '}';
    if (++r->at < r->text.len) {
        op = r->text.ptr[r->at];
    }
    if (strchr("+#;?&", op)) {
        out[r->len++] = PART_REST;
        return false;
    }
    char separator = ',', lead = '\0';
    if (op == '.' || op == '/') {
        separator = lead = op;
        r->at++;
    }
    for (;;) {
        mark_variable(r, out, lead);
        lead = separator;
        if (out[r->len - 1] == PART_REST) {
            return false;
        }
        if (r->at == r->text.len) {
            r->exact = false;
            return true;
        }
        if (r->text.ptr[r->at++] == '}') {
            return true;
        }
    }
}

static void mark_template(struct template_reader *r, char *out)
{
    while (r->at < r->text.len) {
        char c = r->text.ptr[r->at];
        if (c == '{') {
            if (!mark_expression(r, out)) {
                r->exact = false;
                return;
            }
            continue;
        }
        /* Canonical form leaves these out, or keeps them where they mean nothing. */
        r->exact = r->exact && c > ' ' && !strchr("\"<>\\^`|}", c);
        r->in_query = r->in_query || c == '?';
        out[r->len++] = c;
        r->at++;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_step(struct pattern_plan *plan, enum plan_kind kind, const char *text, size_t len,
                     size_t segments)
{
    plan->steps[plan->count++] = (struct plan_step){
        .kind = (uint8_t)kind, .segments = (uint8_t)segments, .text = tidings_strn(text, len)};
}

/* The literal segments from `start` to before the segment that holds the mark at `stop`; when there
 * is none, to the end. Returns where it stopped. */
static size_t add_runs(struct pattern_plan *plan, size_t start, size_t stop, size_t len)
{
    size_t segments = 0, from = start, last = start;
    for (size_t at = start; at < stop; at++) {
        if (plan->text[at] != '/') {
            continue;
        }
        last = at + 1;
        if (++segments == PLAN_MAX_RUN) {
            add_step(plan, PLAN_RUN, plan->text + from, last - from, segments);
            segments = 0;
            from = last;
        }
    }
    if (stop == len) {
        /* One segment more: the one that no slash follows. */
        add_step(plan, PLAN_END, plan->text + from, len - from, segments + 1);
        return len;
    }
    if (segments > 0) {
        add_step(plan, PLAN_RUN, plan->text + from, last - from, segments);
    }
    return last;
}

/* The segment with wildcards at `start`; returns where the next one begins, or `len` + 1. */
static size_t add_part(struct pattern_plan *plan, size_t start, size_t len)
{
    struct tidings_str ignored;
    struct tidings_str segment =
        str_cut(tidings_strn(plan->text + start, len - start), '/', &ignored, NULL);
    bool is_last = start + segment.len == len;
    if (memchr(segment.ptr, PART_REST, segment.len)) {
        add_step(plan, PLAN_REST, segment.ptr, part_head(segment), 0);
        return len + 1;
    }
    if (segment.ptr[0] == PART_LOOP) {
        /* Two in a row mean no more than one. */
        if (is_last || plan->count == 0 || plan->steps[plan->count - 1].kind != PLAN_LOOP) {
            add_step(plan, is_last ? PLAN_ALL : PLAN_LOOP, segment.ptr, 0, 0);
        }
    } else {
        add_step(plan, is_last ? PLAN_PART_END : PLAN_PART, segment.ptr, segment.len, 1);
    }
    return start + segment.len + 1;
}

/* Cut the marked text of `len` bytes. */
static int pattern_plan_cut(struct pattern_plan *plan, size_t len, struct tidings_error *err)
{
    plan->count = 0;
    size_t at = 0, loops = 0;
    while (at <= len) {
        size_t mark = at;
        while (mark < len && !part_is_mark(plan->text[mark])) {
            mark++;
        }
        at = add_runs(plan, at, mark, len);
        if (mark == len) {
            break;
        }
        at = add_part(plan, at, len);
        const struct plan_step *step = &plan->steps[plan->count - 1];
        loops += step->kind == PLAN_LOOP;
        if (step->text.len > PLAN_MAX_PART && step->kind != PLAN_RUN) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "pattern refused: a segment with wildcards of %zu bytes, at most "
                                "%u accepted",
                                step->text.len, PLAN_MAX_PART);
        }
        if (loops > PLAN_MAX_LOOPS) {
            return tidings_fail(err, TIDINGS_E_INVALID, "pattern refused: '**' more than %u times",
                                PLAN_MAX_LOOPS);
        }
    }
    return 0;
}

/* Marks are control characters: there must be no others. */
static int check_bytes(struct tidings_str text, const char *what, struct tidings_error *err)
{
    if (text.len == 0 || text.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s of %zu bytes refused: between 1 and %u accepted", what, text.len,
                            URI_MAX);
    }
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] <= ' ') {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "%s refused: blank or control character at byte %zu", what, i + 1);
        }
    }
    return 0;
}

int plan_glob(struct pattern_plan *plan, struct tidings_str pattern, bool question,
              struct tidings_error *err)
{
    int rc = check_bytes(pattern, "glob", err);
    if (rc == 0) {
        rc = glob_check_uri(pattern, question, err);
    }
    if (rc < 0) {
        return rc;
    }
    size_t len = mark_glob(plan, pattern, question ? GLOB_URI_Q : GLOB_URI);
    plan->exact = len == 0 || plan->text[len - 1] != PART_REST;
    return pattern_plan_cut(plan, len, err);
}

int plan_template(struct pattern_plan *plan, struct tidings_str text, struct tidings_error *err)
{
    int rc = check_bytes(text, "template", err);
    if (rc < 0) {
        return rc;
    }
    struct template_reader r = {.text = text, .exact = true};
    mark_template(&r, plan->text);
    plan->exact = r.exact;
    return pattern_plan_cut(plan, r.len, err);
}
