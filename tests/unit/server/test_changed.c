/* SPDX-License-Identifier: MIT
 *
 * tidings_changed from many threads: order, rejected calls, and reporting of overload. Also runs
 * under the thread sanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

enum { THREADS = 4, PER_THREAD = 3000 };

/* The changes that the subscription to one row received. */
struct row {
    pthread_mutex_t lock;
    pthread_cond_t more;
    long newest;
    bool is_out_of_order, is_truncated;
    pthread_t thread;
    unsigned number;
    unsigned refused; /* calls that were */
};

static struct row rows[THREADS];

static void hear(void *user, const struct tidings_update *update)
{
    struct row *r = user;
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)update->metadata.len, update->metadata.ptr);
    const char *n = strstr(text, "\"n\":");
    pthread_mutex_lock(&r->lock);
    if (n) {
        long number = strtol(n + 4, NULL, 10);
        r->is_out_of_order = r->is_out_of_order || number < r->newest;
        r->newest = number;
    }
    r->is_truncated = r->is_truncated || update->truncated;
    pthread_cond_broadcast(&r->more);
    pthread_mutex_unlock(&r->lock);
}

static int say(const struct row *r, long number)
{
    char uri[64], metadata[64];
    snprintf(uri, sizeof(uri), "app:///row/%u", r->number);
    snprintf(metadata, sizeof(metadata), "{\"n\":%ld}", number);
    return tidings_changed(served(), tidings_str(uri), tidings_str(metadata), NULL);
}

static void *say_many(void *arg)
{
    struct row *r = arg;
    for (long i = 1; i <= PER_THREAD; i++) {
        int rc = say(r, i);
        if (rc == TIDINGS_E_BUSY) {
            r->refused++;
        } else if (rc < 0) {
            return r;
        }
    }
    return NULL;
}

static void begin(void)
{
    for (unsigned i = 0; i < THREADS; i++) {
        struct tidings_error err;
        char uri[64];
        rows[i] = (struct row){.number = i};
        pthread_mutex_init(&rows[i].lock, NULL);
        pthread_cond_init(&rows[i].more, NULL);
        snprintf(uri, sizeof(uri), "app:///row/%u", i);
        struct tidings_subscribe_options on = {.fn = hear, .user = &rows[i]};
        assert_non_null(tidings_server_subscribe(served(), tidings_str(uri), &on, &err));
    }
    served_run();
    struct ears last; /* subscribed after the others, so they exist when this one receives */
    ears_init(&last);
    struct tidings_subscription *sub = served_subscribe("app:///a", NULL, &last);
    served_await_subscribed("app:///a", &last);
    tidings_subscription_end(sub);
    for (size_t n = 0; !ears_await(&last, n).ended; n++) {
    }
}

static void from_all_threads(void)
{
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&rows[i].thread, NULL, say_many, &rows[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(rows[i].thread, &failed);
        assert_null(failed);
    }
}

static void changes_of_one_thread_arrive_in_order_including_last(void **state)
{
    (void)state;
    begin();
    from_all_threads();
    for (unsigned i = 0; i < THREADS; i++) {
        struct row *r = &rows[i];
        assert_int_equal(r->refused, 0);
        pthread_mutex_lock(&r->lock);
        while (r->newest < PER_THREAD) {
            pthread_cond_wait(&r->more, &r->lock);
        }
        assert_false(r->is_out_of_order);
        assert_false(r->is_truncated);
        pthread_mutex_unlock(&r->lock);
    }
}

static void overload_is_reported_to_caller_and_subscriptions(void **state)
{
    (void)state;
    served_set("max-announced", "64k");
    begin();
    unsigned refused = 0;
    while (refused == 0) { /* until the threads outrun the server once */
        from_all_threads();
        for (unsigned i = 0; i < THREADS; i++) {
            refused += rows[i].refused;
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_mutex_lock(&rows[i].lock);
        while (!rows[i].is_truncated) {
            pthread_cond_wait(&rows[i].more, &rows[i].lock);
        }
        pthread_mutex_unlock(&rows[i].lock);
    }
    /* The server has caught up: it accepts and delivers the next announcement. */
    struct row *r = &rows[0];
    bool heard = false;
    while (!heard) {
        pthread_mutex_lock(&r->lock);
        r->newest = 0;
        r->is_truncated = false;
        pthread_mutex_unlock(&r->lock);
        while (say(r, PER_THREAD + 1) == TIDINGS_E_BUSY) {
        }
        pthread_mutex_lock(&r->lock);
        while (r->newest != PER_THREAD + 1 && !r->is_truncated) {
            pthread_cond_wait(&r->more, &r->lock);
        }
        heard = r->newest == PER_THREAD + 1; /* otherwise it was among the lost changes */
        pthread_mutex_unlock(&r->lock);
    }
}

static void invalid_announcement_is_rejected_at_once(void **state)
{
    (void)state;
    static char large[(64 << 10) + 16];
    static const struct {
        const char *uri, *metadata;
        int code;
        const char *says;
    } cases[] = {
        {"no scheme", "", TIDINGS_E_INVALID, "URI refused"},
        {"", "{}", TIDINGS_E_INVALID, "URI refused"},
        {"app:///a", "[]", TIDINGS_E_INVALID, "metadata must be a JSON object"},
        {"app:///a", "{\"a\":1,\"a\":2}", TIDINGS_E_PARSE, "metadata"},
        {"app:///a", "{", TIDINGS_E_PARSE, "metadata"},
        {"app:///a", large, TIDINGS_E_LIMIT, "at most 65536"},
    };
    memset(large, ' ', sizeof(large) - 1);
    memcpy(large, "{}", 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0, ""};
        assert_int_equal(tidings_changed(served(), tidings_str(cases[i].uri),
                                         tidings_str(cases[i].metadata), &err),
                         cases[i].code);
        assert_non_null(strstr(err.text, cases[i].says));
    }
}

int main(void)
{
    static char one[] = "1", two[] = "2";
    const struct CMUnitTest tests[] = {
#define BOTH(f)                                                                                    \
    cmocka_unit_test_prestate_setup_teardown(f, served_begin, served_end, one),                    \
        cmocka_unit_test_prestate_setup_teardown(f, served_begin, served_end, two)
        BOTH(changes_of_one_thread_arrive_in_order_including_last),
        BOTH(overload_is_reported_to_caller_and_subscriptions),
        BOTH(invalid_announcement_is_rejected_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
