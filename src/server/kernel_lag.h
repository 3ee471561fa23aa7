/* SPDX-License-Identifier: MIT
 *
 * What a stream has written may still lie in the kernel, because its client does not read. Only
 * the kernel knows, and is asked about some of the streams each time somebody wants figures.
 */
#ifndef SERVER_KERNEL_LAG_H
#define SERVER_KERNEL_LAG_H

#include <stdint.h>

/* Streams that are asked about each time, in turn: with more of them a stalled client is noticed
 * some figures later, and counts until its turn comes again. */
#define KERNEL_LAG_ASKED 128u

struct worker;

/* For how long the clients of this worker have taken nothing of what the kernel holds for them: the
 * longest, in microseconds. On the worker's thread. */
uint64_t kernel_lag_us(struct worker *worker);

#endif
