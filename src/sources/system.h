/* SPDX-License-Identifier: MIT
 *
 * The system provider: load, memory, disk and network of this machine as live JSON.
 *
 * Mounted at system://metrics/ it serves the container `system://metrics` (everything in one
 * object) and its children `system://metrics/disk`, `/load`, `/memory` and `/network`.
 *
 * Configuration (the text given to open; empty: the defaults):
 *
 *     {"interval": "2s",      between two samples while subscribed; 100ms to 1h
 *      "proc": "/proc"}       folder to read
 *
 * Only metrics that are read or watched are sampled. A change is announced only if a value differs
 * from the last one that any client received. All work is done on one thread of the instance, so a
 * stalled file system delays only other metrics.
 */
#ifndef SOURCES_SYSTEM_H
#define SOURCES_SYSTEM_H

#include <tidings/provider.h>
#include <tidings/types.h>

extern const struct tidings_provider_ops provider_system_ops;

/* Returns the name of metric `i`, relative to the prefix; empty after the last one. All of them
 * support subscriptions. */
struct tidings_str provider_system_row(size_t i, bool *ret_not_subscribable);

#define PROVIDER_SYSTEM_PREFIX "system://metrics/" /* its default mount */

/* -------------------------------------------------------------------------------------------------
 * Parsers for the files of /proc that the system provider reads. Pure; they accept any input,
 * allocate nothing, and treat numbers that do not fit as malformed.
 */

/* /proc/loadavg: "0.05 0.10 0.02 1/345 6789". */
struct system_load {
    uint32_t hundredths[3]; /* of the last 1, 5 and 15 minutes */
    uint32_t running, threads;
};
bool system_parse_load(struct tidings_str text, struct system_load *ret);

/* /proc/meminfo, in bytes. Missing lines count as 0, except MemTotal, which is required. */
struct system_memory {
    uint64_t total, unused, available, buffers, cached, swap_total, swap_free;
};
bool system_parse_memory(struct tidings_str text, struct system_memory *ret);

/* One line of /proc/net/dev. `name` is a slice of the text. */
struct system_interface {
    struct tidings_str name;
    uint64_t received[4], sent[4]; /* bytes, packets, errors, dropped */
};
/* Gets the next interface; *text advances past it. Skips lines of another form. */
bool system_next_interface(struct tidings_str *text, struct system_interface *ret);

/* One line of /proc/self/mounts. */
struct system_mount {
    struct tidings_str device, type; /* slices of the text, not unescaped */
    char path[1024];                 /* decoded */
};
/* Gets the next file system on a device of this machine, or the root. Skips longer paths. */
bool system_next_mount(struct tidings_str *text, struct system_mount *ret);

#endif
