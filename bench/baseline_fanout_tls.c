/* SPDX-License-Identifier: MIT
 *
 * The least a server can do per delivery over TLS: OpenSSL on sockets in an epoll set, and for
 * every line on standard input one SSL_write of a prepared event of SIZE bytes to each stream. As
 * baseline_fanout otherwise; one thread. Buffers are released when idle, as anybody has to who
 * holds many streams.
 *
 *     baseline_fanout_tls SIZE CERTIFICATE KEY
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

enum { STREAMS_MAX = 65536, EVENTS = 64, SNDBUF = 32 * 1024 };

static SSL_CTX *context;
static SSL *streams[STREAMS_MAX];
static size_t stream_count;
static char event[1 << 20];
static size_t event_size;

static int listen_on_loopback(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(at);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        return -1;
    }
    fprintf(stderr, "baseline: serving on https://127.0.0.1:%u/mcp\n", ntohs(at.sin_port));
    return fd;
}

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        int size = SNDBUF;
        SSL *ssl = SSL_new(context);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = ssl};
        if (!ssl || SSL_set_fd(ssl, fd) != 1 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
            SSL_free(ssl);
            close(fd);
            continue;
        }
        SSL_set_accept_state(ssl);
    }
}

/* Handshake, then the first bytes of a request: it is a stream from then on. */
static void on_input(SSL *ssl)
{
    static const char beginning[] = ":\n\n:\n\n";
    char request[65536];
    int n = SSL_read(ssl, request, sizeof(request));
    if (n > 0 && stream_count < STREAMS_MAX &&
        SSL_write(ssl, beginning, sizeof(beginning) - 1) > 0) {
        streams[stream_count++] = ssl;
    } else if (n > 0 || SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ) {
        close(SSL_get_fd(ssl)); /* its memory is left: the benchmark is about to end */
    }
}

static bool publish(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0; i < stream_count; i++) {
        int n;
        while ((n = SSL_write(streams[i], event, (int)event_size)) <= 0 &&
               SSL_get_error(streams[i], n) == SSL_ERROR_WANT_WRITE) {
            struct pollfd room = {.fd = SSL_get_fd(streams[i]), .events = POLLOUT};
            (void)poll(&room, 1, 1000);
        }
        if (n <= 0) {
            fprintf(stderr, "baseline_fanout_tls: a write failed\n");
            return false;
        }
    }
    printf("%" PRId64 " ns\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return fflush(stdout) == 0;
}

static bool obey(void)
{
    char lines[64];
    ssize_t n = read(STDIN_FILENO, lines, sizeof(lines));
    if (n <= 0) {
        exit(0);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (lines[i] == '\n' && !publish()) {
            return false;
        }
    }
    return true;
}

static bool watch(int epoll, int fd, void *mark)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = mark};
    return epoll >= 0 && fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool set_up(const char *certificate, const char *key)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    context = SSL_CTX_new(TLS_server_method());
    if (!context) {
        return false;
    }
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    return SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
           SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
}

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (argc != 4 || size < 3 || size > sizeof(event) || !set_up(argv[2], argv[3])) {
        fprintf(stderr, "usage: baseline_fanout_tls SIZE CERTIFICATE KEY\n");
        return 2;
    }
    event_size = size;
    memset(event, 'x', size);
    event[size - 2] = event[size - 1] = '\n';
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on_loopback();
    static char lines, connections; /* told by their addresses */
    if (!watch(epoll, listener, &connections) || !watch(epoll, STDIN_FILENO, &lines)) {
        perror("baseline_fanout_tls");
        return 1;
    }
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &connections) {
                accept_all(epoll, listener);
            } else if (events[i].data.ptr != &lines) {
                on_input(events[i].data.ptr);
            } else if (!obey()) {
                return 1;
            }
        }
    }
}
