/* SPDX-License-Identifier: MIT
 *
 * The files of names that servers gave lately. One is written beside its place and renamed, so that
 * whoever reads it finds it whole.
 */
#include "bin/remote/names_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bin/cli/user_file.h"

#define HEAD "tidings-names 1 "
#define HEAD_MAX 128u
#define LOOKED_AT_MAX 1000u /* entries of the directory */

bool name_is_offered(struct tidings_str name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./"
                                "-~:%@+,=";
    const size_t first = sizeof(plain) - sizeof("-~:%@+,=");
    if (name.len == 0 || name.len > NAME_MAX_BYTES || !memchr(plain, name.ptr[0], first)) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!memchr(plain, name.ptr[i], sizeof(plain) - 1)) {
            return false;
        }
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Each line of the text, if all are names. */
static bool names_cache_each(struct tidings_str text, names_fn fn, void *user)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct tidings_str name = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        if (!end || !name_is_offered(name)) {
            return false;
        }
        if (fn) {
            fn(user, name);
        }
        text = tidings_strn(end + 1, text.len - name.len - 1);
    }
    return true;
}

bool names_cache_parse(struct tidings_str text, const char key[TIDINGS_DIGEST_MAX], int64_t now_s,
                       names_fn fn, void *user)
{
    char line[HEAD_MAX], again[HEAD_MAX];
    const char *end = memchr(text.ptr, '\n', text.len < HEAD_MAX ? text.len : HEAD_MAX - 1);
    if (!end || (size_t)(end - text.ptr) < sizeof(HEAD) - 1) {
        return false;
    }
    size_t len = (size_t)(end - text.ptr);
    memcpy(line, text.ptr, len);
    line[len] = '\0';
    int64_t then = strtoll(line + sizeof(HEAD) - 1, NULL, 10);
    snprintf(again, sizeof(again), HEAD "%" PRId64 " %s", then, key);
    bool is_good = strlen(line) == len && strcmp(line, again) == 0 && then <= now_s &&
                   then >= now_s - (int64_t)NAMES_CACHE_S;
    struct tidings_str names = {end + 1, text.len - len - 1};
    return is_good && names_cache_each(names, NULL, NULL) && names_cache_each(names, fn, user);
}

static int names_cache_path(const char *key, char path[PATH_MAX])
{
    struct tidings_error err = {0};
    char name[sizeof("names-") + TIDINGS_DIGEST_MAX];
    snprintf(name, sizeof(name), "names-%s", key);
    return user_file_path(path, "XDG_CACHE_HOME", "/.cache", name, &err);
}

bool names_cache_find(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, names_fn fn, void *user)
{
    struct tidings_error err = {0};
    char path[PATH_MAX];
    size_t len = 0;
    if (names_cache_path(key, path) < 0) {
        return false;
    }
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, NAMES_CACHE_MAX, &len, &err);
    bool is_found = text && names_cache_parse(tidings_strn(text, len), key, now_s, fn, user);
    tidings_free(text);
    return is_found;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Remove what is too old: is there room for one more? */
static bool names_cache_make_room(const char *directory, int64_t now_s)
{
    DIR *dir = opendir(directory);
    unsigned kept = 0, looked_at = 0;
    for (struct dirent *e; dir && looked_at < LOOKED_AT_MAX && (e = readdir(dir)) != NULL;) {
        struct stat st;
        looked_at++;
        if (strncmp(e->d_name, "names-", 6) != 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        bool is_old = st.st_mtime > now_s + (int64_t)NAMES_CACHE_S ||
                      st.st_mtime < now_s - (int64_t)NAMES_CACHE_S;
        if (!is_old || unlinkat(dirfd(dir), e->d_name, 0) < 0) {
            kept++;
        }
    }
    bool is_room = dir && kept < NAMES_CACHE_FILES && looked_at < LOOKED_AT_MAX;
    if (dir) {
        closedir(dir);
    }
    return is_room;
}

static bool names_cache_write(const char *path, const char *head, struct tidings_str lines)
{
    size_t len = strlen(head);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_done = fd >= 0 && write(fd, head, len) == (ssize_t)len &&
                   write(fd, lines.ptr, lines.len) == (ssize_t)lines.len;
    if (fd >= 0 && close(fd) < 0) {
        is_done = false;
    }
    return is_done;
}

void names_cache_save(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, struct tidings_str lines)
{
    struct tidings_error err = {0};
    char path[PATH_MAX], aside[PATH_MAX + 32], head[HEAD_MAX];
    int n = snprintf(head, sizeof(head), HEAD "%" PRId64 " %s\n", now_s, key);
    if (names_cache_path(key, path) < 0 || (size_t)n + lines.len > NAMES_CACHE_MAX ||
        user_file_make_directories(path, &err) < 0) {
        return;
    }
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool is_room = names_cache_make_room(path, now_s);
    *slash = '/';
    snprintf(aside, sizeof(aside), "%s.%ld", path, (long)getpid());
    if (is_room && (!names_cache_write(aside, head, lines) || rename(aside, path) < 0)) {
        unlink(aside);
    }
}
