/* SPDX-License-Identifier: MIT
 *
 * In place of uring.c in a build without liburing: there is no ring to be had.
 */
#include "base/uring.h"

#include <errno.h>

#include "base/error.h"

int uring_probe(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "io_uring was left out of this build");
}

int uring_create(struct uring **ret_uring, unsigned max_sends, struct tidings_error *err)
{
    (void)ret_uring;
    (void)max_sends;
    return uring_probe(err);
}

void uring_destroy(struct uring *u)
{
    (void)u;
}

int uring_send(struct uring *u, struct uring_send *sends, unsigned count)
{
    (void)u;
    for (unsigned i = 0; i < count; i++) {
        sends[i].result = URING_UNSENT;
    }
    return -ENOSYS;
}
