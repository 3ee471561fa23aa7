/* SPDX-License-Identifier: MIT
 *
 * What a handler says while it works: progress and log messages. Written where the handler runs,
 * sent where its client is. Bounded at both ends: only so many are on their way to the worker, and
 * a stream that takes no more loses them (request_notify).
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "request/request.h"

#define PROGRESS_MS 20u /* between two reports */
#define NOTES_MAX 64u   /* on their way to the worker, per call */
#define NOTE_BYTES 65536u
#define LOG_ASK_SESSION (-1)
#define LOG_UNWANTED 8

void call_read_report_options(struct tidings_call *h)
{
    struct request *request = h->request;
    struct json *meta = jv_get(request->msg.params, "_meta");
    struct json *token = jv_get(meta, "progressToken");
    if (jv_is(token, JV_STRING) || jv_is(token, JV_INT)) {
        struct buf text;
        struct jw w;
        buf_init(&text, RPC_MAX_ID * 6 + 16);
        jw_init(&w, &text);
        jw_value(&w, token);
        size_t len = text.failed ? 0 : text.len;
        char *copy = len > 0 ? buf_detach(&text, NULL) : NULL;
        h->progress_token = tidings_strn(copy, copy ? len : 0);
        buf_deinit(&text);
    }
    h->log_level = LOG_ASK_SESSION;
    if (request->meta) {
        int level = dialect_asked_log_level(request->meta);
        h->log_level = level < 0 ? LOG_UNWANTED : level;
    }
}

/* ---- to the worker's thread ------------------------------------------------------------------ */

struct note {
    struct letter letter;
    struct tidings_call *h; /* finished later than this arrives */
    int level;              /* of a log message; LOG_UNWANTED: it is something else */
    struct buf text;
};

static void call_report_send(struct tidings_call *h, int level, const struct buf *text)
{
    struct request *request = h->request;
    if (request && (h->log_level != LOG_ASK_SESSION ||
                    level >= request->worker->handlers->log_level(request))) {
        (void)request_notify(request, text);
    }
}

static void note_free(struct note *note)
{
    buf_deinit(&note->text);
    mem_free(note);
}

static void note_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct note *note = list_entry(letter, struct note, letter);
    __atomic_sub_fetch(&note->h->notes, 1, __ATOMIC_RELAXED);
    call_report_send(note->h, note->level, &note->text);
    note_free(note);
}

static void note_drop(struct letter *letter)
{
    note_free(list_entry(letter, struct note, letter));
}

/* Takes the memory of `text`. */
static void call_report_post(struct tidings_call *h, int level, struct buf *text)
{
    if (text->failed) {
        buf_deinit(text);
        return;
    }
    if (pthread_equal(h->base.thread, pthread_self())) {
        call_report_send(h, level, text);
        buf_deinit(text);
        return;
    }
    bool full = __atomic_load_n(&h->notes, __ATOMIC_RELAXED) >= NOTES_MAX;
    struct note *note = full ? NULL : mem_zalloc(sizeof(*note));
    if (!note) {
        buf_deinit(text);
        return;
    }
    note->letter.deliver = note_deliver;
    note->letter.drop = note_drop;
    note->h = h;
    note->level = level;
    note->text = *text;
    __atomic_add_fetch(&h->notes, 1, __ATOMIC_RELAXED);
    mailbox_send(h->base.worker->mailbox, &note->letter);
}

/* ---- what is said ---------------------------------------------------------------------------- */

void tidings_call_progress(struct tidings_call *h, double progress, double total,
                           struct tidings_str message)
{
    bool rises = isfinite(progress) && (h->progress_ms == 0 || progress > h->progress);
    bool is_task = tidings_call_is_task(h);
    if ((h->progress_token.len == 0 && !is_task) || !rises || tidings_call_cancelled(h)) {
        return;
    }
    uint64_t now = clock_monotonic_ms() + 1; /* 0 means never */
    bool is_last = total > 0 && progress >= total;
    if (h->progress_ms > 0 && now - h->progress_ms < PROGRESS_MS && !is_last) {
        return;
    }
    h->progress = progress;
    h->progress_ms = now;
    if (is_task) { /* there is no request that a notification could belong to */
        call_task_progress(h, message);
        return;
    }
    struct buf text;
    buf_init(&text, NOTE_BYTES);
    dialect_put_progress(&text, h->progress_token, progress, total, message);
    call_report_post(h, LOG_UNWANTED, &text);
}

void tidings_call_log(struct tidings_call *h, enum tidings_log_level level, const char *logger,
                      struct tidings_str message)
{
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
    if ((int)level < h->log_level || (unsigned)level >= 8 || tidings_call_cancelled(h)) {
        return;
    }
    struct buf text;
    buf_init(&text, NOTE_BYTES);
    dialect_put_log_message(&text, tidings_str(names[level]), tidings_str(logger), message);
    call_report_post(h, (int)level, &text);
}
