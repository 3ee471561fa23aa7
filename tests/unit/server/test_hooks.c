/* SPDX-License-Identifier: MIT
 *
 * Watch hooks answered on another thread, while subscriptions of the program and of clients come
 * and go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

#define WAITING 64u
#define ROUNDS 50
#define COMERS 3

/* Questions for the thread that answers them. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct tidings_watch *waiting[WAITING];
    size_t count;
    bool done;
    unsigned asked, accepted, refused, released; /* atomic */
} desk;

static void ask(void *user, struct tidings_watch *watch, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    __atomic_add_fetch(&desk.asked, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&desk.lock);
    assert_true(desk.count < WAITING);
    desk.waiting[desk.count++] = watch;
    pthread_cond_signal(&desk.more);
    pthread_mutex_unlock(&desk.lock);
}

static void release(void *user, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    __atomic_add_fetch(&desk.released, 1, __ATOMIC_SEQ_CST);
}

static struct tidings_watch *take(void)
{
    pthread_mutex_lock(&desk.lock);
    while (desk.count == 0 && !desk.done) {
        pthread_cond_wait(&desk.more, &desk.lock);
    }
    struct tidings_watch *watch = desk.count > 0 ? desk.waiting[--desk.count] : NULL;
    pthread_mutex_unlock(&desk.lock);
    return watch;
}

/* Every fifth is refused. */
static void *answer_all(void *arg)
{
    (void)arg;
    struct tidings_watch *watch;
    for (unsigned n = 1; (watch = take()) != NULL; n++) {
        bool refuses = n % 5 == 0;
        __atomic_add_fetch(refuses ? &desk.refused : &desk.accepted, 1, __ATOMIC_SEQ_CST);
        tidings_watch_done(watch, refuses ? TIDINGS_E_BUSY : 0, NULL);
    }
    return NULL;
}

static void set_hook(const char *uri)
{
    struct tidings_watch_hook hook = {.watch = ask, .unwatch = release};
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_on_watch(served(), tidings_str(uri), &hook, &err), 0);
}

static void *come_and_go(void *arg)
{
    static const char *const uris[] = {"app:///a", "app:///row/1", "app:///row/{id}", "app:///"};
    size_t offset = (size_t)(uintptr_t)arg;
    struct ears *ears = calloc(1, sizeof(*ears));
    for (size_t i = 0; i < ROUNDS; i++) {
        ears_init(ears);
        struct tidings_subscription *sub = served_subscribe(uris[(i + offset) % 4], NULL, ears);
        tidings_changed(served(), tidings_str("app:///a"), tidings_str(""), NULL);
        tidings_subscription_end(sub);
        for (size_t n = 0; !ears_await(ears, n).ended; n++) {
        }
    }
    free(ears);
    return NULL;
}

static bool is_even(void)
{
    return __atomic_load_n(&desk.accepted, __ATOMIC_SEQ_CST) ==
               __atomic_load_n(&desk.released, __ATOMIC_SEQ_CST) &&
           __atomic_load_n(&desk.asked, __ATOMIC_SEQ_CST) ==
               __atomic_load_n(&desk.accepted, __ATOMIC_SEQ_CST) +
                   __atomic_load_n(&desk.refused, __ATOMIC_SEQ_CST);
}

static void begin_desk(void)
{
    memset(&desk, 0, sizeof(desk));
    pthread_mutex_init(&desk.lock, NULL);
    pthread_cond_init(&desk.more, NULL);
}

static void accepted_watch_is_released_after_any_outcome(void **state)
{
    (void)state;
    pthread_t desk_thread, comers[COMERS];
    begin_desk();
    set_hook("app:///a");
    served_run();
    set_hook("app:///row/{id}");
    assert_int_equal(pthread_create(&desk_thread, NULL, answer_all, NULL), 0);
    for (size_t i = 0; i < COMERS; i++) {
        assert_int_equal(pthread_create(&comers[i], NULL, come_and_go, (void *)(uintptr_t)i), 0);
    }
    for (size_t i = 0; i < COMERS; i++) {
        pthread_join(comers[i], NULL);
    }
    while (!is_even()) { /* the last of them disconnect on other threads */
        sched_yield();
    }
    assert_true(__atomic_load_n(&desk.asked, __ATOMIC_SEQ_CST) > 0);
    pthread_mutex_lock(&desk.lock);
    desk.done = true;
    pthread_cond_signal(&desk.more);
    pthread_mutex_unlock(&desk.lock);
    pthread_join(desk_thread, NULL);
}

static void subscription_is_rejected_if_watch_hook_never_answers(void **state)
{
    (void)state;
    begin_desk();
    served_set("watch-timeout", "50ms");
    set_hook("app:///a");
    struct ears e;
    ears_init(&e);
    served_subscribe("app:///a", NULL, &e);
    served_run();
    assert_non_null(strstr(ears_await(&e, 0).refused, "50 ms"));
    served_stop(); /* the question is still open */
    tidings_watch_done(desk.waiting[0], 0, NULL);
}

static void hook_misuse_is_rejected(void **state)
{
    (void)state;
    struct tidings_watch_hook hook = {.watch = ask};
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_on_watch(served(), tidings_str(""), &hook, &err),
                     TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_on_watch(served(), tidings_str("no uri"), &hook, &err),
                     TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_on_watch(served(), tidings_str("app:///none"), NULL, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(accepted_watch_is_released_after_any_outcome),
        SERVED_BOTH(subscription_is_rejected_if_watch_hook_never_answers),
        SERVED_BOTH(hook_misuse_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
