/* SPDX-License-Identifier: MIT
 *
 * What the process uses: memory, CPU, descriptors. What is read for it is opened before the process
 * gives up its rights, so that it can be asked afterwards.
 */
#ifndef SERVER_PROCESS_FIGURES_H
#define SERVER_PROCESS_FIGURES_H

#include <tidings/types.h>

struct process_figures {
    uint64_t resident_bytes, virtual_bytes;
    uint64_t cpu_us; /* of all threads, in user and kernel mode */
    uint64_t open_fds, max_fds;
    int64_t start_ms; /* Unix time */
};

struct process_probe {
    int statm, fds; /* -1: cannot be had */
    int64_t start_ms;
    uint64_t max_fds;
    uint64_t fds_counted, fds_counted_ms; /* atomic: the last count, and when */
    bool is_counting;                     /* atomic */
};

/* Before rights are given up; what cannot be had is 0 later. */
void process_probe_open(struct process_probe *probe);
void process_probe_close(struct process_probe *probe);
/* Any thread. */
void process_probe_read(struct process_probe *probe, struct process_figures *ret);

#endif
