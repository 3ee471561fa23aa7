/* SPDX-License-Identifier: MIT
 *
 * What the bare servers on sockets have in common. None of it is part of what they measure, but for
 * the one clock reading that baseline_obey takes.
 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <stdbool.h>
#include <stddef.h>

/* Listens on a free port of 127.0.0.1 and says so on standard error, as `scheme`://…; -1 with errno
 * set when it cannot. */
int baseline_listen(const char *scheme);

/* The next connection that waits, non-blocking and without delay; -1: none. */
int baseline_accept(int listener);

/* ---- those that send to many ------------------------------------------------------------------
 */

enum { BASELINE_STREAMS_MAX = 65536, BASELINE_EVENT_MAX = 1 << 20 };

/* What a stream begins with: two empty events. */
#define BASELINE_BEGINNING ":\n\n:\n\n"

/* The event that every stream is sent, of baseline_event_size bytes. */
extern char baseline_event[BASELINE_EVENT_MAX];
extern size_t baseline_event_size;

/* Makes the event from `size`, the text of a number from 3 to BASELINE_EVENT_MAX, and allows as
 * many open files as there may be; false: it is no such number. */
bool baseline_prepare(const char *size);

/* The send buffer that a stream has. */
void baseline_set_buffer(int fd);

/* Reads what has come on standard input, whose end ends the program, and for every line publishes
 * and prints the monotonic clock as it was before; false when `publish` says so or nobody reads. */
bool baseline_obey(bool (*publish)(void));

#endif
