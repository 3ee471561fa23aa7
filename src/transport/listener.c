/* SPDX-License-Identifier: MIT
 *
 * Accepting. When descriptors run out accepting pauses instead of spinning; beyond the configured
 * number of connections a client is told 503 and closed.
 */
#include "transport/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define BACKLOG 1024
#define ACCEPTS_PER_TURN 64
#define PAUSE_MS 100u

struct listener {
    struct loop *loop;
    struct listener_options options;
    struct loop_poll *poll;
    struct loop_timer *pause;
    int fd;
    uint16_t port;
};

static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                           "Content-Length: 0\r\nConnection: close\r\n\r\n";

static struct http_worker *least_loaded(struct listener *l, size_t *total)
{
    struct http_worker *best = l->options.workers[0];
    *total = 0;
    for (size_t i = 0; i < l->options.worker_count; i++) {
        struct http_worker *hw = l->options.workers[i];
        size_t load = http_worker_load(hw);
        *total += load;
        if (load < http_worker_load(best)) {
            best = hw;
        }
    }
    return best;
}

static void hand_over(struct listener *l, int fd)
{
    size_t total = 0;
    struct http_worker *hw = least_loaded(l, &total);
    if (total >= l->options.max_connections) {
        log_warn("connection refused", "reason=\"limit of %zu connections\"",
                 l->options.max_connections);
        (void)!send(fd, busy, sizeof(busy) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        close(fd);
        return;
    }
    struct handover *h = handover_create(fd);
    if (h) {
        http_worker_send(hw, h);
    }
}

static void on_ready(struct loop_poll *poll, int events, void *user)
{
    (void)events;
    struct listener *l = user;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            hand_over(l, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED) {
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            log_warn("accept failed", "reason=\"%s\"", strerror(errno));
            loop_poll_want(poll, 0);
            loop_timer_start(l->pause, PAUSE_MS, 0);
        }
        return;
    }
}

static void resume(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct listener *l = user;
    loop_poll_want(l->poll, LOOP_READ);
}

static int make_address(const struct listener_options *o, struct sockaddr_storage *ret,
                        socklen_t *len, struct tidings_error *err)
{
    memset(ret, 0, sizeof(*ret));
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    if (inet_pton(AF_INET, o->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(o->port);
        *len = sizeof(*v4);
        return 0;
    }
    if (inet_pton(AF_INET6, o->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(o->port);
        *len = sizeof(*v6);
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "'%s' is not a numeric address", o->host);
}

static int bind_and_listen(struct listener *l, struct tidings_error *err)
{
    struct sockaddr_storage address;
    socklen_t len = 0;
    int rc = make_address(&l->options, &address, &len, err);
    if (rc < 0) {
        return rc;
    }
    l->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (l->fd < 0) {
        return error_errno(err, errno, "socket");
    }
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(l->fd, (struct sockaddr *)&address, len) < 0 || listen(l->fd, BACKLOG) < 0) {
        if (errno == EADDRINUSE) {
            return tidings_fail(err, TIDINGS_E_EXISTS,
                                "address %s:%u is in use; is another server running? choose "
                                "another with --http ADDR:PORT (port 0: any free one)",
                                l->options.host, l->options.port);
        }
        return error_errno(err, errno, "listen on %s:%u", l->options.host, l->options.port);
    }
    getsockname(l->fd, (struct sockaddr *)&address, &len);
    l->port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                 : ((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct tidings_error *err)
{
    struct listener *l = mem_zalloc(sizeof(*l));
    if (!l) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    l->loop = loop;
    l->options = *options;
    l->fd = -1;
    if (bind_and_listen(l, err) < 0) {
        listener_close(l);
        return NULL;
    }
    l->pause = loop_timer_open(loop, resume, l);
    l->poll = loop_poll_open(loop, l->fd, on_ready, l, err);
    if (!l->pause || !l->poll || loop_poll_want(l->poll, LOOP_READ) < 0) {
        listener_close(l);
        return NULL;
    }
    return l;
}

void listener_close(struct listener *l)
{
    if (!l) {
        return;
    }
    loop_poll_close(l->poll);
    loop_timer_close(l->pause);
    if (l->fd >= 0) {
        close(l->fd);
    }
    mem_free(l);
}

uint16_t listener_port(const struct listener *l)
{
    return l->port;
}
