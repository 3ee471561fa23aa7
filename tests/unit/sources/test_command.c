/* SPDX-License-Identifier: MIT */
#include "sources/command.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/provider_host.h"
#include "support/remove_tree.h"

#define URI "cmd:///it"

/* A folder in which scripts leave traces. */
struct fixture {
    char path[64];
    struct host *host;
};

static int set_up(void **state)
{
    struct fixture *p = test_calloc(1, sizeof *p);
    (void)snprintf(p->path, sizeof p->path, "/tmp/tidings-command-XXXXXX");
    assert_non_null(mkdtemp(p->path));
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *p = *state;
    if (p->host) {
        host_close(p->host);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie, no running process */
    assert_int_equal(remove_tree(p->path), 0);
    test_free(p);
    return 0;
}

/* Run a shell script in that folder; `extra` adds to the configuration. */
static void serve(struct fixture *p, const char *script, const char *extra)
{
    char config[1024];
    struct tidings_error err = {0};
    (void)snprintf(config, sizeof config, "{\"argv\": [\"sh\", \"-c\", \"%s\"], \"cwd\": \"%s\"%s}",
                   script, p->path, extra);
    p->host = host_open(&provider_command_ops, URI "/", config, &err);
    if (!p->host) {
        fail_msg("%s", err.text);
    }
}

static void put(const struct fixture *p, const char *name, const char *text)
{
    char path[128], fresh[140];
    (void)snprintf(path, sizeof path, "%s/%s", p->path, name);
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(rename(fresh, path), 0);
}

static size_t size_of(const struct fixture *p, const char *name)
{
    char path[128];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", p->path, name);
    return stat(path, &st) < 0 ? 0 : (size_t)st.st_size;
}

static void check_read(struct fixture *p, const char *text)
{
    struct host_answer *a = host_read(p->host, URI);
    assert_string_equal(a->error, "");
    assert_int_equal(a->count, 1);
    assert_string_equal(a->rows[0].bytes, text);
    host_answer_free(a);
}

static void check_fails(struct fixture *p, int code, const char *part)
{
    struct host_answer *a = host_read(p->host, URI);
    assert_int_equal(a->code, code);
    assert_int_equal(a->count, 0);
    if (!strstr(a->error, part)) {
        fail_msg("'%s' lacks '%s'", a->error, part);
    }
    host_answer_free(a);
}

static void each_read_without_a_watcher_runs_the_command(void **state)
{
    struct fixture *p = *state;
    serve(p, "echo x >>runs; wc -l <runs", "");
    check_read(p, "1\n");
    check_read(p, "2\n");
    struct host_answer *a = host_stat(p->host, URI);
    assert_string_equal(a->rows[0].uri, URI);
    assert_string_equal(a->rows[0].name, "it");
    assert_string_equal(a->rows[0].mime_type, "text/plain");
    host_answer_free(a);
    assert_int_equal(size_of(p, "runs"), 4); /* describing runs nothing */
    a = host_list(p->host, "", 10);
    assert_int_equal(a->count, 1);
    host_answer_free(a);
    a = host_list(p->host, URI, 10);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    a = host_read(p->host, URI "/below");
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void concurrent_readers_share_a_run(void **state)
{
    struct fixture *p = *state;
    struct host_reading *readings[1100]; /* no reader replaces another */
    const size_t count = sizeof(readings) / sizeof(readings[0]);
    char gate[128];
    (void)snprintf(gate, sizeof gate, "%s/gate", p->path);
    assert_int_equal(mkfifo(gate, 0600), 0);
    serve(p, "echo x >>runs; cat gate; wc -l <runs", "");
    for (size_t i = 0; i < count; i++) {
        readings[i] = host_read_begin(p->host, URI);
    }
    assert_int_equal(host_watch(p->host, URI), 0); /* they were accepted before this */
    int fd = open(gate, O_WRONLY | O_CLOEXEC);     /* waits until the run is at the gate */
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < count; i++) {
        struct host_answer *a = host_read_end(readings[i]);
        assert_string_equal(a->rows[0].bytes, "1\n");
        host_answer_free(a);
    }
    host_unwatch(p->host, URI);
}

static void await_no_child(void)
{
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        usleep(1000);
    }
}

static void run_is_killed_if_all_its_readers_leave(void **state)
{
    struct fixture *p = *state;
    serve(p, "exec sleep 1000", ", \"timeout\": \"1h\"");
    struct host_reading *first = host_read_begin(p->host, URI);
    struct host_reading *second = host_read_begin(p->host, URI);
    host_read_cancel(first);
    struct host_answer *a = host_read_end(first);
    assert_int_equal(a->code, TIDINGS_E_CANCELLED);
    host_answer_free(a);
    host_read_cancel(second);
    host_answer_free(host_read_end(second));
    await_no_child();
}

static void failure_includes_the_end_of_standard_error(void **state)
{
    struct fixture *p = *state;
    serve(p, "echo first >&2; echo out; echo last words >&2; exit 3", "");
    check_fails(p, TIDINGS_E_IO, "'sh' ended with status 3: first last words");
    host_close(p->host);
    serve(p, "kill -9 $$", "");
    check_fails(p, TIDINGS_E_IO, "'sh' was killed by signal 9");
    host_close(p->host);
    struct tidings_error err = {0};
    p->host = host_open(&provider_command_ops, URI "/", "{\"argv\": [\"no-such-program\"]}", &err);
    assert_non_null(p->host);
    check_fails(p, TIDINGS_E_NOTFOUND, "no program 'no-such-program' in /usr/local/sbin");
}

static void run_is_killed_if_its_output_or_time_exceeds_the_limit(void **state)
{
    struct fixture *p = *state;
    serve(p, "yes", ", \"maxOutput\": \"10k\"");
    check_fails(p, TIDINGS_E_LIMIT, "'sh' wrote more than 10k");
    host_close(p->host);
    serve(p, "head -c 10240 /dev/zero | tr '\\\\0' x", ", \"maxOutput\": \"10k\"");
    struct host_answer *a = host_read(p->host, URI);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->rows[0].length, 10240);
    host_answer_free(a);
    host_close(p->host);
    serve(p, "sleep 1000 & exec sleep 1000", ", \"timeout\": \"100ms\"");
    check_fails(p, TIDINGS_E_TIMEOUT, "'sh' took longer than 100ms");
}

static void background_process_does_not_delay_the_output(void **state)
{
    struct fixture *p = *state;
    serve(p, "sleep 1000 & echo done", "");
    check_read(p, "done\n");
}

static void binary_output_is_a_blob(void **state)
{
    struct fixture *p = *state;
    serve(p, "printf '\\\\377\\\\000'", "");
    struct host_answer *a = host_read(p->host, URI);
    assert_false(a->rows[0].is_text);
    assert_int_equal(a->rows[0].length, 2);
    host_answer_free(a);
}

static void watcher_is_notified_only_of_changed_outcomes(void **state)
{
    struct fixture *p = *state;
    put(p, "in", "one");
    serve(p, "echo x >>runs; cat in", ", \"interval\": \"100ms\"");
    check_read(p, "one");
    assert_int_equal(host_watch(p->host, URI), 0);
    while (size_of(p, "runs") < 6) { /* it has been run again and again */
        usleep(1000);
    }
    assert_int_equal(host_untaken(p->host, NULL), 0);
    put(p, "in", "two");
    const struct host_change *c = host_await(p->host, TIDINGS_CHANGE_UPDATED, URI);
    assert_int_equal(c->size, 3);
    check_read(p, "two");
    char path[128];
    (void)snprintf(path, sizeof path, "%s/in", p->path);
    assert_int_equal(unlink(path), 0);
    c = host_await(p->host, TIDINGS_CHANGE_UPDATED, URI); /* it fails now, which is a change too */
    assert_string_equal(c->etag, "");
    check_fails(p, TIDINGS_E_IO, "status 1");
    host_unwatch(p->host, URI);
}

static void watcher_is_notified_of_changes_since_the_last_read(void **state)
{
    struct fixture *p = *state;
    put(p, "in", "one");
    serve(p, "cat in", ", \"interval\": \"1h\"");
    check_read(p, "one");
    put(p, "in", "two");
    assert_int_equal(host_watch(p->host, URI), 0);
    host_await(p->host, TIDINGS_CHANGE_UPDATED, URI);
    check_read(p, "two"); /* without another run */
    put(p, "in", "three");
    check_read(p, "two");
    host_unwatch(p->host, URI);
    check_read(p, "three");
}

static void run_without_waiting_readers_is_killed(void **state)
{
    struct fixture *p = *state;
    serve(p, "trap '' TERM; echo $$ >pid; sleep 1000; sleep 1000", ", \"timeout\": \"1h\"");
    assert_int_equal(host_watch(p->host, URI), 0);
    while (size_of(p, "pid") == 0) {
        usleep(1000);
    }
    host_unwatch(p->host, URI);
    await_no_child();
}

static void closing_kills_the_run_under_way(void **state)
{
    struct fixture *p = *state;
    serve(p, "echo $$ >pid; exec sleep 1000", "");
    assert_int_equal(host_watch(p->host, URI), 0);
    while (size_of(p, "pid") == 0) {
        usleep(1000);
    }
    host_close(p->host);
    p->host = NULL;
}

static void provider_installs_no_signal_handler(void **state)
{
    struct fixture *p = *state;
    struct sigaction before[NSIG], after;
    for (int i = 1; i < NSIG; i++) {
        (void)sigaction(i, NULL, &before[i]);
    }
    serve(p, "echo hi", "");
    check_read(p, "hi\n");
    for (int i = 1; i < NSIG; i++) {
        if (sigaction(i, NULL, &after) == 0) {
            assert_ptr_equal(before[i].sa_handler, after.sa_handler);
        }
    }
}

static void invalid_configuration_is_rejected_with_the_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *config, *part;
    } cases[] = {
        {"{}", "argv is missing"},
        {"{\"argv\": \"uptime\"}", "argv: not an array of 1 to 64 strings"},
        {"{\"argv\": []}", "argv: not an array"},
        {"{\"argv\": [\"\"]}", "argv: argument 0: not a string"},
        {"{\"argv\": [\"a\", 1]}", "argv: argument 1: not a string"},
        {"{\"argv\": [\"a\\u0000b\"]}", "argv: argument 0: not a string"},
        {"{\"argv\": [\"a\"], \"env\": {\"A=B\": \"c\"}}", "env: a name without '='"},
        {"{\"argv\": [\"a\"], \"env\": []}", "env: not an object"},
        {"{\"argv\": [\"a\"], \"interval\": \"50ms\"}", "interval: not 0 and less than 100ms"},
        {"{\"argv\": [\"a\"], \"timeout\": 0}", "timeout: not a duration from 100ms to 1h"},
        {"{\"argv\": [\"a\"], \"maxOutput\": \"1g\"}", "maxOutput: not a size from 1 to 64m"},
        {"{\"shell\": \"a\"}", "unknown key 'shell' (accepted: argv, interval"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0};
        assert_null(host_open(&provider_command_ops, URI "/", cases[i].config, &err));
        if (!strstr(err.text, cases[i].part)) {
            fail_msg("'%s' lacks '%s'", err.text, cases[i].part);
        }
    }
    struct tidings_error err = {0};
    assert_null(host_open(&provider_command_ops, "cmd:///", "{\"argv\": [\"a\"]}", &err));
    assert_non_null(strstr(err.text, "its URI needs a path"));
}

static void command_gets_only_the_documented_environment(void **state)
{
    struct fixture *p = *state;
    struct tidings_error err = {0};
    assert_int_equal(setenv("SECRET", "of the server", 1), 0);
    p->host = host_open(&provider_command_ops, URI "/",
                        "{\"argv\": [\"env\"], \"env\": {\"TZ\": \"UTC\", \"LANG\": \"C\"}}", &err);
    assert_non_null(p->host);
    check_read(p, "TZ=UTC\nLANG=C\n"
                  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_read_without_a_watcher_runs_the_command),
        TEST(concurrent_readers_share_a_run),
        TEST(run_is_killed_if_all_its_readers_leave),
        TEST(failure_includes_the_end_of_standard_error),
        TEST(run_is_killed_if_its_output_or_time_exceeds_the_limit),
        TEST(background_process_does_not_delay_the_output),
        TEST(binary_output_is_a_blob),
        TEST(watcher_is_notified_only_of_changed_outcomes),
        TEST(watcher_is_notified_of_changes_since_the_last_read),
        TEST(run_without_waiting_readers_is_killed),
        TEST(closing_kills_the_run_under_way),
        TEST(provider_installs_no_signal_handler),
        TEST(command_gets_only_the_documented_environment),
        cmocka_unit_test(invalid_configuration_is_rejected_with_the_accepted_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
