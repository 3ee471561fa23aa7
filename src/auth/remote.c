/* SPDX-License-Identifier: MIT
 *
 * A thread that turns its loop and steps its requests: tokens come as letters, and go to the keys
 * of their issuer or to introspection.
 */
#include "auth/remote.h"

#include <pthread.h>
#include <signal.h>

#include "auth/introspect.h"
#include "auth/key_source.h"
#include "base/error.h"
#include "base/mem.h"

struct remote {
    struct loop *loop;
    struct mailbox *mailbox;
    struct fetch_queue *queue;
    struct introspector introspector;
    struct key_source *sources[AUTH_ISSUERS_MAX]; /* NULL: from a file */
    pthread_t thread;
    bool is_running, is_over;
};

/* ---- letters --------------------------------------------------------------------------------- */

static void deliver_token(struct letter *letter, void *owner)
{
    struct remote *r = owner;
    struct pending_token *p = list_entry(letter, struct pending_token, letter);
    if (p->verdict.need == VERDICT_NEEDS_KEYS) {
        key_source_ask(r->sources[p->verdict.issuer], p);
    } else {
        introspect(&r->introspector, p);
    }
}

static void drop_token(struct letter *letter)
{
    pending_token_destroy(list_entry(letter, struct pending_token, letter));
}

void remote_ask(struct remote *r, struct pending_token *p)
{
    p->letter.deliver = deliver_token;
    p->letter.drop = drop_token;
    mailbox_send(r->mailbox, &p->letter);
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

static void remote_deliver_stop(struct letter *letter, void *owner)
{
    (void)letter;
    ((struct remote *)owner)->is_over = true;
}

static void remote_drop_stop(struct letter *letter)
{
    (void)letter; /* on the stack of remote_stop */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *remote_thread(void *user)
{
    struct remote *r = user;
    (void)pthread_setname_np(pthread_self(), "auth");
    while (!r->is_over) {
        loop_turn(r->loop);
        if (!r->is_over) {
            fetch_queue_step(r->queue);
        }
    }
    return NULL;
}

static int start_thread(struct remote *r, struct tidings_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&r->thread, NULL, remote_thread, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum) {
        return error_errno(err, errnum, "start the thread 'auth'");
    }
    r->is_running = true;
    return 0;
}

static int create_sources(struct remote *r, struct verifier *v, struct tidings_error *err)
{
    for (size_t i = 0; i < v->settings.issuer_count; i++) {
        const struct issuer *issuer = &v->settings.issuers[i];
        if (issuer->is_remote) {
            r->sources[i] = key_source_create(r->queue, v, issuer);
            if (!r->sources[i]) {
                return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            }
        }
    }
    return 0;
}

int remote_start(struct remote **ret, struct verifier *v, struct tidings_error *err)
{
    struct remote *r = mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->loop = loop_create(err);
    r->mailbox = r->loop ? mailbox_create(r->loop, r, err) : NULL;
    int rc =
        r->mailbox ? fetch_queue_create(&r->queue, r->loop, v->settings.ca, err) : TIDINGS_E_NOMEM;
    if (rc == 0) {
        r->introspector = (struct introspector){.verifier = v, .queue = r->queue};
        rc = create_sources(r, v, err);
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

void remote_stop(struct remote *r)
{
    if (!r) {
        return;
    }
    if (r->is_running) {
        struct letter stop = {.deliver = remote_deliver_stop, .drop = remote_drop_stop};
        list_init(&stop.link);
        mailbox_send(r->mailbox, &stop);
        pthread_join(r->thread, NULL);
    }
    if (r->queue) {
        fetch_queue_close(r->queue);
    }
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        key_source_destroy(r->sources[i]);
    }
    fetch_queue_destroy(r->queue);
    if (r->mailbox) {
        mailbox_close(r->mailbox);
        mailbox_unref(r->mailbox);
    }
    if (r->loop) {
        loop_destroy(r->loop);
    }
    mem_free(r);
}

void remote_get_fetches(struct remote *r, struct auth_fetches *ret)
{
    const struct auth_fetches *counts = fetch_queue_counts(r->queue);
    ret->keys = __atomic_load_n(&counts->keys, __ATOMIC_RELAXED);
    ret->introspections = __atomic_load_n(&counts->introspections, __ATOMIC_RELAXED);
    ret->failures = __atomic_load_n(&counts->failures, __ATOMIC_RELAXED);
}
