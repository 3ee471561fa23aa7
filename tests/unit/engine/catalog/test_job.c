/* SPDX-License-Identifier: MIT
 *
 * Unfinished jobs are logged by provider and URI.
 */
#include "engine/catalog/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/catalog/provider.h"
#include "engine/worker.h"

static char said[4096];

static void on_line(void *user, enum tidings_log_level level, struct tidings_str line)
{
    size_t len = strlen(said);
    (void)user;
    (void)level;
    snprintf(said + len, sizeof(said) - len, "%.*s\n", (int)line.len, line.ptr);
}

static void run_nothing(struct job *job)
{
    (void)job;
}

static void on_done(struct job *job)
{
    (void)job;
}

static unsigned log_lines(const struct worker *worker)
{
    unsigned lines = 0;
    said[0] = '\0';
    log_set_level(TIDINGS_LOG_ERROR);
    log_set_sink(on_line, NULL);
    job_log_unfinished(worker);
    log_set_sink(NULL, NULL);
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    return lines;
}

static void slow_jobs_are_logged_with_uri(void **state)
{
    static const struct tidings_provider_ops ops = {.name = "slow"};
    (void)state;
    struct tidings_provider p = {.ops = &ops, .prefix = STR("slow:///")};
    struct worker worker = {.jobs = 0};
    struct job jobs[3];
    const char *uris[] = {"slow:///a", "slow:///b", "slow:///c"};
    for (size_t i = 0; i < 3; i++) {
        job_init(&jobs[i], &worker, on_done, NULL, tidings_str(uris[i]));
        job_start(&jobs[i], i == 2 ? NULL : &p, run_nothing);
    }
    assert_int_equal(log_lines(&worker), 3);
    assert_non_null(strstr(said, "a provider does not finish"));
    assert_non_null(strstr(said, "provider=slow at=slow:/// uri=slow:///a requests=3"));
    assert_non_null(strstr(said, "a handler does not finish"));
    job_finish(&jobs[1], 0, NULL); /* from the middle, the front, and the last */
    assert_int_equal(log_lines(&worker), 2);
    assert_null(strstr(said, "slow:///b"));
    job_finish(&jobs[2], 0, NULL);
    assert_int_equal(log_lines(&worker), 1);
    assert_non_null(strstr(said, "uri=slow:///a requests=1"));
    job_finish(&jobs[0], 0, NULL);
    assert_int_equal(log_lines(&worker), 0);
    assert_null(worker.first_job);
}

static void log_names_at_most_eight_slow_jobs(void **state)
{
    (void)state;
    struct worker worker = {.jobs = 0};
    struct job jobs[20];
    for (size_t i = 0; i < 20; i++) {
        job_init(&jobs[i], &worker, on_done, NULL, STR("x:y"));
        job_start(&jobs[i], NULL, run_nothing);
    }
    assert_int_equal(log_lines(&worker), 8);
    for (size_t i = 0; i < 20; i++) {
        job_finish(&jobs[i], 0, NULL);
    }
    assert_int_equal(worker.jobs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_jobs_are_logged_with_uri),
        cmocka_unit_test(log_names_at_most_eight_slow_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
