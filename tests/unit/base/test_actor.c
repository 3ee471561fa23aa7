/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

struct count_message {
    struct thread_message message;
    pthread_t sender;
    unsigned *dropped;
};

struct owner {
    struct actor actor;
    unsigned delivered, elsewhere, blocked;
};

static void deliver(struct thread_message *message, void *user)
{
    struct owner *o = user;
    struct count_message *l = list_entry(message, struct count_message, message);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    o->delivered++;
    o->elsewhere += !pthread_equal(pthread_self(), l->sender);
    o->blocked += sigismember(&mask, SIGTERM) == 1;
}

static void drop(struct thread_message *message)
{
    ++*list_entry(message, struct count_message, message)->dropped;
}

static void messages_sent_before_stop_are_delivered_on_thread(void **state)
{
    (void)state;
    struct owner o = {0};
    unsigned dropped = 0;
    struct count_message messages[3];
    assert_int_equal(actor_init(&o.actor, &o, NULL), 0);
    assert_int_equal(actor_start(&o.actor, "test", NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        messages[i] =
            (struct count_message){{.deliver = deliver, .drop = drop}, pthread_self(), &dropped};
        list_init(&messages[i].message.link);
        mailbox_send(o.actor.mailbox, &messages[i].message);
    }
    actor_stop(&o.actor);
    actor_deinit(&o.actor);
    assert_int_equal(o.delivered, 3);
    assert_int_equal(o.elsewhere, 3);
    assert_int_equal(o.blocked, 3);
    assert_int_equal(dropped, 0);
}

static void messages_sent_after_stop_are_dropped(void **state)
{
    (void)state;
    struct owner o = {0};
    unsigned dropped = 0;
    assert_int_equal(actor_init(&o.actor, &o, NULL), 0);
    assert_int_equal(actor_start(&o.actor, "test", NULL), 0);
    actor_stop(&o.actor);
    actor_stop(&o.actor);
    struct count_message late = {{.deliver = deliver, .drop = drop}, pthread_self(), &dropped};
    list_init(&late.message.link);
    mailbox_send(o.actor.mailbox, &late.message);
    actor_deinit(&o.actor);
    assert_int_equal(o.delivered, 0);
    assert_int_equal(dropped, 1);
    actor_deinit(&o.actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_sent_before_stop_are_delivered_on_thread),
        cmocka_unit_test(messages_sent_after_stop_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
