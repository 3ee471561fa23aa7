/* SPDX-License-Identifier: MIT
 *
 * The row of a SKILL.md in a mount of skills (a prefix of the scheme `skill`): it has the name and
 * description that the file gives itself in its front matter (SEP-2640). What cannot be read, or
 * has no good front matter, keeps the row of any file.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "provider/file_private.h"
#include "uri/skill.h"
#include "json/front_matter.h"

/* The beginning of the file, as far as a front matter may go. */
static ssize_t file_skill_read(int fd, char *bytes)
{
    size_t got = 0;
    ssize_t n = 1;
    while (n > 0 && got < FRONT_MATTER_MAX) {
        n = read(fd, bytes + got, FRONT_MATTER_MAX - got);
        got += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? -1 : (ssize_t)got;
}

struct json *file_skill_describe(const struct file_provider *f, int dir, const char *path,
                                 struct tidings_resource *row)
{
    struct tidings_str prefix = tidings_strn(f->root.prefix, f->root.prefix_len);
    struct json *front = NULL;
    if (row->listable || !str_starts(prefix, STR(SKILL_SCHEME ":")) ||
        !str_ends(row->uri, STR("/" SKILL_FILE))) {
        return NULL;
    }
    int fd = file_open_beneath(&f->root, dir, path, O_RDONLY | O_NONBLOCK, NULL);
    char *bytes = fd >= 0 ? mem_alloc(FRONT_MATTER_MAX) : NULL;
    ssize_t got = bytes ? file_skill_read(fd, bytes) : -1;
    if (got < 0 || front_matter_parse(tidings_strn(bytes, (size_t)got), &front, NULL) < 0) {
        front = NULL;
    }
    mem_free(bytes);
    if (fd >= 0) {
        close(fd);
    }
    struct tidings_str name = jv_str(jv_get(front, "name"));
    row->name = name.len > 0 ? name : row->name;
    row->description = jv_str(jv_get(front, "description"));
    return front;
}
