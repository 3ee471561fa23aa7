/* SPDX-License-Identifier: MIT
 *
 * A server that the program steps, and the states of a server. Also runs under the thread
 * sanitizer.
 */
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "support/asking.h"

enum { THREADS = 4 };

static struct tidings_server *server;
static int port;

/* ---- the program ----------------------------------------------------------------------------- */

static size_t count_entries(const char *directory)
{
    DIR *d = opendir(directory);
    size_t n = 0;
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

static size_t count_descriptors(void)
{
    return count_entries("/proc/self/fd");
}

static size_t count_threads(void)
{
    return count_entries("/proc/self/task");
}

/* A joined thread may remain visible for a moment. */
static void assert_threads(size_t expected)
{
    time_t until = time(NULL) + 30;
    while (count_threads() > expected && time(NULL) < until) {
        sched_yield();
    }
    assert_int_equal(count_threads(), expected);
}

static void on_ready(void *user, const char *url)
{
    *(int *)user = asking_port(url);
}

static void read_uri(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, uri, &err);
    tidings_read_done(read, rc, &err);
}

static void add(struct tidings_server *s, const char *uri, tidings_read_fn fn, void *user)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str("a thing");
    if (tidings_server_add_resource(s, &about, fn, user, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static struct tidings_server *create(int *ret_port)
{
    struct tidings_error err = {0, ""};
    struct tidings_server *s = tidings_server_create(&err);
    assert_non_null(s);
    assert_int_equal(tidings_server_set(s, "http", "127.0.0.1:0", &err), 0);
    assert_int_equal(tidings_server_set(s, "window", "0", &err), 0);
    add(s, "app:///a", read_uri, NULL);
    tidings_server_on_ready(s, on_ready, ret_port);
    return s;
}

static int setup(void **state)
{
    (void)state;
    port = 0;
    server = create(&port);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tidings_server_destroy(server);
    return 0;
}

static void start(void)
{
    struct tidings_error err = {0, ""};
    if (tidings_server_start(server, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

/* Takes turns like a host, until the server has ended. */
static void step_to_the_end(void)
{
    int rc;
    while ((rc = tidings_server_turn(server, NULL)) > 0) {
        struct pollfd ready = {.fd = tidings_server_fd(server), .events = POLLIN};
        (void)poll(&ready, 1, tidings_server_timeout_ms(server));
    }
    assert_int_equal(rc, 0);
}

/* ---- serving --------------------------------------------------------------------------------- */

static void stepped_server_answers_without_its_own_thread(void **state)
{
    (void)state;
    size_t threads = count_threads();
    start();
    assert_true(port > 0);
    assert_threads(threads);
    for (int i = 0; i < 3; i++) {
        struct asking a;
        asking_begin(&a, port, "resources/read", "app:///a");
        assert_int_equal(asking_step(&a, server), 1);
        assert_non_null(strstr(asking_end(&a), "\"text\":\"app:///a\""));
    }
    assert_threads(threads);
    assert_int_equal(tidings_server_finish(server, NULL), 0);
}

static void hear(void *user, const struct tidings_update *update)
{
    *(bool *)user = *(bool *)user || update->uri.len > 0;
}

static void *announce_one(void *arg)
{
    int rc = tidings_changed(server, tidings_str("app:///a"), tidings_str(NULL), NULL);
    return rc == 0 ? arg : NULL;
}

static void change_on_another_thread_makes_descriptor_ready(void **state)
{
    (void)state;
    static bool heard; /* it also receives the end event, after this */
    pthread_t thread;
    void *result = NULL;
    heard = false;
    start();
    struct tidings_subscribe_options on = {.fn = hear, .user = &heard};
    assert_non_null(tidings_server_subscribe(server, tidings_str("app:///a"), &on, NULL));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tidings_server_turn(server, NULL), 1);
    }
    assert_false(heard);
    assert_int_equal(pthread_create(&thread, NULL, announce_one, &heard), 0);
    while (!heard) { /* no timeout: only the descriptor can end the wait */
        struct pollfd ready = {.fd = tidings_server_fd(server), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 60000), 1);
        assert_int_equal(tidings_server_turn(server, NULL), 1);
    }
    pthread_join(thread, &result);
    assert_ptr_equal(result, &heard);
}

static void *add_one(void *arg)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str("app:///late");
    about.name = tidings_str("late");
    int rc = tidings_server_add_resource(server, &about, read_uri, NULL, NULL);
    tidings_server_stop(server);
    return rc == 0 ? arg : NULL;
}

static void registration_on_another_thread_waits_for_a_turn(void **state)
{
    (void)state;
    pthread_t thread;
    void *result = NULL;
    start();
    assert_int_equal(pthread_create(&thread, NULL, add_one, server), 0);
    step_to_the_end();
    pthread_join(thread, &result);
    assert_ptr_equal(result, server);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void *stop_it(void *arg)
{
    for (int i = 0; i < 100; i++) {
        tidings_server_stop(arg);
    }
    return NULL;
}

static void concurrent_stops_end_the_turns(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    start();
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, stop_it, server), 0);
    }
    step_to_the_end();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(tidings_server_turn(server, NULL), 0);
    assert_int_equal(tidings_server_timeout_ms(server), -1);
    assert_int_equal(tidings_server_finish(server, NULL), 0);
}

static void server_ends_at_once_if_stopped_before_start(void **state)
{
    (void)state;
    tidings_server_stop(server);
    start();
    step_to_the_end();
}

/* A read answered on another thread, after the server's stop. */
struct late {
    struct tidings_read *read;
    pthread_t thread;
};

static void *answer_late(void *arg)
{
    struct late *late = arg;
    struct tidings_error err;
    tidings_server_stop(server);
    int rc = tidings_read_text(late->read, NULL, tidings_str("late but true"), &err);
    tidings_read_done(late->read, rc, &err);
    return NULL;
}

static void read_late(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    struct late *late = user;
    late->read = read;
    if (pthread_create(&late->thread, NULL, answer_late, late) != 0) {
        tidings_read_done(read, TIDINGS_E_BUSY, NULL);
    }
}

static void pending_answer_arrives_after_stop(void **state)
{
    (void)state;
    struct late late;
    struct asking a;
    add(server, "app:///late", read_late, &late);
    start();
    asking_begin(&a, port, "resources/read", "app:///late");
    (void)asking_step(&a, server);
    assert_non_null(strstr(asking_end(&a), "late but true"));
    pthread_join(late.thread, NULL);
    assert_int_equal(tidings_server_finish(server, NULL), 0);
}

/* The client is gone when the callback answers: the last turn waits for the callback. */
static void stop_waits_for_pending_callback(void **state)
{
    (void)state;
    struct late late = {.read = NULL};
    struct asking a;
    assert_int_equal(tidings_server_set(server, "drain", "0", NULL), 0);
    add(server, "app:///late", read_late, &late);
    start();
    asking_begin(&a, port, "resources/read", "app:///late");
    assert_int_equal(asking_step(&a, server) >= 0, 1);
    assert_int_equal(tidings_server_finish(server, NULL), 0);
    (void)asking_end(&a);
    assert_non_null(late.read);
    pthread_join(late.thread, NULL);
}

static void keep_for_ever(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    *(struct tidings_read **)user = read;
}

static void keep_line(void *user, enum tidings_log_level level, struct tidings_str line)
{
    assert_int_equal(level, TIDINGS_LOG_ERROR);
    (void)snprintf(user, 256, "%.*s", (int)line.len, line.ptr);
}

/* The server waits some seconds; then it ends and logs the reason, and the request's memory
 * stays. */
static void unanswered_request_does_not_block_shutdown(void **state)
{
    (void)state;
    static struct tidings_read *kept;
    static struct tidings_server *s; /* a sanitizer sees that it is not lost */
    int other_port = 0;
    struct asking a;
    kept = NULL;
    s = create(&other_port);
    assert_int_equal(tidings_server_set(s, "drain", "0", NULL), 0);
    add(s, "app:///kept", keep_for_ever, &kept);
    assert_int_equal(tidings_server_start(s, NULL), 0);
    asking_begin(&a, other_port, "resources/read", "app:///kept");
    while (!kept) {
        struct pollfd ready = {.fd = tidings_server_fd(s), .events = POLLIN};
        (void)poll(&ready, 1, tidings_server_timeout_ms(s));
        assert_int_equal(tidings_server_turn(s, NULL), 1);
    }
    static char said[256];
    log_set_level(TIDINGS_LOG_ERROR);
    log_set_sink(keep_line, said);
    assert_int_equal(tidings_server_finish(s, NULL), 0);
    assert_string_equal(asking_end(&a), "");
    tidings_server_destroy(s);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    assert_non_null(
        strstr(said, " a handler does not finish provider=none at=\"\" uri=app:///kept "));
    tidings_read_done(kept, TIDINGS_E_CANCELLED, NULL); /* too late, and harmless */
}

static void destroy_finishes_stepped_server(void **state)
{
    (void)state;
    size_t descriptors = count_descriptors(), threads = count_threads();
    int other_port = 0;
    struct tidings_server *s = create(&other_port);
    assert_int_equal(tidings_server_start(s, NULL), 0);
    assert_int_equal(tidings_server_turn(s, NULL), 1);
    tidings_server_destroy(s);
    s = create(&other_port);
    tidings_server_destroy(s); /* never started */
    assert_int_equal(count_descriptors(), descriptors);
    assert_threads(threads);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void *turn_elsewhere(void *arg)
{
    struct tidings_error *err = arg;
    return tidings_server_turn(server, err) == TIDINGS_E_INVALID ? arg : NULL;
}

static int inner_turn;

static void read_and_turn(void *user, struct tidings_read *read, struct tidings_str uri)
{
    inner_turn = tidings_server_turn(server, NULL);
    read_uri(user, read, uri);
}

static void turn_is_rejected_if_nested_or_on_another_thread(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    pthread_t thread;
    void *result = NULL;
    struct asking a;
    assert_int_equal(tidings_server_turn(server, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "tidings_server_start"));
    add(server, "app:///inner", read_and_turn, NULL);
    start();
    assert_int_equal(pthread_create(&thread, NULL, turn_elsewhere, &err), 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, &err);
    assert_non_null(strstr(err.text, "the thread that started it"));
    asking_begin(&a, port, "resources/read", "app:///inner");
    assert_int_equal(asking_step(&a, server), 1);
    assert_non_null(strstr(asking_end(&a), "app:///inner"));
    assert_int_equal(inner_turn, TIDINGS_E_INVALID);
}

static void *start_it(void *arg)
{
    struct tidings_error err;
    return tidings_server_start(server, &err) == 0 ? arg : NULL;
}

static void concurrent_starts_succeed_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int started = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, start_it, server), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        started += result != NULL;
    }
    assert_int_equal(started, 1);
}

static void server_runs_once_and_rejects_late_configuration(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    start();
    assert_int_equal(tidings_server_set(server, "http", "127.0.0.1:0", &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "before it starts"));
    assert_int_equal(tidings_server_run(server, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "started already"));
    assert_int_equal(tidings_server_finish(server, &err), 0);
    assert_int_equal(tidings_server_start(server, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "runs once"));
}

/* ---- a start that fails ---------------------------------------------------------------------- */

static void failed_start_cleans_up_and_can_be_retried(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct asking a;
    int other_port = 0;
    char address[32], directory[] = "/tmp/tidings-stepped-XXXXXX", mount[64];
    assert_non_null(mkdtemp(directory));
    snprintf(mount, sizeof(mount), "file:///kept/=%s", directory);
    start();
    struct tidings_server *second = create(&other_port);
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    assert_int_equal(tidings_server_set(second, "http", address, &err), 0);
    assert_int_equal(tidings_server_set(second, "mount", mount, &err), 0);
    size_t descriptors = count_descriptors(), threads = count_threads();
    for (int i = 0; i < 2; i++) {
        int rc = i == 0 ? tidings_server_start(second, &err) : tidings_server_run(second, &err);
        assert_int_equal(rc, TIDINGS_E_EXISTS);
        assert_non_null(strstr(err.text, "in use"));
        assert_int_equal(count_descriptors(), descriptors);
        assert_threads(threads);
    }
    assert_int_equal(other_port, 0);
    assert_int_equal(tidings_server_set(second, "http", "127.0.0.1:0", &err), 0);
    assert_int_equal(tidings_server_start(second, &err), 0);
    asking_begin(&a, other_port, "resources/read", "app:///a");
    assert_int_equal(asking_step(&a, second), 1);
    assert_non_null(strstr(asking_end(&a), "\"text\":\"app:///a\""));
    tidings_server_destroy(second);
    rmdir(directory);
}

/* ---- several --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int port;
} threaded = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void on_threaded_ready(void *user, const char *url)
{
    (void)user;
    pthread_mutex_lock(&threaded.lock);
    threaded.port = asking_port(url);
    pthread_cond_broadcast(&threaded.more);
    pthread_mutex_unlock(&threaded.lock);
}

static void *run_it(void *arg)
{
    return tidings_server_run(arg, NULL) == 0 ? arg : NULL;
}

static void expect(struct tidings_server *steps, int at, const char *uri, const char *text)
{
    struct asking a;
    asking_begin(&a, at, "resources/read", uri);
    if (steps) {
        (void)asking_step(&a, steps);
    }
    assert_non_null(strstr(asking_end(&a), text));
}

static void stepped_and_threaded_servers_coexist(void **state)
{
    (void)state;
    int ignored = 0;
    pthread_t thread;
    void *result = NULL;
    struct tidings_server *other = create(&ignored);
    add(other, "app:///other", read_uri, NULL);
    tidings_server_on_ready(other, on_threaded_ready, NULL);
    assert_int_equal(tidings_server_set(other, "workers", "2", NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_it, other), 0);
    pthread_mutex_lock(&threaded.lock);
    while (threaded.port == 0) {
        pthread_cond_wait(&threaded.more, &threaded.lock);
    }
    pthread_mutex_unlock(&threaded.lock);
    start();
    expect(NULL, threaded.port, "app:///other", "\"text\":\"app:///other\"");
    expect(server, port, "app:///other", "\"error\"");
    expect(server, port, "app:///a", "\"text\":\"app:///a\"");
    tidings_server_stop(other);
    pthread_join(thread, &result);
    assert_ptr_equal(result, other);
    tidings_server_destroy(other);
    expect(server, port, "app:///a", "\"text\":\"app:///a\"");
}

static void *nothing(void *arg)
{
    return arg;
}

int main(void)
{
    pthread_t first; /* a sanitizer starts its own thread with the first one */
    if (pthread_create(&first, NULL, nothing, NULL) != 0 || pthread_join(first, NULL) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
#define SERVED(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        SERVED(stepped_server_answers_without_its_own_thread),
        SERVED(change_on_another_thread_makes_descriptor_ready),
        SERVED(registration_on_another_thread_waits_for_a_turn),
        SERVED(concurrent_stops_end_the_turns),
        SERVED(server_ends_at_once_if_stopped_before_start),
        SERVED(pending_answer_arrives_after_stop),
        SERVED(stop_waits_for_pending_callback),
        SERVED(unanswered_request_does_not_block_shutdown),
        SERVED(destroy_finishes_stepped_server),
        SERVED(turn_is_rejected_if_nested_or_on_another_thread),
        SERVED(concurrent_starts_succeed_once),
        SERVED(server_runs_once_and_rejects_late_configuration),
        SERVED(failed_start_cleans_up_and_can_be_retried),
        SERVED(stepped_and_threaded_servers_coexist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
