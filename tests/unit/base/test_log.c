/* SPDX-License-Identifier: MIT
 *
 * The log: area levels, destinations, reopened files, the journal. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"

static char last[LOG_MAX_LINE + 1];
static enum tidings_log_level last_level;
static int lines;

static void keep(void *user, enum tidings_log_level level, struct tidings_str line)
{
    assert_ptr_equal(user, &lines);
    memcpy(last, line.ptr, line.len);
    last[line.len] = '\0';
    last_level = level;
    lines++;
    log_error(LOG_SERVER, "from a sink", KV("k", 1)); /* must neither block nor recurse */
    errno = EPROTO;
}

static int setup(void **state)
{
    static const struct clock_fake fake = {.wall_ms = 1785232800000};
    (void)state;
    clock_set_fake(&fake);
    log_set_sink(keep, &lines);
    log_set_level(TIDINGS_LOG_DEBUG);
    lines = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_set_fake(NULL);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    assert_int_equal(log_set_format(LOG_FORMAT_TEXT, NULL, NULL), 0);
    assert_int_equal(log_open_file(NULL, NULL), 0);
    return 0;
}

static void nothing_is_logged_by_default(void **state)
{
    (void)state;
    log_set_sink(keep, &lines);
    log_error(LOG_SERVER, "event", KV("k", 1));
    log_write(TIDINGS_LOG_EMERGENCY, LOG_STORE, "event", (struct log_field[]){NO_FIELDS});
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 0);
}

static void line_has_time_level_area_event_and_fields(void **state)
{
    (void)state;
    errno = ENOENT;
    log_info(LOG_SERVER, "listening", KV("url", "http://127.0.0.1:7777/mcp"), KV("port", 7777u));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(last, "2026-07-28T10:00:00.000Z info server: listening "
                              "url=http://127.0.0.1:7777/mcp port=7777");
    assert_int_equal(last_level, TIDINGS_LOG_INFO);
    log_warn(LOG_STORE, "stopping", NO_FIELDS);
    assert_string_equal(last, "2026-07-28T10:00:00.000Z warn store: stopping");
    assert_int_equal(lines, 2);
}

static void lines_contain_the_request_context_of_the_thread(void **state)
{
    (void)state;
    const struct log_context request = {.request_id = "00f1",
                                        .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                        .span_id = "b7ad6b7169203331"};
    const struct log_context other = {.request_id = "00f2"};
    assert_null(log_enter(&request));
    log_info(LOG_REQUEST, "e", KV("k", true));
    assert_string_equal(last + strlen("2026-07-28T10:00:00.000Z "),
                        "info request: e k=1 request_id=00f1 "
                        "trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331");
    assert_ptr_equal(log_enter(&other), &request);
    log_info(LOG_REQUEST, "e", NO_FIELDS);
    assert_string_equal(last + strlen("2026-07-28T10:00:00.000Z "),
                        "info request: e request_id=00f2");
    assert_ptr_equal(log_enter(NULL), &other);
}

static int evaluated;

static int costly(void)
{
    return ++evaluated;
}

static void lower_levels_are_skipped_and_their_fields_not_evaluated(void **state)
{
    (void)state;
    static const enum tidings_log_level sets[] = {TIDINGS_LOG_OFF, TIDINGS_LOG_ERROR,
                                                  TIDINGS_LOG_WARNING, TIDINGS_LOG_INFO,
                                                  TIDINGS_LOG_DEBUG};
    for (int set = 0; set < 5; set++) {
        log_set_level(sets[set]);
        lines = evaluated = 0;
        log_error(LOG_SERVER, "e", KV("k", costly()));
        log_warn(LOG_SERVER, "e", KV("k", costly()));
        log_info(LOG_SERVER, "e", KV("k", costly()));
        log_debug(LOG_SERVER, "e", KV("k", costly()));
        log_at(TIDINGS_LOG_OFF, LOG_SERVER, "e", KV("k", costly()));
        assert_int_equal(lines, set);
        assert_int_equal(evaluated, set);
    }
}

static void areas_have_separate_levels(void **state)
{
    struct log_levels levels;
    (void)state;
    assert_int_equal(log_levels_parse(STR("warn,store=debug,request=off"), &levels, NULL), 0);
    log_set_levels(&levels);
    assert_true(log_wants(TIDINGS_LOG_DEBUG, LOG_STORE));
    assert_false(log_wants(TIDINGS_LOG_EMERGENCY, LOG_REQUEST));
    assert_true(log_wants(TIDINGS_LOG_WARNING, LOG_AUTH));
    assert_false(log_wants(TIDINGS_LOG_INFO, LOG_AUTH));
    for (unsigned i = 0; i < LOG_AREAS; i++) {
        char text[64];
        snprintf(text, sizeof text, "warning,%s=info", log_area_names[i]);
        assert_int_equal(log_levels_parse(tidings_str(text), &levels, NULL), 0);
        assert_int_equal(levels.of[i], TIDINGS_LOG_INFO);
        assert_int_equal(levels.of[(i + 1) % LOG_AREAS], TIDINGS_LOG_WARNING);
    }
}

static void invalid_level_is_an_error_with_the_valid_ones(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "(accepted: off, error, warn, info, debug; then areas"},
        {"loud", "'loud' is not a log level"},
        {"info,loud", "'loud' is not a log level"},
        {"info,store=loud", "'store=loud' is not a log level"},
        {"info,shop=debug", "'shop' is not a log area (accepted: server, transport, request"},
        {"store=debug", "a level for all areas comes first, as in info,store=debug"},
        {"info,debug", "'debug' needs an area"},
        {"INFO", "'INFO' is not a log level"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct log_levels levels = {.of = {TIDINGS_LOG_ALERT}};
        struct tidings_error err = {0, ""};
        assert_int_equal(log_levels_parse(tidings_str(rows[i].text), &levels, &err),
                         TIDINGS_E_INVALID);
        assert_non_null(strstr(err.text, rows[i].says));
        assert_int_equal(levels.of[0], TIDINGS_LOG_ALERT);
    }
}

static void access_log_is_off_by_default_and_has_its_area(void **state)
{
    struct log_levels levels;
    (void)state;
    assert_false(log_wants_access());
    log_set_access(true);
    assert_true(log_wants_access());
    assert_int_equal(log_levels_parse(STR("debug,request=warn"), &levels, NULL), 0);
    log_set_levels(&levels);
    assert_false(log_wants_access());
    log_set_access(false);
}

static void standard_error_gets_complete_lines(void **state)
{
    (void)state;
    int ends[2];
    char got[200] = {0};
    log_set_sink(NULL, NULL);
    assert_true(log_is_on_stderr());
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    log_error(LOG_SERVER, "gone", KV("why", "x"));
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], got, sizeof got - 1);
    close(ends[0]);
    assert_true(n > 0);
    assert_string_equal(got, "2026-07-28T10:00:00.000Z error server: gone why=x\n");
}

/* ---- files ----------------------------------------------------------------------------------- */

static char directory[] = "/tmp/test-log-XXXXXX";

static const char *in_directory(const char *name, char out[64])
{
    snprintf(out, 64, "%s/%s", directory, name);
    return out;
}

static size_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void log_file_is_appended_and_reopened_after_a_rename(void **state)
{
    char path[64], old[64];
    struct stat st;
    (void)state;
    log_set_sink(NULL, NULL);
    in_directory("log", path);
    in_directory("log.1", old);
    assert_int_equal(log_open_file(path, NULL), 0);
    assert_false(log_is_on_stderr());
    log_info(LOG_SERVER, "first", NO_FIELDS);
    size_t one = size_of(path);
    assert_true(one > 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07, 0); /* not for all users */
    assert_int_equal(rename(path, old), 0);
    log_info(LOG_SERVER, "first", NO_FIELDS);
    assert_int_equal(size_of(old), 2 * one);
    assert_int_equal(log_reopen_file(NULL), 0);
    log_info(LOG_SERVER, "first", NO_FIELDS);
    assert_int_equal(size_of(old), 2 * one);
    assert_int_equal(size_of(path), one);
    unlink(path);
    unlink(old);
}

static void unopenable_file_changes_nothing(void **state)
{
    char path[64], bad[64];
    struct tidings_error err = {0, ""};
    (void)state;
    log_set_sink(NULL, NULL);
    in_directory("log", path);
    assert_int_equal(log_open_file(path, NULL), 0);
    assert_true(log_open_file(in_directory("no/where", bad), &err) < 0);
    assert_non_null(strstr(err.text, "no/where"));
    assert_true(log_open_file(directory, &err) < 0);
    assert_int_equal(mkfifo(in_directory("pipe", bad), 0600), 0);
    assert_true(log_open_file(bad, &err) < 0); /* and does not wait for a reader */
    log_info(LOG_SERVER, "here", NO_FIELDS);
    assert_true(size_of(path) > 0);
    unlink(path);
    unlink(bad);
}

/* ---- the journal ----------------------------------------------------------------------------- */

static void journal_gets_datagrams_with_every_field(void **state)
{
    char path[64], got[LOG_MAX_LINE] = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)state;
    log_set_sink(NULL, NULL);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in_directory("journal", path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(log_set_format(LOG_FORMAT_JOURNAL, path, NULL), 0);
    assert_false(log_is_on_stderr());
    log_warn(LOG_STORE, "store cannot be written", KV("reason", "a\nPRIORITY=0\n"), KV("tries", 3));
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    assert_true(n > 0);
    static const char want[] =
        "MESSAGE=store cannot be written reason=\"a\\x0aPRIORITY=0\\x0a\" tries=3\n"
        "PRIORITY=4\nSYSLOG_IDENTIFIER=tidings\nTIDINGS_AREA=store\n"
        "TIDINGS_REASON\n\x0d\0\0\0\0\0\0\0a\nPRIORITY=0\n\nTIDINGS_TRIES=3\n";
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(got, want, sizeof want - 1);
    close(fd);
    unlink(path);
}

static void journal_format_is_rejected_without_a_journal(void **state)
{
    char path[64];
    struct tidings_error err = {0, ""};
    (void)state;
    assert_true(log_set_format(LOG_FORMAT_JOURNAL, in_directory("nobody", path), &err) < 0);
    assert_non_null(strstr(err.text, "log format journal"));
    assert_non_null(strstr(err.text, "nobody"));
    log_info(LOG_SERVER, "e", NO_FIELDS);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last, " info server: e"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_logged_by_default),
        cmocka_unit_test_setup_teardown(line_has_time_level_area_event_and_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_contain_the_request_context_of_the_thread, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(lower_levels_are_skipped_and_their_fields_not_evaluated,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(areas_have_separate_levels, setup, teardown),
        cmocka_unit_test(invalid_level_is_an_error_with_the_valid_ones),
        cmocka_unit_test_setup_teardown(access_log_is_off_by_default_and_has_its_area, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(standard_error_gets_complete_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(log_file_is_appended_and_reopened_after_a_rename, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(unopenable_file_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(journal_gets_datagrams_with_every_field, setup, teardown),
        cmocka_unit_test_setup_teardown(journal_format_is_rejected_without_a_journal, setup,
                                        teardown),
    };
    if (!mkdtemp(directory)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
