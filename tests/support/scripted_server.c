/* SPDX-License-Identifier: MIT
 *
 * See scripted_server.h. Everything it meets comes from our own client, so it trusts its input.
 */
#include "support/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    struct scripted_server *server;
    size_t index;
    int fd;
};

bool scripted_is(const struct scripted_request *r, const char *rpc_method)
{
    char text[128];
    snprintf(text, sizeof(text), "\"method\":\"%s\"", rpc_method);
    return strstr(r->body, text) != NULL;
}

long long scripted_id(const struct scripted_request *r)
{
    const char *at = strstr(r->body, "\"id\":");
    return at ? strtoll(at + 5, NULL, 10) : -1;
}

void scripted_send(const struct scripted_request *r, const char *text)
{
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = send(r->fd, text, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

void scripted_reply(const struct scripted_request *r, int status, const char *headers,
                    const char *type, const char *body)
{
    char head[1024];
    snprintf(head, sizeof(head),
             "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: "
             "%zu\r\n%s\r\n",
             status, type, strlen(body), headers);
    scripted_send(r, head);
    scripted_send(r, body);
}

void scripted_result(const struct scripted_request *r, const char *headers, const char *result)
{
    char body[4096];
    snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":%s}", scripted_id(r),
             result);
    scripted_reply(r, 200, headers, "application/json", body);
}

void scripted_stream(const struct scripted_request *r, const char *headers)
{
    char head[1024];
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n%s\r\n",
             headers);
    scripted_send(r, head);
}

void scripted_await_close(const struct scripted_request *r)
{
    char byte;
    while (recv(r->fd, &byte, 1, 0) > 0) {
    }
}

/* Read until head and body are complete; the length of the head, or 0. */
static size_t read_request(int fd, char *text, size_t size)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t n = recv(fd, text + len, size - 1 - len, 0);
        if (n <= 0) {
            return 0;
        }
        len += (size_t)n;
        text[len] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        if (end) {
            size_t head = (size_t)(end - text) + 4;
            char *length = strcasestr(text, "\r\ncontent-length:");
            size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
            if (len >= head + body) {
                return head;
            }
        }
    }
    return 0;
}

static int note(struct scripted_server *s, const struct scripted_request *r)
{
    char method[64] = "";
    const char *at = strstr(r->body, "\"method\":\"");
    if (at) {
        sscanf(at + 10, "%63[^\"]", method);
    }
    pthread_mutex_lock(&s->lock);
    size_t len = strlen(s->log);
    int turn = 0;
    for (const char *p = s->log; *p; p++) {
        turn += *p == '\n';
    }
    snprintf(s->log + len, sizeof(s->log) - len, "%s %s\n", r->method, method);
    pthread_mutex_unlock(&s->lock);
    return turn;
}

static void *serve_connection(void *arg)
{
    struct connection *c = arg;
    char text[65536];
    size_t head = read_request(c->fd, text, sizeof(text));
    if (head > 0) {
        char *copy = strndup(text, head);
        char method[16] = "";
        sscanf(text, "%15s", method);
        struct scripted_request r = {
            .method = method, .head = copy, .body = text + head, .fd = c->fd};
        r.turn = note(c->server, &r);
        c->server->answer(c->server, &r);
        free(copy);
    }
    shutdown(c->fd, SHUT_WR);
    pthread_mutex_lock(&c->server->lock);
    c->server->fds[c->index] = -1;
    close(c->fd);
    pthread_mutex_unlock(&c->server->lock);
    free(c);
    return NULL;
}

static void *serve(void *arg)
{
    struct scripted_server *s = arg;
    int fd;
    while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
        struct connection *c = calloc(1, sizeof(*c));
        pthread_mutex_lock(&s->lock);
        if (!c || s->count == sizeof(s->fds) / sizeof(s->fds[0])) {
            abort();
        }
        *c = (struct connection){s, s->count, fd};
        s->fds[s->count] = fd;
        pthread_create(&s->threads[s->count++], NULL, serve_connection, c);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

void scripted_start(struct scripted_server *s, scripted_fn answer, void *user)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof(addr);
    memset(s, 0, sizeof(*s));
    s->answer = answer;
    s->user = user;
    pthread_mutex_init(&s->lock, NULL);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&addr, len) < 0 || listen(s->fd, 16) < 0 ||
        getsockname(s->fd, (struct sockaddr *)&addr, &len) < 0) {
        abort();
    }
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/mcp", ntohs(addr.sin_port));
    pthread_create(&s->thread, NULL, serve, s);
}

void scripted_stop(struct scripted_server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        if (s->fds[i] >= 0) {
            shutdown(s->fds[i], SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        pthread_join(s->threads[i], NULL);
    }
    pthread_mutex_destroy(&s->lock);
}

bool scripted_discovered(const struct scripted_request *r)
{
    if (!scripted_is(r, "server/discover")) {
        return false;
    }
    scripted_result(r, "", DISCOVERED);
    return true;
}
