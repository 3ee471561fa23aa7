/* SPDX-License-Identifier: MIT
 *
 * The life of a handler's call: start, deadline, cancellation, end. Also the handler's results,
 * reports and lists. Questions to the client are in call_ask.c; calls that are tasks are in
 * call_task.c.
 */
#include "engine/protocol/call.h"

#include <math.h>
#include <sched.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "engine/catalog/payload.h"
#include "engine/catalog/resource.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "formats/json.h"
#include "formats/uri.h"
#include "security/client_account.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * Arguments and results of a handler: arguments out, content blocks in. Runs on the handler's
 * thread; one at a time.
 */

#define BLOCK_DEPTH 32u /* nesting of a handler's JSON */

/* ---- arguments ------------------------------------------------------------------------------- */

static struct json *call_argument(const struct tidings_call *h, const char *name)
{
    return name[0] == '/' ? jv_point(h->arguments, tidings_str(name)) : jv_get(h->arguments, name);
}

struct tidings_str tidings_call_name(const struct tidings_call *h)
{
    return h->feature->name;
}

struct tidings_str tidings_call_origin(const struct tidings_call *h)
{
    return h->origin.failed ? STR_EMPTY : buf_str(&h->origin);
}

struct tidings_str tidings_call_traceparent(const struct tidings_call *h)
{
    return tidings_str(h->trace.parent);
}

struct tidings_str tidings_call_tracestate(const struct tidings_call *h)
{
    return tidings_str(h->trace.state);
}

struct tidings_str tidings_call_principal(const struct tidings_call *h)
{
    return h->principal ? h->principal->name : STR_EMPTY;
}

_Static_assert((int)TIDINGS_ACCESS_LIST == (int)ACCESS_LIST &&
                   (int)TIDINGS_ACCESS_READ == (int)ACCESS_READ &&
                   (int)TIDINGS_ACCESS_SUBSCRIBE == (int)ACCESS_SUBSCRIBE &&
                   (int)TIDINGS_ACCESS_WRITE == (int)ACCESS_WRITE,
               "one order");

bool tidings_call_may(const struct tidings_call *h, enum tidings_access what,
                      struct tidings_str uri)
{
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    bool needs_read = what == TIDINGS_ACCESS_SUBSCRIBE || what == TIDINGS_ACCESS_WRITE;
    bool may = uri_canonical(uri, &text, NULL) == 0 &&
               access_allows(h->principal, (enum access_op)what, buf_str(&text)) &&
               (!needs_read || access_allows(h->principal, ACCESS_READ, buf_str(&text)));
    buf_deinit(&text);
    return may;
}

static struct tidings_str as_text(struct buf *out, const struct json *value)
{
    struct jw w;
    buf_clear(out);
    jw_init(&w, out);
    jw_value(&w, value);
    return out->failed ? STR_EMPTY : buf_str(out);
}

struct tidings_str tidings_call_arguments(struct tidings_call *h)
{
    if (!h->arguments) {
        return STR("{}");
    }
    return h->arguments_text.len > 0 ? buf_str(&h->arguments_text)
                                     : as_text(&h->arguments_text, h->arguments);
}

bool tidings_call_has(const struct tidings_call *h, const char *name)
{
    return call_argument(h, name) != NULL;
}

struct tidings_str tidings_call_string(const struct tidings_call *h, const char *name)
{
    return jv_str(call_argument(h, name));
}

double tidings_call_number(const struct tidings_call *h, const char *name, double fallback)
{
    const struct json *v = call_argument(h, name);
    return jv_is(v, JV_INT) || jv_is(v, JV_REAL) ? jv_real(v) : fallback;
}

int64_t tidings_call_integer(const struct tidings_call *h, const char *name, int64_t fallback)
{
    const struct json *v = call_argument(h, name);
    if (jv_is(v, JV_REAL)) { /* a schema also counts 3.0 as an integer */
        double d = jv_real(v);
        bool fits = d >= -9007199254740992.0 && d <= 9007199254740992.0;
        return fits && (double)(int64_t)d == d ? (int64_t)d : fallback;
    }
    return jv_is(v, JV_INT) ? jv_int(v) : fallback;
}

bool tidings_call_boolean(const struct tidings_call *h, const char *name, bool fallback)
{
    const struct json *v = call_argument(h, name);
    return jv_is(v, JV_TRUE) || (fallback && !jv_is(v, JV_FALSE));
}

struct tidings_str tidings_call_json(struct tidings_call *h, const char *name)
{
    const struct json *v = call_argument(h, name);
    return v ? as_text(&h->json_text, v) : STR_EMPTY;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Books the handler's content. Content without room is freed at once, and the call fails. */
static int call_book(struct tidings_call *h, struct tidings_error *err)
{
    size_t held = h->content.cap + h->structured.cap;
    if (held <= PAYLOAD_LONG || output_book_text(&h->output, held, &h->limit)) {
        return 0;
    }
    char sentence[REFUSAL_SENTENCE];
    buf_deinit(&h->content);
    buf_deinit(&h->structured);
    h->content.failed = h->structured.failed = TIDINGS_E_LIMIT;
    return tidings_fail(err, TIDINGS_E_BUSY, "%s", refusal_sentence(&h->limit, sentence));
}

/* One block, written through h->w between these. `bytes` of content are counted against the limit.
 */
static int call_begin_block(struct tidings_call *h, size_t bytes, struct tidings_error *err)
{
    size_t max = h->base.worker->limits->max_read_bytes;
    if (bytes > max - h->bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the content exceeds the limit of %zu bytes (--max-read)", max);
    }
    h->bytes += bytes;
    if (h->block_count++ == 0) {
        jw_init(&h->w, &h->content);
        jw_begin_array(&h->w);
    }
    h->kind->begin_block(h);
    jw_begin_object(&h->w);
    return 0;
}

static int call_end_block(struct tidings_call *h, struct tidings_error *err)
{
    jw_end_object(&h->w);
    h->kind->end_block(h);
    int rc = call_book(h, err);
    return rc < 0 ? rc : buf_check(&h->content, "the content", "give less of it", err);
}

int tidings_call_text(struct tidings_call *h, struct tidings_str text, struct tidings_error *err)
{
    int rc = call_begin_block(h, text.len, err);
    if (rc < 0) {
        return rc;
    }
    jw_put_string(&h->w, STR("type"), STR("text"));
    jw_put_string(&h->w, STR("text"), text);
    return call_end_block(h, err);
}

static int call_put_media(struct tidings_call *h, struct tidings_str type, struct tidings_str bytes,
                          const char *mime_type, struct tidings_error *err)
{
    if (!mime_type || !mime_type[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "an image or sound needs a media type");
    }
    int rc = call_begin_block(h, bytes.len, err);
    if (rc < 0) {
        return rc;
    }
    jw_put_string(&h->w, STR("type"), type);
    jw_key(&h->w, STR("data"));
    jw_base64(&h->w, bytes);
    jw_put_string(&h->w, STR("mimeType"), tidings_str(mime_type));
    return call_end_block(h, err);
}

int tidings_call_image(struct tidings_call *h, struct tidings_str bytes, const char *mime_type,
                       struct tidings_error *err)
{
    return call_put_media(h, STR("image"), bytes, mime_type, err);
}

int tidings_call_audio(struct tidings_call *h, struct tidings_str bytes, const char *mime_type,
                       struct tidings_error *err)
{
    return call_put_media(h, STR("audio"), bytes, mime_type, err);
}

int tidings_call_resource(struct tidings_call *h, const struct tidings_resource *about,
                          struct tidings_str content, struct tidings_error *err)
{
    if (!about || about->uri.len == 0 || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a resource needs a URI and a name");
    }
    int rc = resource_check(about, err);
    rc = rc < 0 ? rc : call_begin_block(h, content.len, err);
    if (rc < 0) {
        return rc;
    }
    resource_write_embedded(&h->w, about, content, str_is_utf8(content));
    return call_end_block(h, err);
}

int tidings_call_link(struct tidings_call *h, const struct tidings_resource *about,
                      struct tidings_error *err)
{
    if (!about || about->uri.len == 0 || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a link needs a URI and a name");
    }
    int rc = resource_check(about, err);
    rc = rc < 0 ? rc : call_begin_block(h, 0, err);
    if (rc < 0) {
        return rc;
    }
    resource_write_link(&h->w, about);
    return call_end_block(h, err);
}

/* An object that a handler passes as a string. */
static int read_object(struct tidings_str json, const char *what, struct json **ret,
                       struct tidings_error *err)
{
    struct tidings_error why;
    int rc = jv_parse(json, BLOCK_DEPTH, ret, &why);
    if (rc < 0) {
        return tidings_fail(err, rc, "%s: %s", what, why.text);
    }
    if (!jv_is(*ret, JV_OBJECT)) {
        jv_unref(*ret);
        return tidings_fail(err, TIDINGS_E_INVALID, "%s must be a JSON object", what);
    }
    return 0;
}

int tidings_call_block(struct tidings_call *h, struct tidings_str json, struct tidings_error *err)
{
    struct json *block = NULL;
    int rc = read_object(json, "a block", &block, err);
    if (rc < 0) {
        return rc;
    }
    if (!jv_is(jv_get(block, "type"), JV_STRING)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a block needs a string 'type'");
    }
    rc = rc < 0 ? rc : call_begin_block(h, json.len, err);
    if (rc == 0) {
        resource_write_block(&h->w, block);
        rc = call_end_block(h, err);
    }
    jv_unref(block);
    return rc;
}

static int check_size(const struct tidings_call *h, size_t bytes, struct tidings_error *err)
{
    size_t max = h->base.worker->limits->max_read_bytes;
    return bytes <= max
               ? 0
               : tidings_fail(err, TIDINGS_E_LIMIT,
                              "structured content exceeds the limit of %zu bytes (--max-read)",
                              max);
}

int call_take_structured(struct tidings_call *h, struct buf *json, struct tidings_error *err)
{
    int rc = check_size(h, json->len, err);
    if (rc == 0) {
        buf_deinit(&h->structured);
        h->structured = *json;
        h->is_checked = true;
        buf_init(json, 0);
        rc = call_book(h, err);
    }
    return rc;
}

int tidings_call_structured(struct tidings_call *h, struct tidings_str json,
                            struct tidings_error *err)
{
    struct json *value = NULL;
    int rc = read_object(json, "structured content", &value, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_size(h, json.len, err);
    if (rc == 0) {
        (void)as_text(&h->structured, value);
        rc = call_book(h, err);
        rc = rc < 0 ? rc : buf_check(&h->structured, "structured content", "give less of it", err);
    }
    jv_unref(value);
    return rc;
}

void tidings_call_mark_error(struct tidings_call *h)
{
    h->is_error = true;
}

void tidings_call_set_assistant(struct tidings_call *h, bool is_assistant)
{
    h->is_assistant = is_assistant;
}

/* -------------------------------------------------------------------------------------------------
 * Lists of tools or prompts for a client, and the answer to an unknown name.
 */

#define UNKNOWN_MAX 4096u /* bytes of an error message with names in it */

static bool call_is_offered(const struct request *request, const struct feature *f)
{
    if (f->writes.len == 0) {
        return true;
    }
    if (!access_writes(request->principal, f->writes)) {
        return false;
    }
    struct channel_facts facts = {0};
    if (!access_is_by_rule(request->principal) && request->channel) {
        channel_get_facts(request->channel, &facts);
    }
    return access_is_by_rule(request->principal) || facts.is_local;
}

void call_refuse_unknown(struct request *request, enum feature_kind kind, const char *what,
                         struct tidings_str name)
{
    struct tidings_str near[FEATURE_SUGGESTIONS];
    const struct feature_list *list = request->worker->handlers->features[kind];
    size_t found = feature_suggest(list, name, near), count = 0;
    for (size_t i = 0; i < found; i++) {
        if (call_is_offered(request, feature_find(list, near[i]))) {
            near[count++] = near[i];
        }
    }
    struct buf text, data;
    struct jw w;
    buf_init(&text, UNKNOWN_MAX);
    buf_init(&data, UNKNOWN_MAX);
    buf_putf(&text, "unknown %s '%.*s'", what, STR_ARG_MAX(name, 128));
    jw_init(&w, &data);
    jw_begin_object(&w);
    jw_key(&w, STR("suggestions"));
    jw_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        buf_putf(&text, "%s'%.*s'", i == 0 ? "; did you mean " : " or ", STR_ARG(near[i]));
        jw_string(&w, near[i]);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    buf_puts(&text, count > 0 ? STR("?") : STR_EMPTY);
    request_fail_details(request, TIDINGS_E_INVALID,
                         text.failed ? STR("out of memory") : buf_str(&text),
                         count > 0 && !data.failed ? buf_str(&data) : STR_EMPTY);
    buf_deinit(&data);
    buf_deinit(&text);
}

void call_list(struct request *request, enum feature_kind kind, struct tidings_str key, char source)
{
    struct tidings_str after;
    const char sources[] = {source, '\0'};
    size_t wanted = page_size(request);
    if (wanted == 0 || !page_read_cursor(request, sources, NULL, &after)) {
        return;
    }
    const struct feature_list *list = request->worker->handlers->features[kind];
    size_t count = list ? list->count : 0, at = feature_list_after(list, after);
    size_t end = count - at < wanted ? count : at + wanted;
    request_begin(request);
    jw_key(&request->w, key);
    jw_begin_array(&request->w);
    for (size_t i = at; list && i < end; i++) {
        if (call_is_offered(request, list->at[i])) {
            jw_raw(&request->w, list->at[i]->row);
        }
    }
    jw_end_array(&request->w);
    if (list && end < count) {
        page_write_cursor(&request->w, source, list->at[end - 1]->name);
    }
    request_end(request, CACHE_NOW);
}

/* -------------------------------------------------------------------------------------------------
 * Progress and log messages of a working handler. Written on the handler's thread, sent on the
 * client's. Both ends are bounded: a limited number of messages is on the way to the worker, and a
 * stream without room loses them (request_notify).
 */

#define PROGRESS_MS 20u /* between two reports */
#define NOTES_MAX 64u   /* on their way to the worker, per call */
#define NOTE_BYTES 65536u
#define LOG_ASK_SESSION (-1)
#define LOG_UNWANTED 8

static void call_read_report_options(struct tidings_call *h)
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
    struct thread_message thread_message;
    struct tidings_call *h; /* finished only after this arrives */
    int level;              /* of a log message; LOG_UNWANTED: another message */
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

static void note_deliver(struct thread_message *thread_message, void *owner)
{
    (void)owner;
    struct note *note = list_entry(thread_message, struct note, thread_message);
    __atomic_sub_fetch(&note->h->notes, 1, __ATOMIC_RELAXED);
    call_report_send(note->h, note->level, &note->text);
    note_free(note);
}

static void note_drop(struct thread_message *thread_message)
{
    note_free(list_entry(thread_message, struct note, thread_message));
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
    note->thread_message.deliver = note_deliver;
    note->thread_message.drop = note_drop;
    note->h = h;
    note->level = level;
    note->text = *text;
    __atomic_add_fetch(&h->notes, 1, __ATOMIC_RELAXED);
    mailbox_send(h->base.worker->mailbox, &note->thread_message);
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
    if (is_task) { /* no request that a notification could belong to */
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

/* ---------------------------------------------------------------------------------------------- */

#define CALL_ROOM 1024u /* of an answer, for what is around the content */

/* State of the cancel callback. NONE and LISTENING belong to the thread that changes them first:
 * the home thread (cancelled: CALLING, then CALLED) or the finishing thread (FINISHED).
 *
 *     NONE ──on_cancel──> LISTENING ──cancel──> CALLING ──returned──> CALLED
 *       │                     │                    └─ a finisher elsewhere waits for CALLED
 *       └──────cancel: CALLED, finish: FINISHED*/
enum cancel_state {
    CANCEL_NONE,
    CANCEL_LISTENING,
    CANCEL_CALLING,
    CANCEL_CALLED,
    CANCEL_FINISHED,
};

static bool move_state(struct tidings_call *h, int from, int to)
{
    return __atomic_compare_exchange_n(&h->cancel_state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* ---- end ------------------------------------------------------------------------------------- */

void call_free(struct tidings_call *h)
{
    call_observe_end(h);
    list_remove(&h->link);
    call_task_deinit(h);
    if (h->task_state <= CALL_TASK_OPENING) { /* else it counts as a task */
        share_give(h->base.worker->limit_counters, LIMIT_CALLS, 1, h->account);
    }
    output_end(&h->output);
    call_ask_deinit(h);
    feature_unref(h->feature);
    principal_unref(h->principal);
    client_account_release(h->account);
    buf_deinit(&h->origin);
    jv_unref(h->root);
    buf_deinit(&h->arguments_text);
    buf_deinit(&h->json_text);
    buf_deinit(&h->content);
    buf_deinit(&h->structured);
    mem_free((char *)(uintptr_t)h->progress_token.ptr);
    mem_free(h);
}

static void call_answer(struct tidings_call *h, struct request *request)
{
    if (request->cancelled) {
        request_drop(request);
    } else if (h->outcome == CALL_FAILED && !call_fail_missing(h, request)) {
        h->kind->fail(request, &h->base.err);
    } else if (h->outcome == CALL_REFUSED) {
        request_fail_job(request, &h->base, STR_EMPTY, STR_EMPTY);
    } else if (h->outcome == CALL_LIMITED) {
        request_fail_limit(request, &h->limit, STR_EMPTY);
    } else if (h->outcome == CALL_RESULT) {
        request_begin(request);
        if (call_has_asked(h)) {
            call_write_asked(h, request);
            request_end(request, CACHE_ASKING);
        } else {
            /* Exactly that, since memory that grows later grows to the double. */
            (void)buf_reserve(&request->out, h->content.len + h->structured.len + CALL_ROOM);
            h->kind->write(h, &request->w);
            output_end(&h->output); /* the text of the answer is booked instead */
            request_end(request, CACHE_NONE);
        }
    }
}

void call_end(struct tidings_call *h)
{
    if (h->request) {
        h->request->job = NULL;
        call_answer(h, h->request);
    }
    call_free(h);
}

/* Calls the function that completes the result. */
static void call_finish_on_worker(struct tidings_call *h)
{
    struct tidings_error err = {0};
    int rc = h->on_worker(h->on_worker_user, h, &err);
    rc = rc < 0 ? rc : h->kind->check(h, &err);
    if (rc < 0) {
        h->outcome = h->limit.retry_ms > 0 ? CALL_LIMITED : CALL_FAILED;
        h->base.err = err;
    }
}

static void call_on_done(struct job *r)
{
    struct tidings_call *h = r->user;
    if (h->on_worker) {
        call_finish_on_worker(h);
    }
    if (h->task_state != CALL_TASK_NONE) {
        call_task_done(h);
        return;
    }
    bool asks = h->outcome == CALL_RESULT && call_has_asked(h) && !h->meta;
    if (asks && h->request && !h->request->cancelled) {
        call_wait(h);
    } else {
        call_end(h);
    }
}

/* No callback runs from now on. Returns true if one is running on this very thread, and must return
 * first. */
static bool stop_listening(struct tidings_call *h)
{
    bool is_on_worker = pthread_equal(h->base.thread, pthread_self());
    for (;;) {
        if (move_state(h, CANCEL_NONE, CANCEL_FINISHED) ||
            move_state(h, CANCEL_LISTENING, CANCEL_FINISHED) ||
            __atomic_load_n(&h->cancel_state, __ATOMIC_ACQUIRE) == CANCEL_CALLED) {
            return false;
        }
        if (is_on_worker) {
            return true;
        }
        sched_yield(); /* it must not block, so this is short */
    }
}

static void call_finish(struct tidings_call *h, enum call_outcome outcome, int code,
                        const struct tidings_error *err)
{
    h->outcome = outcome;
    if (stop_listening(h)) {
        job_finish_later(&h->base, code, err);
    } else {
        job_finish(&h->base, code, err);
    }
}

void tidings_call_done(struct tidings_call *h, int code, const struct tidings_error *err)
{
    struct tidings_error why;
    if (h->limit.retry_ms > 0) {
        call_finish(h, CALL_LIMITED, TIDINGS_E_BUSY, NULL);
        return;
    }
    if (code >= 0) {
        code = call_has_asked(h) ? 0 : h->kind->check(h, &why);
        err = &why;
    }
    call_finish(h, code < 0 ? CALL_FAILED : CALL_RESULT, code, err);
}

void call_done_on_worker(struct tidings_call *h, call_on_worker_fn fn, void *user)
{
    h->on_worker = fn;
    h->on_worker_user = user;
    call_finish(h, CALL_RESULT, 0, NULL);
}

void tidings_call_refuse(struct tidings_call *h, int code, const struct tidings_error *err)
{
    call_finish(h, CALL_REFUSED, code < 0 ? code : TIDINGS_E_INTERNAL, err);
}

void call_refuse_limit(struct tidings_call *h, const struct refusal *why)
{
    h->limit = *why;
    call_finish(h, CALL_LIMITED, TIDINGS_E_BUSY, NULL);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static void call_on_cancel(struct job *r)
{
    struct tidings_call *h = r->user;
    if (move_state(h, CANCEL_LISTENING, CANCEL_CALLING)) {
        h->on_cancel(h->cancel_user, h);
        __atomic_store_n(&h->cancel_state, CANCEL_CALLED, __ATOMIC_RELEASE);
    } else {
        (void)move_state(h, CANCEL_NONE, CANCEL_CALLED);
    }
}

/* Home thread. */
void call_cancel(struct tidings_call *h)
{
    job_cancel(&h->base);
}

bool tidings_call_cancelled(const struct tidings_call *h)
{
    return __atomic_load_n(&h->base.cancelled, __ATOMIC_ACQUIRE);
}

void tidings_call_on_cancel(struct tidings_call *h, tidings_call_fn fn, void *user)
{
    if (h->on_cancel) {
        return; /* one is enough */
    }
    h->on_cancel = fn;
    h->cancel_user = user;
    if (!move_state(h, CANCEL_NONE, CANCEL_LISTENING)) {
        fn(user, h); /* it was cancelled before */
    }
}

void calls_cancel(struct worker *worker)
{
    struct list *at = &worker->handlers->calls;
    while (at->next != &worker->handlers->calls) {
        struct tidings_call *h = list_entry(at->next, struct tidings_call, link);
        if (tidings_call_cancelled(h)) {
            at = at->next;
        } else {
            call_cancel(h); /* which may finish others, so restart the loop */
            at = &worker->handlers->calls;
        }
    }
}

/* ---- deadlines: few enough to look at all of them -------------------------------------------- */

static void call_set_timer(struct worker *worker, uint64_t due_ms)
{
    struct handlers *all = worker->handlers;
    if (due_ms > 0 && (all->due_ms == 0 || due_ms < all->due_ms)) {
        uint64_t now = loop_now_ms(worker->loop);
        all->due_ms = due_ms;
        loop_timer_start(all->timer, due_ms > now ? due_ms - now : 0, 0);
    }
}

void call_set_deadline(struct tidings_call *h, uint64_t deadline_ms)
{
    h->deadline_ms = deadline_ms;
    call_set_timer(h->base.worker, deadline_ms);
}

/* Answers the client; the handler is cancelled and may end later. */
static void call_give_up(struct tidings_call *h)
{
    if (h->wait) {
        call_wait_expire(h);
        return;
    }
    if (!h->request) {
        call_task_expire(h);
        return;
    }
    if (h->starts_later && h->task_state == CALL_TASK_OPENING) {
        call_task_give_up(h);
        return;
    }
    struct request *request = h->request;
    const struct feature *f = h->feature;
    uint64_t allowed = f->timeout_ms ? f->timeout_ms : h->base.worker->limits->call_timeout_ms;
    struct tidings_error err;
    limit_hit(h->base.worker->limit_counters, LIMIT_CALL_TIME);
    tidings_fail(&err, TIDINGS_E_TIMEOUT, "the %s '%.*s' did not finish within %llu ms (%s)",
                 h->kind->what, STR_ARG(f->name), (unsigned long long)allowed,
                 f->timeout_ms ? "its own limit" : "--call-timeout");
    const struct call_kind *kind = h->kind;
    h->is_late = true;
    call_observe_end(h);
    h->request = NULL;
    request->job = NULL;
    call_cancel(h);
    if (request->cancelled) {
        request_drop(request);
    } else {
        kind->fail(request, &err);
    }
}

static struct tidings_call *first_due(struct worker *worker)
{
    struct tidings_call *first = NULL;
    list_each (it, next, &worker->handlers->calls) {
        struct tidings_call *h = list_entry(it, struct tidings_call, link);
        bool is_awaited = h->request || h->task_state >= CALL_TASK_RUNNING;
        if (is_awaited && h->deadline_ms > 0 && (!first || h->deadline_ms < first->deadline_ms)) {
            first = h;
        }
    }
    return first;
}

static void call_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    struct tidings_call *h;
    worker->handlers->due_ms = 0;
    /* Giving up on a call may finish others, so the loop starts from the first each time. */
    while ((h = first_due(worker)) != NULL && h->deadline_ms <= loop_now_ms(worker->loop)) {
        call_give_up(h);
    }
    call_set_timer(worker, h ? h->deadline_ms : 0);
}

bool calls_open(struct worker *worker)
{
    list_init(&worker->handlers->calls);
    worker->handlers->due_ms = 0;
    worker->handlers->timer = loop_timer_open(worker->loop, call_on_deadline, worker);
    return worker->handlers->timer != NULL;
}

void calls_close(struct worker *worker)
{
    loop_timer_close(worker->handlers->timer);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* Takes the reference to the account, unless there is no memory. */
static struct tidings_call *call_create(struct request *request, const struct call_kind *kind,
                                        struct feature *f, struct client_account *client)
{
    struct worker *worker = request->worker;
    struct tidings_call *h = mem_zalloc(sizeof(*h));
    if (!h) {
        return NULL;
    }
    size_t max = worker->limits->max_read_bytes * 6 + (1u << 20);
    job_init(&h->base, worker, call_on_done, h, STR_EMPTY);
    h->base.on_cancel = call_on_cancel;
    h->request = request;
    h->kind = kind;
    h->principal = principal_ref(request->principal);
    h->rules = dialect_rules_in(worker->self, request->era);
    h->account = client;
    h->feature = feature_ref(f);
    h->root = jv_ref(request->root);
    h->arguments = jv_get(request->msg.params, "arguments");
    struct json *meta = jv_get(request->msg.params, "_meta");
    h->meta = request->meta;
    if (request->trace) {
        h->trace = *request->trace;
    }
    struct tidings_str origin = jv_str(jv_get(meta, "dev.tidings/origin"));
    buf_init(&h->origin, ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX);
    principal_put_origin(h->principal, origin.len <= ORIGIN_MAX ? origin : STR_EMPTY, &h->origin);
    buf_init(&h->arguments_text, max);
    buf_init(&h->json_text, max);
    buf_init(&h->content, max);
    buf_init(&h->structured, max);
    output_init(&h->output, worker->limit_counters,
                (struct share_taker){client_account_ref(client), h->principal, !h->principal});
    list_append(&worker->handlers->calls, &h->link);
    call_read_report_options(h);
    return h;
}

/* Charges the client, within its remaining budget and the limit of the schema. Returns false if
 * that was not enough, but might be at another time; the request is answered. */
static bool call_accept_arguments(struct request *request, struct client_account *client,
                                  const struct json_schema *schema, struct json *given,
                                  enum schema_verdict *ret, struct schema_error *ret_error)
{
    uint64_t now = loop_now_ms(request->worker->loop), most = schema_max_steps(schema);
    uint64_t left = client_account_steps_left(client, now), had = left < most ? left : most,
             steps = had;
    *ret = had > 0 ? schema_check_within(schema, given, ret_error, &steps) : SCHEMA_GAVE_UP;
    client_account_pay(client, had - steps, now);
    if (*ret == SCHEMA_GAVE_UP && steps == 0 && had < most) {
        struct refusal why =
            client_account_refusal(request->worker->limit_counters, client, most, now);
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    return true;
}

/* Checks the arguments against the feature's schema. Returns false if they do not match; the
 * request is answered then. */
static bool call_check_arguments(struct request *request, const struct call_kind *kind,
                                 const struct feature *f, struct client_account *client)
{
    struct json *given = jv_get(request->msg.params, "arguments"), *none = NULL;
    if (given && !jv_is(given, JV_OBJECT)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.arguments must be an object");
        return false;
    }
    if (!f->input) {
        return true;
    }
    if (!given && jv_parse(STR("{}"), 1, &none, NULL) < 0) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return false;
    }
    struct schema_error e;
    enum schema_verdict verdict;
    bool is_checked =
        call_accept_arguments(request, client, f->input, given ? given : none, &verdict, &e);
    jv_unref(none);
    if (is_checked && verdict != SCHEMA_VALID) {
        kind->invalid(request, &e);
    }
    return is_checked && verdict == SCHEMA_VALID;
}

static void run_handler(struct job *r)
{
    struct tidings_call *h = r->user;
    h->feature->handler(h->feature->user, h);
}

static void run_job(void *job)
{
    struct job *r = job;
    struct tidings_call *h = r->user;
    if (tidings_call_cancelled(h)) {
        tidings_call_done(h, TIDINGS_E_CANCELLED, NULL); /* while it waited for a thread */
    } else {
        run_handler(r);
    }
}

static int call_observe_begin(struct tidings_call *h, struct tidings_error *err);

void call_start(struct tidings_call *h)
{
    struct worker *worker = h->base.worker;
    uint64_t own = h->feature->timeout_ms, allowed = own ? own : worker->limits->call_timeout_ms;
    if (h->request) {
        h->request->job = &h->base;
        call_set_deadline(h, allowed > 0 ? loop_now_ms(worker->loop) + allowed : 0);
    } else {
        call_set_deadline(h, call_task_deadline(h));
    }
    struct tidings_error err = {0};
    int rc = call_observe_begin(h, &err);
    if (rc == 0 && !h->feature->is_blocking) {
        job_start(&h->base, NULL, run_handler);
        return;
    }
    job_begin(&h->base);
    if (rc < 0) {
        tidings_call_refuse(h, rc, &err);
        return;
    }
    rc = pool_submit(worker->handlers->pool, run_job, &h->base);
    if (rc < 0) {
        tidings_fail(&err, rc, "too many requests are waiting; try again later");
        tidings_call_refuse(h, rc, &err);
    }
}

/* The arguments are valid. Returns false if the request is answered and the account was not
 * taken. */
static bool call_begin(struct request *request, const struct call_kind *kind, struct feature *f,
                       struct client_account *client)
{
    struct worker *worker = request->worker;
    const struct share_taker who = {client, request->principal, !request->principal};
    struct refusal why;
    if (!share_take(worker->limit_counters, LIMIT_CALLS, worker->limits->max_calls, 1, &who,
                    &why)) {
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    struct tidings_call *h = call_create(request, kind, f, client);
    if (!h) {
        share_give(worker->limit_counters, LIMIT_CALLS, 1, client);
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return false;
    }
    if (!call_read_answers(h, request)) {
        call_free(h);
        return true;
    }
    if (f->task == TIDINGS_TASK_NEVER || f->begins_task || !call_task_is_possible(request)) {
        call_start(h);
    } else if (!call_task_begin(h)) {
        call_free(h);
    }
    return true;
}

void call_again(struct tidings_call *h)
{
    job_init(&h->base, h->base.worker, call_on_done, h, STR_EMPTY);
    h->base.on_cancel = call_on_cancel;
    h->on_worker = NULL;
    h->cancel_state = CANCEL_NONE;
    h->on_cancel = NULL;
    buf_clear(&h->content);
    buf_clear(&h->structured);
    h->limit = (struct refusal){0};
    h->bytes = h->block_count = 0;
    h->is_checked = h->is_error = h->is_assistant = false;
    call_start(h);
}

void call_run(struct request *request, const struct call_kind *kind)
{
    struct worker *worker = request->worker;
    struct json *name = jv_get(request->msg.params, "name");
    if (!jv_is(name, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.name must be a string");
        return;
    }
    struct feature *f = feature_find(worker->handlers->features[kind->feature], jv_str(name));
    if (!f || !call_is_offered(request, f)) {
        call_refuse_unknown(request, kind->feature, kind->what, jv_str(name));
        return;
    }
    if (f->task == TIDINGS_TASK_REQUIRED && !call_task_is_possible(request)) {
        call_task_refuse(request, "this tool runs as a task, for clients that declare the "
                                  "extension '" DIALECT_TASKS "'");
        return;
    }
    struct client_account *client = channel_account(request->channel);
    if (!client) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
    } else if (!call_check_arguments(request, kind, f, client) ||
               !call_begin(request, kind, f, client)) {
        client_account_release(client);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The beginning and the end of each call of a tool: counted for the operator, and reported to the
 * program if it asked for that. Both on the worker's thread.
 */

static int call_observe_begin(struct tidings_call *h, struct tidings_error *err)
{
    const struct tidings_call_hooks *hooks = h->base.worker->handlers->hooks;
    if (h->kind->feature != FEATURE_TOOL || h->begun_us > 0) { /* it continues after a question */
        return 0;
    }
    h->begun_us = clock_monotonic_ns() / 1000;
    int rc = hooks && hooks->begin ? hooks->begin(hooks->user, h, err) : 0;
    if (rc < 0 && err->code >= 0) { /* it gave no reason */
        tidings_fail(err, rc, "the call is refused");
    }
    return rc;
}

static enum tidings_call_outcome call_observe_outcome(const struct tidings_call *h)
{
    if (h->is_late) {
        return TIDINGS_CALL_TIMEOUT;
    }
    if (tidings_call_cancelled(h)) {
        return TIDINGS_CALL_CANCELLED;
    }
    switch (h->outcome) {
    case CALL_RESULT:
        return h->is_error ? TIDINGS_CALL_ERROR : TIDINGS_CALL_OK;
    case CALL_FAILED:
        return TIDINGS_CALL_ERROR;
    case CALL_REFUSED:
    case CALL_LIMITED:
        break;
    }
    return TIDINGS_CALL_REFUSED;
}

void call_observe_end(struct tidings_call *h)
{
    struct handlers *all = h->base.worker->handlers;
    if (h->begun_us == 0 || h->is_observed) {
        return;
    }
    h->is_observed = true;
    struct tidings_call_report report = {
        .tool = h->feature->name,
        .principal = tidings_call_principal(h),
        .outcome = call_observe_outcome(h),
        .duration_us = clock_monotonic_ns() / 1000 - h->begun_us,
    };
    all->counts = all->counts ? all->counts : mem_zalloc(sizeof(*all->counts));
    if (all->counts) { /* without memory it is not counted */
        tool_counts_add(all->counts, report.tool, report.outcome, report.duration_us);
    }
    if (all->hooks && all->hooks->end) {
        all->hooks->end(all->hooks->user, &report);
    }
}
