/* SPDX-License-Identifier: MIT
 *
 * Turning connections away.
 */
#include "transport/turnaway.h"

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

static void close_first(struct turnaway *t)
{
    close(t->waiting[t->first].fd);
    t->first = (t->first + 1) % TURNAWAY_MAX;
    t->count--;
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
        close_first(t);
    }
    if (t->count == 0) {
        loop_timer_stop(timer);
    }
}

struct turnaway *turnaway_create(struct loop *loop)
{
    struct turnaway *t = mem_zalloc(sizeof(*t));
    if (t) {
        t->loop = loop;
        t->timer = loop_timer_open(loop, look, t);
    }
    if (t && !t->timer) {
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
        close_first(t);
    }
    loop_timer_close(t->timer);
    mem_free(t);
}

static void tell_log(struct turnaway *t, const char *sentence, const char *door)
{
    uint64_t now = loop_now_ms(t->loop);
    if (t->logged_ms > 0 && now - t->logged_ms < LOG_MS) {
        t->unlogged++;
        return;
    }
    log_warn("connection refused", "reason=\"%s\" door=%s others=%u", sentence, door, t->unlogged);
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
    tell_log(t, refusal_sentence(why, sentence), door);
    if (kind == DOOR_KINDS) {
        (void)!send(fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
    } else {
        say(fd, kind, why, sentence);
    }
    if (!discard(fd)) {
        close(fd);
        return;
    }
    if (t->count == TURNAWAY_MAX) {
        close_first(t);
    }
    size_t at = (t->first + t->count++) % TURNAWAY_MAX;
    t->waiting[at].fd = fd;
    t->waiting[at].since_ms = loop_now_ms(t->loop);
    if (!loop_timer_is_running(t->timer)) {
        loop_timer_start(t->timer, LOOK_MS, LOOK_MS);
    }
}
