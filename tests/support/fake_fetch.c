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
#include "base/loop.h"

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
    struct list transfers;
    struct loop_poll poll; /* on an eventfd, which is readable when something may happen */
};

struct fetch_transfer {
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

static bool is_due(const struct fetch_transfer *t)
{
    return !t->is_handing && (!t->is_asked || !list_empty(&t->parts));
}

static size_t count_due(const struct fetch *f)
{
    size_t n = 0;
    list_each (it, next, &f->transfers) {
        n += is_due(list_entry(it, struct fetch_transfer, link));
    }
    return n;
}

static void poke(struct fetch *f)
{
    uint64_t value = 1;
    ssize_t n = f->net->budget > 0 && count_due(f) > 0 ? write(f->poll.fd, &value, sizeof(value))
                                                       : read(f->poll.fd, &value, sizeof(value));
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

size_t fake_net_transfers(const struct fake_net *net)
{
    size_t n = 0;
    list_each (it, next, &net->fetch->transfers) {
        n++;
    }
    return n;
}

/* ---- the server's side ----------------------------------------------------------------------- */

const char *fake_transfer_method(const struct fetch_transfer *t)
{
    return t->method;
}

struct tidings_str fake_transfer_body(const struct fetch_transfer *t)
{
    return tidings_strn(t->body, t->body_len);
}

const char *fake_transfer_header(const struct fetch_transfer *t, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < FETCH_MAX_HEADERS && t->headers[i]; i++) {
        const char *line = t->headers[i];
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            return line + len + 2;
        }
    }
    return NULL;
}

static struct part *add(struct fetch_transfer *t, enum part_kind kind, const char *text)
{
    struct part *p = must(calloc(1, sizeof(*p)));
    p->kind = kind;
    p->text = must(strdup(text));
    list_append(&t->parts, &p->link);
    return p;
}

static void release(struct part *p)
{
    list_remove(&p->link);
    free(p->text);
    free(p);
}

void fake_transfer_head(struct fetch_transfer *t, long status, const char *type,
                        const char *session)
{
    struct part *p = add(t, PART_HEAD, type);
    p->status = status;
    snprintf(p->session, sizeof(p->session), "%s", session);
    poke(t->fetch);
}

void fake_transfer_bytes(struct fetch_transfer *t, const char *text)
{
    add(t, PART_BYTES, text);
    poke(t->fetch);
}

void fake_transfer_end(struct fetch_transfer *t)
{
    add(t, PART_END, "");
    poke(t->fetch);
}

void fake_transfer_cut(struct fetch_transfer *t, size_t parts)
{
    size_t n = 0;
    list_each (it, next, &t->parts) {
        if (n++ >= parts) {
            release(list_entry(it, struct part, link));
        }
    }
    add(t, PART_END, "")->is_broken = true;
    poke(t->fetch);
}

size_t fake_transfer_pending(const struct fetch_transfer *t)
{
    size_t n = 0;
    list_each (it, next, &t->parts) {
        n++;
    }
    return n;
}

/* ---- the client's side ----------------------------------------------------------------------- */

int __wrap_fetch_create(struct loop *loop, size_t max_bytes, struct fetch **ret,
                        struct tidings_error *err);
void __wrap_fetch_destroy(struct fetch *f);
int __wrap_fetch_start(struct fetch *f, const struct fetch_request *request,
                       struct fetch_transfer **ret, struct tidings_error *err);
void __wrap_fetch_close(struct fetch_transfer *t);
const struct fetch_status *__wrap_fetch_status(const struct fetch_transfer *t);

static void step(struct loop_poll *poll, int events, void *user);

int __wrap_fetch_create(struct loop *loop, size_t max_bytes, struct fetch **ret,
                        struct tidings_error *err)
{
    struct fetch *f = must(calloc(1, sizeof(*f)));
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    (void)max_bytes;
    f->net = in_use;
    f->net->fetch = f;
    list_init(&f->transfers);
    *ret = f;
    return loop_poll_init(&f->poll, loop, fd, step, f, err) == 0
               ? loop_poll_set_events(&f->poll, LOOP_READ)
               : TIDINGS_E_IO;
}

void __wrap_fetch_destroy(struct fetch *f)
{
    if (!f) {
        return;
    }
    list_each (it, next, &f->transfers) {
        __wrap_fetch_close(list_entry(it, struct fetch_transfer, link));
    }
    f->net->fetch = NULL;
    int fd = f->poll.fd;
    loop_poll_deinit(&f->poll);
    close(fd);
    free(f);
}

int __wrap_fetch_start(struct fetch *f, const struct fetch_request *request,
                       struct fetch_transfer **ret, struct tidings_error *err)
{
    struct fetch_transfer *t = must(calloc(1, sizeof(*t)));
    (void)err;
    t->fetch = f;
    t->request = *request;
    t->method = must(strdup(request->method));
    t->body = must(strndup(request->body.len > 0 ? request->body.ptr : "", request->body.len));
    t->body_len = request->body.len;
    for (size_t i = 0; i < FETCH_MAX_HEADERS && request->headers[i]; i++) {
        t->headers[i] = must(strdup(request->headers[i]));
    }
    list_init(&t->parts);
    list_append(&f->transfers, &t->link);
    poke(f);
    *ret = t;
    return 0;
}

void __wrap_fetch_close(struct fetch_transfer *t)
{
    if (!t) {
        return;
    }
    struct fetch *f = t->fetch;
    if (!t->is_closed) {
        f->net->on_close(f->net->user, t);
    }
    t->is_closed = true;
    if (t->is_handing) {
        return;
    }
    list_remove(&t->link);
    list_each (it, next, &t->parts) {
        release(list_entry(it, struct part, link));
    }
    for (size_t i = 0; i < FETCH_MAX_HEADERS && t->headers[i]; i++) {
        free(t->headers[i]);
    }
    free(t->method);
    free(t->body);
    free(t);
    poke(f);
}

const struct fetch_status *__wrap_fetch_status(const struct fetch_transfer *t)
{
    return &t->status;
}

static void hand_over(struct fetch_transfer *t)
{
    struct part *p = list_entry(t->parts.next, struct part, link);
    struct fetch_status *s = &t->status;
    t->is_handing = true;
    if (p->kind == PART_BYTES) {
        if (t->request.on_bytes(t->request.user, tidings_str(p->text)) < 0) {
            abort(); /* nothing here is too large */
        }
    } else if (p->kind == PART_HEAD) {
        s->status = p->status;
        snprintf(s->content_type, sizeof(s->content_type), "%s", p->text);
        snprintf(s->session, sizeof(s->session), "%s", p->session);
        t->request.on_change(t->request.user);
    } else {
        s->finished = true;
        if (p->is_broken) {
            tidings_fail(&s->error, TIDINGS_E_IO, "it broke");
        }
        t->request.on_change(t->request.user);
    }
    release(p);
    t->is_handing = false;
    if (t->is_closed) {
        __wrap_fetch_close(t);
    }
}

static void step(struct loop_poll *poll, int events, void *user)
{
    struct fetch *f = user;
    size_t due = count_due(f);
    (void)poll;
    (void)events;
    if (due > 0 && f->net->budget > 0) {
        size_t drawn = f->net->draw(f->net->user, (unsigned)due);
        f->net->budget--;
        list_each (it, next, &f->transfers) {
            struct fetch_transfer *t = list_entry(it, struct fetch_transfer, link);
            if (!is_due(t) || drawn-- > 0) {
                continue;
            }
            if (!t->is_asked) {
                t->is_asked = true;
                f->net->on_transfer(f->net->user, t);
            } else {
                hand_over(t);
            }
            break;
        }
    }
    poke(f);
}
