/* SPDX-License-Identifier: MIT
 *
 * The system provider: load, memory, disk and network of this machine as live JSON.
 *
 * Mounted at system://metrics/ it serves the container `system://metrics` (everything in one
 * object) and its children `system://metrics/disk`, `/load`, `/memory` and `/network`.
 *
 * Configuration (the text given to open; empty: the defaults):
 *
 *     {"interval": "2s",      how often to look while somebody watches; 100ms to 1h
 *      "proc": "/proc"}       where to look
 *
 * Nothing is sampled but what is read or watched. A change is announced only when a value differs
 * from the last one that anybody was given. All work is done on one thread of the instance, so a
 * file system that hangs delays other metrics and nothing else.
 */
#ifndef PROVIDER_SYSTEM_H
#define PROVIDER_SYSTEM_H

#include <tidings/provider.h>

extern const struct tidings_provider_ops provider_system_ops;

/* The name of metric `i`, relative to the prefix; empty after the last one. All can be subscribed
 * to. */
struct tidings_str provider_system_row(size_t i, bool *ret_not_subscribable);

#define PROVIDER_SYSTEM_PREFIX "system://metrics/" /* where it is mounted unless told otherwise */

#endif
