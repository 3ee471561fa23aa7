/* SPDX-License-Identifier: MIT */
#include "bin/watch/jobs.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bin/cli/output.h"

extern char **environ;

/* The variables of a run, in this order. */
static const char *const names[] = {"TIDINGS_URI",     "TIDINGS_CHANGE", "TIDINGS_SUBSCRIBED_URI",
                                    "TIDINGS_VERSION", "TIDINGS_CURSOR", "TIDINGS_TIME",
                                    "TIDINGS_MERGED"};
#define NAMES (sizeof(names) / sizeof(names[0]))
#define GIVEN (NAMES - 1) /* the last one is ours */

struct job {
    struct job *next;
    char *variables[GIVEN]; /* "NAME=value" of the run that waits */
    char *uri;
    char *input;
    size_t input_len;
    unsigned merged; /* changes that the waiting run stands for; 0: none waits */
    pid_t pid;       /* 0: does not run */
    int pidfd;
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
        if (job->pid > 0) {
            close(job->pidfd);
        }
        jobs_remove(job);
    }
    free(j);
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
    fprintf(stderr, " %s %s\n", what, detail);
}

/* An unnamed file that holds the input: nobody has to feed a command that does not read it. */
static int open_input(const struct job *job)
{
    int fd = memfd_create("tidings-change", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < job->input_len) {
        ssize_t n = write(fd, job->input + done, job->input_len - done);
        if (n <= 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool jobs_is_ours(const char *variable)
{
    for (size_t i = 0; i < NAMES; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(variable, names[i], len) == 0 && variable[len] == '=') {
            return true;
        }
    }
    return false;
}

/* Ours in place of any of these names; `merged` belongs to the caller. */
static char **make_environment(const struct job *job, char *merged)
{
    size_t count = 0, n = 0;
    while (environ[count]) {
        count++;
    }
    char **env = calloc(count + NAMES + 1, sizeof(*env));
    for (size_t i = 0; env && i < count; i++) {
        if (!jobs_is_ours(environ[i])) {
            env[n++] = environ[i];
        }
    }
    for (size_t i = 0; env && i < GIVEN; i++) {
        env[n++] = job->variables[i];
    }
    if (env) {
        env[n] = merged;
    }
    return env;
}

/* 0, or an errno. */
static int spawn(const struct jobs *j, struct job *job, int input, char **env)
{
    char name[] = "sh", option[] = "-c";
    char *argv[] = {name, option, (char *)(uintptr_t)j->command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum) {
        return errnum;
    }
    errnum = posix_spawnattr_init(&attributes);
    if (!errnum) {
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
        errnum = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (!errnum) {
            errnum = posix_spawn(&job->pid, "/bin/sh", &actions, &attributes, argv, env);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

static void jobs_start(struct jobs *j, struct job *job)
{
    char merged[48];
    snprintf(merged, sizeof(merged), "%s=%u", names[GIVEN], job->merged);
    char **env = make_environment(job, merged);
    int input = env ? open_input(job) : -1;
    int errnum = input < 0 ? (env ? errno : ENOMEM) : spawn(j, job, input, env);
    if (input >= 0) {
        close(input);
    }
    free(env);
    drop_waiting(job);
    if (errnum) {
        job->pid = 0;
        jobs_tell(j, job, "cannot be run:", strerror(errnum));
        return;
    }
    job->pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0);
    j->running++;
}

static void jobs_reap(struct jobs *j, struct job *job)
{
    int status = 0;
    char text[24];
    /* Without a descriptor, which only a lack of them explains, it is waited for. */
    pid_t pid = waitpid(job->pid, &status, job->pidfd >= 0 ? WNOHANG : 0);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        return;
    }
    if (job->pidfd >= 0) {
        close(job->pidfd);
    }
    job->pid = 0;
    j->running--;
    bool is_wanted = j->is_ending && WIFSIGNALED(status);
    if (pid > 0 && !is_wanted && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        bool is_killed = WIFSIGNALED(status);
        snprintf(text, sizeof(text), "%d", is_killed ? WTERMSIG(status) : WEXITSTATUS(status));
        jobs_tell(j, job, is_killed ? "was ended by signal" : "ended with status", text);
    }
}

size_t jobs_turn(struct jobs *j, struct pollfd *fds)
{
    size_t count = 0;
    for (struct job **at = &j->first; *at;) {
        struct job *job = *at;
        if (job->pid > 0) {
            jobs_reap(j, job);
        }
        if (job->pid == 0 && job->merged == 0) {
            *at = job->next;
            j->count--;
            jobs_remove(job);
        } else {
            at = &job->next;
        }
    }
    for (struct job *job = j->first; job; job = job->next) {
        if (job->pid == 0 && job->merged > 0 && j->running < j->parallel) {
            jobs_start(j, job);
        }
        if (job->pid > 0 && job->pidfd >= 0) {
            fds[count++] = (struct pollfd){.fd = job->pidfd, .events = POLLIN};
        }
    }
    return count;
}

static void end_all(struct jobs *j)
{
    j->is_ending = true;
    for (struct job *job = j->first; job; job = job->next) {
        drop_waiting(job);
        if (job->pid > 0) {
            kill(job->pid, SIGTERM);
        }
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
        size_t count = jobs_turn(j, fds);
        if (j->count <= left) {
            return;
        }
        poll(fds, (nfds_t)count, count > 0 ? 1000 : 0);
    }
}

void jobs_finish(struct jobs *j, const volatile int *is_ending)
{
    jobs_wait_for(j, 0, is_ending);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static char *make_variable(const char *name, struct tidings_str value)
{
    size_t len = strlen(name);
    char *text = malloc(len + value.len + 2);
    if (text) {
        memcpy(text, name, len);
        text[len] = '=';
        if (value.len > 0) {
            memcpy(text + len + 1, value.ptr, value.len);
        }
        text[len + 1 + value.len] = '\0';
    }
    return text;
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
    const struct tidings_str values[GIVEN] = {c->uri,     c->change, c->subscribed_uri,
                                              c->version, c->cursor, c->time};
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
    drop_waiting(job);
    bool is_whole = (job->input = malloc(c->input.len + 1)) != NULL;
    for (size_t i = 0; i < GIVEN; i++) {
        job->variables[i] = make_variable(names[i], values[i]);
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
