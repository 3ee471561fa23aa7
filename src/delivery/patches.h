/* SPDX-License-Identifier: MIT
 *
 * What a patch subscription is told, where the provider makes no patches itself: an object
 *
 *     {"etag": E, "baseline": B, "patch": {…}}        B is what was told last
 *     {"etag": E, "full": true, "value": …}           nothing was, or no patch can say it
 *     {"etag": E, "full": true, "contents": […]}      it is no JSON
 *     {"baseline": B, "deleted": true}                B stays: what comes back begins there
 */
#ifndef DELIVERY_PATCHES_H
#define DELIVERY_PATCHES_H

#include "delivery/baseline.h"
#include "json/write.h"

struct change;

/* From `from` (NULL: nothing) to what a read gave: an array of content elements, our own JSON.
 * *ret_to: a reference to what was told with it, or NULL. Failures stick in `out`. */
void patch_write(struct buf *out, struct baselines *all, struct tidings_str uri,
                 const struct baseline *from, struct tidings_str contents,
                 struct baseline **ret_to);
void patch_write_deleted(struct buf *out, const struct change *change, const struct baseline *from);

#endif
