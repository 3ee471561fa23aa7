/* SPDX-License-Identifier: MIT
 *
 * Runs the user's commands, several at a time, one at a time for each URI.
 */
#include "bin/watch/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bin/cli/output.h"
#include "bin/watch/shell.h"
#include "bin/watch/uri_list.h"

/* The variables of a run, in this order: first URIS, then others. */
static const char *const names[] = {"TIDINGS_URI",     "TIDINGS_SUBSCRIBED_URI", "TIDINGS_CHANGE",
                                    "TIDINGS_VERSION", "TIDINGS_CURSOR",         "TIDINGS_TIME",
                                    "TIDINGS_MERGED"};
#define URIS 2
#define NAMES (sizeof(names) / sizeof(names[0]))
#define GIVEN (NAMES - 1) /* the last one is ours */

struct job {
    struct job *next;
    char *variables[GIVEN]; /* "NAME=value" of the run that waits */
    char *uri;
    char *input;
    size_t input_len;
    unsigned merged; /* changes that the waiting run stands for; 0: none waits */
    uint64_t waiting_turn, running_turn; /* the lowest of those that each stands for */
    struct shell shell;
};

struct jobs {
    const char *command;
    unsigned parallel, running;
    bool is_ending; /* what runs was asked to end: that it does is no failure */
    size_t count, failed;
    struct job *first;
};

struct jobs *jobs_create(const char *command, unsigned parallel)
{
    struct jobs *j = calloc(1, sizeof(*j));
    if (j) {
        *j = (struct jobs){.command = command, .parallel = parallel};
    }
    return j;
}

static void drop_waiting(struct job *job)
{
    for (size_t i = 0; i < GIVEN; i++) {
        free(job->variables[i]);
        job->variables[i] = NULL;
    }
    free(job->input);
    job->input = NULL;
    job->merged = 0;
}

static void jobs_remove(struct job *job)
{
    drop_waiting(job);
    free(job->uri);
    free(job);
}

void jobs_destroy(struct jobs *j)
{
    while (j && j->first) {
        struct job *job = j->first;
        j->first = job->next;
        if (job->shell.pid > 0 && job->shell.pidfd >= 0) {
            close(job->shell.pidfd);
        }
        jobs_remove(job);
    }
    free(j);
}

uint64_t jobs_oldest(const struct jobs *j)
{
    uint64_t oldest = UINT64_MAX;
    for (const struct job *job = j->first; job; job = job->next) {
        uint64_t waits = job->merged > 0 ? job->waiting_turn : UINT64_MAX;
        uint64_t runs = job->shell.pid > 0 ? job->running_turn : UINT64_MAX;
        oldest = waits < oldest ? waits : oldest;
        oldest = runs < oldest ? runs : oldest;
    }
    return oldest;
}

size_t jobs_failed(const struct jobs *j)
{
    return j->failed;
}

/* ---- running --------------------------------------------------------------------------------- */

static void jobs_tell(struct jobs *j, const struct job *job, const char *what, const char *detail)
{
    j->failed++;
    fprintf(stderr, "tidings watch: the command for ");
    put_text(stderr, tidings_str(job->uri));
    fprintf(stderr, " %s%s\n", what, detail);
}

static void jobs_start(struct jobs *j, struct job *job)
{
    char merged[48];
    char *ours[NAMES + 1] = {0};
    snprintf(merged, sizeof(merged), "%s=%u", names[GIVEN], job->merged);
    memcpy(ours, job->variables, sizeof(job->variables));
    ours[GIVEN] = merged;
    char **env = shell_environment(ours);
    int input = env ? shell_input(tidings_strn(job->input, job->input_len)) : -1;
    int errnum =
        input < 0 ? (env ? errno : ENOMEM) : shell_start(&job->shell, j->command, input, env);
    if (input >= 0) {
        close(input);
    }
    free(env);
    drop_waiting(job);
    job->running_turn = job->waiting_turn;
    if (errnum) {
        jobs_tell(j, job, "cannot be run: ", strerror(errnum));
        return;
    }
    j->running++;
}

static void jobs_reap(struct jobs *j, struct job *job)
{
    char text[48];
    if (!shell_reap(&job->shell)) {
        return;
    }
    j->running--;
    const char *failure = shell_failure(&job->shell, text);
    if (failure && !(j->is_ending && WIFSIGNALED(job->shell.status))) {
        jobs_tell(j, job, "", failure);
    }
}

size_t jobs_turn(struct jobs *j, struct pollfd *fds, int *ret_ms)
{
    size_t count = 0;
    *ret_ms = -1;
    for (struct job **at = &j->first; *at;) {
        struct job *job = *at;
        jobs_reap(j, job);
        if (job->shell.pid == 0 && job->merged == 0) {
            *at = job->next;
            j->count--;
            jobs_remove(job);
        } else {
            at = &job->next;
        }
    }
    for (struct job *job = j->first; job; job = job->next) {
        if (job->shell.pid == 0 && job->merged > 0 && j->running < j->parallel) {
            jobs_start(j, job);
        }
        if (job->shell.pid > 0) {
            *ret_ms = sooner(*ret_ms, shell_wait(&job->shell, &fds[count++]));
        }
    }
    return count;
}

static void end_all(struct jobs *j)
{
    j->is_ending = true;
    for (struct job *job = j->first; job; job = job->next) {
        drop_waiting(job);
        shell_end(&job->shell);
    }
}

/* Until at most `left` run or wait. */
static void jobs_wait_for(struct jobs *j, size_t left, const volatile int *is_ending)
{
    struct pollfd fds[JOBS_PARALLEL_MAX];
    for (;;) {
        if (is_ending && *is_ending && !j->is_ending) {
            end_all(j);
        }
        int ms = -1;
        size_t count = jobs_turn(j, fds, &ms);
        if (j->count <= left) {
            return;
        }
        poll(fds, (nfds_t)count, count > 0 ? sooner(ms, 1000) : 0);
    }
}

void jobs_finish(struct jobs *j, const volatile int *is_ending)
{
    jobs_wait_for(j, 0, is_ending);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* A command may print a variable for a program that reads lines, so none has a line break. Only
 * URIs have a way to write one. */
static char *make_variable(const char *name, struct tidings_str value, bool is_uri)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fprintf(t.out, "%s=", name);
    if (is_uri) {
        uri_list_put_uri(t.out, value);
    }
    for (size_t i = 0; i < value.len && !is_uri; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        fputc(c < 0x20 || c == 0x7f ? '?' : c, t.out);
    }
    return json_text_take(&t);
}

static struct job *jobs_find(struct jobs *j, struct tidings_str uri)
{
    struct job **at = &j->first;
    for (; *at; at = &(*at)->next) {
        if (tidings_str_eq(tidings_str((*at)->uri), uri)) {
            return *at;
        }
    }
    struct job *job = calloc(1, sizeof(*job));
    char *copy = job ? strndup(uri.ptr, uri.len) : NULL;
    if (!copy) {
        free(job);
        return NULL;
    }
    job->uri = copy;
    *at = job;
    j->count++;
    return job;
}

int jobs_add(struct jobs *j, const struct job_change *c)
{
    const struct tidings_str values[GIVEN] = {c->uri,     c->subscribed_uri, c->change,
                                              c->version, c->cursor,         c->time};
    for (size_t i = 0; i < GIVEN; i++) {
        if (values[i].len > 0 && memchr(values[i].ptr, '\0', values[i].len)) {
            return TIDINGS_E_INVALID;
        }
    }
    jobs_wait_for(j, JOBS_WAITING_MAX - 1, NULL);
    struct job *job = jobs_find(j, c->uri);
    if (!job) {
        return TIDINGS_E_NOMEM;
    }
    unsigned merged = job->merged + 1;
    job->waiting_turn = job->merged > 0 ? job->waiting_turn : c->turn;
    drop_waiting(job);
    bool is_whole = (job->input = malloc(c->input.len + 1)) != NULL;
    for (size_t i = 0; i < GIVEN; i++) {
        job->variables[i] = make_variable(names[i], values[i], i < URIS);
        is_whole = is_whole && job->variables[i];
    }
    if (!is_whole) {
        drop_waiting(job);
        return TIDINGS_E_NOMEM;
    }
    memcpy(job->input, c->input.ptr, c->input.len);
    job->input_len = c->input.len;
    job->merged = merged;
    return 0;
}
