/* SPDX-License-Identifier: MIT
 *
 * A thread that turns its loop and steps its exchanges: letters and timers wake it through the
 * loop's descriptor, which the exchanges wait for too.
 */
#include "auth/remote.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "auth/introspect.h"
#include "auth/key_source.h"
#include "base/error.h"
#include "base/lent_file.h"
#include "base/mem.h"
#include "http_client/fetch.h"

struct exchange {
    struct list link;
    struct fetch_transfer *transfer; /* NULL: waits for its turn */
    struct buf body;
    remote_done_fn done;
    void *user;
    char *url, *authorization, *form;
    size_t form_len;
    struct lent_file ca;
};

struct remote {
    struct auth *auth;
    struct loop *loop;
    struct mailbox *mailbox;
    struct fetch *fetch;
    struct list under_way, in_line;
    size_t count;                                 /* under way */
    struct key_source *sources[AUTH_ISSUERS_MAX]; /* NULL: from a file */
    pthread_t thread;
    bool is_running, is_over;
};

struct loop *remote_loop(struct remote *r)
{
    return r->loop;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static void exchange_destroy(struct exchange *x)
{
    list_remove(&x->link);
    fetch_close(x->transfer);
    lent_file_close(&x->ca);
    buf_deinit(&x->body);
    mem_free(x->url);
    str_free_secret(x->authorization);
    str_free_secret(x->form);
    mem_free(x);
}

static void finish(struct remote *r, struct exchange *x, long status,
                   const struct tidings_error *err)
{
    r->count -= x->transfer != NULL;
    list_remove(&x->link);
    x->done(x->user, status, buf_str(&x->body), err);
    exchange_destroy(x);
}

static int on_bytes(void *user, struct tidings_str bytes)
{
    return buf_puts(&((struct exchange *)user)->body, bytes);
}

static void begin(struct remote *r, struct exchange *x)
{
    struct tidings_error err = {0, ""};
    int rc = r->auth->ca ? lent_file_open(&x->ca, r->auth->ca) : 0;
    struct fetch_request request = {
        .method = x->form ? "POST" : "GET",
        .url = x->url,
        .ca_file = x->ca.path,
        .body = tidings_strn(x->form, x->form_len),
        .headers = {"Accept: application/json"},
        .timeout_ms = REMOTE_TIMEOUT_MS,
        .on_bytes = on_bytes,
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
        (void)error_errno(&err, -rc, "'%s'", r->auth->ca);
        finish(r, x, 0, &err);
        return;
    }
    if (fetch_start(r->fetch, &request, &x->transfer, &err) < 0) {
        finish(r, x, 0, &err);
        return;
    }
    list_append(&r->under_way, &x->link);
    r->count++;
}

static void begin_next(struct remote *r)
{
    while (r->count < REMOTE_AT_ONCE && !list_empty(&r->in_line)) {
        begin(r, list_entry(r->in_line.next, struct exchange, link));
    }
}

static void finish_ended(struct remote *r)
{
    list_each (it, next, &r->under_way) {
        struct exchange *x = list_entry(it, struct exchange, link);
        struct fetch_status status = *fetch_status(x->transfer);
        if (status.finished) {
            finish(r, x, status.error.code ? 0 : status.status, &status.error);
        }
    }
}

int remote_fetch(struct remote *r, const struct remote_request *request, remote_done_fn done,
                 void *user)
{
    struct exchange *x = r->is_over ? NULL : mem_zalloc(sizeof(*x));
    if (!x) {
        return r->is_over ? TIDINGS_E_CLOSED : TIDINGS_E_NOMEM;
    }
    list_init(&x->link);
    buf_init(&x->body, REMOTE_BODY_MAX);
    x->done = done;
    x->user = user;
    x->url = str_dup(tidings_str(request->url));
    x->authorization = request->authorization ? str_dup(tidings_str(request->authorization)) : NULL;
    x->form = request->form.len > 0 ? str_dup(request->form) : NULL;
    x->form_len = request->form.len;
    if (!x->url || (request->authorization && !x->authorization) ||
        (request->form.len > 0 && !x->form)) {
        exchange_destroy(x);
        return TIDINGS_E_NOMEM;
    }
    list_append(&r->in_line, &x->link);
    return 0;
}

/* ---- letters --------------------------------------------------------------------------------- */

static void deliver_question(struct letter *letter, void *owner)
{
    struct remote *r = owner;
    struct auth_question *q = list_entry(letter, struct auth_question, letter);
    if (q->verdict.need == VERDICT_NEEDS_KEYS) {
        key_source_ask(r->sources[q->verdict.issuer], q);
    } else {
        introspect(r, q);
    }
}

static void drop_question(struct letter *letter)
{
    question_destroy(list_entry(letter, struct auth_question, letter));
}

void remote_ask(struct remote *r, struct auth_question *q)
{
    q->letter.deliver = deliver_question;
    q->letter.drop = drop_question;
    mailbox_send(r->mailbox, &q->letter);
}

static void deliver_refresh(struct letter *letter, void *owner)
{
    struct remote *r = owner;
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        if (r->sources[i]) {
            key_source_refresh(r->sources[i]);
        }
    }
    letter->drop(letter);
}

static void drop_letter(struct letter *letter)
{
    mem_free(letter);
}

void remote_refresh(struct remote *r)
{
    struct letter *letter = mem_zalloc(sizeof(*letter));
    if (letter) { /* otherwise they become new with their age */
        list_init(&letter->link);
        letter->deliver = deliver_refresh;
        letter->drop = drop_letter;
        mailbox_send(r->mailbox, letter);
    }
}

static void deliver_stop(struct letter *letter, void *owner)
{
    (void)letter;
    ((struct remote *)owner)->is_over = true;
}

static void drop_stop(struct letter *letter)
{
    (void)letter; /* on the stack of remote_stop */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *run(void *user)
{
    struct remote *r = user;
    (void)pthread_setname_np(pthread_self(), "auth");
    while (!r->is_over) {
        loop_turn(r->loop);
        begin_next(r);
        if (!r->is_over && fetch_step(r->fetch, loop_timeout_ms(r->loop), NULL) < 0) {
            (void)poll(&(struct pollfd){.fd = loop_fd(r->loop), .events = POLLIN}, 1, 100);
        }
        finish_ended(r);
    }
    return NULL;
}

static int start_thread(struct remote *r, struct tidings_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum) {
        return error_errno(err, errnum, "start the thread 'auth'");
    }
    r->is_running = true;
    return 0;
}

int remote_start(struct remote **ret, struct auth *a, struct tidings_error *err)
{
    struct remote *r = mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->auth = a;
    list_init(&r->under_way);
    list_init(&r->in_line);
    r->loop = loop_create(err);
    r->mailbox = r->loop ? mailbox_create(r->loop, r, err) : NULL;
    int rc = r->mailbox ? fetch_create(loop_fd(r->loop), REMOTE_BODY_MAX, &r->fetch, err)
                        : TIDINGS_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < a->issuer_count; i++) {
        if (a->issuers[i].is_remote) {
            r->sources[i] = key_source_create(r, a, &a->issuers[i]);
            rc = r->sources[i] ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    if (rc == 0) {
        rc = start_thread(r, err);
    }
    if (rc < 0) {
        remote_stop(r);
        return rc;
    }
    *ret = r;
    return 0;
}

static void break_off(struct list *exchanges)
{
    list_each (it, next, exchanges) {
        struct exchange *x = list_entry(it, struct exchange, link);
        /* Who waits for it is freed with it. */
        x->done(x->user, 0, STR_EMPTY,
                &(struct tidings_error){TIDINGS_E_CLOSED, "the server stops"});
        exchange_destroy(x);
    }
}

void remote_stop(struct remote *r)
{
    if (!r) {
        return;
    }
    if (r->is_running) {
        struct letter stop = {.deliver = deliver_stop, .drop = drop_stop};
        list_init(&stop.link);
        mailbox_send(r->mailbox, &stop);
        pthread_join(r->thread, NULL);
    }
    r->is_over = true;
    break_off(&r->under_way);
    break_off(&r->in_line);
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        key_source_destroy(r->sources[i]);
    }
    fetch_destroy(r->fetch);
    if (r->mailbox) {
        mailbox_close(r->mailbox);
        mailbox_unref(r->mailbox);
    }
    if (r->loop) {
        loop_destroy(r->loop);
    }
    mem_free(r);
}
