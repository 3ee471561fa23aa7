/* SPDX-License-Identifier: MIT
 *
 * Accepts connections and chooses the worker of each.
 */
#include "transport/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Binds and listens at an address or a path, or checks a socket that was passed in.
 */

#define BACKLOG 1024

static int open_socket(struct endpoint *e, int family, struct tidings_error *err)
{
    e->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return e->fd < 0 ? error_errno(err, errno, "socket") : 0;
}

/* Gets its name from the kernel. */
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
    return !refused; /* if unknown, assume that it is */
}

/* Removes the socket of a server that has ended, and nothing else. */
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
    /* Before it listens clients cannot connect, so none can with other permissions. */
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

/* -------------------------------------------------------------------------------------------------
 * Hands connections to workers and counts the connections of each worker.
 */

void handover_destroy(struct handover *h)
{
    tls_session_destroy(h->tls);
    worker_inbox_give_back(h->inbox, h->quota, h->origin);
    close(h->fd);
    buf_deinit(&h->in);
    mem_free(h);
}

static void worker_inbox_drop(struct thread_message *message)
{
    handover_destroy(list_entry(message, struct handover, message));
}

struct handover *handover_create(int fd, struct tls_session *tls)
{
    struct handover *h = mem_zalloc(sizeof(*h));
    if (!h) {
        tls_session_destroy(tls);
        close(fd);
        return NULL;
    }
    h->message.drop = worker_inbox_drop;
    h->tls = tls;
    h->fd = fd;
    buf_init(&h->in, 0);
    return h;
}

void worker_inbox_send(struct worker_inbox *r, struct handover *h)
{
    h->message.deliver = r->adopt;
    __atomic_add_fetch(&r->count, 1, __ATOMIC_RELAXED);
    h->inbox = r;
    mailbox_send(r->mailbox, &h->message);
}

size_t worker_inbox_count(const struct worker_inbox *r)
{
    return __atomic_load_n(&r->count, __ATOMIC_RELAXED);
}

void worker_inbox_left(struct worker_inbox *r)
{
    __atomic_sub_fetch(&r->count, 1, __ATOMIC_RELAXED);
}

void worker_inbox_give_back(const struct worker_inbox *r, struct quota *quota,
                            struct client_account *origin)
{
    quota_leave(quota);
    if (origin) {
        share_give(r->limit_counters, LIMIT_CONNECTIONS, 1, origin);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Sends the reason of a rejection, and closes the connection when the client has read it or a
 * second later.
 */

#define CHANGE_QUERY_MS 100u
#define STAY_MS 1000u
#define LOG_MS 1000u
#define SAID_MAX 1024u
#define DISCARD_STEPS 4 /* of its input, per check */

struct reject_list {
    struct loop *loop;
    struct loop_timer *timer;
    struct {
        int fd;
        uint64_t since_ms;
    } waiting[REJECT_MAX]; /* a ring, oldest first */
    size_t first, count;
    int null;  /* of /dev/null, to duplicate as the spare one; -1: none */
    int spare; /* -1: in use, until a waiting connection is closed */
    uint64_t logged_ms;
    unsigned unlogged;
};

/* Returns false if the client has also closed it. */
static bool reject_discard(int fd)
{
    char scratch[16384];
    ssize_t n = 1;
    for (int i = 0; i < DISCARD_STEPS && n > 0; i++) {
        n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
    }
    return n != 0;
}

/* Its descriptor becomes the spare one, if that was used: in one step, so that no other thread gets
 * it. */
static void reject_release(struct reject_list *r, int fd)
{
    if (r->spare < 0 && r->null >= 0 && dup3(r->null, fd, O_CLOEXEC) == fd) {
        r->spare = fd;
    } else {
        close(fd);
    }
}

static int take_first(struct reject_list *r)
{
    int fd = r->waiting[r->first].fd;
    r->first = (r->first + 1) % REJECT_MAX;
    r->count--;
    return fd;
}

/* If there are no descriptors, frees one to accept and reject one more connection: the spare one or
 * that of the oldest waiting one. Returns false if there is none. */
static bool reject_free_descriptor(struct reject_list *r)
{
    int fd = r->spare;
    r->spare = -1;
    if (fd < 0 && r->count > 0) {
        fd = take_first(r);
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void reject_check(struct loop_timer *timer, void *user)
{
    struct reject_list *r = user;
    uint64_t now = loop_now_ms(r->loop);
    for (size_t i = 0; i < r->count; i++) {
        (void)reject_discard(r->waiting[(r->first + i) % REJECT_MAX].fd);
    }
    while (r->count > 0 && (now - r->waiting[r->first].since_ms >= STAY_MS ||
                            !reject_discard(r->waiting[r->first].fd))) {
        reject_release(r, take_first(r));
    }
    if (r->count == 0) {
        loop_timer_stop(timer);
    }
}

/* Tries to reserve the spare descriptor again. */
static void reject_keep_descriptor(struct reject_list *r)
{
    if (r->spare < 0 && r->null >= 0) {
        r->spare = fcntl(r->null, F_DUPFD_CLOEXEC, 0);
    }
}

static void close_kept(struct reject_list *r)
{
    if (r->spare >= 0) {
        close(r->spare);
    }
    if (r->null >= 0) {
        close(r->null);
    }
}

struct reject_list *reject_list_create(struct loop *loop)
{
    struct reject_list *r = mem_zalloc(sizeof(*r));
    if (r) {
        r->loop = loop;
        r->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r->spare = r->null < 0 ? -1 : fcntl(r->null, F_DUPFD_CLOEXEC, 0);
        r->timer = loop_timer_open(loop, reject_check, r);
    }
    if (r && !r->timer) {
        close_kept(r);
        mem_free(r);
        r = NULL;
    }
    return r;
}

void reject_list_destroy(struct reject_list *r)
{
    if (!r) {
        return;
    }
    while (r->count > 0) {
        close(take_first(r));
    }
    close_kept(r);
    loop_timer_close(r->timer);
    mem_free(r);
}

/* Logs a rejected connection, at most once a second. */
static void reject_log(struct reject_list *r, const char *reason, const char *url)
{
    uint64_t now = loop_now_ms(r->loop);
    if (r->logged_ms > 0 && now - r->logged_ms < LOG_MS) {
        r->unlogged++;
        return;
    }
    log_warn(LOG_TRANSPORT, "connection refused", KV("reason", reason), KV("listener", url),
             KV("others", r->unlogged));
    r->logged_ms = now > 0 ? now : 1;
    r->unlogged = 0;
}

/* A record with a fatal alert, internal_error (RFC 8446 §6.2): the only possible message before a
 * handshake. */
static const char alert[] = {21, 3, 3, 0, 2, 2, 80};

static void reject_say(int fd, enum listener_kind kind, const struct refusal *why,
                       const char *sentence)
{
    char data[REFUSAL_JSON], body[512], text[SAID_MAX];
    struct tidings_str json = refusal_json(why, data);
    int n = snprintf(body, sizeof(body),
                     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"%s\","
                     "\"data\":{\"reason\":\"limit\",%.*s}}\n",
                     sentence, (int)json.len - 1, json.ptr + 1);
    if (n > 0 && kind == LISTENER_HTTP) {
        n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nRetry-After: %llu\r\nContent-Type: application/json\r\n"
                     "Cross-Origin-Resource-Policy: same-origin\r\nContent-Length: "
                     "%d\r\nConnection: close\r\n\r\n%s",
                     refusal_status(why) == 429 ? "429 Too Many Requests"
                                                : "503 Service Unavailable",
                     (unsigned long long)refusal_seconds(why), n, body);
    }
    if (n > 0) {
        (void)!send(fd, kind == LISTENER_HTTP ? text : body, (size_t)n,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(fd, SHUT_WR);
}

/* Takes the descriptor. `kind` LISTENER_KINDS: it uses TLS and gets an alert, because more would
 * require a handshake, which costs more than accepting it. `url` of the listener is for the log,
 * which has one line a second. */
static void reject_connection(struct reject_list *r, int fd, enum listener_kind kind,
                              const struct refusal *why, const char *url)
{
    char sentence[REFUSAL_SENTENCE];
    reject_log(r, refusal_sentence(why, sentence), url);
    if (kind == LISTENER_KINDS) {
        (void)!send(fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
    } else {
        reject_say(fd, kind, why, sentence);
    }
    if (!reject_discard(fd)) {
        reject_release(r, fd);
        return;
    }
    if (r->count == REJECT_MAX) {
        reject_release(r, take_first(r));
    }
    size_t at = (r->first + r->count++) % REJECT_MAX;
    r->waiting[at].fd = fd;
    r->waiting[at].since_ms = loop_now_ms(r->loop);
    if (!loop_timer_is_running(r->timer)) {
        loop_timer_start(r->timer, CHANGE_QUERY_MS, CHANGE_QUERY_MS);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define ACCEPTS_PER_TURN 64
#define PAUSE_MS 100u
#define URL_MAX 256u

struct listener {
    struct loop *loop;
    struct listener_options options;
    struct endpoint endpoint;
    struct loop_poll *poll;
    struct loop_timer *pause;
    struct buf url;
};

/* The ALPN names of protocols inside TLS, for clients that request one. */
static const char *const protocols[LISTENER_KINDS] = {[LISTENER_HTTP] = "http/1.1"};

static size_t load_of(const struct worker_inboxes *inboxes)
{
    size_t load = 0;
    for (size_t i = 0; i < LISTENER_KINDS; i++) {
        load += inboxes->by_kind[i] ? worker_inbox_count(inboxes->by_kind[i]) : 0;
    }
    return load;
}

static const struct worker_inboxes *least_loaded(const struct listener *l)
{
    const struct worker_inboxes *best = NULL;
    size_t least = 0;
    for (size_t i = 0; i < l->options.worker_count; i++) {
        const struct worker_inboxes *inboxes = &l->options.inboxes[i];
        size_t load = load_of(inboxes);
        if (!best || load < least) {
            best = inboxes;
            least = load;
        }
    }
    return best;
}

static void listener_reject(struct listener *l, int fd, const struct refusal *why)
{
    const struct listener_protocol *protocol = l->options.protocol;
    reject_connection(l->options.rejects, fd, protocol->tls ? LISTENER_KINDS : protocol->kind, why,
                      l->url.ptr);
}

/* Takes the share of a client. Connections are counted before their client is identified: so the
 * reserve is for those on Unix sockets. */
static int take_share(struct listener *l, const struct worker_inbox *inbox,
                      const union socket_address *from, const char *name, bool is_local,
                      struct client_account **ret, struct refusal *why)
{
    char account[CLIENT_ACCOUNT_NAME_MAX];
    bool is_unix = from->any.sa_family == AF_UNIX;
    snprintf(account, sizeof(account), "%s %s", is_unix ? "user" : "address", name);
    *ret = client_accounts_find(l->options.client_accounts,
                                is_local && !is_unix ? STR(CLIENT_ACCOUNT_MACHINE)
                                                     : tidings_str(account),
                                loop_now_ms(l->loop));
    if (!*ret) {
        return TIDINGS_E_NOMEM;
    }
    const struct share_taker who = {.account = *ret, .is_operator = is_unix};
    bool has_room = share_take(inbox->limit_counters, LIMIT_CONNECTIONS, l->options.max_connections,
                               1, &who, why);
    client_account_release(*ret); /* its share keeps a reference */
    return has_room ? 0 : TIDINGS_E_LIMIT;
}

/* Reserves a place for one more connection of that client, in `h`. */
static int take_place(struct listener *l, const union socket_address *from, struct handover *h,
                      struct refusal *why)
{
    char name[QUOTA_NAME_MAX];
    bool is_local = peer_identity_quota_name(h->fd, from, name);
    int rc = take_share(l, h->inbox, from, name, is_local, &h->origin, why);
    if (rc < 0) {
        h->origin = NULL;
        return rc;
    }
    return quotas_enter(l->options.quotas, tidings_str(name), is_local, loop_now_ms(l->loop),
                        &h->quota, why);
}

static void hand_over(struct listener *l, int fd, const union socket_address *from)
{
    const struct listener_protocol *protocol = l->options.protocol;
    const struct worker_inboxes *inboxes = least_loaded(l);
    struct worker_inbox *inbox = inboxes->by_kind[protocol->kind];
    struct handover place = {.fd = fd, .inbox = inbox};
    struct refusal why;
    int rc = take_place(l, from, &place, &why);
    if (rc == TIDINGS_E_LIMIT) {
        worker_inbox_give_back(inbox, place.quota, place.origin);
        listener_reject(l, fd, &why);
        return;
    }
    struct tls_session *tls = NULL;
    if (rc < 0 ||
        (protocol->tls && !(tls = tls_session_create(protocol->tls, protocols[protocol->kind])))) {
        log_warn(LOG_TRANSPORT, "connection refused", KV("reason", "out of memory"),
                 KV("listener", l->url.ptr));
        worker_inbox_give_back(inbox, place.quota, place.origin);
        close(fd);
        return;
    }
    struct handover *h = handover_create(fd, tls);
    if (h) {
        h->quota = place.quota;
        h->origin = place.origin;
        worker_inbox_send(inbox, h);
    } else {
        worker_inbox_give_back(inbox, place.quota, place.origin);
    }
}

static int accept_one(struct listener *l, union socket_address *from)
{
    socklen_t len = sizeof(*from);
    return accept4(l->endpoint.fd, &from->any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* There are no descriptors left: rejects the client with the spare one. Returns false, with errno,
 * if there was no client, or no descriptor even for that. */
static bool reject_next(struct listener *l)
{
    union socket_address from = {0};
    if ((errno != EMFILE && errno != ENFILE) || !reject_free_descriptor(l->options.rejects)) {
        return false;
    }
    int fd = accept_one(l, &from);
    if (fd < 0) {
        int failed = errno;
        reject_keep_descriptor(l->options.rejects);
        errno = failed;
        return false;
    }
    struct limit_counters *counters =
        least_loaded(l)->by_kind[l->options.protocol->kind]->limit_counters;
    struct refusal why =
        limit_refusal(LIMIT_CONNECTIONS, limit_in_use(counters, LIMIT_CONNECTIONS), false);
    limit_hit(counters, LIMIT_CONNECTIONS);
    listener_reject(l, fd, &why);
    return true;
}

static void listener_on_ready(struct loop_poll *poll, int events, void *user)
{
    (void)events;
    struct listener *l = user;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        union socket_address from = {0};
        int fd = accept_one(l, &from);
        if (fd >= 0) {
            hand_over(l, fd, &from);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED) {
            continue;
        }
        if (reject_next(l)) {
            return; /* the number of waiting clients is unknown: accept(2) needs a descriptor first
                     */
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            reject_log(l->options.rejects, strerror(errno), l->url.ptr);
            loop_poll_set_events(poll, 0);
            loop_timer_start(l->pause, PAUSE_MS, 0);
        }
        return;
    }
}

static void listener_resume(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct listener *l = user;
    loop_poll_set_events(l->poll, LOOP_READ);
}

static int write_url(struct listener *l)
{
    const struct endpoint *e = &l->endpoint;
    bool is_http = l->options.protocol->kind == LISTENER_HTTP,
         is_secure = l->options.protocol->tls != NULL;
    const char *path = !is_http ? "" : l->options.path ? l->options.path : "/mcp";
    const char *scheme = is_http ? (is_secure ? "https" : "http") : is_secure ? "tls" : "tcp";
    if (e->is_unix) {
        return buf_putf(&l->url, "%s:%s", is_http ? "http+unix" : "unix", e->path);
    }
    return buf_putf(&l->url, strchr(e->host, ':') ? "%s://[%s]:%u%s" : "%s://%s:%u%s", scheme,
                    e->host, e->port, path);
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
    buf_init(&l->url, URL_MAX);
    if (endpoint_open(&l->endpoint, &options->at, err) < 0) {
        listener_close(l);
        return NULL;
    }
    l->pause = loop_timer_open(loop, listener_resume, l);
    l->poll = loop_poll_open(loop, l->endpoint.fd, listener_on_ready, l, err);
    if (!l->pause || write_url(l) < 0) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        listener_close(l);
        return NULL;
    }
    if (!l->poll || loop_poll_set_events(l->poll, LOOP_READ) < 0) {
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
    endpoint_close(&l->endpoint);
    buf_deinit(&l->url);
    mem_free(l);
}

const char *listener_url(const struct listener *l)
{
    return l->url.ptr;
}

const struct endpoint *listener_endpoint(const struct listener *l)
{
    return &l->endpoint;
}
