/* SPDX-License-Identifier: MIT
 *
 * A timerfd on a loop.
 */
#include "oauth/alarm.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"

static void alarm_on_ready(struct loop_poll *poll, int events, void *user)
{
    struct alarm *a = user;
    uint64_t count;
    (void)poll;
    (void)events;
    if (read(a->fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        a->fn(a->user);
    }
}

int alarm_init(struct alarm *a, struct loop *loop, void (*fn)(void *user), void *user,
               struct tidings_error *err)
{
    *a = (struct alarm){.fn = fn, .user = user};
    a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->fd < 0) {
        return error_errno(err, errno, "make a timer");
    }
    a->poll = loop_poll_open(loop, a->fd, alarm_on_ready, a, err);
    if (!a->poll) {
        alarm_deinit(a);
        return TIDINGS_E_NOMEM;
    }
    return loop_poll_want(a->poll, LOOP_READ);
}

void alarm_deinit(struct alarm *a)
{
    loop_poll_close(a->poll);
    a->poll = NULL;
    if (a->fd >= 0) {
        close(a->fd);
        a->fd = -1;
    }
}

void alarm_set(struct alarm *a, uint64_t ms)
{
    struct itimerspec t = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};
    (void)timerfd_settime(a->fd, 0, &t, NULL);
}
