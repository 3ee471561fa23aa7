/* SPDX-License-Identifier: MIT
 *
 * Accepts connections and chooses the worker of each.
 */
#include "transport/listener.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "access/allowance.h"
#include "access/share.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/peer_identity.h"
#include "transport/socket_address.h"

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

/* What is spoken inside TLS, for clients that ask. */
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

/* Takes the share of a client. Connections are counted before it can be known who it is: so the
 * reserve is for those on Unix sockets. */
static int take_share(struct listener *l, const struct worker_inbox *inbox,
                      const union socket_address *from, const char *name, bool is_local,
                      struct allowance **ret, struct refusal *why)
{
    char account[ALLOWANCE_NAME_MAX];
    bool is_unix = from->any.sa_family == AF_UNIX;
    snprintf(account, sizeof(account), "%s %s", is_unix ? "user" : "address", name);
    *ret = allowances_find(l->options.allowances,
                           is_local && !is_unix ? STR(ALLOWANCE_MACHINE) : tidings_str(account),
                           loop_now_ms(l->loop));
    if (!*ret) {
        return TIDINGS_E_NOMEM;
    }
    const struct share_taker who = {.account = *ret, .is_operator = is_unix};
    bool has_room = share_take(inbox->limit_counters, LIMIT_CONNECTIONS, l->options.max_connections,
                               1, &who, why);
    allowance_release(*ret); /* its share holds it */
    return has_room ? 0 : TIDINGS_E_LIMIT;
}

/* A place for one more connection of that client, into `h`. */
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

/* There are no descriptors left: with one that was kept for this the client is told so. false, with
 * errno: nobody was there, or not even that. */
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
            return; /* whether there are more is not known: accept(2) wants a descriptor first */
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            reject_log(l->options.rejects, strerror(errno), l->url.ptr);
            loop_poll_want(poll, 0);
            loop_timer_start(l->pause, PAUSE_MS, 0);
        }
        return;
    }
}

static void listener_resume(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct listener *l = user;
    loop_poll_want(l->poll, LOOP_READ);
}

static int write_url(struct listener *l)
{
    const struct endpoint *e = &l->endpoint;
    bool is_http = l->options.protocol->kind == LISTENER_HTTP,
         is_secure = l->options.protocol->tls != NULL;
    const char *scheme = is_http ? (is_secure ? "https" : "http") : is_secure ? "tls" : "tcp";
    if (e->is_unix) {
        return buf_putf(&l->url, "%s:%s", is_http ? "http+unix" : "unix", e->path);
    }
    return buf_putf(&l->url, strchr(e->host, ':') ? "%s://[%s]:%u%s" : "%s://%s:%u%s", scheme,
                    e->host, e->port, is_http ? "/mcp" : "");
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
    if (!l->poll || loop_poll_want(l->poll, LOOP_READ) < 0) {
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
