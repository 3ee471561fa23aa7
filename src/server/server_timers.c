/* SPDX-License-Identifier: MIT
 *
 * tidings_server_every: functions of the program that are called periodically, on the thread that
 * runs the server.
 */
#include <tidings/server.h>

#include "base/error.h"
#include "base/mem.h"
#include "server/server_private.h"

#define TIMERS_MAX 64u

struct server_timer {
    struct list link;
    struct loop_timer *timer;
    uint64_t ms;
    tidings_timer_fn fn;
    void *user;
};

static void on_time(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct server_timer *t = user;
    t->fn(t->user);
}

int tidings_server_every(struct tidings_server *s, uint64_t ms, tidings_timer_fn fn, void *user,
                         struct tidings_error *err)
{
    int rc = server_check_new(s, err);
    if (rc < 0) {
        return rc;
    }
    if (ms == 0 || !fn || s->timer_count == TIMERS_MAX) {
        return tidings_fail(err, s->timer_count == TIMERS_MAX ? TIDINGS_E_LIMIT : TIDINGS_E_INVALID,
                            "a timer needs a period and a function; there may be %u", TIMERS_MAX);
    }
    struct server_timer *t = mem_zalloc(sizeof(*t));
    struct loop_timer *timer = t ? loop_timer_open(s->loop, on_time, t) : NULL;
    if (!timer) {
        mem_free(t);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *t = (struct server_timer){.timer = timer, .ms = ms, .fn = fn, .user = user};
    list_append(&s->timers, &t->link);
    s->timer_count++;
    return 0;
}

void server_timers_start(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        struct server_timer *t = list_entry(it, struct server_timer, link);
        loop_timer_start(t->timer, t->ms, t->ms);
    }
}

void server_timers_stop(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        loop_timer_stop(list_entry(it, struct server_timer, link)->timer);
    }
}

void server_timers_close(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        struct server_timer *t = list_entry(it, struct server_timer, link);
        loop_timer_close(t->timer);
        mem_free(t);
    }
}
