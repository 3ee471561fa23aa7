/* SPDX-License-Identifier: MIT
 *
 * Follows a resource that grows, by ranges: what `tidings tail` reads.
 */
#include "bin/tail/growing.h"

#include "bin/remote/part.h"

#define FIRST_BYTES (64 << 10) /* looked at for the last lines before more is asked for */
#define TURN_PIECES 16         /* then others have their turn */

static int growing_tell(struct growing *g, const struct part *p, int64_t from)
{
    struct growing_piece piece = {
        .news = GROWING_BYTES,
        .from = from,
        .to = p->to,
        .bytes = tidings_strn(p->bytes + (from - p->from), (size_t)(p->to - from)),
    };
    return piece.bytes.len > 0 ? g->fn(g->user, &piece) : 0;
}

static void growing_mark(struct growing *g, const struct part *p)
{
    g->at = p->to;
    g->mark_len = p->len < GROWING_MARK ? p->len : GROWING_MARK;
    memcpy(g->mark, p->bytes + p->len - g->mark_len, g->mark_len);
}

void growing_forget(struct growing *g)
{
    g->at = 0;
    g->mark_len = 0;
    g->is_other = false;
}

/* ---- the last lines -------------------------------------------------------------------------- */

/* Where the lines begin that `feeds` line feeds before `hi` are missing of. Where it changes
 * meanwhile: as far as was seen. */
static int growing_find_start(struct growing *g, int64_t hi, int64_t feeds, int64_t *ret,
                              struct tidings_error *err)
{
    *ret = hi;
    while (*ret > 0 && feeds > 0) {
        int64_t lo = *ret > g->piece ? *ret - g->piece : 0;
        int64_t asked = g->piece;
        struct part p;
        int rc = part_get(g->client, g->uri, lo, &g->piece, &p, err);
        bool is_good = rc == 0 && p.from <= lo && p.to >= *ret;
        if (is_good) {
            size_t skip = (size_t)(lo - p.from);
            struct tidings_str bytes = tidings_strn(p.bytes + skip, (size_t)(*ret - lo));
            *ret = lo + (int64_t)part_behind_feed(bytes, &feeds);
        }
        part_release(&p);
        if (rc < 0 && rc != TIDINGS_E_INVALID) {
            return rc;
        }
        if (!is_good && g->piece == asked) {
            return 0;
        }
    }
    return 0;
}

int growing_begin(struct growing *g, int64_t lines, struct tidings_error *err)
{
    struct part p;
    g->piece = PART_BYTES;
    growing_forget(g);
    int64_t first = FIRST_BYTES;
    int rc = part_get(g->client, g->uri, -1, &first, &p, err);
    if (rc < 0) {
        part_release(&p);
        return rc;
    }
    struct tidings_str bytes = tidings_strn(p.bytes, p.len);
    int64_t feeds = lines > 0 ? part_feeds_of(bytes, lines) : 0;
    int64_t start = p.from + (int64_t)part_behind_feed(bytes, &feeds);
    if (feeds > 0 && p.from > 0) {
        rc = growing_find_start(g, p.from, feeds, &start, err);
    }
    if (rc == 0 && start >= p.from) {
        rc = growing_tell(g, &p, start);
        growing_mark(g, &p);
    } else if (rc == 0) {
        g->at = start;
        do {
            rc = growing_more(g, err);
        } while (rc == 1);
    }
    part_release(&p);
    return rc;
}

/* ---- what is new ----------------------------------------------------------------------------- */

/* Is what was before still there? */
static bool is_same(const struct growing *g, const struct part *p)
{
    int64_t skip = g->at - (int64_t)g->mark_len - p->from;
    return skip >= 0 && p->to >= g->at && memcmp(p->bytes + skip, g->mark, g->mark_len) == 0;
}

static int growing_begin_anew(struct growing *g, bool is_shorter)
{
    struct growing_piece piece = {
        .news = is_shorter && !g->is_other ? GROWING_TRUNCATED : GROWING_REPLACED,
    };
    growing_forget(g);
    return g->fn(g->user, &piece);
}

/* 0: that was all; 1: there is more. */
static int growing_step(struct growing *g, struct tidings_error *err)
{
    struct part p;
    bool is_begun = g->at > 0;
    int rc = part_get(g->client, g->uri, g->at - (int64_t)g->mark_len, &g->piece, &p, err);
    if (is_begun && rc == TIDINGS_E_INVALID) { /* it ends before */
        rc = growing_begin_anew(g, true);
        rc = rc == 0 ? 1 : rc;
    } else if (rc == 0 && is_begun && (p.total < g->at || !is_same(g, &p))) {
        rc = growing_begin_anew(g, p.total < g->at);
        rc = rc == 0 ? 1 : rc;
    } else if (rc == 0) {
        bool is_more = p.to < p.total;
        if (p.from > g->at || p.to < g->at || (is_more && p.to == g->at)) {
            rc = tidings_fail(err, TIDINGS_E_PARSE,
                              "the parts that the server gave do not fit together");
        } else {
            rc = growing_tell(g, &p, g->at);
            growing_mark(g, &p);
            rc = rc == 0 && is_more ? 1 : rc;
        }
    }
    part_release(&p);
    return rc;
}

int growing_more(struct growing *g, struct tidings_error *err)
{
    int rc = 1;
    for (unsigned i = 0; i < TURN_PIECES && rc == 1; i++) {
        rc = growing_step(g, err);
    }
    g->is_other = g->is_other && rc == 1;
    return rc;
}
