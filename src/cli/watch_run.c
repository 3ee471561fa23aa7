/* SPDX-License-Identifier: MIT
 *
 * Gathers changes until they pause, and runs the user's command once for them.
 */
#include "cli/watch_run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/remote.h"

/* -------------------------------------------------------------------------------------------------
 * Starts `sh -c` with what changed in its environment, and waits for its end.
 */

#define GROUP_LOOK_MS 50 /* the kernel does not report the exit of the last process of a group */

extern char **environ;

/* Returns true if `ours` sets the variable. */
static bool shell_is_ours(const char *variable, char *const *ours)
{
    size_t len = strcspn(variable, "=") + 1;
    for (; *ours; ours++) {
        if (strncmp(variable, *ours, len) == 0) {
            return true;
        }
    }
    return false;
}

char **shell_environment(char *const *ours)
{
    size_t count = 0, own = 0, n = 0;
    while (environ[count]) {
        count++;
    }
    while (ours[own]) {
        own++;
    }
    char **env = calloc(count + own + 1, sizeof(*env));
    for (size_t i = 0; env && i < count; i++) {
        if (!shell_is_ours(environ[i], ours)) {
            env[n++] = environ[i];
        }
    }
    for (size_t i = 0; env && i < own; i++) {
        env[n++] = ours[i];
    }
    return env;
}

int shell_input(struct tidings_str text)
{
    int fd = memfd_create("tidings-watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (fd >= 0 && done < text.len) {
        ssize_t n = write(fd, text.ptr + done, text.len - done);
        if (n <= 0 && errno != EINTR) {
            goto fail;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0 || (lseek(fd, 0, SEEK_SET) == 0 &&
                   fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0)) {
        return fd;
    }
fail:
    close(fd);
    return -1;
}

int shell_start(struct shell *s, const char *command, int input, char *const *env)
{
    char name[] = "sh", option[] = "-c";
    char *argv[] = {name, option, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum) {
        return errnum;
    }
    errnum = posix_spawnattr_init(&attributes);
    if (!errnum) {
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, flags);
        errnum = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (!errnum) {
            errnum = posix_spawn(&s->pid, "/bin/sh", &actions, &attributes, argv, env);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (errnum) {
        s->pid = 0;
        return errnum;
    }
    s->is_ending = false;
    s->has_ended = false;
    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    return 0;
}

void shell_end(struct shell *s)
{
    if (s->pid > 0 && !s->is_ending) {
        s->is_ending = true;
        s->kill_ms = now_ms() + SHELL_END_MS;
        kill(-s->pid, SIGTERM);
    }
}

/* Returns true if the process runs in that group. A zombie does not count as running. */
static bool is_in_group(const char *process, pid_t group)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* whatever the program calls itself */
    char state = 0;
    int parent = 0, its = 0;
    return name_end && sscanf(name_end + 1, " %c %d %d", &state, &parent, &its) == 3 &&
           its == group && state != 'Z' && state != 'X';
}

static bool group_is_alive(pid_t group)
{
    DIR *all = kill(-group, 0) == 0 ? opendir("/proc") : NULL;
    bool is_alive = false;
    for (struct dirent *d; all && !is_alive && (d = readdir(all)) != NULL;) {
        is_alive = isdigit((unsigned char)d->d_name[0]) && is_in_group(d->d_name, group);
    }
    if (all) {
        closedir(all);
    }
    return is_alive;
}

/* Reaps the command itself; other processes of its group may still run. */
static void shell_collect(struct shell *s)
{
    /* Without a pidfd (out of descriptors), waitpid blocks. */
    pid_t pid = waitpid(s->pid, &s->status, s->pidfd >= 0 ? WNOHANG : 0);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        return;
    }
    s->status = pid < 0 ? 0 : s->status;
    s->has_ended = true;
    if (s->pidfd >= 0) {
        close(s->pidfd);
    }
    s->pidfd = -1;
}

bool shell_reap(struct shell *s)
{
    if (s->pid > 0 && !s->has_ended) {
        shell_collect(s);
    }
    bool is_late = s->pid > 0 && s->is_ending && now_ms() >= s->kill_ms;
    if (is_late) {
        kill(-s->pid, SIGKILL);
    }
    bool has_others = s->has_ended && s->is_ending && !is_late && group_is_alive(s->pid);
    if (s->pid == 0 || !s->has_ended || has_others) {
        return false;
    }
    s->pid = 0;
    return true;
}

int shell_wait(const struct shell *s, struct pollfd *fd)
{
    *fd = (struct pollfd){.fd = s->pid > 0 && !s->has_ended ? s->pidfd : -1, .events = POLLIN};
    if (s->pid == 0 || !s->is_ending) {
        return -1;
    }
    uint64_t now = now_ms();
    return s->has_ended || now >= s->kill_ms ? GROUP_LOOK_MS : (int)(s->kill_ms - now);
}

/* "ended with status 3"; NULL: success. */
static const char *shell_failure(const struct shell *s, char out[48])
{
    if (WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0) {
        return NULL;
    }
    bool is_killed = WIFSIGNALED(s->status);
    snprintf(out, 48, "%s %d", is_killed ? "was ended by signal" : "ended with status",
             is_killed ? WTERMSIG(s->status) : WEXITSTATUS(s->status));
    return out;
}

/* -------------------------------------------------------------------------------------------------
 * A list of URIs without repetitions, bounded in number and bytes.
 */

struct uri_item {
    char *uri;
    size_t len;
    char *line;    /* NULL: the URI */
    uint32_t next; /* index + 1 of the next item in the bucket; 0: the last */
};

void uri_list_clear(struct uri_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->items[i].uri);
        free(l->items[i].line);
    }
    free(l->items);
    *l = (struct uri_list){0};
}

/* A server that chooses its names cannot make the chains long, because it does not know the
 * seed. */
static uint32_t *uri_list_bucket_of(struct uri_list *l, struct tidings_str uri)
{
    static uint32_t seed;
    if (seed == 0 && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0) {
        seed = (uint32_t)(uintptr_t)l;
    }
    uint32_t hash = 2166136261u ^ seed; /* FNV-1a */
    for (size_t i = 0; i < uri.len; i++) {
        hash = (hash ^ (unsigned char)uri.ptr[i]) * 16777619u;
    }
    return &l->buckets[(hash ^ hash >> 16) % URI_LIST_BUCKETS];
}

static struct uri_item *uri_list_find(struct uri_list *l, struct tidings_str uri)
{
    for (uint32_t at = *uri_list_bucket_of(l, uri); at > 0; at = l->items[at - 1].next) {
        if (tidings_str_eq(tidings_strn(l->items[at - 1].uri, l->items[at - 1].len), uri)) {
            return &l->items[at - 1];
        }
    }
    return NULL;
}

static bool uri_list_make_room(struct uri_list *l)
{
    if (l->count < l->room) {
        return true;
    }
    size_t room = l->room > 0 ? 2 * l->room : 64;
    struct uri_item *more = realloc(l->items, room * sizeof(*more));
    if (more) {
        l->items = more;
        l->room = room;
    }
    return more != NULL;
}

/* A new one at the end; NULL: no memory. */
static struct uri_item *uri_list_append(struct uri_list *l, struct tidings_str uri)
{
    char *copy = uri_list_make_room(l) ? malloc(uri.len + 1) : NULL;
    if (!copy) {
        return NULL;
    }
    if (uri.len > 0) {
        memcpy(copy, uri.ptr, uri.len);
    }
    copy[uri.len] = '\0';
    uint32_t *bucket = uri_list_bucket_of(l, uri);
    l->items[l->count] = (struct uri_item){.uri = copy, .len = uri.len, .next = *bucket};
    l->bytes += uri.len;
    *bucket = (uint32_t)++l->count;
    return &l->items[l->count - 1];
}

int uri_list_add(struct uri_list *l, struct tidings_str uri, const char *line)
{
    size_t line_len = line ? strlen(line) : 0;
    struct uri_item *item = uri_list_find(l, uri);
    l->changes++;
    if ((!item && l->count >= URI_LIST_MAX) || l->bytes + uri.len + line_len > URI_LIST_BYTES) {
        l->is_cut = true;
        return 0;
    }
    char *copy = line ? strdup(line) : NULL;
    item = line && !copy ? NULL : item ? item : uri_list_append(l, uri);
    if (!item) {
        l->is_cut = true;
        free(copy);
        return TIDINGS_E_NOMEM;
    }
    l->bytes -= item->line ? strlen(item->line) : 0;
    l->bytes += line_len;
    free(item->line);
    item->line = copy;
    return 0;
}

/* The cursor of the last change; an oversized cursor is ignored. */
static void uri_list_set_cursor(struct uri_list *l, struct tidings_str cursor)
{
    if (cursor.len > 0 && cursor.len < sizeof(l->cursor)) {
        memcpy(l->cursor, cursor.ptr, cursor.len);
        l->cursor[cursor.len] = '\0';
    }
}

/* Append the items of `newer` to `l`, and empty `newer`. */
static void uri_list_merge(struct uri_list *l, struct uri_list *newer)
{
    uint64_t changes = l->changes + newer->changes;
    l->turn = l->changes > 0 ? l->turn : newer->turn;
    for (size_t i = 0; i < newer->count; i++) {
        const struct uri_item *it = &newer->items[i];
        (void)uri_list_add(l, tidings_strn(it->uri, it->len), it->line); /* may be cut */
    }
    l->changes = changes;
    l->is_cut = l->is_cut || newer->is_cut;
    uri_list_set_cursor(l, tidings_str(newer->cursor));
    uri_list_clear(newer);
}

/* Write a URI; escape characters that are invalid in URIs as %XX: blanks, line feeds, NULs and
 * other control characters.
 */
static void uri_list_put_uri(FILE *out, struct tidings_str uri)
{
    for (size_t i = 0; i < uri.len; i++) {
        unsigned char c = (unsigned char)uri.ptr[i];
        fprintf(out, c <= 0x20 || c == 0x7f ? "%%%02X" : "%c", c);
    }
}

/* Write each line, followed by `end`. */
static void uri_list_write(const struct uri_list *l, FILE *out, char end)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct uri_item *it = &l->items[i];
        if (it->line) {
            fputs(it->line, out);
        } else {
            uri_list_put_uri(out, tidings_strn(it->uri, it->len));
        }
        fputc(end, out);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Runs the user's commands, several at a time, one at a time for each URI.
 */

/* The variables of a run, in this order: first URIS, then others. */
static const char *const names[] = {"TIDINGS_URI",     "TIDINGS_SUBSCRIBED_URI", "TIDINGS_CHANGE",
                                    "TIDINGS_VERSION", "TIDINGS_CURSOR",         "TIDINGS_TIME",
                                    "TIDINGS_MERGED"};
#define URIS 2
#define NAMES (sizeof(names) / sizeof(names[0]))
#define GIVEN (NAMES - 1) /* we set the last one */

struct job {
    struct job *next;
    char *variables[GIVEN]; /* "NAME=value" of the run that waits */
    char *uri;
    char *input;
    size_t input_len;
    unsigned merged;                     /* changes that the waiting run covers; 0: none waits */
    uint64_t waiting_turn, running_turn; /* the lowest turn that each run covers */
    struct shell shell;
};

struct jobs {
    const char *command;
    unsigned parallel, running;
    bool is_ending; /* the running command was stopped, so its exit is expected */
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

static void jobs_report(struct jobs *j, const struct job *job, const char *what, const char *detail)
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
        jobs_report(j, job, "cannot be run: ", strerror(errnum));
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
        jobs_report(j, job, "", failure);
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

/* Blocks until at most `left` commands run or wait. */
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

/* The command may print a variable to a program that reads lines, so no variable contains a line
 * break. Only URIs can escape one. */
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

/* ---------------------------------------------------------------------------------------------- */

struct batch {
    struct batch_options options;
    struct uri_list waiting, running;
    uint64_t first_ms, last_ms; /* of the waiting list */
    bool is_due;                /* the waiting list was quiet, or has reached the maximum delay */
    bool is_ending;             /* the batch is shutting down */
    struct shell shell;
    int list; /* the file with the list of the running command */
    uint64_t done;
    size_t failed;
};

struct batch *batch_create(const struct batch_options *options)
{
    struct batch *b = calloc(1, sizeof(*b));
    if (b) {
        b->options = *options;
        b->list = -1;
    }
    return b;
}

void batch_destroy(struct batch *b)
{
    if (b) {
        if (b->shell.pid > 0 && b->shell.pidfd >= 0) {
            close(b->shell.pidfd);
        }
        if (b->list >= 0) {
            close(b->list);
        }
        uri_list_clear(&b->waiting);
        uri_list_clear(&b->running);
    }
    free(b);
}

uint64_t batch_done(const struct batch *b)
{
    return b->done;
}

size_t batch_failed(const struct batch *b)
{
    return b->failed;
}

int batch_add(struct batch *b, const struct batch_change *c)
{
    bool is_first = b->waiting.changes == 0;
    int rc = uri_list_add(&b->waiting, c->uri, c->line);
    uri_list_set_cursor(&b->waiting, c->cursor);
    b->waiting.is_cut = b->waiting.is_cut || c->is_cut;
    b->waiting.turn = is_first ? c->turn : b->waiting.turn;
    b->last_ms = now_ms();
    b->first_ms = is_first ? b->last_ms : b->first_ms;
    return rc;
}

uint64_t batch_oldest(const struct batch *b)
{
    return b->running.changes > 0   ? b->running.turn
           : b->waiting.changes > 0 ? b->waiting.turn
                                    : UINT64_MAX;
}

void batch_drop(struct batch *b)
{
    uri_list_clear(&b->waiting);
    b->is_due = false;
}

void batch_start(struct batch *b)
{
    b->is_due = true;
}

/* ---- running --------------------------------------------------------------------------------- */

static void batch_report(struct batch *b, const char *what, const char *detail)
{
    b->failed++;
    fprintf(stderr, "tidings watch: the command for %zu URIs %s%s\n", b->running.count, what,
            detail);
}

/* The lines of the list to run for; free them. NULL: no memory. */
static char *batch_lines(const struct batch *b, size_t *ret_len)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    uri_list_write(&b->running, t.out, b->options.ends_with_nul ? '\0' : '\n');
    char *text = json_text_take(&t);
    *ret_len = text ? t.len : 0;
    return text;
}

/* 0, or an errno. The file stays open because the command reads it by its name. */
static int batch_spawn(struct batch *b)
{
    char path[64], uris[80], count[48], merged[48], cursor[URI_LIST_CURSOR + 16], truncated[24];
    char *ours[] = {uris, count, merged, cursor, truncated, NULL};
    size_t len = 0;
    char *lines = batch_lines(b, &len);
    if (!lines) {
        return ENOMEM;
    }
    b->list = shell_input(tidings_strn(lines, len));
    free(lines);
    if (b->list < 0) {
        return errno;
    }
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), b->list);
    snprintf(uris, sizeof(uris), "TIDINGS_URIS=%s", path);
    snprintf(count, sizeof(count), "TIDINGS_COUNT=%zu", b->running.count);
    snprintf(merged, sizeof(merged), "TIDINGS_MERGED=%" PRIu64, b->running.changes);
    snprintf(cursor, sizeof(cursor), "TIDINGS_CURSOR=%s", b->running.cursor);
    snprintf(truncated, sizeof(truncated), "TIDINGS_TRUNCATED=%s", b->running.is_cut ? "1" : "");
    int input = open(path, O_RDONLY | O_CLOEXEC); /* with its own file offset */
    char **env = shell_environment(ours);
    int errnum = input < 0 ? errno
                 : env     ? shell_start(&b->shell, b->options.command, input, env)
                           : ENOMEM;
    free(env);
    if (input >= 0) {
        close(input);
    }
    return errnum;
}

/* The run has finished. */
static void batch_over(struct batch *b)
{
    if (b->list >= 0) {
        close(b->list);
    }
    b->list = -1;
    b->done += b->running.changes > 0 ? 1 : 0;
    uri_list_clear(&b->running);
}

static void batch_run(struct batch *b)
{
    b->running = b->waiting;
    b->waiting = (struct uri_list){0};
    b->is_due = false;
    int errnum = batch_spawn(b);
    if (errnum) {
        batch_report(b, "cannot be run: ", strerror(errnum));
        batch_over(b);
    }
}

static void batch_reap(struct batch *b)
{
    char text[48];
    if (!shell_reap(&b->shell)) {
        return;
    }
    const char *failure = shell_failure(&b->shell, text);
    if (b->shell.is_ending) {
        /* The command did not finish: merge its changes into the waiting list. */
        uri_list_merge(&b->running, &b->waiting);
        b->waiting = b->running;
        b->running = (struct uri_list){0};
        close(b->list);
        b->list = -1;
        b->is_due = true;
        return;
    }
    if (failure) {
        batch_report(b, "", failure);
    }
    batch_over(b);
}

/* Milliseconds until the waiting list is due; 0: now; negative: no list waits. */
static int batch_left(struct batch *b)
{
    uint64_t now = now_ms(), debounce = b->options.debounce_ms;
    uint64_t latest = 10 * debounce > BATCH_LATEST_MS ? 10 * debounce : BATCH_LATEST_MS;
    uint64_t due = b->last_ms + debounce;
    due = due < b->first_ms + latest ? due : b->first_ms + latest;
    if (!b->is_due && b->waiting.changes == 0) {
        return -1;
    }
    b->is_due = b->is_due || now >= due;
    return b->is_due ? 0 : (int)(due - now);
}

void batch_turn(struct batch *b, struct pollfd *fd, int *ret_ms)
{
    batch_reap(b);
    int left = b->is_ending ? -1 : batch_left(b);
    if (left == 0 && b->shell.pid == 0) {
        batch_run(b);
        left = -1;
    } else if (left == 0 && b->options.restarts) {
        shell_end(&b->shell);
    }
    *ret_ms = sooner(left == 0 ? -1 : left, shell_wait(&b->shell, fd));
}

void batch_finish(struct batch *b, const volatile int *is_ending)
{
    struct pollfd fd;
    int ms = -1;
    for (;;) {
        if (*is_ending && !b->is_ending) {
            b->is_ending = true;
            shell_end(&b->shell);
        }
        b->is_due = b->waiting.changes > 0 && !b->is_ending;
        batch_turn(b, &fd, &ms);
        if (b->shell.pid == 0 && (b->is_ending || b->waiting.changes == 0)) {
            return;
        }
        poll(&fd, 1, sooner(ms, 1000));
    }
}
