/* SPDX-License-Identifier: MIT
 *
 * The server on its thread, the ears, and HTTP by hand.
 */
#include "support/served.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_S 20

/* ---- what was told --------------------------------------------------------------------------- */

static void copy(char *out, size_t size, struct tidings_str s)
{
    assert_true(s.len < size);
    snprintf(out, size, "%.*s", (int)s.len, s.len > 0 ? s.ptr : "");
}

void ears_hear(void *user, const struct tidings_update *update)
{
    struct ears *e = user;
    pthread_mutex_lock(&e->lock);
    assert_true(e->count < EARS_MAX);
    struct told *t = &e->told[e->count++];
    copy(t->uri, sizeof(t->uri), update->uri);
    copy(t->subscribed, sizeof(t->subscribed), update->subscribed_uri);
    copy(t->metadata, sizeof(t->metadata), update->metadata);
    copy(t->value, sizeof(t->value), update->value);
    copy(t->from, sizeof(t->from), update->from);
    t->kind = update->kind;
    t->merged = update->merged;
    t->truncated = update->truncated;
    t->initial = update->initial;
    pthread_cond_broadcast(&e->more);
    pthread_mutex_unlock(&e->lock);
}

void ears_state(void *user, const struct tidings_state_event *event)
{
    struct ears *e = user;
    if (event->state == TIDINGS_STATE_WATCHING) {
        return;
    }
    pthread_mutex_lock(&e->lock);
    assert_true(e->count < EARS_MAX);
    struct told *t = &e->told[e->count++];
    copy(t->subscribed, sizeof(t->subscribed), event->uri);
    copy(t->refused, sizeof(t->refused), event->reason);
    t->ended = event->state == TIDINGS_STATE_ENDED;
    pthread_cond_broadcast(&e->more);
    pthread_mutex_unlock(&e->lock);
}

void ears_init(struct ears *e)
{
    memset(e, 0, sizeof(*e));
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->more, NULL);
}

size_t ears_count(struct ears *e)
{
    pthread_mutex_lock(&e->lock);
    size_t n = e->count;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* The n-th update, waited for. */
struct told ears_await(struct ears *e, size_t n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_S;
    pthread_mutex_lock(&e->lock);
    int rc = 0;
    while (e->count <= n && rc == 0) {
        rc = pthread_cond_timedwait(&e->more, &e->lock, &until);
    }
    struct told t = {.merged = 0};
    bool there = e->count > n;
    if (there) {
        t = e->told[n];
    }
    pthread_mutex_unlock(&e->lock);
    if (!there) {
        fail_msg("nothing was told in %d s", DEADLINE_S);
    }
    return t;
}

/* ---- a server on a thread -------------------------------------------------------------------- */

struct one {
    struct tidings_server *server;
    pthread_t thread;
    struct ears ready; /* only its lock is used */
    int port, rc;
    struct tidings_error err;
};
static struct one all[SERVED_MAX], *current = all;
#define s (*current)

void served_select(unsigned i)
{
    assert_true(i < SERVED_MAX);
    current = &all[i];
}

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    struct tidings_error err = {0, ""};
    int rc = tidings_read_text(read, NULL, uri, &err);
    tidings_read_done(read, rc, &err);
}

static void add(const char *uri, bool is_template)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str("thing");
    int rc = is_template ? tidings_server_add_template(s.server, &about, on_read, NULL, &err)
                         : tidings_server_add_resource(s.server, &about, on_read, NULL, &err);
    assert_int_equal(rc, 0);
}

void served_set(const char *name, const char *value)
{
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_set(s.server, name, value, &err), 0);
}

struct tidings_server *served(void)
{
    return s.server;
}

char served_two_workers[] = "2";

int served_begin(void **state)
{
    memset(&s, 0, sizeof(s));
    ears_init(&s.ready);
    struct tidings_error err = {0, ""};
    s.server = tidings_server_create(&err);
    assert_non_null(s.server);
    served_set("http", "127.0.0.1:0");
    served_set("workers", *state ? *state : "1");
    served_set("window", "0");
    if (getenv("TIDINGS_IO_URING")) {
        served_set("io-uring", getenv("TIDINGS_IO_URING"));
    }
    add("app:///a", false);
    add("app:///b", false);
    add("app:///row/{id}", true);
    return 0;
}

static void on_ready(void *user, const char *url)
{
    struct one *o = user;
    pthread_mutex_lock(&o->ready.lock);
    assert_int_equal(sscanf(url, "http://127.0.0.1:%d/mcp", &o->port), 1);
    pthread_cond_broadcast(&o->ready.more);
    pthread_mutex_unlock(&o->ready.lock);
}

static void *serve(void *arg)
{
    struct one *o = arg;
    o->rc = tidings_server_run(o->server, &o->err);
    return NULL;
}

void served_run(void)
{
    tidings_server_on_ready(s.server, on_ready, current);
    assert_int_equal(pthread_create(&s.thread, NULL, serve, current), 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_S;
    pthread_mutex_lock(&s.ready.lock);
    int rc = 0;
    while (s.port == 0 && rc == 0) {
        rc = pthread_cond_timedwait(&s.ready.more, &s.ready.lock, &until);
    }
    pthread_mutex_unlock(&s.ready.lock);
    assert_int_not_equal(s.port, 0);
}

void served_stop(void)
{
    tidings_server_stop(s.server);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.rc, 0);
    s.port = 0;
}

int served_end(void **state)
{
    (void)state;
    if (s.port != 0) {
        served_stop();
    }
    tidings_server_destroy(s.server);
    return 0;
}

struct tidings_subscription *served_subscribe(const char *uri, const char *json, struct ears *e)
{
    struct tidings_error err = {0, ""};
    struct tidings_subscribe_options o = {
        .fn = ears_hear, .on_state = ears_state, .user = e, .options = json};
    struct tidings_subscription *sub =
        tidings_server_subscribe(s.server, tidings_str(uri), &o, &err);
    assert_non_null(sub);
    assert_string_equal(tidings_subscription_uri(sub), uri);
    return sub;
}

/* The subscription exists: a marker announced after it comes through. */
size_t served_await_subscribed(const char *uri, struct ears *e)
{
    size_t before = ears_count(e);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(tidings_changed(s.server, tidings_str(uri), tidings_str(NULL), NULL), 0);
        struct timespec pause = {.tv_nsec = 5000000};
        pthread_mutex_lock(&e->lock);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += pause.tv_nsec;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (e->count == before && pthread_cond_timedwait(&e->more, &e->lock, &until) == 0) {
        }
        size_t now = e->count;
        pthread_mutex_unlock(&e->lock);
        if (now > before) {
            return now;
        }
    }
    fail_msg("'%s' never came to be", uri);
    return 0;
}

void served_announce(const char *uri, const char *metadata, enum tidings_change_kind kind)
{
    struct tidings_change change;
    struct tidings_error err = {0, ""};
    memset(&change, 0, sizeof(change));
    change.uri = tidings_str(uri);
    change.metadata = tidings_str(metadata);
    change.kind = kind;
    assert_int_equal(tidings_announce(s.server, &change, &err), 0);
}

/* ---- over HTTP ------------------------------------------------------------------------------- */

int served_ask(const char *head, const char *body)
{
    char request[8192];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = DEADLINE_S};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    int n =
        snprintf(request, sizeof(request),
                 "%s\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                 head, s.port, strlen(body), body);
    assert_true(n > 0 && (size_t)n < sizeof(request));
    assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

const char *served_http(const char *head, const char *body)
{
    static char answer[65536];
    int fd = served_ask(head, body);
    size_t len = 0;
    ssize_t got;
    while ((got = recv(fd, answer + len, sizeof(answer) - 1 - len, 0)) > 0) {
        len += (size_t)got;
    }
    answer[len] = '\0';
    close(fd);
    return answer;
}

static const char *ask_modern(const char *method, const char *name, const char *params)
{
    char head[512], body[2048];
    snprintf(head, sizeof(head),
             "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\n"
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nMcp-Name: %s",
             method, name);
    int n = snprintf(body, sizeof(body),
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s,\"_meta\":{"
                     "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                     "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                     method, params);
    assert_in_range(n, 1, sizeof(body) - 1);
    return served_http(head, body);
}

const char *served_modern(const char *method, const char *uri)
{
    char params[512];
    snprintf(params, sizeof(params), "\"uri\":\"%s\"", uri);
    return ask_modern(method, uri, params);
}

const char *served_call(const char *tool, const char *arguments)
{
    char params[1536];
    int n = snprintf(params, sizeof(params), "\"name\":\"%s\",\"arguments\":{%s}", tool, arguments);
    assert_in_range(n, 1, sizeof(params) - 1);
    return ask_modern("tools/call", tool, params);
}

static int write_listen(char *body, size_t size, const char *uri)
{
    int n =
        snprintf(body, size,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"
                 "\"notifications\":{\"resourceSubscriptions\":[\"%s\"]},\"_meta\":{"
                 "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                 "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                 uri);
    assert_in_range(n, 126, size - 1);
    return n;
}

/* Until `ends` has come after `begins`; `says` must appear before it. */
static void await_answer(int fd, const char *begins, const char *ends, const char *says)
{
    char answer[8192];
    size_t len = 0;
    do {
        ssize_t got = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
        assert_true(got > 0);
        for (; got > 0; got--, len++) {
            answer[len] = answer[len] ? answer[len] : ' '; /* frames have zeros in their headers */
        }
        answer[len] = '\0';
    } while (!strstr(answer, begins) || !strstr(strstr(answer, begins), ends));
    assert_non_null(strstr(answer, says));
}

int served_listen(const char *uri)
{
    char body[1024];
    (void)write_listen(body, sizeof(body), uri);
    int fd = served_ask("POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
                        "Accept: application/json, text/event-stream\r\n"
                        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen",
                        body);
    await_answer(fd, "subscriptions/acknowledged", "}\n\n", "resourceSubscriptions");
    return fd;
}

int served_listen_websocket(const char *uri)
{
    char frame[1024] = {(char)0x81, (char)0xfe}; /* text, masked by zeros */
    char status[16] = "";
    int n = write_listen(frame + 8, sizeof(frame) - 8, uri);
    frame[2] = (char)(n >> 8);
    frame[3] = (char)(n & 0xff);
    int fd = served_ask("GET /mcp HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                        "");
    assert_int_equal(recv(fd, status, 12, MSG_PEEK | MSG_WAITALL), 12);
    if (strcmp(status, "HTTP/1.1 501") == 0) {
        close(fd);
        return -1;
    }
    await_answer(fd, "HTTP/1.1 101", "\r\n\r\n", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_int_equal(send(fd, frame, 8 + (size_t)n, MSG_NOSIGNAL), 8 + n);
    await_answer(fd, "subscriptions/acknowledged", "}}", "resourceSubscriptions");
    return fd;
}

uint64_t served_stat(const char *name)
{
    char key[64];
    snprintf(key, sizeof(key), "\\\"%s\\\":", name); /* JSON inside a JSON string */
    const char *at = served_modern("resources/read", "tidings://self/stats");
    uint64_t sum = 0;
    assert_non_null(strstr(at, key));
    while ((at = strstr(at, key)) != NULL) { /* one object per worker */
        at += strlen(key);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

void served_await_empty(void)
{
    time_t until = time(NULL) + DEADLINE_S;
    while (served_stat("subscriptions") + served_stat("subscribers") > 0) {
        assert_true(time(NULL) < until);
    }
}
