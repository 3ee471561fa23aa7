/* SPDX-License-Identifier: MIT
 *
 * See fake_fetch.h.
 */
#include "support/fake_fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"

enum part_kind {
    PART_HEAD,
    PART_BYTES,
    PART_END,
};

struct part {
    struct list link;
    enum part_kind kind;
    long status;
    char *text; /* bytes, or the type */
    char session[32];
    bool is_broken;
};

struct fetch {
    struct fake_net *net;
    struct list calls;
    int fd; /* readable: something may happen */
};

struct fetch_call {
    struct list link;
    struct fetch *fetch;
    struct fetch_request request;
    char *method, *body;
    size_t body_len;
    char *headers[FETCH_MAX_HEADERS];
    struct fetch_status status;
    struct list parts;
    bool is_asked, is_handing, is_closed;
};

static struct fake_net *in_use;

static void *must(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

void fake_net_use(struct fake_net *net)
{
    in_use = net;
}

/* ---- what may happen ------------------------------------------------------------------------- */

static bool is_due(const struct fetch_call *call)
{
    return !call->is_handing && (!call->is_asked || !list_empty(&call->parts));
}

static size_t count_due(const struct fetch *f)
{
    size_t n = 0;
    list_each (it, next, &f->calls) {
        n += is_due(list_entry(it, struct fetch_call, link));
    }
    return n;
}

static void poke(struct fetch *f)
{
    uint64_t value = 1;
    ssize_t n = f->net->budget > 0 && count_due(f) > 0 ? write(f->fd, &value, sizeof(value))
                                                       : read(f->fd, &value, sizeof(value));
    (void)n;
}

void fake_net_allow(struct fake_net *net, unsigned budget)
{
    net->budget = budget;
    if (net->fetch) {
        poke(net->fetch);
    }
}

bool fake_net_is_quiet(const struct fake_net *net)
{
    return !net->fetch || count_due(net->fetch) == 0;
}

size_t fake_net_calls(const struct fake_net *net)
{
    size_t n = 0;
    list_each (it, next, &net->fetch->calls) {
        n++;
    }
    return n;
}

/* ---- the server's side ----------------------------------------------------------------------- */

const char *fake_call_method(const struct fetch_call *call)
{
    return call->method;
}

struct tidings_str fake_call_body(const struct fetch_call *call)
{
    return tidings_strn(call->body, call->body_len);
}

const char *fake_call_header(const struct fetch_call *call, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < FETCH_MAX_HEADERS && call->headers[i]; i++) {
        const char *line = call->headers[i];
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            return line + len + 2;
        }
    }
    return NULL;
}

static struct part *add(struct fetch_call *call, enum part_kind kind, const char *text)
{
    struct part *p = must(calloc(1, sizeof(*p)));
    p->kind = kind;
    p->text = must(strdup(text));
    list_append(&call->parts, &p->link);
    return p;
}

static void release(struct part *p)
{
    list_remove(&p->link);
    free(p->text);
    free(p);
}

void fake_call_head(struct fetch_call *call, long status, const char *type, const char *session)
{
    struct part *p = add(call, PART_HEAD, type);
    p->status = status;
    snprintf(p->session, sizeof(p->session), "%s", session);
    poke(call->fetch);
}

void fake_call_bytes(struct fetch_call *call, const char *text)
{
    add(call, PART_BYTES, text);
    poke(call->fetch);
}

void fake_call_end(struct fetch_call *call)
{
    add(call, PART_END, "");
    poke(call->fetch);
}

void fake_call_cut(struct fetch_call *call, size_t parts)
{
    size_t n = 0;
    list_each (it, next, &call->parts) {
        if (n++ >= parts) {
            release(list_entry(it, struct part, link));
        }
    }
    add(call, PART_END, "")->is_broken = true;
    poke(call->fetch);
}

size_t fake_call_pending(const struct fetch_call *call)
{
    size_t n = 0;
    list_each (it, next, &call->parts) {
        n++;
    }
    return n;
}

/* ---- the client's side ----------------------------------------------------------------------- */

int __wrap_fetch_create(int wake_fd, size_t max_bytes, struct fetch **ret,
                        struct tidings_error *err);
void __wrap_fetch_destroy(struct fetch *f);
int __wrap_fetch_start(struct fetch *f, const struct fetch_request *request,
                       struct fetch_call **ret, struct tidings_error *err);
void __wrap_fetch_close(struct fetch_call *call);
const struct fetch_status *__wrap_fetch_status(const struct fetch_call *call);
int __wrap_fetch_fd(const struct fetch *f);
int __wrap_fetch_step(struct fetch *f, int timeout_ms, struct tidings_error *err);

int __wrap_fetch_create(int wake_fd, size_t max_bytes, struct fetch **ret,
                        struct tidings_error *err)
{
    struct fetch *f = must(calloc(1, sizeof(*f)));
    (void)wake_fd;
    (void)max_bytes;
    (void)err;
    f->net = in_use;
    f->net->fetch = f;
    f->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    list_init(&f->calls);
    *ret = f;
    return f->fd >= 0 ? 0 : TIDINGS_E_IO;
}

void __wrap_fetch_destroy(struct fetch *f)
{
    if (!f) {
        return;
    }
    list_each (it, next, &f->calls) {
        __wrap_fetch_close(list_entry(it, struct fetch_call, link));
    }
    f->net->fetch = NULL;
    close(f->fd);
    free(f);
}

int __wrap_fetch_start(struct fetch *f, const struct fetch_request *request,
                       struct fetch_call **ret, struct tidings_error *err)
{
    struct fetch_call *call = must(calloc(1, sizeof(*call)));
    (void)err;
    call->fetch = f;
    call->request = *request;
    call->method = must(strdup(request->method));
    call->body = must(strndup(request->body.len > 0 ? request->body.ptr : "", request->body.len));
    call->body_len = request->body.len;
    for (size_t i = 0; i < FETCH_MAX_HEADERS && request->headers[i]; i++) {
        call->headers[i] = must(strdup(request->headers[i]));
    }
    list_init(&call->parts);
    list_append(&f->calls, &call->link);
    poke(f);
    *ret = call;
    return 0;
}

void __wrap_fetch_close(struct fetch_call *call)
{
    if (!call) {
        return;
    }
    struct fetch *f = call->fetch;
    if (!call->is_closed) {
        f->net->on_close(f->net->user, call);
    }
    call->is_closed = true;
    if (call->is_handing) {
        return;
    }
    list_remove(&call->link);
    list_each (it, next, &call->parts) {
        release(list_entry(it, struct part, link));
    }
    for (size_t i = 0; i < FETCH_MAX_HEADERS && call->headers[i]; i++) {
        free(call->headers[i]);
    }
    free(call->method);
    free(call->body);
    free(call);
    poke(f);
}

const struct fetch_status *__wrap_fetch_status(const struct fetch_call *call)
{
    return &call->status;
}

int __wrap_fetch_fd(const struct fetch *f)
{
    return f->fd;
}

static void hand_over(struct fetch_call *call)
{
    struct part *p = list_entry(call->parts.next, struct part, link);
    struct fetch_status *s = &call->status;
    call->is_handing = true;
    if (p->kind == PART_BYTES) {
        if (call->request.on_bytes(call->request.user, tidings_str(p->text)) < 0) {
            abort(); /* nothing here is too large */
        }
    } else if (p->kind == PART_HEAD) {
        s->status = p->status;
        snprintf(s->content_type, sizeof(s->content_type), "%s", p->text);
        snprintf(s->session, sizeof(s->session), "%s", p->session);
        call->request.on_change(call->request.user);
    } else {
        s->finished = true;
        if (p->is_broken) {
            tidings_fail(&s->error, TIDINGS_E_IO, "it broke");
        }
        call->request.on_change(call->request.user);
    }
    release(p);
    call->is_handing = false;
    if (call->is_closed) {
        __wrap_fetch_close(call);
    }
}

int __wrap_fetch_step(struct fetch *f, int timeout_ms, struct tidings_error *err)
{
    size_t due = count_due(f);
    (void)timeout_ms;
    (void)err;
    if (due > 0 && f->net->budget > 0) {
        size_t drawn = f->net->draw(f->net->user, (unsigned)due);
        f->net->budget--;
        list_each (it, next, &f->calls) {
            struct fetch_call *call = list_entry(it, struct fetch_call, link);
            if (!is_due(call) || drawn-- > 0) {
                continue;
            }
            if (!call->is_asked) {
                call->is_asked = true;
                f->net->on_call(f->net->user, call);
            } else {
                hand_over(call);
            }
            break;
        }
    }
    poke(f);
    return 0;
}
