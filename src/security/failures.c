/* SPDX-License-Identifier: MIT
 *
 * Counts and logs failed requests.
 */
#include "security/failures.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "formats/json_write.h"
#include "security/principal.h"

#define EACH_MS 1000u /* between two lines of one row */
#define UNKNOWN "unknown"
#define OTHERS "others" /* beyond FAILURES_ROWS */

/* Name of the code in each kind. */
static const char *const code_names[] = {
    [FAILURE_RPC] = "code", [FAILURE_HTTP] = "status", [FAILURE_CLOSE] = "close"};

static const struct token_bucket_rule lines_rule = {
    .count = FAILURES_LINES, .burst = FAILURES_BURST, .period_ms = 1000};

/* ---- counting -------------------------------------------------------------------------------- */

static struct failure_row *failures_find(struct failures *f, const struct failure *x)
{
    const char *method = x->method ? x->method : UNKNOWN;
    for (size_t i = 0; i < f->row_count; i++) {
        struct failure_row *row = &f->rows[i];
        if (row->kind == x->kind && row->code == x->code && row->cause == x->cause &&
            strcmp(row->method, method) == 0) {
            return row;
        }
    }
    struct failure_row *row = &f->rows[f->row_count];
    if (f->row_count < FAILURES_ROWS) {
        f->row_count++;
        *row = (struct failure_row){
            .kind = x->kind, .cause = x->cause, .code = x->code, .method = method};
    } else {
        row->method = OTHERS;
    }
    return row;
}

/* Log level: refusals and server errors are warnings. */
static enum tidings_log_level failures_level(enum failure_cause cause, bool is_ours)
{
    return cause != FAILURE_ORDINARY || is_ours ? TIDINGS_LOG_WARNING : TIDINGS_LOG_INFO;
}

static enum log_area failures_area(enum failure_cause cause)
{
    return cause == FAILURE_ORDINARY ? LOG_REQUEST : LOG_ACCESS;
}

/* Refusals have their own line budget, so that requests for missing resources do not hide them. */
static struct token_bucket *failures_lines(struct failures *f, const struct failure_row *row)
{
    return row->cause != FAILURE_ORDINARY ? &f->refusal_lines : &f->lines;
}

struct failure_row *failures_count(struct failures *f, const struct failure *x, uint64_t now_ms)
{
    struct failure_row *row = failures_find(f, x);
    row->count++;
    if (!log_wants(failures_level(x->cause, x->is_ours), failures_area(x->cause))) {
        return NULL; /* not dropped: level disabled */
    }
    bool is_soon = row->logged_ms > 0 && now_ms - row->logged_ms < EACH_MS;
    if (is_soon || token_bucket_take(failures_lines(f, row), &lines_rule, now_ms) > 0) {
        row->left_out++;
        f->due_ms = f->due_ms > 0 ? f->due_ms : now_ms + EACH_MS;
        return NULL;
    }
    row->logged_ms = now_ms > 0 ? now_ms : 1;
    return row;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* The name in log lines and in JSON. */
static const char *failures_cause(enum failure_cause cause)
{
    static const char *const names[] = {
        [FAILURE_ORDINARY] = NULL,        [FAILURE_AUTHENTICATION] = "authentication",
        [FAILURE_ACCESS] = "access",      [FAILURE_LIMIT] = "limit",
        [FAILURE_HOST] = "host",          [FAILURE_ORIGIN] = "origin",
        [FAILURE_MALFORMED] = "malformed"};
    return names[cause];
}

static struct log_field failures_code(enum failure_kind kind, int code)
{
    return kind == FAILURE_RESULT ? KV("isError", (bool)true) : KV(code_names[kind], code);
}

void failures_log(struct failure_row *row, const struct failure *x, struct tidings_str address)
{
    bool is_known = x->principal && x->principal->kind != PRINCIPAL_ANONYMOUS;
    log_at(failures_level(x->cause, x->is_ours), failures_area(x->cause),
           x->cause == FAILURE_ORDINARY ? "request failed" : "request refused",
           KV("cause", failures_cause(x->cause)), KV("method", x->method ? x->method : UNKNOWN),
           failures_code(x->kind, x->code), KV("reason", x->reason),
           KV("path", x->path.len > 0 ? x->path : tidings_strn(NULL, 0)),
           KV("uri", x->uri.len > 0 ? x->uri : tidings_strn(NULL, 0)),
           KV("principal", is_known ? x->principal->name : tidings_strn(NULL, 0)),
           KV("by", principal_by(x->principal)), KV("address", address),
           KV("others", row->left_out));
    row->left_out = 0;
}

void failures_say_left_out(struct failures *f, uint64_t now_ms)
{
    f->due_ms = 0;
    for (size_t i = 0; i <= f->row_count; i++) {
        struct failure_row *row = &f->rows[i];
        if (row->left_out == 0) {
            continue;
        }
        if (now_ms - row->logged_ms < EACH_MS ||
            token_bucket_take(failures_lines(f, row), &lines_rule, now_ms) > 0) {
            f->due_ms = now_ms + EACH_MS;
            continue;
        }
        log_at(failures_level(row->cause, false), failures_area(row->cause),
               row->cause == FAILURE_ORDINARY ? "requests failed" : "requests refused",
               KV("cause", failures_cause(row->cause)), KV("method", row->method),
               failures_code(row->kind, row->code), KV("others", row->left_out));
        row->logged_ms = now_ms;
        row->left_out = 0;
    }
}

/* ---- the newest ------------------------------------------------------------------------------ */

/* Copies as much as fits without splitting a character; if `text` is not UTF-8, only its ASCII. */
static void failures_cut(char *out, size_t max, struct tidings_str text)
{
    size_t len = text.len < max ? text.len : max - 1;
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0u) == 0x80u) {
        len--;
    }
    memcpy(out, text.len > 0 ? text.ptr : "", len);
    out[len] = '\0';
    bool is_text = str_is_utf8(tidings_strn(out, len));
    for (size_t i = 0; !is_text && i < len; i++) {
        out[i] = (unsigned char)out[i] < 0x80 && out[i] ? out[i] : '?';
    }
}

void failures_note(struct failures *f, const struct failure *x, struct tidings_str address,
                   int64_t wall_ms)
{
    f->last = (struct failure_last){.at_ms = wall_ms,
                                    .kind = x->kind,
                                    .cause = x->cause,
                                    .code = x->code,
                                    .has_path = x->path.len > 0,
                                    .method = x->method ? x->method : UNKNOWN};
    failures_cut(f->last.about, sizeof(f->last.about), x->path.len > 0 ? x->path : x->uri);
    failures_cut(f->last.reason, sizeof(f->last.reason), x->reason);
    failures_cut(f->last.address, sizeof(f->last.address), address);
}

static void failures_put_kind(struct jw *w, enum failure_kind kind, int code)
{
    if (kind == FAILURE_RESULT) {
        jw_put_bool(w, STR("isError"), true);
    } else {
        jw_put_integer(w, tidings_str(code_names[kind]), code);
    }
}

void failure_last_write(const struct failure_last *last, struct jw *w)
{
    jw_begin_object(w);
    jw_put_integer(w, STR("atMs"), last->at_ms);
    jw_put_string(w, STR("method"), tidings_str(last->method));
    if (last->about[0]) {
        jw_put_string(w, last->has_path ? STR("path") : STR("uri"), tidings_str(last->about));
    }
    failures_put_kind(w, last->kind, last->code);
    if (last->cause != FAILURE_ORDINARY) {
        jw_put_string(w, STR("cause"), tidings_str(failures_cause(last->cause)));
    }
    jw_put_string(w, STR("reason"), tidings_str(last->reason));
    jw_put_string(w, STR("address"), tidings_str(last->address));
    jw_end_object(w);
}

/* ---- the rows -------------------------------------------------------------------------------- */

void failures_write(const struct failures *f, unsigned worker, struct jw *w)
{
    for (size_t i = 0; i <= f->row_count; i++) {
        const struct failure_row *row = &f->rows[i];
        if (row->count == 0) {
            continue; /* the row for all others */
        }
        jw_begin_object(w);
        jw_put_integer(w, STR("worker"), worker);
        jw_put_string(w, STR("method"), tidings_str(row->method));
        if (i < FAILURES_ROWS) {
            failures_put_kind(w, row->kind, row->code);
        }
        if (row->cause != FAILURE_ORDINARY) {
            jw_put_string(w, STR("cause"), tidings_str(failures_cause(row->cause)));
        }
        jw_put_integer(w, STR("count"), (int64_t)row->count);
        jw_end_object(w);
    }
}
