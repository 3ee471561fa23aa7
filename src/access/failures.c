/* SPDX-License-Identifier: MIT
 *
 * Counting and logging requests that failed.
 */
#include "access/failures.h"

#include <string.h>

#include "access/principal.h"
#include "base/log.h"
#include "base/str.h"
#include "json/write.h"

#define EACH_MS 1000u /* between two lines of one row */
#define UNKNOWN "unknown"
#define OTHERS "others" /* beyond FAILURES_ROWS */

/* What the code of each kind is called. */
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
        if (row->kind == x->kind && row->code == x->code && strcmp(row->method, method) == 0) {
            return row;
        }
    }
    struct failure_row *row = &f->rows[f->row_count];
    if (f->row_count < FAILURES_ROWS) {
        f->row_count++;
        *row = (struct failure_row){.kind = x->kind, .code = x->code, .method = method};
    } else {
        row->method = OTHERS;
    }
    return row;
}

static enum tidings_log_level failures_level(const struct failure *x)
{
    return x->is_ours ? TIDINGS_LOG_WARNING : TIDINGS_LOG_INFO;
}

struct failure_row *failures_count(struct failures *f, const struct failure *x, uint64_t now_ms)
{
    struct failure_row *row = failures_find(f, x);
    row->count++;
    if (failures_level(x) < log_get_level()) {
        return NULL; /* not left out: not wanted */
    }
    bool is_soon = row->logged_ms > 0 && now_ms - row->logged_ms < EACH_MS;
    if (is_soon || token_bucket_take(&f->lines, &lines_rule, now_ms) > 0) {
        row->left_out++;
        f->due_ms = f->due_ms > 0 ? f->due_ms : now_ms + EACH_MS;
        return NULL;
    }
    row->logged_ms = now_ms > 0 ? now_ms : 1;
    return row;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* ` name="…"`, cut at the end of a character; what is no UTF-8 is escaped when the line is written.
 */
static void failures_put(struct buf *out, const char *name, struct tidings_str text)
{
    size_t len = text.len < FAILURES_SHOWN ? text.len : FAILURES_SHOWN;
    while (len < text.len && len > 0 && ((unsigned char)text.ptr[len] & 0xC0) == 0x80) {
        len--;
    }
    buf_putf(out, " %s=\"", name);
    for (size_t i = 0; i < len; i++) {
        if (text.ptr[i] == '"' || text.ptr[i] == '\\') {
            buf_putc(out, '\\');
        }
        buf_putc(out, text.ptr[i]);
    }
    buf_puts(out, len < text.len ? STR("…\"") : STR("\""));
}

static void failures_put_what(struct buf *out, enum failure_kind kind, const char *method, int code)
{
    buf_putf(out, "method=%s", method);
    if (kind == FAILURE_RESULT) {
        buf_puts(out, STR(" isError=true"));
    } else {
        buf_putf(out, " %s=%d", code_names[kind], code);
    }
}

void failures_log(struct failure_row *row, const struct failure *x, struct tidings_str client)
{
    static const char *const by[] = {"anonymous", "user", "certificate", "token"};
    struct buf text;
    buf_init(&text, LOG_MAX_LINE);
    failures_put_what(&text, x->kind, x->method ? x->method : UNKNOWN, x->code);
    failures_put(&text, "reason", x->reason);
    if (x->principal && x->principal->kind != PRINCIPAL_ANONYMOUS) {
        failures_put(&text, "principal", x->principal->name);
    }
    buf_putf(&text, " by=%s", x->principal ? by[x->principal->kind] : "program");
    failures_put(&text, "client", client);
    buf_putf(&text, " others=%llu", (unsigned long long)row->left_out);
    row->left_out = 0;
    if (!text.failed) {
        log_write(failures_level(x), "request failed", "%.*s", (int)text.len, text.ptr);
    }
    buf_deinit(&text);
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
            token_bucket_take(&f->lines, &lines_rule, now_ms) > 0) {
            f->due_ms = now_ms + EACH_MS;
            continue;
        }
        struct buf text;
        buf_init(&text, LOG_MAX_LINE);
        failures_put_what(&text, row->kind, row->method, row->code);
        buf_putf(&text, " others=%llu", (unsigned long long)row->left_out);
        log_info("requests failed", "%.*s", text.failed ? 0 : (int)text.len,
                 text.ptr ? text.ptr : "");
        buf_deinit(&text);
        row->logged_ms = now_ms;
        row->left_out = 0;
    }
}

/* ---- the rows -------------------------------------------------------------------------------- */

void failures_write(const struct failures *f, unsigned worker, struct jw *w)
{
    for (size_t i = 0; i <= f->row_count; i++) {
        const struct failure_row *row = &f->rows[i];
        if (row->count == 0) {
            continue; /* the one for all others */
        }
        jw_begin_object(w);
        jw_put_integer(w, STR("worker"), worker);
        jw_put_string(w, STR("method"), tidings_str(row->method));
        if (row->kind == FAILURE_RESULT) {
            jw_put_bool(w, STR("isError"), true);
        } else if (i < FAILURES_ROWS) {
            jw_put_integer(w, tidings_str(code_names[row->kind]), row->code);
        }
        jw_put_integer(w, STR("count"), (int64_t)row->count);
        jw_end_object(w);
    }
}
