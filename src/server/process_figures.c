/* SPDX-License-Identifier: MIT
 *
 * Asking the kernel about the process. Counting descriptors one by one takes as long as there are
 * descriptors, so where the kernel does not know their number (before Linux 6.2) they are counted
 * at most every FDS_COUNT_MS.
 */
#include "server/process_figures.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define FDS_COUNT_MS 10000u

/* When the process began, from its age in ticks since boot; now, when that cannot be had. */
static int64_t process_start_ms(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    int64_t now = clock_wall_ms();
    if (n <= 0) {
        return now;
    }
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* names may have blanks; the third field follows */
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    unsigned long long ticks = 0;
    struct timespec boot;
    if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0) {
        return now;
    }
    int64_t up_ms = (int64_t)boot.tv_sec * 1000 + boot.tv_nsec / 1000000;
    return now - up_ms + (int64_t)(ticks * 1000u / (unsigned long)sysconf(_SC_CLK_TCK));
}

void process_probe_open(struct process_probe *probe)
{
    *probe = (struct process_probe){
        .statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
        .fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .start_ms = process_start_ms(),
    };
    struct rlimit most;
    probe->max_fds = getrlimit(RLIMIT_NOFILE, &most) == 0 ? most.rlim_cur : 0;
}

void process_probe_close(struct process_probe *probe)
{
    if (probe->statm >= 0) {
        close(probe->statm);
    }
    if (probe->fds >= 0) {
        close(probe->fds);
    }
    probe->statm = probe->fds = -1;
}

static uint64_t process_count_fds(int dir)
{
    uint64_t count = 0;
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0); /* nothing may be opened any more */
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d) {
        rewinddir(d);
    }
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        count += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
        return count - (count > 0); /* the one that looks */
    }
    if (copy >= 0) {
        close(copy);
    }
    return 0;
}

static uint64_t process_open_fds(struct process_probe *probe)
{
    struct stat st;
    if (probe->fds < 0 || fstat(probe->fds, &st) < 0) {
        return 0;
    }
    if (st.st_size > 0) {
        return (uint64_t)st.st_size;
    }
    uint64_t now = clock_monotonic_ms();
    uint64_t at = __atomic_load_n(&probe->fds_counted_ms, __ATOMIC_RELAXED);
    if ((at == 0 || now - at >= FDS_COUNT_MS) &&
        !__atomic_exchange_n(&probe->is_counting, true, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&probe->fds_counted, process_count_fds(probe->fds), __ATOMIC_RELAXED);
        __atomic_store_n(&probe->fds_counted_ms, now, __ATOMIC_RELAXED);
        __atomic_store_n(&probe->is_counting, false, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&probe->fds_counted, __ATOMIC_RELAXED);
}

void process_probe_read(struct process_probe *probe, struct process_figures *ret)
{
    char text[128];
    unsigned long long pages = 0, resident = 0;
    struct rusage use;
    *ret = (struct process_figures){.start_ms = probe->start_ms, .max_fds = probe->max_fds};
    ssize_t n = probe->statm < 0 ? -1 : pread(probe->statm, text, sizeof(text) - 1, 0);
    if (n > 0) {
        text[n] = '\0';
        if (sscanf(text, "%llu %llu", &pages, &resident) == 2) {
            uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
            ret->virtual_bytes = pages * size;
            ret->resident_bytes = resident * size;
        }
    }
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        ret->cpu_us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
                      (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    ret->open_fds = process_open_fds(probe);
}
