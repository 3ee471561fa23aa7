/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the state of a mirror: rejected, or read as far as possible. Whatever it claims, a
 * pass over an empty server removes no file unless the state describes it to the nanosecond, and
 * nothing outside the directory; and the state written in its place can be read again.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/folder.h"
#include "cli/mirror.h"
#include "cli/output.h"
#include "cli/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The mirror is in/, with a link out of it. */
static const char *const files[] = {"outside", "in/mine", "in/sub/mine"};
static char top[64];
static int top_fd = -1, root = -1;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void clean_up(void)
{
    nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make(const char *name)
{
    int fd = openat(top_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "mine", 4) != 4) {
        abort();
    }
    close(fd);
}

static void prepare(void)
{
    snprintf(top, sizeof(top), "%s/tidings-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(top) || (top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        abort();
    }
    atexit(clean_up);
    mkdirat(top_fd, "in", 0700);
    mkdirat(top_fd, "in/sub", 0700);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        make(files[i]);
    }
    root = openat(top_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || symlinkat(top, root, "link") < 0) {
        abort();
    }
}

static void put_state(const uint8_t *data, size_t size)
{
    static const char head[] = "{\"mirror\":\"a:/\"}\n";
    bool has_own = size > 0 && data[0] == '!';
    int fd = openat(root, LOCAL_RESERVED "sync", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || (!has_own && write(fd, head, sizeof(head) - 1) < 0) ||
        (size > 0 && write(fd, data + has_own, size - has_own) < 0)) {
        abort();
    }
    close(fd);
}

static void on_deed(void *user, enum mirror_result deed, struct tidings_str uri, const char *reason)
{
    (void)user;
    if (deed >= MIRROR_KEPT ? !reason : uri.len == 0) {
        abort();
    }
}

/* Returns true if the state describes the file so precisely that the mirror must have written
 * it. */
static bool is_described(struct mirror_state *s, const char *name)
{
    struct stat st;
    const struct mirrored *it =
        strncmp(name, "in/", 3) == 0 ? mirror_state_find(s, name + 3) : NULL;
    return it && fstatat(top_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           mirror_is_untouched(it, &st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mirror m = {.report = on_deed};
    struct tidings_error err = {0};
    if (root < 0) {
        prepare();
    }
    put_state(data, size);
    m.root = root;
    int rc = mirror_state_open(&m.state, root, "a:/", &err);
    size_t count = m.state.count;
    mirror_state_close(&m.state);
    if (rc < 0) {
        return err.code == rc && err.text[0] ? 0 : (abort(), 0);
    }
    if (mirror_state_open(&m.state, root, "a:/", &err) < 0 || m.state.damaged > 0 ||
        m.state.count != count) {
        abort();
    }
    bool described = false;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        described = described || is_described(&m.state, files[i]);
    }
    mirror_begin(&m);
    mirror_end(&m);
    mirror_state_close(&m.state);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !described; i++) {
        if (faccessat(top_fd, files[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
            abort();
        }
    }
    return 0;
}
