/* SPDX-License-Identifier: MIT
 *
 * Shared code of the bare servers on sockets. None of it is part of their measurement, except the
 * one clock reading in baseline_obey.
 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <stdbool.h>
#include <stddef.h>

/* Listens on a free port of 127.0.0.1 and prints it on standard error, as `scheme`://…; -1 with
 * errno set on failure. */
int baseline_listen(const char *scheme);

/* The next connection that waits, non-blocking and without delay; -1: none. */
int baseline_accept(int listener);

/* ---- those that send to many ------------------------------------------------------------------
 */

enum { BASELINE_STREAMS_MAX = 65536, BASELINE_EVENT_MAX = 1 << 20 };

/* The start of a stream: two empty events. */
#define BASELINE_BEGINNING ":\n\n:\n\n"

/* The event that every stream is sent, of baseline_event_size bytes. */
extern char baseline_event[BASELINE_EVENT_MAX];
extern size_t baseline_event_size;

/* Makes the event from `size`, the text of a number from 3 to BASELINE_EVENT_MAX, and allows as
 * many open files as there may be; false: it is no such number. */
bool baseline_prepare(const char *size);

/* The send buffer that a stream has. */
void baseline_set_buffer(int fd);

/* Reads the available standard input, whose end ends the program. For every line, reads the
 * monotonic clock, publishes, and prints that reading; false if `publish` fails or there are no
 * readers. */
bool baseline_obey(bool (*publish)(void));

#endif
