/* SPDX-License-Identifier: MIT
 *
 * The server, the untrusted client, and the turns between them.
 */
#include "support/dialogue.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "base/str.h"
#include "server/server_internal.h"

#define MAX_TURNS 20000
#define LIFE 1000u /* dialogues with one server */

static struct {
    struct tidings_server *server;
    unsigned dialogues;
    char directory[64], lines[80], http[80];
    int fd;
    bool over;
    bool published; /* something may have been, which would stay */
    struct buf heard, said;
} d = {.fd = -1};

void dialogue_require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "broken: %s\nheard: %.*s\n", what, (int)d.heard.len,
                d.heard.ptr ? d.heard.ptr : "");
        abort();
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static void read_uri(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    struct tidings_error err;
    tidings_read_done(read, tidings_read_text(read, NULL, uri, &err), &err);
}

static void echo(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_progress(call, 1, 2, STR("half"));
    tidings_call_log(call, TIDINGS_LOG_INFO, "echo", STR("called"));
    tidings_call_done(call, tidings_call_text(call, tidings_call_arguments(call), &err), &err);
}

static void ask(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err = {0, ""};
    int rc = 0;
    if (tidings_call_answer(call, "who").len > 0) {
        rc = tidings_call_text(call, tidings_call_state(call), &err);
    } else {
        rc = tidings_call_ask(call, "who", "elicitation/create",
                              STR("{\"mode\":\"form\",\"message\":\"who?\","
                                  "\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}"),
                              &err);
        rc = rc < 0 ? rc : tidings_call_keep(call, STR("kept"), &err);
    }
    tidings_call_done(call, rc, &err);
}

static void add_resource(const char *uri, bool is_template)
{
    struct tidings_resource about = {0};
    struct tidings_error err = {0, ""};
    about.uri = tidings_str(uri);
    about.name = STR("a thing");
    int rc = is_template ? tidings_server_add_template(d.server, &about, read_uri, NULL, &err)
                         : tidings_server_add_resource(d.server, &about, read_uri, NULL, &err);
    dialogue_require(rc == 0, err.text);
}

static void add_tool(const char *name, const char *schema, tidings_call_fn fn)
{
    struct tidings_tool about = {.name = tidings_str(name), .input_schema = tidings_str(schema)};
    struct tidings_error err = {0, ""};
    dialogue_require(tidings_server_add_tool(d.server, &about, fn, NULL, &err) == 0, err.text);
}

static void set(const char *name, const char *value)
{
    struct tidings_error err = {0, ""};
    dialogue_require(tidings_server_set(d.server, name, value, &err) == 0, err.text);
}

static void configure(void)
{
    static const char *const settings[][2] = {
        {"window", "0"},       {"io-uring", "off"},     {"log-level", "off"},
        {"drain", "0"},        {"legacy-sse", "true"},  {"max-body", "4096"},
        {"max-line", "4096"},  {"publish", "pub:///"},  {"allow-write", "true"},
        {"max-depth", "16"},   {"max-sessions", "4"},   {"max-subscriptions", "16"},
        {"max-listens", "4"},  {"list-changed", "off"}, {"published-max", "16"},
        {"max-read", "65536"},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        set(settings[i][0], settings[i][1]);
    }
    set("unix", d.lines);
    set("http-unix", d.http);
    add_resource("app:///a", false);
    add_resource("app:///b", false);
    add_resource("app:///row/{id}", true);
    add_tool("echo",
             "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},"
             "\"s\":{\"type\":\"string\",\"pattern\":\"^(a|aa)+$\"}}}",
             echo);
    add_tool("ask", "{\"type\":\"object\"}", ask);
    struct tidings_prompt prompt = {.name = STR("greet")};
    dialogue_require(tidings_server_add_prompt(d.server, &prompt, echo, NULL, NULL) == 0, "prompt");
}

static void end_server(void)
{
    if (!d.server) {
        return;
    }
    tidings_server_stop_now(d.server);
    while (tidings_server_turn(d.server, NULL) > 0) {
        struct pollfd ready = {.fd = tidings_server_fd(d.server), .events = POLLIN};
        (void)poll(&ready, 1, 1);
    }
    tidings_server_destroy(d.server);
    d.server = NULL;
}

static void leave(void)
{
    end_server();
    buf_deinit(&d.heard);
    buf_deinit(&d.said);
    rmdir(d.directory);
}

static void begin_server(void)
{
    struct tidings_error err = {0, ""};
    if (d.directory[0] == '\0') {
        snprintf(d.directory, sizeof(d.directory), "/tmp/dialogue-XXXXXX");
        dialogue_require(mkdtemp(d.directory) != NULL, "a directory");
        snprintf(d.lines, sizeof(d.lines), "%s/lines", d.directory);
        snprintf(d.http, sizeof(d.http), "%s/http", d.directory);
        atexit(leave);
    }
    d.server = tidings_server_create(&err);
    dialogue_require(d.server != NULL, err.text);
    configure();
    dialogue_require(tidings_server_start(d.server, &err) == 0, err.text);
    d.dialogues = 0;
    d.published = false;
}

/* ---- the stranger ---------------------------------------------------------------------------- */

/* Take what has come. false: nothing has. */
static bool hear(void)
{
    char bytes[4096];
    bool any = false;
    ssize_t n = 0;
    while (!d.over && (n = recv(d.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        buf_put(&d.heard, bytes, (size_t)n);
        any = true;
    }
    if (!d.over && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        d.over = any = true;
    }
    return any;
}

static void take_turns(void)
{
    int quiet = 0;
    for (int i = 0; quiet < 3; i++) {
        dialogue_require(i < MAX_TURNS, "the server comes to rest");
        dialogue_require(tidings_server_turn(d.server, NULL) > 0, "the server lives");
        struct pollfd ready = {.fd = tidings_server_fd(d.server), .events = POLLIN};
        bool stirs = (d.fd >= 0 && hear()) || poll(&ready, 1, 0) > 0;
        quiet = stirs ? 0 : quiet + 1;
    }
}

void dialogue_open(enum dialogue_door door)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!d.server) {
        begin_server();
    }
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", door == DIALOGUE_LINES ? d.lines : d.http);
    d.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect(d.fd, (struct sockaddr *)&to, sizeof(to));
    dialogue_require(rc == 0, rc == 0 ? "" : strerror(errno));
    d.over = false;
    buf_deinit(&d.heard);
    buf_init(&d.heard, SIZE_MAX / 2);
    take_turns();
}

/* The text between the last `before` and the first `after` that follows it. */
static struct tidings_str heard_last(const char *before, char after)
{
    size_t n = strlen(before);
    for (size_t at = d.heard.len; at-- > 0;) {
        if (d.heard.len - at > n && memcmp(d.heard.ptr + at, before, n) == 0) {
            const char *from = d.heard.ptr + at + n;
            const char *end = memchr(from, after, d.heard.len - at - n);
            return end ? tidings_strn(from, (size_t)(end - from)) : STR_EMPTY;
        }
    }
    return STR_EMPTY;
}

static struct tidings_str stands_for(char c)
{
    switch (c) {
    case 'S':
        return heard_last("Mcp-Session-Id: ", '\r');
    case 'E':
        return heard_last("\nid: ", '\n');
    case 'C':
        return heard_last("\"dev.tidings/cursor\":\"", '"');
    case 'R':
        return heard_last("\"requestState\":\"", '"');
    default:
        return tidings_strn(NULL, 0);
    }
}

static void send_all(struct tidings_str s)
{
    while (s.len > 0 && !d.over) {
        ssize_t n = send(d.fd, s.ptr, s.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            s = str_skip(s, (size_t)n);
        } else if (errno != EAGAIN && errno != EINTR) {
            break; /* it is over: the last output still arrives */
        }
        take_turns();
    }
}

struct tidings_str dialogue_say(struct tidings_str bytes)
{
    buf_deinit(&d.said);
    buf_init(&d.said, SIZE_MAX / 2);
    for (size_t i = 0; i < bytes.len; i++) {
        struct tidings_str other = {NULL, 0};
        if (bytes.ptr[i] == '$' && i + 1 < bytes.len) {
            other = stands_for(bytes.ptr[i + 1]);
        }
        d.published = d.published || str_starts(str_skip(bytes, i), STR("pub:"));
        if (other.ptr) {
            buf_puts(&d.said, other);
            i++;
        } else {
            buf_putc(&d.said, bytes.ptr[i]);
        }
    }
    send_all(buf_str(&d.said));
    dialogue_require(tidings_changed(d.server, STR("app:///a"), STR_EMPTY, NULL) == 0, "a change");
    take_turns();
    return buf_str(&d.said);
}

void dialogue_finish(void)
{
    shutdown(d.fd, SHUT_WR);
    take_turns();
}

struct tidings_str dialogue_heard(void)
{
    return buf_str(&d.heard);
}

bool dialogue_is_over(void)
{
    return d.over;
}

void dialogue_close(void)
{
    close(d.fd);
    d.fd = -1;
    take_turns();
    const struct worker_stats *stats = &d.server->workers.threads[0]->core.worker.stats;
    if (stats->sessions > 0 || d.published || ++d.dialogues == LIFE) {
        end_server();
        return;
    }
    dialogue_require(stats->subscribers == 0 && stats->subscriptions == 0, "nothing of it is left");
    dialogue_require(d.server->workers.threads[0]->core.worker.jobs == 0, "nothing is under way");
}

bool dialogue_next(struct tidings_str *input, struct tidings_str *piece)
{
    if (input->len == 0) {
        return false;
    }
    *piece = str_cut(*input, DIALOGUE_END, input, NULL);
    return true;
}
