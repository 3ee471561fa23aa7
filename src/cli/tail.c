/* SPDX-License-Identifier: MIT
 *
 * `tidings tail`: the last lines of resources, and with --follow the data appended to them. Other
 * events of a resource (truncated, replaced, deleted) and the state of the connection go to
 * standard error. On a terminal, control characters are escaped.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/client.h>
#include <tidings/json.h>

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/range.h"
#include "cli/remote.h"

/* -------------------------------------------------------------------------------------------------
 * Reads a growing resource, such as a log, from its end: first its last lines, then only new data.
 * If the server does not support ranges, each read fetches the whole resource and skips the known
 * part. A resource that shrank, or whose bytes just before the new data differ from the earlier
 * ones, was rewritten and is read from its start.
 */

#define GROWING_MARK 256u

enum growing_news {
    GROWING_BYTES,
    GROWING_TRUNCATED, /* it is shorter than before */
    GROWING_REPLACED,  /* it is a different resource */
};
struct growing_piece {
    enum growing_news news;
    int64_t from, to; /* of GROWING_BYTES */
    struct tidings_str bytes;
};
/* Called in order. Not 0: stop. */
typedef int (*growing_fn)(void *user, const struct growing_piece *piece);

struct growing {
    struct tidings_client *client;
    const char *uri;
    growing_fn fn;
    void *user;
    bool is_other; /* set by the caller when the resource was deleted or created */
    /* state: */
    int64_t at;    /* everything before it was delivered */
    int64_t piece; /* bytes to ask for at once */
    char mark[GROWING_MARK];
    size_t mark_len; /* the bytes right before `at`, to recognize the resource */
};

/* -------------------------------------------------------------------------------------------------
 * Follows a growing resource by ranges: the reader of `tidings tail`.
 */

#define FIRST_BYTES (64 << 10) /* searched for the last lines before more is requested */
#define TURN_PIECES 16         /* pieces per turn, so that other resources get their turn */

static int growing_print(struct growing *g, const struct range *p, int64_t from)
{
    struct growing_piece piece = {
        .news = GROWING_BYTES,
        .from = from,
        .to = p->to,
        .bytes = tidings_strn(p->bytes + (from - p->from), (size_t)(p->to - from)),
    };
    return piece.bytes.len > 0 ? g->fn(g->user, &piece) : 0;
}

static void growing_mark(struct growing *g, const struct range *p)
{
    g->at = p->to;
    g->mark_len = p->len < GROWING_MARK ? p->len : GROWING_MARK;
    memcpy(g->mark, p->bytes + p->len - g->mark_len, g->mark_len);
}

/* The resource was deleted: a successor is read from its start, without a message. */
static void growing_forget(struct growing *g)
{
    g->at = 0;
    g->mark_len = 0;
    g->is_other = false;
}

/* ---- the last lines -------------------------------------------------------------------------- */

/* The position where the lines start, given that `feeds` line feeds before `hi` are missing. If the
 * resource changes during the search, the search stops at what it has read. */
static int growing_find_start(struct growing *g, int64_t hi, int64_t feeds, int64_t *ret,
                              struct tidings_error *err)
{
    *ret = hi;
    while (*ret > 0 && feeds > 0) {
        int64_t lo = *ret > g->piece ? *ret - g->piece : 0;
        int64_t asked = g->piece;
        struct range p;
        int rc = range_get(g->client, g->uri, lo, &g->piece, &p, err);
        bool is_good = rc == 0 && p.from <= lo && p.to >= *ret;
        if (is_good) {
            size_t skip = (size_t)(lo - p.from);
            struct tidings_str bytes = tidings_strn(p.bytes + skip, (size_t)(*ret - lo));
            *ret = lo + (int64_t)range_behind_feed(bytes, &feeds);
        }
        range_release(&p);
        if (rc < 0 && rc != TIDINGS_E_INVALID) {
            return rc;
        }
        if (!is_good && g->piece == asked) {
            return 0;
        }
    }
    return 0;
}

static int growing_more(struct growing *g, struct tidings_error *err);

/* The last `lines` lines, and the position of their end. The result does not depend on the size:
 * pieces of at most 1 MiB, or the whole resource if it fits into a message. Returns 0, the result
 * of `fn`, or an error. */
static int growing_begin(struct growing *g, int64_t lines, struct tidings_error *err)
{
    struct range p;
    g->piece = RANGE_BYTES;
    growing_forget(g);
    int64_t first = FIRST_BYTES;
    int rc = range_get(g->client, g->uri, -1, &first, &p, err);
    if (rc < 0) {
        range_release(&p);
        return rc;
    }
    struct tidings_str bytes = tidings_strn(p.bytes, p.len);
    int64_t feeds = lines > 0 ? range_feeds_of(bytes, lines) : 0;
    int64_t start = p.from + (int64_t)range_behind_feed(bytes, &feeds);
    if (feeds > 0 && p.from > 0) {
        rc = growing_find_start(g, p.from, feeds, &start, err);
    }
    if (rc == 0 && start >= p.from) {
        rc = growing_print(g, &p, start);
        growing_mark(g, &p);
    } else if (rc == 0) {
        g->at = start;
        do {
            rc = growing_more(g, err);
        } while (rc == 1);
    }
    range_release(&p);
    return rc;
}

/* ---- new data -------------------------------------------------------------------------------- */

/* Returns true if the bytes before `at` are unchanged. */
static bool is_same(const struct growing *g, const struct range *p)
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

/* 0: no more data; 1: more data. */
static int growing_step(struct growing *g, struct tidings_error *err)
{
    struct range p;
    bool is_begun = g->at > 0;
    int rc = range_get(g->client, g->uri, g->at - (int64_t)g->mark_len, &g->piece, &p, err);
    if (is_begun && rc == TIDINGS_E_INVALID) { /* it ends before `at` */
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
            rc = growing_print(g, &p, g->at);
            growing_mark(g, &p);
            rc = rc == 0 && is_more ? 1 : rc;
        }
    }
    range_release(&p);
    return rc;
}

/* Delivers new data, up to 16 pieces. 0: no more data for now; 1: more data; or the result of `fn`,
 * or an error. */
static int growing_more(struct growing *g, struct tidings_error *err)
{
    int rc = 1;
    for (unsigned i = 0; i < TURN_PIECES && rc == 1; i++) {
        rc = growing_step(g, err);
    }
    g->is_other = g->is_other && rc == 1;
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define LATER_MS 1000 /* after the server failed to answer */
#define OUTPUT_OVER 2 /* of tail_on_piece: the reader of the output has gone */

struct followed {
    struct tail *tail;
    char *uri;
    struct growing growing;
    bool is_due;   /* to be read */
    bool is_later; /* but with a delay */
    bool is_gone;
};

struct tail {
    struct cli cli;
    uint64_t lines;
    bool follows, raw;
    /* state: */
    struct tidings_client *client;
    struct followed *all;
    size_t count;
    const struct followed *shown; /* whose header was printed last */
    bool is_guarded;              /* a terminal, and not --raw */
    bool is_amid_line;            /* the last output ended without a line feed */
};

static void tail_say(const struct followed *f, const char *what, struct tidings_str why)
{
    fflush(stdout);
    fputs("tidings tail: ", stderr);
    put_text(stderr, tidings_str(f->uri));
    fprintf(stderr, ": %s%s", what, why.len > 0 ? ": " : "");
    put_text(stderr, why);
    fputc('\n', stderr);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void tail_put_header(struct tail *t, const struct followed *f)
{
    if (t->cli.arg_count < 2 || t->cli.quiet || t->cli.json || t->shown == f) {
        return;
    }
    fputs(t->shown ? "\n==> " : "==> ", stdout);
    put_text(stdout, tidings_str(f->uri));
    fputs(" <==\n", stdout);
    t->shown = f;
}

static void tail_put_object(const struct followed *f, const struct growing_piece *piece)
{
    fputs("{\"uri\":", stdout);
    put_quoted(stdout, tidings_str(f->uri));
    if (piece->news != GROWING_BYTES) {
        const char *event = piece->news == GROWING_TRUNCATED ? "truncated" : "replaced";
        fprintf(stdout, ",\"event\":\"%s\"}\n", event);
        return;
    }
    fprintf(stdout, ",\"from\":%lld,\"to\":%lld,", (long long)piece->from, (long long)piece->to);
    if (is_text(piece->bytes)) {
        fputs("\"text\":", stdout);
        put_quoted(stdout, piece->bytes);
    } else {
        char *blob = tidings_json_quote_bytes(piece->bytes);
        fprintf(stdout, "\"blob\":%s", blob ? blob : "null");
        tidings_free(blob);
    }
    fputs("}\n", stdout);
}

static void tail_put_bytes(struct tail *t, const struct followed *f, struct tidings_str bytes)
{
    char size[SIZE_TEXT_MAX], what[SIZE_TEXT_MAX + 32];
    tail_put_header(t, f);
    t->is_amid_line = bytes.len > 0 && bytes.ptr[bytes.len - 1] != '\n';
    if (!t->is_guarded) {
        fwrite(bytes.ptr, 1, bytes.len, stdout);
    } else if (is_text(bytes)) {
        put_lines(stdout, bytes);
    } else {
        snprintf(what, sizeof(what), "%s that are not text", size_text(bytes.len, size));
        tail_say(f, what, tidings_str(""));
    }
}

static int tail_on_piece(void *user, const struct growing_piece *piece)
{
    const struct followed *f = user;
    struct tail *t = f->tail;
    if (piece->news != GROWING_BYTES && !t->cli.quiet) {
        tail_say(
            f,
            piece->news == GROWING_TRUNCATED
                ? "truncated; reading from its start"
                : "replaced; reading the new file (the last lines of the old file may be missing)",
            tidings_str(""));
    }
    if (piece->news != GROWING_BYTES && !t->cli.json && t->is_amid_line) {
        fputc('\n', stdout); /* ends the unfinished line of the previous resource */
        t->is_amid_line = false;
    }
    if (t->cli.json) {
        tail_put_object(f, piece);
    } else if (piece->news == GROWING_BYTES) {
        tail_put_bytes(t, f, piece->bytes);
    }
    return ferror(stdout) ? OUTPUT_OVER : 0;
}

/* ---- following ------------------------------------------------------------------------------- */

static void tail_on_update(void *user, const struct tidings_update *u)
{
    struct followed *f = user;
    f->is_due = true;
    f->is_later = false;
    if (u->kind == TIDINGS_CHANGE_CREATED || u->kind == TIDINGS_CHANGE_DELETED) {
        f->growing.is_other = true;
    }
}

static void tail_on_subscription(void *user, const struct tidings_state_event *e)
{
    struct followed *f = user;
    if (e->state == TIDINGS_STATE_REFUSED || e->state == TIDINGS_STATE_LOST) {
        tail_say(f, "cannot be followed", e->reason);
    } else {
        f->is_due = true; /* changes before the subscription, or missed ones */
        f->is_later = false;
    }
}

static void tail_on_state(void *user, const struct tidings_state_event *e)
{
    const struct tail *t = user;
    if (e->state == TIDINGS_STATE_DISCONNECTED && !t->cli.quiet) {
        fflush(stdout);
        fputs("tidings tail: disconnected: ", stderr);
        put_text(stderr, e->reason);
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
    }
}

/* Handles a failed read. */
static void tail_fail(struct followed *f, const struct tidings_error *err)
{
    switch (err->code) {
    case TIDINGS_E_NOTFOUND:
    case TIDINGS_E_GONE:
        if (!f->is_gone) {
            tail_say(f, "is gone; waiting for it", tidings_str(""));
        }
        growing_forget(&f->growing);
        f->is_gone = true;
        break;
    case TIDINGS_E_BUSY:
    case TIDINGS_E_TIMEOUT:
        f->is_due = f->is_later = true;
        break;
    case TIDINGS_E_CLOSED:
    case TIDINGS_E_IO: /* it is read again after the client reconnects */
        break;
    default:
        tail_say(f, "cannot be read", tidings_str(err->text));
    }
}

/* 0, or OUTPUT_OVER. */
static int catch_up(struct followed *f)
{
    struct tidings_error err = {0};
    f->is_due = f->is_later = false;
    int rc = growing_more(&f->growing, &err);
    if (rc < 0) {
        tail_fail(f, &err);
        return 0;
    }
    if (f->is_gone && !f->tail->cli.quiet) {
        tail_say(f, "exists again", tidings_str(""));
    }
    f->is_gone = false;
    f->is_due = f->is_due || rc == 1;
    return rc == OUTPUT_OVER || fflush(stdout) != 0 ? OUTPUT_OVER : 0;
}

static int tail_turn(struct tail *t, bool is_late, int *ret_wait_ms)
{
    *ret_wait_ms = -1;
    for (size_t i = 0; i < t->count; i++) {
        struct followed *f = &t->all[i];
        if (f->is_due && (!f->is_later || is_late) && catch_up(f) != 0) {
            return OUTPUT_OVER;
        }
        if (f->is_due && !f->is_later) {
            *ret_wait_ms = 0;
        } else if (f->is_due && *ret_wait_ms < 0) {
            *ret_wait_ms = LATER_MS;
        }
    }
    return 0;
}

static int tail_follow(struct tail *t, struct tidings_error *err)
{
    tidings_client_on_state(t->client, tail_on_state, t);
    for (size_t i = 0; i < t->count; i++) {
        struct tidings_subscribe_options on = {
            .fn = tail_on_update, .on_state = tail_on_subscription, .user = &t->all[i]};
        if (!tidings_client_subscribe(t->client, t->all[i].uri, &on, err)) {
            return err->code;
        }
    }
    int wait_ms = -1;
    for (;;) {
        uint64_t begun = now_ms();
        int rc = tidings_client_step(t->client, wait_ms, err);
        bool is_late = wait_ms == LATER_MS && now_ms() - begun >= LATER_MS;
        if (rc <= 0 || tail_turn(t, is_late, &wait_ms) != 0) {
            return rc < 0 ? rc : 0;
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static int tail_begin(struct cli *cli, struct tidings_client *client, size_t index,
                      struct tidings_error *err)
{
    struct tail *t = (struct tail *)cli;
    struct followed *f = &t->all[t->count];
    char *uri = ferror(stdout) ? NULL : uri_of_argument(cli->args[index], err);
    if (!uri) {
        return err->code;
    }
    *f = (struct followed){.tail = t, .uri = uri};
    f->growing = (struct growing){.client = client, .uri = uri, .fn = tail_on_piece, .user = f};
    int rc = growing_begin(&f->growing, (int64_t)t->lines, err);
    if (rc < 0) {
        rc = remote_about(client, uri, err);
        free(uri);
        return rc;
    }
    tail_put_header(t, f); /* there may have been nothing to print */
    t->count++;
    return 0;
}

static int tail_all(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct tail *t = (struct tail *)cli;
    t->client = client;
    int status = remote_each(cli, client, tail_begin, err);
    if (status < 0 || !t->follows || t->count == 0 || fflush(stdout) != 0) {
        return status;
    }
    int rc = tail_follow(t, err);
    return rc < 0 ? rc : status;
}

static int tail_run(struct cli *cli)
{
    struct tail *t = (struct tail *)cli;
    t->is_guarded = !t->raw && is_terminal(stdout);
    t->all = calloc(cli->arg_count, sizeof(*t->all));
    if (!t->all) {
        struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
        return command_fail("tail", &err, NULL);
    }
    int status = remote_run(cli, tail_all);
    for (size_t i = 0; i < t->count; i++) {
        free(t->all[i].uri);
    }
    free(t->all);
    return status;
}

#define AT(member) offsetof(struct tail, member)

static const struct option options[] = {
    {.name = "lines",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = AT(lines),
     .metavar = "N",
     .help = "the last N lines; 0: none",
     .value = "10",
     .max = 1000000000000},
    {.name = "follow",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .offset = AT(follows),
     .help = "print added content until interrupted"},
    {.name = "raw",
     .kind = OPTION_FLAG,
     .offset = AT(raw),
     .help = "unchanged, to a terminal too: control characters may do anything to it"},
    {.name = "max-message",
     .kind = OPTION_NUMBER,
     .offset = AT(cli.max_message),
     .metavar = "MIB",
     .help = "largest message accepted, for servers that give no parts",
     .value = "16",
     .min = 1,
     .max = 4096},
    {0},
};

const struct command command_tail = {
    .name = "tail",
    .args = "URI…",
    .help = "print the last lines of resources, and what is added to them",
    .beyond = "--max-message accepts larger ones, of a server that gives no parts",
    .about =
        "Print the last lines of each resource; with --follow also print added content. Only\nnew "
        "ranges are read, so large logs are cheap. Several resources get a header each. "
        "Standard\nerror reports a truncated, replaced or removed resource, which is then followed "
        "from its start.\nA lost connection is reopened. Servers without ranges send the whole "
        "resource each\ntime.\n\n"
        "--json prints an object per piece and line: uri, from, to (bytes), and text or blob; or "
        "event,\nwhich is truncated or replaced.\n",
    .options = options,
    .size = sizeof(struct tail),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .run = tail_run,
};
