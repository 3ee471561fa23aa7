/* SPDX-License-Identifier: MIT
 *
 * The texts of /proc that the system provider reads, as values. Pure; any text is answered, nothing
 * is allocated, numbers that do not fit are malformed.
 */
#ifndef PROVIDER_SYSTEM_PARSE_H
#define PROVIDER_SYSTEM_PARSE_H

#include <tidings/types.h>

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
