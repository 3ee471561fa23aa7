/* SPDX-License-Identifier: MIT
 *
 * Reads a resource into a file, part by part where the server gives parts.
 */
#include "bin/sync/mirror_fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bin/remote/part.h"
#include "bin/sync/folder.h"

#define TRIES 8u
#define PAUSE_MS 500 /* a file that changed less than two seconds ago may change unseen */

/* 1: it is of another state than the first. */
static int take_part(struct fetch *f, const struct part *p, int64_t at, struct tidings_error *err)
{
    const char *etag = p->etag ? p->etag : "";
    bool is_more = p->to < p->total;
    if (at == 0) {
        f->total = p->total;
        free(f->state);
        f->state = strdup(etag);
        if (!f->state) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    int64_t skip = at - p->from;
    bool is_same = p->total == f->total && strcmp(etag, f->state) == 0 && (p->is_part || at == 0) &&
                   skip >= 0 && skip <= PART_OVERLAP_MAX;
    bool is_safe = at == 0 ? !is_more || strncmp(etag, "W/", 2) != 0 : is_same;
    if (!is_safe) {
        return 1;
    }
    if (skip < 0 || skip > (int64_t)p->len || (is_more && p->to <= at)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the parts that the server gave do not fit together");
    }
    f->errnum = folder_add(f->fd, tidings_strn(p->bytes + skip, p->len - (size_t)skip));
    return f->errnum ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(f->errnum)) : 0;
}

/* 1: it changed meanwhile. */
static int fetch_once(struct fetch *f, struct tidings_error *err)
{
    int64_t at = 0;
    bool is_more = true;
    while (is_more) {
        struct part p;
        int rc = part_get(f->client, f->uri, at, &f->piece, &p, err);
        if (rc == TIDINGS_E_INVALID && at > 0) {
            rc = 1; /* it ends before */
        }
        rc = rc == 0 ? take_part(f, &p, at, err) : rc;
        at = p.to;
        is_more = p.to < p.total;
        part_release(&p);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* A signal ends it. */
static bool begin_again(struct fetch *f)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
    return ftruncate(f->fd, 0) == 0 && lseek(f->fd, 0, SEEK_SET) == 0;
}

int fetch_run(struct fetch *f, struct tidings_error *err)
{
    int rc = 1;
    f->piece = PART_BYTES;
    for (unsigned i = 0; i < TRIES && rc == 1; i++) {
        rc = i > 0 && !begin_again(f) ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(errno))
                                      : fetch_once(f, err);
    }
    if (rc == 1) {
        rc = tidings_fail(err, TIDINGS_E_BUSY, "it changes faster than it can be read");
    }
    if (rc == 0 && strlen(f->state) < sizeof(f->etag)) {
        memcpy(f->etag, f->state, strlen(f->state) + 1);
    }
    free(f->state);
    f->state = NULL;
    return rc;
}
