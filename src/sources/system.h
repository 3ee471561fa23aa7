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
#ifndef SOURCES_SYSTEM_H
#define SOURCES_SYSTEM_H

#include <tidings/provider.h>
#include <tidings/types.h>

extern const struct tidings_provider_ops provider_system_ops;

/* The name of metric `i`, relative to the prefix; empty after the last one. All can be subscribed
 * to. */
struct tidings_str provider_system_row(size_t i, bool *ret_not_subscribable);

#define PROVIDER_SYSTEM_PREFIX "system://metrics/" /* where it is mounted unless told otherwise */

/* -------------------------------------------------------------------------------------------------
 * The texts of /proc that the system provider reads, as values. Pure; any text is answered, nothing
 * is allocated, numbers that do not fit are malformed.
 */

/* /proc/loadavg: "0.05 0.10 0.02 1/345 6789". */
struct system_load {
    uint32_t hundredths[3]; /* of the last 1, 5 and 15 minutes */
    uint32_t running, threads;
};
bool system_parse_load(struct tidings_str text, struct system_load *ret);

/* /proc/meminfo, in bytes. Lines that are not there count as 0, except MemTotal, which must be. */
struct system_memory {
    uint64_t total, unused, available, buffers, cached, swap_total, swap_free;
};
bool system_parse_memory(struct tidings_str text, struct system_memory *ret);

/* One line of /proc/net/dev. `name` is a slice of the text. */
struct system_interface {
    struct tidings_str name;
    uint64_t received[4], sent[4]; /* bytes, packets, errors, dropped */
};
/* The next interface; *text moves behind it. Lines of another form are passed over. */
bool system_next_interface(struct tidings_str *text, struct system_interface *ret);

/* One line of /proc/self/mounts. */
struct system_mount {
    struct tidings_str device, type; /* slices of the text, escapes as they stand */
    char path[1024];                 /* decoded */
};
/* The next file system on a device of this machine, or the root. Longer paths are passed over. */
bool system_next_mount(struct tidings_str *text, struct system_mount *ret);

#endif
