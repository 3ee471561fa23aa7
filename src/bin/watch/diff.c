/* SPDX-License-Identifier: MIT
 *
 * Compares two texts by Myers' greedy algorithm: for each number of edits d the furthest point that
 * can be reached on each diagonal k (lines of the old text minus lines of the new), all of them
 * kept so that the way back can be found. Equal lines at both ends are left out first.
 */
#include "bin/watch/diff.h"

#include <stdlib.h>

#define CONTEXT 3u

struct line {
    const char *ptr; /* with its line feed, if it has one */
    size_t len;
    uint64_t hash;
};

struct text {
    struct line *lines;
    size_t count;
};

/* Lines of the old text [old_from, old_to) became those of the new one. */
struct edit {
    size_t old_from, old_to, new_from, new_to;
};

struct diff {
    struct text a, b;  /* whole */
    size_t skip;       /* equal lines at the beginning */
    int n, m;          /* lines in question */
    int *reach;        /* of d edits: 2d + 1 numbers from d * d on, -1: cannot be reached */
    size_t room;       /* numbers in `reach` */
    struct edit *made; /* from the last to the first */
    size_t made_count;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static int diff_split(struct tidings_str s, struct text *t)
{
    size_t count = 0, room = 0;
    while (s.len > 0) {
        const char *end = memchr(s.ptr, '\n', s.len);
        size_t len = end ? (size_t)(end - s.ptr) + 1 : s.len;
        if (count == room) {
            room = room > 0 ? 2 * room : 64;
            struct line *more = realloc(t->lines, room * sizeof(*more));
            if (!more) {
                return TIDINGS_E_NOMEM;
            }
            t->lines = more;
        }
        if (count == DIFF_LINES_MAX) {
            return TIDINGS_E_LIMIT;
        }
        uint64_t hash = 14695981039346656037u; /* FNV-1a */
        for (size_t i = 0; i < len; i++) {
            hash = (hash ^ (unsigned char)s.ptr[i]) * 1099511628211u;
        }
        t->lines[count++] = (struct line){s.ptr, len, hash};
        s = tidings_strn(s.ptr + len, s.len - len);
    }
    t->count = count;
    return 0;
}

static bool diff_same_line(const struct line *x, const struct line *y)
{
    return x->hash == y->hash && x->len == y->len && memcmp(x->ptr, y->ptr, x->len) == 0;
}

static void skip_ends(struct diff *d)
{
    size_t n = d->a.count, m = d->b.count;
    while (d->skip < n && d->skip < m &&
           diff_same_line(&d->a.lines[d->skip], &d->b.lines[d->skip])) {
        d->skip++;
    }
    while (n > d->skip && m > d->skip && diff_same_line(&d->a.lines[n - 1], &d->b.lines[m - 1])) {
        n--;
        m--;
    }
    d->n = (int)(n - d->skip);
    d->m = (int)(m - d->skip);
}

/* ---- the shortest way ------------------------------------------------------------------------ */

/* Where a way of `edits` edits enters diagonal k: from k + 1 by a line that was put in, or from
 * k - 1 by one that was taken away. -1: not at all. */
static int diff_enter_diagonal(const struct diff *d, int edits, int k, bool *ret_put_in)
{
    const int *before = d->reach + (size_t)(edits - 1) * (size_t)(edits - 1) + (edits - 1);
    int down = k + 1 <= edits - 1 ? before[k + 1] : -1;
    int right = k - 1 >= -(edits - 1) ? before[k - 1] : -1;
    down = down >= 0 && down - k <= d->m ? down : -1;
    right = right >= 0 && right + 1 <= d->n ? right + 1 : -1;
    *ret_put_in = down >= right;
    return down >= right ? down : right;
}

static int diff_follow_diagonal(const struct diff *d, int x, int k)
{
    while (
        x >= 0 && x < d->n && x - k < d->m &&
        diff_same_line(&d->a.lines[d->skip + (size_t)x], &d->b.lines[d->skip + (size_t)(x - k)])) {
        x++;
    }
    return x;
}

static int diff_make_room(struct diff *d, int edits)
{
    size_t need = (size_t)(edits + 1) * (size_t)(edits + 1);
    if (need > d->room) {
        size_t room = 2 * need + 64;
        int *more = realloc(d->reach, room * sizeof(*more));
        if (!more) {
            return TIDINGS_E_NOMEM;
        }
        d->reach = more;
        d->room = room;
    }
    return 0;
}

/* The number of edits. */
static int diff_count_edits(struct diff *d)
{
    bool is_put_in;
    for (int edits = 0; edits <= DIFF_EDITS_MAX; edits++) {
        if (diff_make_room(d, edits) < 0) {
            return TIDINGS_E_NOMEM;
        }
        int *now = d->reach + (size_t)edits * (size_t)edits + edits;
        for (int k = -edits; k <= edits; k++) {
            now[k] = -1;
        }
        for (int k = -edits; k <= edits; k += 2) {
            now[k] = diff_follow_diagonal(
                d, edits == 0 ? 0 : diff_enter_diagonal(d, edits, k, &is_put_in), k);
            if (now[k] == d->n && now[k] - k == d->m) {
                return edits;
            }
        }
    }
    return TIDINGS_E_LIMIT;
}

/* Join a line to the edit it touches, or begin another. */
static void note(struct diff *d, size_t old_at, size_t new_at, bool is_put_in)
{
    struct edit *last = d->made_count > 0 ? &d->made[d->made_count - 1] : NULL;
    size_t old_to = old_at + (is_put_in ? 0 : 1), new_to = new_at + (is_put_in ? 1 : 0);
    if (last && last->old_from == old_to && last->new_from == new_to) {
        last->old_from = old_at;
        last->new_from = new_at;
    } else {
        d->made[d->made_count++] = (struct edit){old_at, old_to, new_at, new_to};
    }
}

static int trace_back(struct diff *d, int edits)
{
    int k = d->n - d->m;
    d->made = calloc((size_t)edits + 1, sizeof(*d->made));
    if (!d->made) {
        return TIDINGS_E_NOMEM;
    }
    for (; edits > 0; edits--) {
        bool is_put_in;
        int x = diff_enter_diagonal(d, edits, k, &is_put_in), y = x - k;
        int old_at = is_put_in ? x : x - 1, new_at = is_put_in ? y - 1 : y;
        note(d, d->skip + (size_t)old_at, d->skip + (size_t)new_at, is_put_in);
        k += is_put_in ? 1 : -1;
    }
    return 0;
}

/* ---- hunks ----------------------------------------------------------------------------------- */

static void diff_put_line(FILE *out, char mark, const struct line *line)
{
    fputc(mark, out);
    fwrite(line->ptr, 1, line->len, out);
    if (line->ptr[line->len - 1] != '\n') {
        fputs("\n\\ No newline at end of file\n", out);
    }
}

static void put_range(FILE *out, char mark, size_t from, size_t to)
{
    fprintf(out, "%c%zu", mark, to > from ? from + 1 : from);
    if (to - from != 1) {
        fprintf(out, ",%zu", to - from);
    }
}

/* The edits from `first` down to `last`, which are near one another. */
static void put_hunk(FILE *out, const struct diff *d, size_t first, size_t last)
{
    const struct edit *begin = &d->made[first], *end = &d->made[last];
    size_t lead = begin->old_from < CONTEXT ? begin->old_from : CONTEXT;
    size_t left = d->a.count - end->old_to;
    size_t trail = left < CONTEXT ? left : CONTEXT;
    size_t at = begin->old_from - lead;
    fputs("@@ ", out);
    put_range(out, '-', at, end->old_to + trail);
    fputc(' ', out);
    put_range(out, '+', begin->new_from - lead, end->new_to + trail);
    fputs(" @@\n", out);
    for (size_t i = first + 1; i-- > last;) {
        const struct edit *e = &d->made[i];
        for (; at < e->old_from; at++) {
            diff_put_line(out, ' ', &d->a.lines[at]);
        }
        for (; at < e->old_to; at++) {
            diff_put_line(out, '-', &d->a.lines[at]);
        }
        for (size_t j = e->new_from; j < e->new_to; j++) {
            diff_put_line(out, '+', &d->b.lines[j]);
        }
    }
    for (size_t stop = at + trail; at < stop; at++) {
        diff_put_line(out, ' ', &d->a.lines[at]);
    }
}

static void put_hunks(FILE *out, const struct diff *d)
{
    for (size_t first = d->made_count; first-- > 0;) {
        size_t last = first;
        while (last > 0 && d->made[last - 1].old_from - d->made[last].old_to <= 2 * CONTEXT) {
            last--;
        }
        put_hunk(out, d, first, last);
        first = last;
    }
}

int diff_write(FILE *out, struct tidings_str before, struct tidings_str after)
{
    struct diff d = {0};
    int rc = diff_split(before, &d.a);
    if (rc == 0) {
        rc = diff_split(after, &d.b);
    }
    if (rc == 0) {
        skip_ends(&d);
        rc = diff_count_edits(&d);
    }
    if (rc > 0) {
        rc = trace_back(&d, rc);
        if (rc == 0) {
            put_hunks(out, &d);
            rc = 1;
        }
    }
    free(d.a.lines);
    free(d.b.lines);
    free(d.reach);
    free(d.made);
    return rc;
}
