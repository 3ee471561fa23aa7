/* SPDX-License-Identifier: MIT
 *
 * Opening files of the configuration, and paths of them for libraries that open by name. What came
 * from the helper is copied into memory (memfd): Landlock would refuse to open its descriptor again
 * by the name in /proc, and does not refuse that of a file in memory.
 */
#include "base/confined_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct file_opener *file_opener; /* set before there are threads */

void file_set_opener(const struct file_opener *opener)
{
    file_opener = opener;
}

int file_open_log(const char *path)
{
    if (file_opener) {
        return file_opener->open_log(path);
    }
    int fd = open(path, FILE_LOG_FLAGS, FILE_LOG_MODE);
    return fd < 0 ? -errno : fd;
}

int confined_file_descriptor(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        return fd;
    }
    int errnum = errno;
    fd = errnum == EACCES && file_opener ? file_opener->open(path) : -errnum;
    return fd == -EPERM ? -errnum : fd; /* the helper does not know it either */
}

static int copy(int from, int to)
{
    char piece[16384];
    size_t total = 0;
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR) {
            continue;
        }
        total += n > 0 ? (size_t)n : 0;
        if (n < 0 || total > CONFINED_FILE_MAX || write(to, piece, (size_t)n) != n) {
            n = n < 0 ? -errno : total > CONFINED_FILE_MAX ? -EFBIG : -ENOSPC;
            break;
        }
    }
    explicit_bzero(piece, sizeof piece); /* keys are among them */
    return n < 0 ? (int)n : 0;
}

int confined_file_open(struct confined_file *f, const char *path)
{
    *f = (struct confined_file){.fd = -1, .path = path};
    if (!file_opener) {
        return 0; /* whoever opens it says what is wrong */
    }
    int from = confined_file_descriptor(path);
    if (from < 0) {
        return from;
    }
    f->fd = memfd_create("tidings-file", MFD_CLOEXEC);
    int rc = f->fd < 0 ? -errno : copy(from, f->fd);
    close(from);
    if (rc < 0) {
        confined_file_close(f);
        return rc;
    }
    (void)snprintf(f->room, sizeof f->room, "/proc/self/fd/%d", f->fd);
    f->path = f->room;
    return 0;
}

void confined_file_close(struct confined_file *f)
{
    if (f->fd > 0) {
        close(f->fd);
    }
    f->fd = -1;
}
