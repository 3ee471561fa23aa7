/* SPDX-License-Identifier: MIT
 *
 * Gathers changes until they pause, and runs the user's command once for them.
 */
#include "bin/watch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "bin/cli/output.h"
#include "bin/remote/remote.h"
#include "bin/watch/shell.h"

struct batch {
    struct batch_options options;
    struct uri_list waiting, running;
    uint64_t first_ms, last_ms; /* of what waits */
    bool is_due;                /* what waits has been quiet, or is to be run for anyway */
    bool is_ending;             /* all of it */
    struct shell shell;
    int list; /* the file of the list of the one that runs */
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

static void batch_tell(struct batch *b, const char *what, const char *detail)
{
    b->failed++;
    fprintf(stderr, "tidings watch: the command for %zu URIs %s%s\n", b->running.count, what,
            detail);
}

/* The lines of the list that is to be run for; free them. NULL: no memory. */
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

/* 0, or an errno. The file stays open for who reads it by its name. */
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
    int input = open(path, O_RDONLY | O_CLOEXEC); /* with a place of its own in it */
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

/* What was run for is over. */
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
        batch_tell(b, "cannot be run: ", strerror(errnum));
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
        /* It was not done with them. */
        uri_list_merge(&b->running, &b->waiting);
        b->waiting = b->running;
        b->running = (struct uri_list){0};
        close(b->list);
        b->list = -1;
        b->is_due = true;
        return;
    }
    if (failure) {
        batch_tell(b, "", failure);
    }
    batch_over(b);
}

/* How long until what waits is due; 0: it is, or negative: nothing waits. */
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
