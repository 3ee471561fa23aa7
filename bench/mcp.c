/* SPDX-License-Identifier: MIT
 *
 * The client half of the HTTP benchmarks. It reads answers whole, by their Content-Length, and
 * streams by searching for strings. It has no other use.
 */
#include "mcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

static const char meta[] = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                           "\"io.modelcontextprotocol/clientCapabilities\":{},"
                           "\"io.modelcontextprotocol/clientInfo\":"
                           "{\"name\":\"bench\",\"version\":\"0\"}}";

int mcp_connect(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
        bench_die("connect to port %u: %s", port, strerror(errno));
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

size_t mcp_request(char *bytes, size_t max, const char *method, const char *name,
                   const char *params)
{
    char body[16384];
    int length = snprintf(body, sizeof(body),
                          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s}}",
                          method, meta, params);
    int n = snprintf(bytes, max,
                     "POST /mcp HTTP/1.1\r\n"
                     "Host: 127.0.0.1\r\n"
                     "Content-Type: application/json\r\n"
                     "Accept: application/json, text/event-stream\r\n"
                     "MCP-Protocol-Version: 2026-07-28\r\n"
                     "Mcp-Method: %s\r\n"
                     "%s%s%s"
                     "Content-Length: %d\r\n"
                     "\r\n"
                     "%s",
                     method, name ? "Mcp-Name: " : "", name ? name : "", name ? "\r\n" : "", length,
                     body);
    if (length < 0 || (size_t)length >= sizeof(body) || n < 0 || (size_t)n >= max) {
        bench_die("a request of more than %zu bytes", max);
    }
    return (size_t)n;
}

size_t mcp_websocket_request(char *bytes, size_t max, const char *method, const char *params)
{
    char body[16384];
    int length = snprintf(body, sizeof(body),
                          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s}}",
                          method, meta, params);
    int n = snprintf(bytes, max,
                     "GET /mcp HTTP/1.1\r\n"
                     "Host: 127.0.0.1\r\n"
                     "Upgrade: websocket\r\n"
                     "Connection: Upgrade\r\n"
                     "Sec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Protocol: mcp\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "\r\n");
    /* A text frame; a mask of zeros changes nothing. */
    unsigned char header[8] = {0x81, 0xfe, (unsigned char)(length >> 8), (unsigned char)length};
    if (length <= 125 || (size_t)length >= sizeof(body) || n < 0 ||
        (size_t)n + sizeof(header) + (size_t)length > max) {
        bench_die("a request of more than %zu bytes", max);
    }
    memcpy(bytes + n, header, sizeof(header));
    memcpy(bytes + n + sizeof(header), body, (size_t)length);
    return (size_t)n + sizeof(header) + (size_t)length;
}

size_t mcp_legacy_request(char *bytes, size_t max, const char *session, const char *method,
                          const char *params)
{
    char body[16384];
    int length = snprintf(body, sizeof(body),
                          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}",
                          method, params);
    int n = snprintf(bytes, max,
                     "POST /mcp HTTP/1.1\r\n"
                     "Host: 127.0.0.1\r\n"
                     "Content-Type: application/json\r\n"
                     "Accept: application/json, text/event-stream\r\n"
                     "%s%s%s"
                     "Content-Length: %d\r\n"
                     "\r\n"
                     "%s",
                     session ? "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " : "",
                     session ? session : "", session ? "\r\n" : "", length, body);
    if (length < 0 || (size_t)length >= sizeof(body) || n < 0 || (size_t)n >= max) {
        bench_die("a request of more than %zu bytes", max);
    }
    return (size_t)n;
}

void mcp_session(int fd, char session[MCP_SESSION_MAX])
{
    static const char field[] = "\r\nMcp-Session-Id: ";
    char request[2048];
    char answer[16384];
    size_t n = mcp_legacy_request(request, sizeof(request), NULL, "initialize",
                                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                                  "\"clientInfo\":{\"name\":\"bench\",\"version\":\"0\"}");
    mcp_call(fd, request, n, answer, sizeof(answer));
    const char *at = strcasestr(answer, field);
    size_t length = at ? strcspn(at + sizeof(field) - 1, "\r") : 0;
    if (length == 0 || length >= MCP_SESSION_MAX) {
        bench_die("the server gave no session: %s", answer);
    }
    memcpy(session, at + sizeof(field) - 1, length);
    session[length] = '\0';
}

size_t mcp_answer_length(const char *bytes, size_t n)
{
    const char *end = memmem(bytes, n, "\r\n\r\n", 4);
    if (!end) {
        return 0;
    }
    static const char field[] = "\r\nContent-Length: ";
    const char *at = memmem(bytes, (size_t)(end - bytes), field, sizeof(field) - 1);
    if (n < 12 || memcmp(bytes, "HTTP/1.1 200", 12) != 0 || !at) {
        bench_die("not the expected answer: %.*s", (int)(n < 600 ? n : 600), bytes);
    }
    /* A CRLF follows, so this ends before the bytes do. */
    unsigned long body = strtoul(at + sizeof(field) - 1, NULL, 10);
    return (size_t)(end + 4 - bytes) + body;
}

/* Waits for bytes and appends them; returns how many. */
static size_t receive(int fd, char *bytes, size_t max)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc = poll(&p, 1, BENCH_WAIT_MS);
    if (rc <= 0) {
        bench_die(rc < 0 ? "interrupted or out of time" : "the server does not answer");
    }
    ssize_t n = recv(fd, bytes, max, 0);
    if (n <= 0) {
        bench_die(max == 0 ? "the answer is too large" : "the server closed the connection");
    }
    return (size_t)n;
}

size_t mcp_call(int fd, const char *request, size_t n, char *answer, size_t max)
{
    bench_write(fd, request, n);
    size_t have = 0;
    size_t length = 0;
    while (length == 0 || have < length) {
        have += receive(fd, answer + have, max - 1 - have);
        answer[have] = '\0';
        length = length > 0 ? length : mcp_answer_length(answer, have);
    }
    return have;
}

void mcp_wait_for(int fd, const char *needle, char *bytes, size_t *have, size_t max)
{
    bytes[*have] = '\0';
    while (!strstr(bytes, needle)) {
        *have += receive(fd, bytes + *have, max - 1 - *have);
        bytes[*have] = '\0';
    }
}
