/* SPDX-License-Identifier: MIT
 *
 * Program threads that announce at full speed: the server rejects nothing, truncates no
 * subscription, delivers the changes of other announcers, and delivers the last state of
 * everything.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/served.h"

enum { THREADS = 4, URIS = 4, CALLS = 20000, QUIET = 20 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    unsigned begun, truncated, quiet; /* told */
    unsigned seen[URIS];              /* the newest delivered value */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
static unsigned values[URIS]; /* atomic: the current value of each */
static unsigned refused;      /* atomic */

static void uri_of(char out[32], unsigned i)
{
    snprintf(out, 32, "app:///hot/%u", i);
}

static void read_value(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    struct tidings_error err = {0, ""};
    unsigned which = (unsigned)(uri.ptr[uri.len - 1] - '0');
    char text[32];
    int n = snprintf(text, sizeof(text), "=%u=", __atomic_load_n(&values[which], __ATOMIC_ACQUIRE));
    int rc = tidings_read_text(read, NULL, tidings_strn(text, (size_t)n), &err);
    tidings_read_done(read, rc, &err);
}

static void hear_hot(void *user, const struct tidings_update *update)
{
    (void)user;
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)update->value.len, update->value.ptr);
    const char *value = strchr(text, '=');
    pthread_mutex_lock(&all.lock);
    all.truncated += update->truncated;
    all.begun += update->initial;
    if (value) {
        all.seen[update->uri.ptr[update->uri.len - 1] - '0'] =
            (unsigned)strtoul(value + 1, NULL, 10);
    }
    pthread_cond_broadcast(&all.more);
    pthread_mutex_unlock(&all.lock);
}

static void hear_quiet(void *user, const struct tidings_update *update)
{
    (void)user;
    pthread_mutex_lock(&all.lock);
    all.truncated += update->truncated;
    all.begun += update->initial;
    all.quiet += !update->initial;
    pthread_cond_broadcast(&all.more);
    pthread_mutex_unlock(&all.lock);
}

static void *announce_all(void *arg)
{
    for (unsigned i = 0; i < CALLS; i++) {
        char uri[32];
        uri_of(uri, i % URIS);
        __atomic_add_fetch(&values[i % URIS], 1, __ATOMIC_ACQ_REL);
        if (tidings_changed(served(), tidings_str(uri), tidings_str(NULL), NULL) < 0) {
            __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
        }
    }
    return arg;
}

/* Waits for `is_so`, which runs under the lock. */
static void await(bool (*is_so)(unsigned n), unsigned n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&all.lock);
    int rc = 0;
    while (!is_so(n) && rc == 0) {
        rc = pthread_cond_timedwait(&all.more, &all.lock, &until);
    }
    bool is = is_so(n);
    pthread_mutex_unlock(&all.lock);
    assert_true(is);
}

static bool has_begun(unsigned n)
{
    return all.begun >= n;
}

static bool has_heard_quiet(unsigned n)
{
    return all.quiet >= n;
}

static bool has_seen_last(unsigned n)
{
    bool has = true;
    for (unsigned i = 0; i < URIS; i++) {
        has = has && all.seen[i] == n;
    }
    return has;
}

static void subscribe(const char *uri, tidings_update_fn fn, const char *json)
{
    struct tidings_error err = {0, ""};
    struct tidings_subscribe_options o = {.fn = fn, .options = json};
    assert_non_null(tidings_server_subscribe(served(), tidings_str(uri), &o, &err));
}

static void hot_announcers_cause_no_rejection_or_truncation(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    memset(values, 0, sizeof(values));
    memset(all.seen, 0, sizeof(all.seen));
    all.begun = all.truncated = all.quiet = refused = 0;
    served_set("max-announced", "64k"); /* some hundred changes */
    for (unsigned i = 0; i < URIS; i++) {
        char uri[32];
        struct tidings_resource about = {0};
        uri_of(uri, i);
        about.uri = about.name = tidings_str(uri);
        assert_int_equal(tidings_server_add_resource(served(), &about, read_value, NULL, &err), 0);
    }
    served_run();
    for (unsigned i = 0; i < URIS; i++) {
        char uri[32];
        uri_of(uri, i);
        subscribe(uri, hear_hot, "{\"include\":\"value\",\"initial\":true}");
    }
    subscribe("app:///a", hear_quiet, "{\"initial\":true}");
    await(has_begun, URIS + 1);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, announce_all, NULL), 0);
    }
    for (unsigned i = 1; i <= QUIET; i++) {
        assert_int_equal(
            tidings_changed(served(), tidings_str("app:///a"), tidings_str(NULL), &err), 0);
        await(has_heard_quiet, i);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    await(has_seen_last, THREADS * CALLS / URIS);
    assert_int_equal(__atomic_load_n(&refused, __ATOMIC_RELAXED), 0);
    pthread_mutex_lock(&all.lock); /* the same change may arrive once more */
    unsigned truncated = all.truncated;
    pthread_mutex_unlock(&all.lock);
    assert_int_equal(truncated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(hot_announcers_cause_no_rejection_or_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
