/* SPDX-License-Identifier: MIT
 *
 * Launched servers: shell scripts that print what a test needs.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "base/time.h"

/* A legacy server: it rejects the first request, and the second one initializes it. Their ids are
 * known (the program's first request is number 1). Then it runs the given script. */
#define INITIALIZED                                                                                \
    "read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,"                \
    "\"message\":\"x\"}}'\n"                                                                       \
    "read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"protocolVersion\":"           \
    "\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"sh\",\"version\":\"1\"}}}'\n"   \
    "read -r line; read -r line\n"

static struct tidings_client *launch(const char *script, const struct tidings_client_options *o)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct tidings_error err = {0};
    struct tidings_client *c = tidings_client_launch(argv, o, &err);
    assert_non_null(c);
    return c;
}

static void script_can_be_a_server(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "WHAT=it", NULL};
    struct tidings_client_options o = {.env = env, .directory = "/"};
    struct tidings_client *c =
        launch(INITIALIZED
               "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"is\":\"'$WHAT' in '$PWD'\"}}'",
               &o);
    char *text = tidings_client_request(c, "q", NULL, &err);
    assert_string_equal(text, "{\"is\":\"it in /\"}");
    tidings_free(text);
    assert_string_equal(tidings_client_info(c)->transport, "stdio");
    tidings_client_destroy(c);
}

static void echoing_program_is_rejected_as_server(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_client *c = launch("exec cat", NULL);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_PARSE);
    assert_string_equal(err.text, "not an MCP server: it echoes its input");
    tidings_client_destroy(c);
}

static void unterminated_answer_counts_at_exit(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct tidings_client *c =
        launch(INITIALIZED "printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'", NULL);
    char *text = tidings_client_request(c, "q", NULL, &err);
    assert_string_equal(text, "{}");
    tidings_free(text);
    tidings_client_destroy(c);
}

static void exit_status_is_reported(void **state)
{
    (void)state;
    static const struct {
        const char *script, *text;
    } cases[] = {
        {INITIALIZED "exit 7", "'sh' ended with status 7"},
        {INITIALIZED "kill -9 $$", "'sh' was ended by signal 9"},
        {INITIALIZED "exec >&-; read -r line", "'sh' closed its output"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0};
        struct tidings_client *c = launch(cases[i].script, NULL);
        assert_null(tidings_client_request(c, "q", NULL, &err));
        assert_int_equal(err.code, TIDINGS_E_CLOSED);
        assert_string_equal(err.text, cases[i].text);
        tidings_client_destroy(c);
    }
}

static void launch_failure_is_reported(void **state)
{
    (void)state;
    const char *const none[] = {"/no/such/program", NULL};
    const char *const empty[] = {NULL};
    struct tidings_error err = {0};
    assert_null(tidings_client_launch(empty, NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    struct tidings_client *c = tidings_client_launch(none, NULL, &err);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_NOTFOUND);
    tidings_client_destroy(c);
}

struct notifications {
    struct tidings_client *client;
    char text[256];
};

static void on_stderr(void *user, struct tidings_str bytes)
{
    struct notifications *h = user;
    size_t len = strlen(h->text);
    snprintf(h->text + len, sizeof(h->text) - len, "%.*s", (int)bytes.len, bytes.ptr);
    if (strchr(h->text, '\n')) {
        tidings_client_stop(h->client);
    }
}

static void standard_error_is_available(void **state)
{
    (void)state;
    struct notifications h = {.text = ""};
    struct tidings_client_options o = {.on_stderr = on_stderr, .stderr_user = &h};
    h.client = launch("echo trouble >&2; read -r line; read -r line", &o);
    assert_int_equal(tidings_client_run(h.client, NULL), 0);
    assert_string_equal(h.text, "trouble\n");
    tidings_client_destroy(h.client);
}

/* It ignores both the end of its input and SIGTERM. */
static void stubborn_server_is_killed(void **state)
{
    (void)state;
    struct notifications h = {.text = ""};
    struct tidings_client_options o = {.on_stderr = on_stderr, .stderr_user = &h};
    h.client = launch("trap '' TERM; echo $$ >&2; while :; do sleep 1; done", &o);
    while (!strchr(h.text, '\n')) {
        assert_true(tidings_client_step(h.client, -1, NULL) >= 0);
    }
    pid_t pid = (pid_t)strtol(h.text, NULL, 10);
    assert_int_equal(kill(pid, 0), 0);
    uint64_t before = clock_monotonic_ms();
    tidings_client_destroy(h.client);
    assert_true(clock_monotonic_ms() - before >= 4000);
    assert_int_equal(kill(pid, 0), -1);
}

struct states {
    struct tidings_client *client;
    int disconnected;
};

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct states *s = user;
    if (e->state == TIDINGS_STATE_DISCONNECTED && ++s->disconnected == 3) {
        tidings_client_stop(s->client);
    }
}

static void exited_server_is_relaunched(void **state)
{
    (void)state;
    struct states s = {0};
    struct tidings_client_options o = {.retry_min_ms = 1, .retry_max_ms = 2};
    s.client = launch("read line; exit 1", &o);
    tidings_client_on_state(s.client, on_state, &s);
    assert_int_equal(tidings_client_run(s.client, NULL), 0);
    assert_int_equal(s.disconnected, 3);
    tidings_client_destroy(s.client);
}

/* It has read nothing from us, so it would exit again. */
static void server_is_launched_once_if_it_exits_before_reading(void **state)
{
    (void)state;
    struct states s = {0};
    struct tidings_error err = {0};
    struct tidings_client_options o = {.retry_min_ms = 1, .retry_max_ms = 2};
    s.client = launch("exit 1", &o);
    tidings_client_on_state(s.client, on_state, &s);
    assert_int_equal(tidings_client_run(s.client, &err), TIDINGS_E_CLOSED);
    assert_non_null(strstr(err.text, "ended with status 1"));
    assert_int_equal(s.disconnected, 0);
    tidings_client_destroy(s.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_can_be_a_server),
        cmocka_unit_test(echoing_program_is_rejected_as_server),
        cmocka_unit_test(unterminated_answer_counts_at_exit),
        cmocka_unit_test(exit_status_is_reported),
        cmocka_unit_test(launch_failure_is_reported),
        cmocka_unit_test(standard_error_is_available),
        cmocka_unit_test(stubborn_server_is_killed),
        cmocka_unit_test(exited_server_is_relaunched),
        cmocka_unit_test(server_is_launched_once_if_it_exits_before_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
