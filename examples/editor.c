/* SPDX-License-Identifier: MIT
 *
 * A text editor whose buffer is a live resource. The server runs in the program's epoll loop, which
 * also handles the keyboard and signals, on one thread. Subscribers of `editor:///buffer` receive
 * an update after every edit. `editor:///line/{n}` is one line of the buffer.
 *
 *     editor --http 127.0.0.1:7777
 *     some text          appends a line
 *     :2 other text      replaces line 2
 *     :d 1               deletes line 1
 *     :q                 quits, like the end of input
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <tidings/tidings.h>

#define BUFFER "editor:///buffer"

enum { MAX_LINES = 1000, MAX_LINE = 1024 };

static struct tidings_server *server;
static char lines[MAX_LINES][MAX_LINE];
static size_t line_count;

/* ---- resources ------------------------------------------------------------------------------- */

static void read_buffer(void *user, struct tidings_read *read, struct tidings_str uri)
{
    static char text[MAX_LINES * (MAX_LINE + 1)];
    struct tidings_error err;
    size_t len = 0;
    (void)user;
    (void)uri;
    for (size_t i = 0; i < line_count; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", lines[i]);
    }
    int rc = tidings_read_text(read, NULL, tidings_strn(text, len), &err);
    tidings_read_done(read, rc, &err);
}

static void read_line(void *user, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error err;
    struct tidings_str n = tidings_read_variable(read, "n");
    char number[16];
    (void)user;
    (void)uri;
    snprintf(number, sizeof(number), "%.*s", (int)n.len, n.ptr);
    size_t line = strtoul(number, NULL, 10);
    int rc = line == 0 || line > line_count
                 ? tidings_fail(&err, TIDINGS_E_NOTFOUND, "there is no line %s", number)
                 : tidings_read_text(read, NULL, tidings_str(lines[line - 1]), &err);
    tidings_read_done(read, rc, &err);
}

/* Announces that the lines from `line` on have changed. */
static void edited(size_t line)
{
    char metadata[64], uri[64];
    snprintf(metadata, sizeof(metadata), "{\"line\":%zu,\"lines\":%zu}", line, line_count);
    snprintf(uri, sizeof(uri), "editor:///line/%zu", line);
    tidings_changed(server, tidings_str(BUFFER), tidings_str(metadata), NULL);
    tidings_changed(server, tidings_str(uri), tidings_str(NULL), NULL);
}

/* ---- the editor ------------------------------------------------------------------------------ */

static void command(const char *text)
{
    char *rest;
    size_t line = strtoul(text, &rest, 10);
    if (text[0] == 'q') {
        tidings_server_stop(server);
    } else if (text[0] == 'd') {
        line = strtoul(text + 1, NULL, 10);
        if (line > 0 && line <= line_count) {
            memmove(lines[line - 1], lines[line], (line_count - line) * sizeof(lines[0]));
            line_count--;
            edited(line);
        }
    } else if (line > 0 && line <= line_count) {
        snprintf(lines[line - 1], MAX_LINE, "%s", rest + (*rest == ' '));
        edited(line);
    }
}

static void type(const char *text)
{
    if (text[0] == ':') {
        command(text + 1);
    } else if (line_count < MAX_LINES) {
        snprintf(lines[line_count++], MAX_LINE, "%s", text);
        edited(line_count);
    }
}

/* Splits the input into lines. A line that is too long becomes several. */
static void on_keyboard(void)
{
    static char typed[MAX_LINE];
    static size_t len;
    ssize_t n = read(STDIN_FILENO, typed + len, sizeof(typed) - 1 - len);
    if (n <= 0) {
        tidings_server_stop(server);
        return;
    }
    len += (size_t)n;
    typed[len] = '\0';
    char *start = typed, *end;
    while ((end = strchr(start, '\n')) != NULL) {
        *end = '\0';
        type(start);
        start = end + 1;
    }
    len -= (size_t)(start - typed);
    memmove(typed, start, len + 1);
    if (len == sizeof(typed) - 1) {
        type(typed);
        len = 0;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void watch(int loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0) {
        perror("epoll_ctl");
        exit(1);
    }
}

static int run_loop(int signals, struct tidings_error *err)
{
    int rc, loop = epoll_create1(EPOLL_CLOEXEC);
    watch(loop, STDIN_FILENO);
    watch(loop, signals);
    watch(loop, tidings_server_fd(server));
    while ((rc = tidings_server_turn(server, err)) > 0) {
        struct epoll_event ready[8];
        int n = epoll_wait(loop, ready, 8, tidings_server_timeout_ms(server));
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == STDIN_FILENO) {
                on_keyboard();
            } else if (ready[i].data.fd == signals) {
                tidings_server_stop(server);
            } /* otherwise it is the server's descriptor: the next turn handles it */
        }
    }
    close(loop);
    return rc;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void on_ready(void *user, const char *url)
{
    (void)user;
    fprintf(stderr, "editor: serving on %s\n", url);
}

static int set_up(const char *address, struct tidings_error *err)
{
    struct tidings_resource buffer, line;
    memset(&buffer, 0, sizeof(buffer));
    buffer.uri = tidings_str(BUFFER);
    buffer.name = tidings_str("buffer");
    buffer.mime_type = tidings_str("text/plain");
    memset(&line, 0, sizeof(line));
    line.uri = tidings_str("editor:///line/{n}");
    line.name = tidings_str("line");
    line.mime_type = tidings_str("text/plain");
    int rc = tidings_server_set(server, "http", address, err);
    rc = rc < 0 ? rc : tidings_server_add_resource(server, &buffer, read_buffer, NULL, err);
    return rc < 0 ? rc : tidings_server_add_template(server, &line, read_line, NULL, err);
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    int signals = open_signals();
    server = tidings_server_create(&err);
    int rc = server ? set_up(argc > 2 ? argv[2] : "127.0.0.1:7777", &err) : err.code;
    if (rc == 0) {
        tidings_server_on_ready(server, on_ready, NULL);
        rc = tidings_server_start(server, &err);
    }
    if (rc == 0) {
        rc = run_loop(signals, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "editor: %s\n", err.text);
    }
    tidings_server_destroy(server);
    close(signals);
    return tidings_code_exit(rc);
}
