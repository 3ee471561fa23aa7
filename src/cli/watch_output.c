/* SPDX-License-Identifier: MIT
 *
 * Writes one change as a line of text or of JSON.
 */
#include "cli/watch_output.h"

#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/watch.h"

/* -------------------------------------------------------------------------------------------------
 * Compares two strings by Myers' greedy algorithm: for each number of edits d, the furthest point
 * reachable on each diagonal k (old lines minus new lines). All points are kept so that the path
 * can be traced back. Equal lines at both ends are skipped first.
 */

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
    int n, m;          /* lines to compare */
    int *reach;        /* for d edits: 2d + 1 numbers from d * d on, -1: unreachable */
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

/* ---- the shortest edit script ---------------------------------------------------------------- */

/* The point where a path of `edits` edits enters diagonal k: from k + 1 by an inserted line, or
 * from k - 1 by a deleted line. -1: unreachable. */
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

/* Append a line to the adjacent edit, or start a new edit. */
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

/* The edits from `first` down to `last`, which share a hunk. */
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

/* -------------------------------------------------------------------------------------------------
 * Keeps the contents that `tidings watch` saw, and prints differences.
 */

struct seen {
    char *uri;
    char *text; /* NULL: only its size is known */
    size_t len;
    uint64_t turn; /* the oldest is evicted first */
};

struct content_cache {
    struct seen *seen;
    size_t count, room, bytes;
    uint64_t turn;
};

/* ---- the cache ------------------------------------------------------------------------------- */

struct content_cache *content_create(void)
{
    return calloc(1, sizeof(struct content_cache));
}

static void content_forget(struct content_cache *k, struct seen *s)
{
    k->bytes -= s->text ? s->len : 0;
    free(s->uri);
    tidings_free(s->text);
    *s = k->seen[--k->count];
}

void content_destroy(struct content_cache *k)
{
    while (k && k->count > 0) {
        content_forget(k, &k->seen[k->count - 1]);
    }
    if (k) {
        free(k->seen);
    }
    free(k);
}

static struct seen *content_find(struct content_cache *k, struct tidings_str uri)
{
    for (size_t i = 0; i < k->count; i++) {
        if (tidings_str_eq(tidings_str(k->seen[i].uri), uri)) {
            return &k->seen[i];
        }
    }
    return NULL;
}

static void forget_oldest(struct content_cache *k)
{
    struct seen *oldest = k->seen;
    for (size_t i = 1; i < k->count; i++) {
        oldest = k->seen[i].turn < oldest->turn ? &k->seen[i] : oldest;
    }
    content_forget(k, oldest);
}

static bool content_make_room(struct content_cache *k, size_t bytes)
{
    while (k->count > 0 &&
           (k->count >= CONTENT_COUNT_MAX || k->bytes + bytes > CONTENT_CACHE_MAX)) {
        forget_oldest(k);
    }
    if (k->count == k->room) {
        size_t room = k->room > 0 ? 2 * k->room : 64;
        struct seen *more = realloc(k->seen, room * sizeof(*more));
        if (!more) {
            return false;
        }
        k->seen = more;
        k->room = room;
    }
    return true;
}

/* Takes `text`, which may be NULL. Out of memory: the content is dropped and the next difference is
 * not printed.
 */
static void content_keep(struct content_cache *k, struct tidings_str uri, char *text, size_t len)
{
    struct seen *old = content_find(k, uri);
    if (old) {
        content_forget(k, old);
    }
    if (text && len > CONTENT_TEXT_MAX) {
        tidings_free(text);
        text = NULL;
    }
    char *copy = content_make_room(k, text ? len : 0) ? strndup(uri.ptr, uri.len) : NULL;
    if (!copy) {
        tidings_free(text);
        return;
    }
    k->seen[k->count++] = (struct seen){copy, text, len, ++k->turn};
    k->bytes += text ? len : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The text of a content, or NULL and the number of its bytes. Returns false if it has neither. */
static bool content_text_of(struct tidings_str content, char **ret_text, size_t *ret_len)
{
    *ret_text = tidings_json_text(content, "/text", ret_len);
    if (*ret_text && strlen(*ret_text) != *ret_len) {
        tidings_free(*ret_text); /* a content with a NUL cannot be compared by lines */
        *ret_text = NULL;
        return true;
    }
    if (*ret_text) {
        return true;
    }
    char *bytes = tidings_json_bytes(content, "/blob", ret_len);
    bool has_bytes = bytes != NULL;
    tidings_free(bytes);
    return has_bytes;
}

static int content_keep_content(void *user, struct tidings_str key, struct tidings_str content)
{
    struct content_cache *k = user;
    char *uri = tidings_json_string(content, "/uri");
    char *text = NULL;
    size_t len = 0;
    (void)key;
    if (uri && content_text_of(content, &text, &len)) {
        content_keep(k, tidings_str(uri), text, len);
    }
    tidings_free(uri);
    return 0;
}

void content_begin(struct content_cache *k, struct tidings_client *client, const char *uri)
{
    struct tidings_error err = {0};
    char *result = tidings_client_read(client, uri, &err);
    if (result) {
        tidings_json_each(tidings_str(result), "/contents", content_keep_content, k);
    }
    tidings_free(result);
}

static char *difference(struct tidings_str before, struct tidings_str after)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = out ? diff_write(out, before, after) : TIDINGS_E_NOMEM;
    if ((out && fclose(out) != 0) || rc != 1) {
        free(text);
        return NULL;
    }
    return text;
}

static void content_compare(struct content_cache *k, const struct tidings_update *u,
                            struct tidings_str content, struct content *c)
{
    struct seen *old = content_find(k, u->uri);
    bool is_new = !old && u->kind == TIDINGS_CHANGE_CREATED;
    char *text = NULL;
    size_t len = 0;
    c->has_before = old || is_new;
    c->before = old ? old->len : 0;
    c->has_after = content_text_of(content, &text, &len);
    c->after = len;
    if (text && (is_new || (old && old->text))) {
        struct tidings_str before = old ? tidings_strn(old->text, old->len) : tidings_strn("", 0);
        c->difference = difference(before, tidings_strn(text, len));
    }
    if (c->has_after) {
        content_keep(k, u->uri, text, len);
    }
}

void content_read(struct content_cache *k, struct tidings_client *client,
                  const struct tidings_update *u, struct content *c)
{
    *c = (struct content){0};
    if (u->kind == TIDINGS_CHANGE_DELETED) {
        struct seen *old = k ? content_find(k, u->uri) : NULL;
        if (old) {
            c->has_before = true;
            c->before = old->len;
            content_forget(k, old);
        }
        return;
    }
    char *uri = strndup(u->uri.ptr, u->uri.len);
    char *result = uri ? tidings_client_read(client, uri, &c->err) : NULL;
    char *first = result && k ? tidings_json_get(tidings_str(result), "/contents/0") : NULL;
    if (first) {
        content_compare(k, u, tidings_str(first), c);
    }
    c->contents = result ? tidings_json_get(tidings_str(result), "/contents") : NULL;
    tidings_free(first);
    tidings_free(result);
    free(uri);
}

void content_release(struct content *c)
{
    tidings_free(c->contents);
    free(c->difference);
    *c = (struct content){0};
}

/* ---------------------------------------------------------------------------------------------- */

static void change_put_member(FILE *out, const char *name, struct tidings_str value)
{
    if (value.len > 0) {
        fprintf(out, ",\"%s\":", name);
        put_quoted(out, value);
    }
}

const char *change_word(const struct tidings_update *u)
{
    return u->initial ? "initial" : tidings_change_name(u->kind);
}

void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c)
{
    fputs("{\"time\":\"", out);
    put_time(out, u->received_ms);
    fputs("\",\"change\":", out);
    put_quoted(out, tidings_str(change_word(u)));
    fputs(",\"uri\":", out);
    put_quoted(out, u->uri);
    change_put_member(out, "subscribedUri", u->subscribed_uri);
    change_put_member(out, "version", u->version);
    change_put_member(out, "cursor", u->cursor);
    fputs(u->synthetic ? ",\"synthetic\":true" : "", out);
    fputs(u->caught_up ? ",\"caughtUp\":true" : "", out);
    fputs(u->truncated ? ",\"truncated\":true" : "", out);
    fputs(",\"params\":", out);
    put_json_text(out, u->params);
    if (c->has_before) {
        fprintf(out, ",\"before\":%llu", (unsigned long long)c->before);
    }
    if (c->has_after) {
        fprintf(out, ",\"after\":%llu", (unsigned long long)c->after);
    }
    change_put_member(out, "diff", tidings_str(c->difference ? c->difference : ""));
    if (c->contents) {
        fputs(",\"contents\":", out);
        put_json_text(out, tidings_str(c->contents));
    }
    change_put_member(out, "error", tidings_str(c->err.code ? c->err.text : ""));
    fputs("}\n", out);
}

static enum style style_of(enum tidings_change_kind kind)
{
    return kind == TIDINGS_CHANGE_DELETED   ? STYLE_BAD
           : kind == TIDINGS_CHANGE_CREATED ? STYLE_GOOD
                                            : STYLE_NAME;
}

/* Prefixes each line with `indent`, so that server text cannot imitate our lines. */
static void put_indented(const struct cli *cli, const char *text, const char *indent, bool is_diff)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        enum style style = *text == '+'   ? STYLE_GOOD
                           : *text == '-' ? STYLE_BAD
                           : *text == '@' ? STYLE_NAME
                                          : STYLE_PLAIN;
        bool is_marked = is_diff && style != STYLE_PLAIN;
        fputs(indent, stdout);
        if (is_marked) {
            put_style(cli, stdout, style);
        }
        put_lines(stdout, tidings_strn(text, len));
        if (is_marked) {
            put_style(cli, stdout, STYLE_PLAIN);
        }
        fputc('\n', stdout);
        text += len + (text[len] == '\n');
    }
}

static void change_put_content(const struct cli *cli, const struct content *c)
{
    char before[SIZE_TEXT_MAX], after[SIZE_TEXT_MAX];
    if (c->err.code) {
        fputs("    cannot be read: ", stdout);
        put_text(stdout, tidings_str(c->err.text));
        fputc('\n', stdout);
    } else if (c->difference) {
        put_indented(cli, c->difference, "    ", true);
    } else if (c->has_after && c->has_before) {
        printf("    %s \xe2\x86\x92 %s\n", size_text(c->before, before),
               size_text(c->after, after));
    } else if (c->has_after) {
        printf("    %s, seen for the first time\n", size_text(c->after, after));
    }
}

/* All contents, each on its own lines. */
static void change_put_contents(const struct cli *cli, struct tidings_str contents)
{
    char size[SIZE_TEXT_MAX];
    size_t len = 0;
    char *text = tidings_json_string(contents, "/0/text");
    char *bytes = text ? NULL : tidings_json_bytes(contents, "/0/blob", &len);
    if (text) {
        put_indented(cli, text, "    ", false);
    } else if (bytes) {
        printf("    %s that are not text\n", size_text(len, size));
    }
    tidings_free(text);
    tidings_free(bytes);
}

/* ---- one line each --------------------------------------------------------------------------- */

/* "    name: text"; long text is truncated, never within a character. */
static void change_put_text(const char *name, struct tidings_str text)
{
    size_t len = text.len;
    if (len > CHANGE_CUT) {
        len = CHANGE_CUT;
        while (len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    printf("    %s: ", name);
    put_text(stdout, tidings_strn(text.ptr, len));
    if (len < text.len) {
        printf("\xe2\x80\xa6 (%zu of %zu bytes)", len, text.len);
    }
    fputc('\n', stdout);
}

/* The contents that the update included, or that were read. */
static void change_put_value(struct tidings_str contents)
{
    char size[SIZE_TEXT_MAX];
    size_t len = 0;
    char *text = tidings_json_text(contents, "/0/text", &len);
    if (text) {
        change_put_text("value", tidings_strn(text, len));
        tidings_free(text);
        return;
    }
    char *bytes = tidings_json_bytes(contents, "/0/blob", &len);
    if (bytes) {
        printf("    value: %s that are not text\n", size_text(len, size));
    } else {
        change_put_text("value", contents);
    }
    tidings_free(bytes);
}

static void change_put_included(unsigned include, const struct tidings_update *u,
                                const struct content *c)
{
    struct tidings_str contents = tidings_str(c->contents ? c->contents : "");
    if (include != INCLUDE_NONE && u->metadata.len > 0) {
        change_put_text("metadata", u->metadata);
    }
    if (include == INCLUDE_PATCH && u->value.len > 0) {
        change_put_text("patch", u->value);
    } else if (include == INCLUDE_VALUE && u->value.len + contents.len > 0) {
        change_put_value(u->value.len > 0 ? u->value : contents);
    } else if (include >= INCLUDE_VALUE && u->kind != TIDINGS_CHANGE_DELETED && !c->err.code) {
        fputs("    value: did not come with it; --read asks for it\n", stdout);
    }
}

void change_put_lines(const struct cli *cli, const struct change_view *view,
                      const struct tidings_update *u, const struct content *c)
{
    put_time(stdout, u->received_ms);
    fputc(' ', stdout);
    put_style(cli, stdout, style_of(u->kind));
    fputs(change_word(u), stdout);
    put_style(cli, stdout, STYLE_PLAIN);
    fputc(' ', stdout);
    put_text(stdout, u->uri);
    fputs(u->truncated ? " (and perhaps more, because some changes were lost)" : "", stdout);
    fputc('\n', stdout);
    if (view->cursor && u->cursor.len > 0) {
        fputs("    cursor: ", stdout);
        put_text(stdout, u->cursor);
        fputc('\n', stdout);
    }
    change_put_included(view->include, u, c);
    change_put_content(cli, c);
    if (c->contents && view->contents) {
        change_put_contents(cli, tidings_str(c->contents));
    }
}
