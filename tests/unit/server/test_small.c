/* SPDX-License-Identifier: MIT
 *
 * Features for small programs: timers, a provider with only list and read, the life of a program.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/served.h"

static char one[] = "1", two[] = "2"; /* workers */

/* ---- a provider without stat, and without a thread ------------------------------------------- */

static atomic_uint rolls;
static unsigned scopes; /* the hub thread's */

static void on_roll(struct tidings_provider *p)
{
    struct tidings_change change = {.uri = TIDINGS_STR("few:///b")};
    atomic_fetch_add(&rolls, 1);
    (void)tidings_provider_changed(p, &change, NULL);
}

static int on_open(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p, (void)config, (void)err;
    return 0;
}

static void on_list(struct tidings_provider *p, struct tidings_list *list)
{
    static const char *const uris[] = {"few:///a", "few:///b", "few:///c"};
    (void)p;
    for (size_t i = 0; i < 3; i++) {
        struct tidings_resource row = tidings_resource(uris[i], uris[i] + 7, NULL);
        (void)tidings_list_add(list, &row, NULL);
    }
    tidings_list_done(list, 0, NULL);
}

static void on_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p, (void)uri;
    tidings_read_answer(read, TIDINGS_STR("content"));
}

static void on_watch(struct tidings_provider *p, struct tidings_watch *w, struct tidings_str uri)
{
    (void)uri;
    tidings_watch_done(w, scopes++ == 0 ? tidings_provider_every(p, 5, on_roll) : 0, NULL);
}

static void on_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    (void)uri;
    if (--scopes == 0) {
        assert_int_equal(tidings_provider_every(p, 0, NULL), 0);
    }
}

static void on_close(struct tidings_provider *p)
{
    (void)p;
}

static const struct tidings_provider_ops few = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "few",
    .open = on_open,
    .read = on_read,
    .list = on_list,
    .watch = on_watch,
    .unwatch = on_unwatch,
    .close = on_close,
};

static void listed_resources_are_subscribable_without_stat(void **state)
{
    (void)state;
    struct ears known, unknown;
    ears_init(&known);
    ears_init(&unknown);
    atomic_store(&rolls, 0);
    scopes = 0;
    assert_int_equal(
        tidings_server_mount(served(), &few, TIDINGS_STR("few:///"), TIDINGS_STR(""), NULL), 0);
    served_run();
    assert_non_null(served_subscribe("few:///b*", "{\"match\":\"literal\"}", &unknown));
    assert_string_equal(ears_await(&unknown, 0).refused, "resource not found");
    assert_int_equal(atomic_load(&rolls), 0); /* no subscription yet */
    assert_non_null(served_subscribe("few:///b", NULL, &known));
    assert_string_equal(ears_await(&known, 0).uri, "few:///b");
    assert_string_equal(ears_await(&known, 1).uri, "few:///b");
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void on_time(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
    served_announce("app:///a", "", TIDINGS_CHANGE_UPDATED);
}

static void timer_runs_while_server_runs(void **state)
{
    (void)state;
    atomic_uint count = 0;
    struct ears ears;
    struct tidings_error err = {0, ""};
    ears_init(&ears);
    assert_int_equal(tidings_server_every(served(), 5, on_time, &count, &err), 0);
    assert_int_equal(atomic_load(&count), 0);
    assert_non_null(served_subscribe("app:///a", NULL, &ears));
    served_run();
    (void)ears_await(&ears, 2);
    assert_int_equal(tidings_server_every(served(), 5, on_time, &count, &err), TIDINGS_E_INVALID);
    served_stop();
    unsigned at_the_end = atomic_load(&count);
    assert_true(at_the_end >= 3);
    assert_int_equal(atomic_load(&count), at_the_end);
}

static void timers_are_limited_and_require_a_period(void **state)
{
    (void)state;
    atomic_uint count = 0;
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_every(served(), 0, on_time, &count, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_every(served(), 5, NULL, &count, &err), TIDINGS_E_INVALID);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(tidings_server_every(served(), 1000, on_time, &count, &err), 0);
    }
    assert_int_equal(tidings_server_every(served(), 5, on_time, &count, &err), TIDINGS_E_LIMIT);
    served_run();
}

/* ---- the life of a program ------------------------------------------------------------------- */

static void end_ourselves(void *user)
{
    (void)user;
    assert_int_equal(kill(getpid(), SIGTERM), 0);
}

static void on_own_signal(int number)
{
    (void)number;
}

static void main_runs_until_signal_and_restores_handlers(void **state)
{
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "/usr/bin/x", (char *)(uintptr_t) "--http",
                    (char *)(uintptr_t) "127.0.0.1:0", NULL};
    struct tidings_resource about = tidings_resource("app:///a", "a", "text/plain");
    struct sigaction after;
    struct tidings_server *server = tidings_server_create(NULL);
    assert_non_null(server);
    (void)signal(SIGTERM, on_own_signal);
    assert_int_equal(
        tidings_server_add_resource(server, &about, (tidings_read_fn)abort, NULL, NULL), 0);
    assert_int_equal(tidings_server_every(server, 10, end_ourselves, NULL, NULL), 0);
    assert_int_equal(tidings_server_main(server, 3, argv), 0);
    assert_int_equal(sigaction(SIGTERM, NULL, &after), 0);
    assert_ptr_equal(after.sa_handler, on_own_signal);
    (void)signal(SIGTERM, SIG_DFL);
    tidings_server_destroy(server);
}

static void main_reports_failure_with_exit_status(void **state)
{
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "x", (char *)(uintptr_t) "--no-such-option", NULL};
    struct tidings_server *server = tidings_server_create(NULL);
    assert_int_equal(tidings_server_main(server, 2, argv), 64);
    assert_int_equal(tidings_server_main(NULL, 1, argv), 71);
    tidings_server_destroy(server);
}

/* The standard error of a program with one server. */
static char *main_writes(struct tidings_server *server, char *word, int fd, int expected)
{
    char *argv[] = {(char *)(uintptr_t) "/usr/bin/x", word, NULL};
    char path[] = "/tmp/tidings-main-XXXXXX";
    int file = mkstemp(path), before = dup(fd);
    assert_true(file >= 0 && before >= 0 && unlink(path) == 0);
    fflush(stdout);
    dup2(file, fd);
    int status = tidings_server_main(server, word ? 2 : 1, argv);
    dup2(before, fd);
    close(before);
    tidings_server_destroy(server);
    assert_int_equal(status, expected);
    static char text[65536];
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    close(file);
    return text;
}

static char *main_prints(char *word, const struct tidings_server_info *info)
{
    struct tidings_server *server = tidings_server_create(NULL);
    assert_int_equal(tidings_server_set_info(server, info, NULL), 0);
    return main_writes(server, word, STDOUT_FILENO, 0);
}

static void main_reports_first_unreported_failure(void **state)
{
    (void)state;
    struct tidings_resource about = tidings_resource("no uri", "a", NULL);
    struct tidings_error err;
    struct tidings_server *server = tidings_server_create(NULL);
    assert_int_equal(tidings_server_set(server, "no-such-row", "1", &err), TIDINGS_E_INVALID);
    tidings_server_add_resource(server, &about, (tidings_read_fn)abort, NULL, NULL);
    tidings_server_set(server, "http", "nowhere", NULL);
    const char *said = main_writes(server, NULL, STDERR_FILENO, 64);
    const char *first = "x: tidings_server_add_resource: ";
    if (strncmp(said, first, strlen(first)) != 0 || !strstr(said, "'no uri'") ||
        !strstr(said, "\nx: nothing to serve") || strstr(said, "nowhere")) {
        fail_msg("%s", said);
    }
}

static void main_prints_help_and_version(void **state)
{
    (void)state;
    struct tidings_server_info nothing = {0}, info = {.version = tidings_str("2.5")};
    const char *help = main_prints((char *)(uintptr_t) "--help", &nothing);
    assert_memory_equal(help, "usage: x [OPTION", strlen("usage: x [OPTION"));
    assert_non_null(strstr(help, "\n  --http ADDR:PORT"));
    char expected[80];
    snprintf(expected, sizeof(expected), "x 2.5 (libtidings %s)\n", tidings_version());
    assert_string_equal(main_prints((char *)(uintptr_t) "--version", &info), expected);
    snprintf(expected, sizeof(expected), "x libtidings %s\n", tidings_version());
    assert_string_equal(main_prints((char *)(uintptr_t) "--version", &nothing), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SERVED(f)                                                                                  \
    cmocka_unit_test_prestate_setup_teardown(f, served_begin, served_end, one),                    \
        cmocka_unit_test_prestate_setup_teardown(f, served_begin, served_end, two)
        SERVED(listed_resources_are_subscribable_without_stat),
        SERVED(timer_runs_while_server_runs),
        SERVED(timers_are_limited_and_require_a_period),
        cmocka_unit_test(main_runs_until_signal_and_restores_handlers),
        cmocka_unit_test(main_reports_first_unreported_failure),
        cmocka_unit_test(main_reports_failure_with_exit_status),
        cmocka_unit_test(main_prints_help_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
