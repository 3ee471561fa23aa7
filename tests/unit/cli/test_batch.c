/* SPDX-License-Identifier: MIT
 *
 * Batched runs after a quiet period: when a run starts, its input, changes during a run, and the
 * list size limit. The test controls the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
/* cmocka replaces these if UNIT_TESTING is set; stream buffers belong to libc. */
#undef malloc
#undef free

#include "cli/output.h"
#include "cli/watch_run.h"

static uint64_t clock_ms = 1000;
uint64_t __wrap_now_ms(void); /* instead of now_ms of cli/remote.h */
uint64_t __wrap_now_ms(void)
{
    return clock_ms;
}

static char folder[] = "/tmp/tidings-batch-XXXXXX";
static char output[64];
static const volatile int never = 0;

/* A batch whose command appends to the file `output`. */
static uint64_t debounce_ms = 300;
static struct batch *make(const char *command, bool restarts)
{
    static char text[256];
    snprintf(text, sizeof(text), "{ %s; } >>%s", command, output);
    struct batch_options options = {
        .command = text, .debounce_ms = debounce_ms, .restarts = restarts};
    unlink(output);
    return batch_create(&options);
}

static void add(struct batch *b, const char *uri)
{
    struct batch_change change = {.uri = tidings_str(uri)};
    assert_int_equal(batch_add(b, &change), 0);
}

/* One turn; returns the time until the next. */
static int turn(struct batch *b)
{
    struct pollfd fd;
    int ms = 0;
    batch_turn(b, &fd, &ms);
    return ms;
}

static void expect_output(const char *wanted)
{
    char text[512] = "";
    FILE *in = fopen(output, "r");
    if (in) {
        text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
        fclose(in);
    }
    assert_string_equal(text, wanted);
}

static void run_starts_after_quiet_period(void **state)
{
    (void)state;
    struct batch *b = make("echo run $TIDINGS_COUNT $TIDINGS_MERGED; cat", false);
    assert_int_equal(turn(b), -1);
    add(b, "a:1");
    assert_int_equal(turn(b), 300);
    clock_ms += 299;
    assert_int_equal(turn(b), 1);
    add(b, "a:2");
    add(b, "a:1");
    clock_ms += 299;
    assert_int_equal(turn(b), 1);
    clock_ms += 1;
    (void)turn(b);
    batch_finish(b, &never);
    expect_output("run 2 3\na:1\na:2\n");
    assert_int_equal(batch_done(b), 1);
    batch_destroy(b);
}

static void run_starts_despite_endless_changes(void **state)
{
    (void)state;
    struct batch *b = make("echo run", false);
    uint64_t begun = clock_ms;
    while (turn(b) != -1 || clock_ms == begun) {
        add(b, "a:1");
        clock_ms += 100;
        assert_true(clock_ms - begun <= BATCH_LATEST_MS);
    }
    assert_int_equal(clock_ms - begun, BATCH_LATEST_MS);
    batch_finish(b, &never);
    batch_destroy(b);
}

/* A longer quiet period also extends the limit on endless changes. */
static void run_starts_within_ten_quiet_periods(void **state)
{
    (void)state;
    debounce_ms = 2000;
    struct batch *b = make("echo run", false);
    debounce_ms = 300;
    uint64_t begun = clock_ms;
    for (; clock_ms < begun + 20000; clock_ms += 500) {
        add(b, "app:///a");
        assert_true(turn(b) > 0);
    }
    assert_int_equal(turn(b), -1); /* it runs */
    batch_finish(b, &never);
    assert_int_equal(batch_done(b), 1);
    batch_destroy(b);
}

static void exit_runs_pending_changes(void **state)
{
    (void)state;
    struct batch *b = make("cat", false);
    add(b, "a:1");
    batch_finish(b, &never);
    expect_output("a:1\n");
    batch_destroy(b);
}

static void signal_drops_pending_changes(void **state)
{
    (void)state;
    const volatile int caught = 2;
    struct batch *b = make("cat", false);
    add(b, "a:1");
    batch_finish(b, &caught);
    expect_output("");
    assert_int_equal(batch_done(b), 0);
    batch_destroy(b);
}

static void pending_changes_are_counted(void **state)
{
    (void)state;
    struct batch *b = make("cat", false);
    assert_true(batch_oldest(b) == UINT64_MAX);
    for (uint64_t i = 3; i < 6; i++) {
        struct batch_change change = {.uri = TIDINGS_STR("a:1"), .turn = i};
        assert_int_equal(batch_add(b, &change), 0);
    }
    assert_int_equal(batch_oldest(b), 3);
    clock_ms += 300;
    (void)turn(b);
    struct batch_change meanwhile = {.uri = TIDINGS_STR("a:2"), .turn = 6};
    assert_int_equal(batch_add(b, &meanwhile), 0);
    assert_int_equal(batch_oldest(b), 3);
    batch_finish(b, &never);
    assert_true(batch_oldest(b) == UINT64_MAX);
    batch_destroy(b);
}

static void list_is_limited_and_marked_as_such(void **state)
{
    (void)state;
    struct batch *b = make("echo $TIDINGS_COUNT $TIDINGS_MERGED ${TIDINGS_TRUNCATED:-0}", false);
    char uri[32];
    for (unsigned i = 0; i <= URI_LIST_MAX; i++) {
        snprintf(uri, sizeof(uri), "a:%u", i);
        add(b, uri);
    }
    batch_finish(b, &never);
    expect_output("10000 10001 1\n");
    add(b, "a:1");
    batch_finish(b, &never);
    expect_output("10000 10001 1\n1 1 0\n");
    batch_destroy(b);
}

static void line_size_is_limited(void **state)
{
    (void)state;
    struct uri_list l = {0};
    size_t size = URI_LIST_BYTES / 3;
    char *line = malloc(size + 1);
    memset(line, 'x', size);
    line[size] = '\0';
    assert_int_equal(uri_list_add(&l, TIDINGS_STR("a:1"), line), 0);
    assert_int_equal(uri_list_add(&l, TIDINGS_STR("a:1"), line), 0);
    assert_int_equal(uri_list_add(&l, TIDINGS_STR("a:2"), line), 0);
    assert_false(l.is_cut);
    assert_int_equal(uri_list_add(&l, TIDINGS_STR("a:3"), line), 0);
    assert_true(l.is_cut);
    assert_int_equal(l.count, 2);
    uri_list_clear(&l);
    free(line);
}

/* SIGTERM does not stop it. */
static void stubborn_command_is_killed_with_its_group(void **state)
{
    (void)state;
    char text[16] = "";
    int ready[2];
    struct shell s = {0};
    char *ours[] = {NULL};
    char **env = shell_environment(ours);
    int input = shell_input(TIDINGS_STR("input"));
    assert_int_equal(pipe(ready), 0);
    char command[128];
    snprintf(command, sizeof(command), "trap '' TERM; cat >&%d; sleep 1000 & wait; sleep 1000",
             ready[1]);
    assert_int_equal(shell_start(&s, command, input, env), 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], text, sizeof(text)), 5);
    shell_end(&s);
    assert_false(shell_reap(&s));
    clock_ms += SHELL_END_MS;
    while (!shell_reap(&s)) {
        struct pollfd fd;
        poll(&fd, 1, shell_wait(&s, &fd));
    }
    /* The other end is closed. */
    assert_int_equal(read(ready[0], text, sizeof(text)), 0);
    close(ready[0]);
    close(input);
    free(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_starts_after_quiet_period),
        cmocka_unit_test(run_starts_despite_endless_changes),
        cmocka_unit_test(run_starts_within_ten_quiet_periods),
        cmocka_unit_test(exit_runs_pending_changes),
        cmocka_unit_test(signal_drops_pending_changes),
        cmocka_unit_test(pending_changes_are_counted),
        cmocka_unit_test(list_is_limited_and_marked_as_such),
        cmocka_unit_test(line_size_is_limited),
        cmocka_unit_test(stubborn_command_is_killed_with_its_group),
    };
    if (!mkdtemp(folder)) {
        return 1;
    }
    snprintf(output, sizeof(output), "%s/output", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(output);
    rmdir(folder);
    return failed;
}
