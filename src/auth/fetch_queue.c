/* SPDX-License-Identifier: MIT
 *
 * HTTP requests in two lists: those under way, and those that wait for their turn. A step waits for
 * the answers and for the descriptor of the thread's loop at once, so that letters are not delayed.
 */
#include "auth/fetch_queue.h"

#include <poll.h>

#include "base/confined_file.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "http_client/fetch.h"

struct queued_fetch {
    struct list link;
    struct fetch_transfer *transfer; /* NULL: waits for its turn */
    struct buf body;
    fetch_done_fn done;
    void *user;
    char *url, *authorization, *form;
    size_t form_len;
    struct confined_file ca;
};

struct fetch_queue {
    struct loop *loop;
    struct fetch *fetch;
    const char *ca_file;
    struct list under_way, in_line;
    size_t count;               /* under way */
    struct auth_fetches counts; /* atomic, each of them */
    bool is_closed;
};

struct loop *fetch_queue_loop(const struct fetch_queue *q)
{
    return q->loop;
}

void fetch_queue_count(uint64_t *count)
{
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
}

struct auth_fetches *fetch_queue_counts(struct fetch_queue *q)
{
    return &q->counts;
}

/* ---- one request ----------------------------------------------------------------------------- */

static void queued_destroy(struct queued_fetch *x)
{
    list_remove(&x->link);
    fetch_close(x->transfer);
    confined_file_close(&x->ca);
    buf_deinit(&x->body);
    mem_free(x->url);
    str_free_secret(x->authorization);
    str_free_secret(x->form);
    mem_free(x);
}

static void fetch_queue_finish(struct fetch_queue *q, struct queued_fetch *x, long status,
                               const struct tidings_error *err)
{
    q->count -= x->transfer != NULL;
    list_remove(&x->link);
    x->done(x->user, status, buf_str(&x->body), err);
    queued_destroy(x);
}

static int fetch_queue_on_bytes(void *user, struct tidings_str bytes)
{
    return buf_puts(&((struct queued_fetch *)user)->body, bytes);
}

static void fetch_queue_begin(struct fetch_queue *q, struct queued_fetch *x)
{
    struct tidings_error err = {0, ""};
    int rc = q->ca_file ? confined_file_open(&x->ca, q->ca_file) : 0;
    struct fetch_request request = {
        .method = x->form ? "POST" : "GET",
        .url = x->url,
        .ca_file = x->ca.path,
        .body = tidings_strn(x->form, x->form_len),
        .headers = {"Accept: application/json"},
        .timeout_ms = FETCH_QUEUE_TIMEOUT_MS,
        .on_bytes = fetch_queue_on_bytes,
        .user = x,
    };
    size_t headers = 1;
    if (x->form) {
        request.headers[headers++] = "Content-Type: application/x-www-form-urlencoded";
    }
    if (x->authorization) {
        request.headers[headers++] = x->authorization;
    }
    list_remove(&x->link);
    if (rc < 0) {
        (void)error_errno(&err, -rc, "'%s'", q->ca_file);
        fetch_queue_finish(q, x, 0, &err);
        return;
    }
    if (fetch_start(q->fetch, &request, &x->transfer, &err) < 0) {
        fetch_queue_finish(q, x, 0, &err);
        return;
    }
    list_append(&q->under_way, &x->link);
    q->count++;
}

static void begin_next(struct fetch_queue *q)
{
    while (q->count < FETCH_QUEUE_AT_ONCE && !list_empty(&q->in_line)) {
        fetch_queue_begin(q, list_entry(q->in_line.next, struct queued_fetch, link));
    }
}

static void finish_ended(struct fetch_queue *q)
{
    list_each (it, next, &q->under_way) {
        struct queued_fetch *x = list_entry(it, struct queued_fetch, link);
        struct fetch_status status = *fetch_status(x->transfer);
        if (status.finished) {
            fetch_queue_finish(q, x, status.error.code ? 0 : status.status, &status.error);
        }
    }
}

int fetch_queue_add(struct fetch_queue *q, const struct queued_request *request, fetch_done_fn done,
                    void *user)
{
    struct queued_fetch *x = q->is_closed ? NULL : mem_zalloc(sizeof(*x));
    if (!x) {
        return q->is_closed ? TIDINGS_E_CLOSED : TIDINGS_E_NOMEM;
    }
    list_init(&x->link);
    buf_init(&x->body, FETCH_QUEUE_BODY_MAX);
    x->done = done;
    x->user = user;
    x->url = str_dup(tidings_str(request->url));
    x->authorization = request->authorization ? str_dup(tidings_str(request->authorization)) : NULL;
    x->form = request->form.len > 0 ? str_dup(request->form) : NULL;
    x->form_len = request->form.len;
    if (!x->url || (request->authorization && !x->authorization) ||
        (request->form.len > 0 && !x->form)) {
        queued_destroy(x);
        return TIDINGS_E_NOMEM;
    }
    list_append(&q->in_line, &x->link);
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

void fetch_queue_step(struct fetch_queue *q)
{
    begin_next(q);
    if (fetch_step(q->fetch, loop_timeout_ms(q->loop), NULL) < 0) {
        (void)poll(&(struct pollfd){.fd = loop_fd(q->loop), .events = POLLIN}, 1, 100);
    }
    finish_ended(q);
}

static void fetch_queue_break_off(struct list *some)
{
    list_each (it, next, some) {
        struct queued_fetch *x = list_entry(it, struct queued_fetch, link);
        /* Who waits for it is freed with it. */
        x->done(x->user, 0, STR_EMPTY,
                &(struct tidings_error){TIDINGS_E_CLOSED, "the server stops"});
        queued_destroy(x);
    }
}

void fetch_queue_close(struct fetch_queue *q)
{
    q->is_closed = true;
    fetch_queue_break_off(&q->under_way);
    fetch_queue_break_off(&q->in_line);
}

int fetch_queue_create(struct fetch_queue **ret, struct loop *loop, const char *ca_file,
                       struct tidings_error *err)
{
    struct fetch_queue *q = mem_zalloc(sizeof(*q));
    if (!q) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    q->loop = loop;
    q->ca_file = ca_file;
    list_init(&q->under_way);
    list_init(&q->in_line);
    int rc = fetch_create(loop_fd(loop), FETCH_QUEUE_BODY_MAX, &q->fetch, err);
    if (rc < 0) {
        fetch_queue_destroy(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void fetch_queue_destroy(struct fetch_queue *q)
{
    if (q) {
        fetch_destroy(q->fetch);
        mem_free(q);
    }
}
