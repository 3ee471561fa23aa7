/* SPDX-License-Identifier: MIT
 *
 * Says why a connection is refused, and closes it when that was read or a second later.
 */
#include "transport/reject.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define CHANGE_QUERY_MS 100u
#define STAY_MS 1000u
#define LOG_MS 1000u
#define SAID_MAX 1024u
#define DISCARD_STEPS 4 /* of what it sent, per look */

struct reject_list {
    struct loop *loop;
    struct loop_timer *timer;
    struct {
        int fd;
        uint64_t since_ms;
    } waiting[REJECT_MAX]; /* a ring, oldest first */
    size_t first, count;
    int null;  /* of /dev/null, to make the spare one of; -1: none */
    int spare; /* -1: given back, until one of those that wait is closed */
    uint64_t logged_ms;
    unsigned unlogged;
};

/* false: the client is done with it too. */
static bool reject_discard(int fd)
{
    char scratch[16384];
    ssize_t n = 1;
    for (int i = 0; i < DISCARD_STEPS && n > 0; i++) {
        n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
    }
    return n != 0;
}

/* Its place becomes the spare one, if that was given back: in one step, so that no other thread
 * gets it. */
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

bool reject_free_descriptor(struct reject_list *r)
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

void reject_keep_descriptor(struct reject_list *r)
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

void reject_log(struct reject_list *r, const char *reason, const char *url)
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

/* A record with a fatal alert, internal_error (RFC 8446 §6.2): all that can be said before a
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

void reject_connection(struct reject_list *r, int fd, enum listener_kind kind,
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
