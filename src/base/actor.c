/* SPDX-License-Identifier: MIT
 *
 * Starting and joining a thread that has a loop and a mailbox. The request to stop is a letter like
 * any other, so it comes after those sent before it.
 */
#include "base/actor.h"

#include <signal.h>

#include "base/error.h"

int actor_init(struct actor *a, void *owner, struct tidings_error *err)
{
    *a = (struct actor){0};
    a->loop = loop_create(err);
    a->mailbox = a->loop ? mailbox_create(a->loop, owner, err) : NULL;
    if (!a->mailbox) {
        actor_deinit(a);
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

static void *actor_run(void *user)
{
    struct actor *a = user;
    (void)pthread_setname_np(pthread_self(), a->name); /* that of another would need a file */
    loop_run(a->loop);
    return NULL;
}

int actor_start(struct actor *a, const char *name, struct tidings_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->name = name;
    int errnum = pthread_create(&a->thread, NULL, actor_run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum) {
        return error_errno(err, errnum, "start the thread '%s'", name);
    }
    a->running = true;
    return 0;
}

struct stop_letter {
    struct letter letter;
    struct loop *loop;
};

static void deliver_stop(struct letter *letter, void *owner)
{
    (void)owner;
    loop_stop(list_entry(letter, struct stop_letter, letter)->loop);
}

static void drop_stop(struct letter *letter)
{
    (void)letter;
}

void actor_stop(struct actor *a)
{
    if (!a->running) {
        return;
    }
    struct stop_letter stop = {{.deliver = deliver_stop, .drop = drop_stop}, a->loop};
    list_init(&stop.letter.link);
    mailbox_send(a->mailbox, &stop.letter);
    pthread_join(a->thread, NULL);
    a->running = false;
}

void actor_deinit(struct actor *a)
{
    if (a->mailbox) {
        mailbox_close(a->mailbox);
        mailbox_unref(a->mailbox);
    }
    if (a->loop) {
        loop_destroy(a->loop);
    }
    *a = (struct actor){0};
}
