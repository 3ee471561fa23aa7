/* SPDX-License-Identifier: MIT
 *
 * Turning connections away.
 */
#include "transport/turnaway.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define LOOK_MS 100u
#define STAY_MS 1000u
#define LOG_MS 1000u
#define SAID_MAX 1024u
#define DISCARD_STEPS 4 /* of what it sent, per look */

struct turnaway {
    struct loop *loop;
    struct loop_timer *timer;
    struct {
        int fd;
        uint64_t since_ms;
    } waiting[TURNAWAY_MAX]; /* a ring, oldest first */
    size_t first, count;
    int null;  /* of /dev/null, to make the spare one of; -1: none */
    int spare; /* -1: given back, until one of those that wait is closed */
    uint64_t logged_ms;
    unsigned unlogged;
};

/* false: the client is done with it too. */
static bool discard(int fd)
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
static void release(struct turnaway *t, int fd)
{
    if (t->spare < 0 && t->null >= 0 && dup3(t->null, fd, O_CLOEXEC) == fd) {
        t->spare = fd;
    } else {
        close(fd);
    }
}

static int take_first(struct turnaway *t)
{
    int fd = t->waiting[t->first].fd;
    t->first = (t->first + 1) % TURNAWAY_MAX;
    t->count--;
    return fd;
}

bool turnaway_make_room(struct turnaway *t)
{
    int fd = t->spare;
    t->spare = -1;
    if (fd < 0 && t->count > 0) {
        fd = take_first(t);
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void look(struct loop_timer *timer, void *user)
{
    struct turnaway *t = user;
    uint64_t now = loop_now_ms(t->loop);
    for (size_t i = 0; i < t->count; i++) {
        (void)discard(t->waiting[(t->first + i) % TURNAWAY_MAX].fd);
    }
    while (t->count > 0 &&
           (now - t->waiting[t->first].since_ms >= STAY_MS || !discard(t->waiting[t->first].fd))) {
        release(t, take_first(t));
    }
    if (t->count == 0) {
        loop_timer_stop(timer);
    }
}

void turnaway_keep(struct turnaway *t)
{
    if (t->spare < 0 && t->null >= 0) {
        t->spare = fcntl(t->null, F_DUPFD_CLOEXEC, 0);
    }
}

static void close_kept(struct turnaway *t)
{
    if (t->spare >= 0) {
        close(t->spare);
    }
    if (t->null >= 0) {
        close(t->null);
    }
}

struct turnaway *turnaway_create(struct loop *loop)
{
    struct turnaway *t = mem_zalloc(sizeof(*t));
    if (t) {
        t->loop = loop;
        t->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        t->spare = t->null < 0 ? -1 : fcntl(t->null, F_DUPFD_CLOEXEC, 0);
        t->timer = loop_timer_open(loop, look, t);
    }
    if (t && !t->timer) {
        close_kept(t);
        mem_free(t);
        t = NULL;
    }
    return t;
}

void turnaway_destroy(struct turnaway *t)
{
    if (!t) {
        return;
    }
    while (t->count > 0) {
        close(take_first(t));
    }
    close_kept(t);
    loop_timer_close(t->timer);
    mem_free(t);
}

void turnaway_log(struct turnaway *t, const char *reason, const char *door)
{
    uint64_t now = loop_now_ms(t->loop);
    if (t->logged_ms > 0 && now - t->logged_ms < LOG_MS) {
        t->unlogged++;
        return;
    }
    log_warn("connection refused", "reason=\"%s\" door=%s others=%u", reason, door, t->unlogged);
    t->logged_ms = now > 0 ? now : 1;
    t->unlogged = 0;
}

/* A record with a fatal alert, internal_error (RFC 8446 §6.2): all that can be said before a
 * handshake. */
static const char alert[] = {21, 3, 3, 0, 2, 2, 80};

static void say(int fd, enum door_kind kind, const struct refusal *why, const char *sentence)
{
    char data[REFUSAL_JSON], body[512], text[SAID_MAX];
    struct tidings_str json = refusal_json(why, data);
    int n = snprintf(body, sizeof(body),
                     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"%s\","
                     "\"data\":{\"reason\":\"limit\",%.*s}}\n",
                     sentence, (int)json.len - 1, json.ptr + 1);
    if (n > 0 && kind == DOOR_HTTP) {
        n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nRetry-After: %llu\r\nContent-Type: application/json\r\n"
                     "Cross-Origin-Resource-Policy: same-origin\r\nContent-Length: "
                     "%d\r\nConnection: close\r\n\r\n%s",
                     refusal_status(why) == 429 ? "429 Too Many Requests"
                                                : "503 Service Unavailable",
                     (unsigned long long)refusal_seconds(why), n, body);
    }
    if (n > 0) {
        (void)!send(fd, kind == DOOR_HTTP ? text : body, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(fd, SHUT_WR);
}

void turnaway_say(struct turnaway *t, int fd, enum door_kind kind, const struct refusal *why,
                  const char *door)
{
    char sentence[REFUSAL_SENTENCE];
    turnaway_log(t, refusal_sentence(why, sentence), door);
    if (kind == DOOR_KINDS) {
        (void)!send(fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
    } else {
        say(fd, kind, why, sentence);
    }
    if (!discard(fd)) {
        release(t, fd);
        return;
    }
    if (t->count == TURNAWAY_MAX) {
        release(t, take_first(t));
    }
    size_t at = (t->first + t->count++) % TURNAWAY_MAX;
    t->waiting[at].fd = fd;
    t->waiting[at].since_ms = loop_now_ms(t->loop);
    if (!loop_timer_is_running(t->timer)) {
        loop_timer_start(t->timer, LOOK_MS, LOOK_MS);
    }
}
