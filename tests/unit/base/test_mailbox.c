/* SPDX-License-Identifier: MIT
 *
 * Mailboxes: order, wake-ups, closing, many senders. This test is meant to run under the thread
 * sanitizer too. */
#include "base/thread.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

enum { SENDERS = 4, PER_SENDER = 10000 };

struct numbered {
    struct thread_message message;
    unsigned sender;
    unsigned number;
};

struct reader {
    struct loop *loop;
    struct mailbox *mailbox;
    unsigned next[SENDERS];
    size_t delivered;
    size_t stop_after;
    bool is_out_of_order;
    bool closes;
};

static atomic_uint dropped;

static void numbered_drop(struct thread_message *message)
{
    atomic_fetch_add(&dropped, 1);
    mem_free(list_entry(message, struct numbered, message));
}

static void numbered_deliver(struct thread_message *message, void *owner)
{
    struct reader *r = owner;
    struct numbered *n = list_entry(message, struct numbered, message);
    if (n->number != r->next[n->sender]++) {
        r->is_out_of_order = true;
    }
    mem_free(n);
    if (++r->delivered == r->stop_after && r->loop) {
        loop_stop(r->loop);
    }
    if (r->closes) {
        r->closes = false;
        mailbox_close(r->mailbox);
        mailbox_unref(r->mailbox);
    }
}

static void send_numbered(struct mailbox *m, unsigned sender, unsigned number)
{
    struct numbered *n = mem_alloc(sizeof *n);
    *n = (struct numbered){.message = {.deliver = numbered_deliver, .drop = numbered_drop},
                           .sender = sender,
                           .number = number};
    mailbox_send(m, &n->message);
}

static int reader_open(struct reader *r, bool has_loop)
{
    *r = (struct reader){0};
    atomic_store(&dropped, 0);
    r->loop = has_loop ? loop_create(NULL) : NULL;
    r->mailbox = has_loop ? mailbox_create(r->loop, r, NULL) : mailbox_create_blocking(r, NULL);
    return r->mailbox ? 0 : -1;
}

static void reader_close(struct reader *r)
{
    mailbox_close(r->mailbox);
    mailbox_unref(r->mailbox);
    loop_destroy(r->loop);
}

static void messages_arrive_on_loop_in_order(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, true), 0);
    for (unsigned i = 0; i < 5; i++) {
        send_numbered(r.mailbox, 0, i);
    }
    assert_false(mailbox_is_empty(r.mailbox));
    assert_int_equal(r.delivered, 0);
    r.stop_after = 5;
    loop_run(r.loop);
    assert_int_equal(r.delivered, 5);
    assert_false(r.is_out_of_order);
    assert_true(mailbox_is_empty(r.mailbox));
    reader_close(&r);
    assert_int_equal(dropped, 0);
}

static void drain_delivers_at_once(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, true), 0);
    assert_int_equal(mailbox_drain(r.mailbox), 0);
    send_numbered(r.mailbox, 0, 0);
    send_numbered(r.mailbox, 0, 1);
    assert_int_equal(mailbox_drain(r.mailbox), 2);
    assert_int_equal(r.delivered, 2);
    loop_turn(r.loop); /* the wake-up finds nothing */
    send_numbered(r.mailbox, 0, 2);
    loop_turn(r.loop); /* and the next message wakes again */
    loop_turn(r.loop);
    assert_int_equal(r.delivered, 3);
    reader_close(&r);
}

struct chain {
    struct thread_message message;
    struct mailbox *mailbox;
    int left;
    int seen;
};

static void chain_drop(struct thread_message *message)
{
    list_entry(message, struct chain, message)->left = -1;
}

static void chain_deliver(struct thread_message *message, void *owner)
{
    struct chain *c = list_entry(message, struct chain, message);
    (void)owner;
    c->seen++;
    if (c->left-- > 0) {
        mailbox_send(c->mailbox, message);
    }
}

static void messages_sent_during_delivery_wait_for_next_turn(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, true), 0);
    struct chain c = {
        .message = {.deliver = chain_deliver, .drop = chain_drop}, .mailbox = r.mailbox, .left = 3};
    mailbox_send(r.mailbox, &c.message);
    for (int turn = 1; turn <= 4; turn++) {
        loop_turn(r.loop);
        assert_int_equal(c.seen, turn);
    }
    loop_turn(r.loop);
    assert_int_equal(c.seen, 4);
    reader_close(&r);
}

static void turn_delivers_a_bounded_number_and_the_next_continues(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, true), 0);
    for (unsigned i = 0; i < 2 * MAILBOX_PER_TURN + 1; i++) {
        send_numbered(r.mailbox, 0, i);
    }
    for (size_t turn = 1; turn <= 2; turn++) {
        loop_turn(r.loop);
        assert_int_equal(r.delivered, turn * MAILBOX_PER_TURN);
    }
    r.stop_after = 2 * MAILBOX_PER_TURN + 1;
    loop_run(r.loop); /* woken although no sender is active */
    assert_int_equal(r.delivered, 2 * MAILBOX_PER_TURN + 1);
    assert_false(r.is_out_of_order);
    reader_close(&r);
}

static void close_drops_pending_and_later_messages(void **state)
{
    (void)state;
    for (int has_loop = 0; has_loop < 2; has_loop++) {
        struct reader r;
        assert_int_equal(reader_open(&r, has_loop), 0);
        send_numbered(r.mailbox, 0, 0);
        send_numbered(r.mailbox, 0, 1);
        struct mailbox *kept = mailbox_ref(r.mailbox);
        reader_close(&r);
        assert_int_equal(dropped, 2);
        send_numbered(kept, 0, 2); /* the loop is destroyed, but the message is still released */
        assert_int_equal(dropped, 3);
        assert_int_equal(r.delivered, 0);
        assert_true(mailbox_is_empty(kept));
        assert_true(has_loop || !mailbox_wait(kept, -1));
        mailbox_unref(kept);
    }
    mailbox_close(NULL);
    mailbox_unref(NULL);
}

static void message_can_close_its_mailbox(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, true), 0);
    for (unsigned i = 0; i < 3; i++) {
        send_numbered(r.mailbox, 0, i);
    }
    r.closes = true;
    loop_turn(r.loop);
    assert_int_equal(r.delivered, 1);
    assert_int_equal(dropped, 2);
    loop_destroy(r.loop);
}

struct sender {
    pthread_t thread;
    struct mailbox *mailbox;
    unsigned index;
};

static void *sender_main(void *user)
{
    struct sender *s = user;
    for (unsigned i = 0; i < PER_SENDER; i++) {
        send_numbered(s->mailbox, s->index, i);
    }
    mailbox_unref(s->mailbox);
    return NULL;
}

static void start_senders(struct sender senders[SENDERS], struct mailbox *m)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i].index = i;
        senders[i].mailbox = mailbox_ref(m);
        assert_int_equal(pthread_create(&senders[i].thread, NULL, sender_main, &senders[i]), 0);
    }
}

static void join_senders(struct sender senders[SENDERS])
{
    for (unsigned i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
    }
}

static void each_senders_messages_keep_their_order(void **state)
{
    (void)state;
    for (int has_loop = 0; has_loop < 2; has_loop++) {
        struct reader r;
        struct sender senders[SENDERS];
        assert_int_equal(reader_open(&r, has_loop), 0);
        r.stop_after = (size_t)SENDERS * PER_SENDER;
        start_senders(senders, r.mailbox);
        if (has_loop) {
            loop_run(r.loop);
        }
        while (r.delivered < r.stop_after) {
            assert_true(mailbox_wait(r.mailbox, -1));
        }
        join_senders(senders);
        assert_int_equal(r.delivered, r.stop_after);
        assert_false(r.is_out_of_order);
        assert_int_equal(dropped, 0);
        reader_close(&r);
    }
}

static void mailbox_close_loses_no_message(void **state)
{
    (void)state;
    struct reader r;
    struct sender senders[SENDERS];
    assert_int_equal(reader_open(&r, true), 0);
    r.stop_after = 1000;
    start_senders(senders, r.mailbox);
    loop_run(r.loop);
    reader_close(&r); /* the loop is destroyed too, while the others keep sending */
    join_senders(senders);
    assert_false(r.is_out_of_order);
    assert_int_equal(r.delivered + dropped, (size_t)SENDERS * PER_SENDER);
}

static void wait_ends_at_its_timeout(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(reader_open(&r, false), 0);
    assert_true(mailbox_wait(r.mailbox, 0));
    assert_true(mailbox_wait(r.mailbox, 2));
    assert_int_equal(r.delivered, 0);
    send_numbered(r.mailbox, 0, 0);
    send_numbered(r.mailbox, 0, 1);
    assert_true(mailbox_wait(r.mailbox, 0));
    assert_int_equal(r.delivered, 1);
    assert_true(mailbox_wait(r.mailbox, -1));
    assert_int_equal(r.delivered, 2);
    reader_close(&r);
}

static void *waiter_main(void *user)
{
    while (mailbox_wait(user, -1)) {
    }
    mailbox_unref(user);
    return NULL;
}

static void close_wakes_all_waiters(void **state)
{
    (void)state;
    struct reader r;
    pthread_t waiters[3];
    assert_int_equal(reader_open(&r, false), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&waiters[i], NULL, waiter_main, mailbox_ref(r.mailbox)), 0);
    }
    reader_close(&r);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(waiters[i], NULL), 0);
    }
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    struct loop *loop = loop_create(NULL);
    struct tidings_error err = {0};
    fail_alloc_start(1);
    assert_null(mailbox_create(loop, NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_NOMEM);
    err.code = 0;
    fail_alloc_start(1);
    assert_null(mailbox_create_blocking(NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_NOMEM);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_on_loop_in_order),
        cmocka_unit_test(drain_delivers_at_once),
        cmocka_unit_test(messages_sent_during_delivery_wait_for_next_turn),
        cmocka_unit_test(turn_delivers_a_bounded_number_and_the_next_continues),
        cmocka_unit_test(close_drops_pending_and_later_messages),
        cmocka_unit_test(message_can_close_its_mailbox),
        cmocka_unit_test(each_senders_messages_keep_their_order),
        cmocka_unit_test(mailbox_close_loses_no_message),
        cmocka_unit_test(wait_ends_at_its_timeout),
        cmocka_unit_test(close_wakes_all_waiters),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
