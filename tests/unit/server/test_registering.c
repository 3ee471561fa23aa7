/* SPDX-License-Identifier: MIT
 *
 * Several threads register and remove resources, templates and subscriptions, from before the start
 * of the server until after its stop, while clients list, read and listen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

#define THREADS 4
#define KEPT 5 /* of each thread, after a round */

struct hand {
    pthread_t thread;
    int number;
    unsigned rounds; /* atomic: finished */
    unsigned ended;  /* atomic: subscriptions that received their end event */
    bool done;       /* atomic: stop after this round */
    const char *failed;
};

static void read_uri(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    tidings_read_done(read, tidings_read_text(read, NULL, uri, NULL), NULL);
}

static void hear(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
}

static void count_ends(void *user, const struct tidings_state_event *event)
{
    struct hand *h = user;
    __atomic_add_fetch(&h->ended, event->state == TIDINGS_STATE_ENDED, __ATOMIC_SEQ_CST);
}

static int put(const char *uri, bool is_template)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str("n");
    return is_template ? tidings_server_add_template(served(), &about, read_uri, NULL, NULL)
                       : tidings_server_add_resource(served(), &about, read_uri, NULL, NULL);
}

/* Adds resources, checks that duplicates are rejected, removes them, and leaves KEPT. */
static void round_of(struct hand *h)
{
    char uri[64];
    struct tidings_error err = {0, ""};
    for (int i = 0; i < 2 * KEPT && !h->failed; i++) {
        snprintf(uri, sizeof(uri), "app:///t/%d/%d", h->number, i);
        int first = put(uri, false);
        int again = put(uri, false);
        if (first == TIDINGS_E_CLOSED || again == TIDINGS_E_CLOSED) {
            return; /* the server has stopped by then */
        }
        bool was_there = i < KEPT && __atomic_load_n(&h->rounds, __ATOMIC_SEQ_CST) > 0;
        if (first != (was_there ? TIDINGS_E_EXISTS : 0) || again != TIDINGS_E_EXISTS) {
            h->failed = "adding";
        }
        tidings_changed(served(), tidings_str(uri), tidings_str(""), NULL);
        if (i >= KEPT && tidings_server_remove(served(), tidings_str(uri), NULL) != 0) {
            h->failed = "removing";
        }
    }
    snprintf(uri, sizeof(uri), "app:///t/%d/of/{x}", h->number);
    int added = put(uri, true);
    if (added == TIDINGS_E_CLOSED) {
        return;
    }
    if (added != 0 || tidings_server_remove(served(), tidings_str(uri), NULL) != 0) {
        h->failed = "templates";
    }
    snprintf(uri, sizeof(uri), "app:///t/%d/", h->number);
    struct tidings_subscribe_options on = {.fn = hear, .on_state = count_ends, .user = h};
    struct tidings_subscription *sub =
        tidings_server_subscribe(served(), tidings_str(uri), &on, &err);
    if (!sub && err.code != TIDINGS_E_CLOSED) {
        h->failed = "subscribing";
    }
    tidings_subscription_end(sub);
}

static void *work(void *arg)
{
    struct hand *h = arg;
    while (!__atomic_load_n(&h->done, __ATOMIC_SEQ_CST) && !h->failed) {
        round_of(h);
        __atomic_add_fetch(&h->rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static struct hand hands[THREADS];

static void begin_work(void)
{
    memset(hands, 0, sizeof(hands));
    for (int i = 0; i < THREADS; i++) {
        hands[i].number = i;
        assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
    }
}

static void await_rounds(unsigned more)
{
    for (int i = 0; i < THREADS; i++) {
        unsigned until = __atomic_load_n(&hands[i].rounds, __ATOMIC_SEQ_CST) + more;
        while (__atomic_load_n(&hands[i].rounds, __ATOMIC_SEQ_CST) < until && !hands[i].failed) {
            sched_yield();
        }
    }
}

static void end_work(void)
{
    for (int i = 0; i < THREADS; i++) {
        __atomic_store_n(&hands[i].done, true, __ATOMIC_SEQ_CST);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(hands[i].thread, NULL);
        if (hands[i].failed) {
            fail_msg("thread %d failed: %s", i, hands[i].failed);
        }
    }
}

static void threads_can_register_at_any_time(void **state)
{
    (void)state;
    begin_work();
    await_rounds(2); /* before it runs, … */
    served_run();    /* … while it begins, … */
    struct ears everything;
    ears_init(&everything);
    for (int i = 0; i < 20; i++) {
        assert_non_null(strstr(served_modern("resources/list", ""), "app:///a"));
        assert_non_null(strstr(served_modern("resources/read", "app:///b"), "\"contents\""));
        assert_non_null(strstr(served_modern("resources/templates/list", ""), "app:///row/"));
    }
    await_rounds(2); /* … while clients ask … */
    end_work();
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < 2 * KEPT; k++) {
            char uri[64];
            snprintf(uri, sizeof(uri), "app:///t/%d/%d", i, k);
            bool is_there = strstr(served_modern("resources/read", uri), "\"contents\"") != NULL;
            assert_int_equal(is_there, k < KEPT);
        }
    }
}

static void registration_is_safe_during_stop(void **state)
{
    (void)state;
    served_run();
    begin_work();
    await_rounds(2);
    served_stop();
    await_rounds(2); /* … and after its stop, when it accepts nothing */
    end_work();
    assert_int_equal(put("app:///t/z", false), TIDINGS_E_CLOSED);
}

static int open_nothing(struct tidings_provider *p, struct tidings_str config,
                        struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void read_nothing(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void close_nothing(struct tidings_provider *p)
{
    (void)p;
}

static void mount_is_rejected_while_server_runs(void **state)
{
    (void)state;
    static const struct tidings_provider_ops ops = {
        .abi = TIDINGS_PROVIDER_ABI,
        .name = "nothing",
        .open = open_nothing,
        .read = read_nothing,
        .close = close_nothing,
    };
    struct tidings_error err = {0, ""};
    struct tidings_str none = {"", 0};
    assert_int_equal(tidings_server_mount(served(), &ops, tidings_str("x:///"), none, &err), 0);
    served_run();
    assert_int_equal(tidings_server_mount(served(), &ops, tidings_str("y:///"), none, &err),
                     TIDINGS_E_BUSY);
    assert_non_null(strstr(err.text, "before the server runs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(threads_can_register_at_any_time),
        SERVED_BOTH(registration_is_safe_during_stop),
        SERVED_BOTH(mount_is_rejected_while_server_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
