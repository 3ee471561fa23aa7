/* SPDX-License-Identifier: MIT
 *
 * Warnings in the log when the kernel does not report file changes. Each gives the consequence, the
 * reason and the mount, and is not repeated for every file. */
#include <pthread.h>

#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "support/file_watch_overflow.h"
#include "support/file_watching.h"

#define LOST "events of files were lost, everything is scanned again"
#define NAMES "some files with other names are polled, not watched"
#define DIRECTORIES "some directories are polled, not watched"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char lines[16384]; /* under the mutex */

static void on_line(void *user, enum tidings_log_level level, struct tidings_str line)
{
    (void)user;
    (void)level;
    (void)pthread_mutex_lock(&mutex);
    size_t len = strlen(lines);
    (void)snprintf(lines + len, sizeof lines - len, "%.*s\n", STR_ARG(line));
    (void)pthread_mutex_unlock(&mutex);
}

/* Log lines that contain this string. */
static size_t logged(const char *chunk)
{
    size_t n = 0;
    (void)pthread_mutex_lock(&mutex);
    for (const char *at = lines; (at = strstr(at, chunk)) != NULL; at++) {
        n++;
    }
    (void)pthread_mutex_unlock(&mutex);
    return n;
}

static int open_logged(void **state)
{
    lines[0] = '\0';
    log_set_level(TIDINGS_LOG_WARNING);
    log_set_sink(on_line, NULL);
    return fixture_open(state);
}

static int close_logged(void **state)
{
    int rc = fixture_close(state);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    return rc;
}

/* Lose events, and wait for a change that only a new scan finds. */
static void lose_events(struct fixture *f, const char *lost, const char *uri)
{
    struct hold h;
    hold_begin(&h, f);
    hold_overflow(&h, f, "a", "b");
    put(f, lost, "");
    hold_end(&h);
    expect(f, CREATED, uri);
    hold_deinit(&h);
}

static void lost_events_are_logged_once_a_minute(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "x");
    put(f, "b", "x");
    serve_and_watch(f);
    assert_int_equal(logged("lost"), 0);
    uint64_t begun_ms = clock_monotonic_ms();
    lose_events(f, "c", MOUNT "c");
    assert_int_equal(logged(LOST), 1);
    assert_int_equal(logged("max_queued_events"), 1);
    assert_int_equal(logged("mount=" MOUNT), 1);
    lose_events(f, "d", MOUNT "d");
    if (clock_monotonic_ms() - begun_ms < 60000) {
        assert_int_equal(logged(LOST), 1);
    }
}

static void hard_links_beyond_the_limit_are_logged_once(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b"}, *const others[] = {"a-too", "b-too"};
    for (int i = 0; i < 2; i++) {
        put(f, names[i], "1");
        assert_int_equal(link(at(f, names[i]), at(f, others[i])), 0);
    }
    serve(f, ", \"quietMs\": 5, \"pollMs\": 20, \"maxWatches\": 1"); /* the directory uses it */
    watch(f, MOUNT "a");
    watch(f, MOUNT "b");
    append(f, "a-too", "2");
    expect(f, UPDATED, MOUNT "a");
    append(f, "b-too", "2");
    expect(f, UPDATED, MOUNT "b");
    assert_int_equal(logged(NAMES), 1);
    assert_int_equal(logged("maxWatches, or 1,000 files, reached"), 1);
    assert_int_equal(logged("every_ms=20"), 1);
    assert_int_equal(logged("mount=" MOUNT), 1);
    assert_int_equal(logged(DIRECTORIES), 0);
}

static void directories_beyond_the_limit_are_logged_once(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "e");
    serve(f, ", \"quietMs\": 5, \"pollMs\": 20, \"maxWatches\": 1");
    watch(f, MOUNT);
    put(f, "d/x", "x");
    expect(f, CREATED, MOUNT "d/x");
    put(f, "e/x", "x");
    expect(f, CREATED, MOUNT "e/x");
    assert_int_equal(logged(DIRECTORIES), 1);
    assert_int_equal(logged("maxWatches reached"), 1);
    assert_int_equal(logged(NAMES), 0);
}

static void nothing_is_logged_while_the_kernel_reports_changes(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    assert_int_equal(link(at(f, "a"), at(f, "b")), 0);
    serve(f, QUICK);
    watch(f, MOUNT "a");
    append(f, "b", "2");
    expect(f, UPDATED, MOUNT "a");
    assert_int_equal(logged("\n"), 0);
}

int main(void)
{
#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, open_logged, close_logged)
    const struct CMUnitTest tests[] = {
        LOG_TEST(lost_events_are_logged_once_a_minute),
        LOG_TEST(hard_links_beyond_the_limit_are_logged_once),
        LOG_TEST(directories_beyond_the_limit_are_logged_once),
        LOG_TEST(nothing_is_logged_while_the_kernel_reports_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
