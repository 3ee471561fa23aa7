/* SPDX-License-Identifier: MIT
 *
 * Many streams of one server, read by one thread with epoll. Events are counted, not parsed: an
 * event ends with an empty line, or is a frame of a WebSocket. Every stream has to get the same
 * number of them; one too many is as fatal as one too few.
 */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

struct streams {
    struct stream *all;
    size_t count, max;
    bool is_websocket;
    int epoll;
    uint64_t goal;  /* events each is to have had */
    size_t reached; /* streams that have */
    uint64_t bytes; /* all that came, decrypted */
    bool is_secure; /* to be set before they are opened */
    /* The last input on the first of them, NUL-terminated. */
    char last[8192];
};

/* Raises the limit of descriptors as far as it goes; dies when that is not enough. */
void streams_init(struct streams *s, size_t count);
/* Connects all and sends `request` on each. Returns when each has begun: head and two events, or
 * the head of the upgrade and one frame (set is_websocket after streams_init). */
void streams_open(struct streams *s, unsigned port, const char *request, size_t n);
/* Waits until each has had `events` more. Returns when the last of them came. */
int64_t streams_wait(struct streams *s, uint64_t events);
/* Reads what comes until then; for the pauses of a load. Nothing is expected to. */
void streams_pause(struct streams *s, int64_t until_ns);
/* Segments with data that have come so far on all streams. On loopback one holds 64 KiB: a small
 * write of the server is one segment, a large one may be two. */
uint64_t streams_segments(const struct streams *s);
/* Resets the connections, so that no port is left waiting. */
void streams_close(struct streams *s);

#endif
