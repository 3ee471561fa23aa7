/* SPDX-License-Identifier: MIT
 *
 * The row of a SKILL.md in a mount of skills (a prefix of the scheme `skill`): it has the name and
 * description that the file gives itself in its front matter (SEP-2640).
 */
#ifndef PROVIDER_FILE_SKILL_H
#define PROVIDER_FILE_SKILL_H

#include "provider/file_private.h"
#include "json/json.h"

/* Put them into `row` if the file at `path` below `dir` (file_open_beneath) is one and has them.
 * Returns what the row borrows them from, to be given to jv_unref; NULL: nothing. */
struct json *file_skill_describe(const struct file_provider *f, int dir, const char *path,
                                 struct tidings_resource *row);

#endif
