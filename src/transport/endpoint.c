/* SPDX-License-Identifier: MIT
 *
 * Binds and listens at an address or a path, or checks a socket that was passed in.
 */
#include "transport/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/socket_address.h"

#define BACKLOG 1024

static int open_socket(struct endpoint *e, int family, struct tidings_error *err)
{
    e->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return e->fd < 0 ? error_errno(err, errno, "socket") : 0;
}

/* What it is bound to, as the kernel says. */
static int read_name(struct endpoint *e, struct tidings_error *err)
{
    union socket_address a = {0};
    socklen_t len = sizeof(a);
    if (getsockname(e->fd, &a.any, &len) < 0) {
        return error_errno(err, errno, "the address of a listening socket");
    }
    if (a.any.sa_family == AF_INET) {
        e->port = ntohs(a.v4.sin_port);
        inet_ntop(AF_INET, &a.v4.sin_addr, e->host, sizeof(e->host));
    } else if (a.any.sa_family == AF_INET6) {
        e->port = ntohs(a.v6.sin6_port);
        inet_ntop(AF_INET6, &a.v6.sin6_addr, e->host, sizeof(e->host));
    } else if (a.any.sa_family == AF_UNIX) {
        e->is_unix = true;
        size_t text = len - offsetof(struct sockaddr_un, sun_path);
        if (text > 0 && a.local.sun_path[0] != '\0') {
            snprintf(e->path, sizeof(e->path), "%.*s", (int)text, a.local.sun_path);
        }
    } else {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a listening socket must be of the internet or a Unix socket");
    }
    return 0;
}

/* ---- internet -------------------------------------------------------------------------------- */

static int make_address(const struct endpoint_address *at, union socket_address *ret,
                        socklen_t *len, struct tidings_error *err)
{
    if (inet_pton(AF_INET, at->host, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(at->port);
        *len = sizeof(ret->v4);
        return 0;
    }
    if (inet_pton(AF_INET6, at->host, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(at->port);
        *len = sizeof(ret->v6);
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "'%s' is not a numeric address", at->host);
}

static int open_internet(struct endpoint *e, const struct endpoint_address *at,
                         struct tidings_error *err)
{
    union socket_address a = {0};
    socklen_t len = 0;
    int one = 1, rc = make_address(at, &a, &len, err);
    if (rc == 0) {
        rc = open_socket(e, a.any.sa_family, err);
    }
    if (rc < 0) {
        return rc;
    }
    setsockopt(e->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(e->fd, &a.any, len) == 0 && listen(e->fd, BACKLOG) == 0) {
        return 0;
    }
    if (errno == EADDRINUSE) {
        return tidings_fail(err, TIDINGS_E_EXISTS,
                            "address %s:%u is in use; is another server running? choose another "
                            "with %s (port 0: any free one)",
                            at->host, at->port, at->option);
    }
    return error_errno(err, errno, "listen on %s:%u", at->host, at->port);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool is_answered(const union socket_address *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? -1 : connect(fd, &a->any, sizeof(a->local));
    bool refused = rc < 0 && errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return !refused; /* not known: rather not */
}

/* What a server that is gone left behind goes; anything else stays. */
static int clear_path(const struct endpoint_address *at, const union socket_address *a,
                      struct tidings_error *err)
{
    struct stat st;
    if (lstat(at->path, &st) < 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return tidings_fail(err, TIDINGS_E_EXISTS,
                            "'%s' exists and is not a socket; remove it, or choose another path "
                            "with %s",
                            at->path, at->option);
    }
    if (is_answered(a)) {
        return tidings_fail(
            err, TIDINGS_E_EXISTS,
            "a server is listening on '%s'; stop it, or choose another path with %s", at->path,
            at->option);
    }
    return unlink(at->path) == 0 || errno == ENOENT
               ? 0
               : error_errno(err, errno, "remove the socket '%s' of a server that is gone",
                             at->path);
}

static int path_failed(const struct endpoint_address *at, int errnum, struct tidings_error *err)
{
    const char *slash = strrchr(at->path, '/');
    int len = slash ? (int)(slash - at->path) : 1;
    const char *folder = slash ? (len > 0 ? at->path : "/") : ".";
    len = len > 0 ? len : 1;
    if (errnum == ENOENT || errnum == ENOTDIR) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND,
                            "socket '%s': there is no directory '%.*s'; create it, or choose "
                            "another path with %s",
                            at->path, len, folder, at->option);
    }
    if (errnum == EACCES || errnum == EPERM || errnum == EROFS) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "socket '%s': no permission to create it in '%.*s'; choose another "
                            "path with %s",
                            at->path, len, folder, at->option);
    }
    return error_errno(err, errnum, "listen on '%s'", at->path);
}

static int open_path(struct endpoint *e, const struct endpoint_address *at,
                     struct tidings_error *err)
{
    union socket_address a = {0};
    struct stat st;
    size_t len = strlen(at->path);
    if (len == 0 || len > ENDPOINT_PATH_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the path of a socket has 1 to %u bytes, '%.40s…' has %zu",
                            ENDPOINT_PATH_MAX, at->path, len);
    }
    a.local.sun_family = AF_UNIX;
    memcpy(a.local.sun_path, at->path, len + 1);
    int rc = clear_path(at, &a, err);
    if (rc == 0) {
        rc = open_socket(e, AF_UNIX, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (bind(e->fd, &a.any, sizeof(a.local)) < 0) {
        return path_failed(at, errno, err);
    }
    e->owns_path = true;
    memcpy(e->path, at->path, len + 1);
    /* Until it listens nobody can connect, so that nobody does with other permissions. */
    if (chmod(at->path, (mode_t)at->mode) < 0 || lstat(at->path, &st) < 0 ||
        listen(e->fd, BACKLOG) < 0) {
        return path_failed(at, errno, err);
    }
    e->device = st.st_dev;
    e->inode = st.st_ino;
    return 0;
}

/* ---- passed ---------------------------------------------------------------------------------- */

int endpoint_check_passed(int fd, struct tidings_error *err)
{
    int type = 0, listens = 0;
    socklen_t size = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM) {
        return tidings_fail(err, TIDINGS_E_INVALID, "descriptor %d is not a stream socket", fd);
    }
    size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens) {
        return tidings_fail(err, TIDINGS_E_INVALID, "descriptor %d does not listen", fd);
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        return error_errno(err, errno, "descriptor %d", fd);
    }
    return 0;
}

static int open_copy(struct endpoint *e, int fd, struct tidings_error *err)
{
    int rc = endpoint_check_passed(fd, err);
    if (rc < 0) {
        return rc;
    }
    e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return e->fd < 0 ? error_errno(err, errno, "descriptor %d", fd) : 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int endpoint_open(struct endpoint *e, const struct endpoint_address *at, struct tidings_error *err)
{
    *e = (struct endpoint){.fd = -1};
    int rc = at->path   ? open_path(e, at, err)
             : at->host ? open_internet(e, at, err)
                        : open_copy(e, at->fd, err);
    if (rc == 0) {
        rc = read_name(e, err);
    }
    if (rc < 0) {
        endpoint_close(e);
    }
    return rc;
}

void endpoint_close(struct endpoint *e)
{
    struct stat st;
    if (e->owns_path && lstat(e->path, &st) == 0 &&
        (e->inode == 0 || (st.st_dev == e->device && st.st_ino == e->inode))) {
        unlink(e->path);
    }
    if (e->fd >= 0) {
        close(e->fd);
    }
    *e = (struct endpoint){.fd = -1};
}

bool endpoint_is_local(const struct endpoint *e)
{
    struct in_addr four;
    struct in6_addr six;
    if (e->is_unix) {
        return true;
    }
    if (inet_pton(AF_INET, e->host, &four) == 1) {
        return (ntohl(four.s_addr) >> 24) == 127;
    }
    return inet_pton(AF_INET6, e->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}
