/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

struct count_letter {
    struct letter letter;
    pthread_t sender;
    unsigned *dropped;
};

struct owner {
    struct actor actor;
    unsigned delivered, elsewhere, blocked;
};

static void deliver(struct letter *letter, void *user)
{
    struct owner *o = user;
    struct count_letter *l = list_entry(letter, struct count_letter, letter);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    o->delivered++;
    o->elsewhere += !pthread_equal(pthread_self(), l->sender);
    o->blocked += sigismember(&mask, SIGTERM) == 1;
}

static void drop(struct letter *letter)
{
    ++*list_entry(letter, struct count_letter, letter)->dropped;
}

static void letters_sent_before_the_stop_are_delivered_on_its_thread(void **state)
{
    (void)state;
    struct owner o = {0};
    unsigned dropped = 0;
    struct count_letter letters[3];
    assert_int_equal(actor_init(&o.actor, &o, NULL), 0);
    assert_int_equal(actor_start(&o.actor, "test", NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        letters[i] =
            (struct count_letter){{.deliver = deliver, .drop = drop}, pthread_self(), &dropped};
        list_init(&letters[i].letter.link);
        mailbox_send(o.actor.mailbox, &letters[i].letter);
    }
    actor_stop(&o.actor);
    actor_deinit(&o.actor);
    assert_int_equal(o.delivered, 3);
    assert_int_equal(o.elsewhere, 3);
    assert_int_equal(o.blocked, 3);
    assert_int_equal(dropped, 0);
}

static void letters_sent_after_the_stop_are_dropped(void **state)
{
    (void)state;
    struct owner o = {0};
    unsigned dropped = 0;
    assert_int_equal(actor_init(&o.actor, &o, NULL), 0);
    assert_int_equal(actor_start(&o.actor, "test", NULL), 0);
    actor_stop(&o.actor);
    actor_stop(&o.actor);
    struct count_letter late = {{.deliver = deliver, .drop = drop}, pthread_self(), &dropped};
    list_init(&late.letter.link);
    mailbox_send(o.actor.mailbox, &late.letter);
    actor_deinit(&o.actor);
    assert_int_equal(o.delivered, 0);
    assert_int_equal(dropped, 1);
    actor_deinit(&o.actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_sent_before_the_stop_are_delivered_on_its_thread),
        cmocka_unit_test(letters_sent_after_the_stop_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
