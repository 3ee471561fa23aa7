/* SPDX-License-Identifier: MIT
 *
 * The least a server can do per delivery over TLS: OpenSSL on sockets in an epoll set, and for
 * every line on standard input one SSL_write of a prepared event of SIZE bytes to each stream. As
 * baseline_fanout otherwise; one thread. Buffers are released when idle, as any server with
 * many streams must.
 *
 *     baseline_fanout_tls SIZE CERTIFICATE KEY
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "baseline.h"

enum { EVENTS = 64 };

static SSL_CTX *context;
static SSL *streams[BASELINE_STREAMS_MAX];
static size_t stream_count;

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = baseline_accept(listener)) >= 0) {
        SSL *ssl = SSL_new(context);
        baseline_set_buffer(fd);
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
    static const char beginning[] = BASELINE_BEGINNING;
    char request[65536];
    int n = SSL_read(ssl, request, sizeof(request));
    if (n > 0 && stream_count < BASELINE_STREAMS_MAX &&
        SSL_write(ssl, beginning, sizeof(beginning) - 1) > 0) {
        streams[stream_count++] = ssl;
    } else if (n > 0 || SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ) {
        close(SSL_get_fd(ssl)); /* its memory is left: the benchmark is about to end */
    }
}

static bool publish(void)
{
    for (size_t i = 0; i < stream_count; i++) {
        int n;
        while ((n = SSL_write(streams[i], baseline_event, (int)baseline_event_size)) <= 0 &&
               SSL_get_error(streams[i], n) == SSL_ERROR_WANT_WRITE) {
            struct pollfd room = {.fd = SSL_get_fd(streams[i]), .events = POLLOUT};
            (void)poll(&room, 1, 1000);
        }
        if (n <= 0) {
            fprintf(stderr, "baseline_fanout_tls: a write failed\n");
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
    if (argc != 4 || !baseline_prepare(argv[1]) || !set_up(argv[2], argv[3])) {
        fprintf(stderr, "usage: baseline_fanout_tls SIZE CERTIFICATE KEY\n");
        return 2;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = baseline_listen("https");
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
            } else if (!baseline_obey(publish)) {
                return 1;
            }
        }
    }
}
