/* SPDX-License-Identifier: MIT
 *
 * Paths on the command line as URIs, in the spelling `tidings serve` gives to the same files: the
 * name the user typed, made absolute; symbolic links are not resolved unless ".." makes it
 * necessary.
 */
#include "bin/cli/path_uri.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool path_uri_has_scheme(const char *s)
{
    if (!isalpha((unsigned char)*s)) {
        return false;
    }
    while (isalnum((unsigned char)*s) || *s == '+' || *s == '-' || *s == '.') {
        s++;
    }
    return *s == ':';
}

/* Append `path` to `out` without empty and "." segments. False: it does not fit. */
static bool path_uri_append(char *out, size_t size, const char *path, bool *ret_up)
{
    size_t len = strlen(out);
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.') {
            *ret_up = true;
        }
        if (n > 0 && !(n == 1 && path[0] == '.')) {
            if (len + n + 2 > size) {
                return false;
            }
            out[len++] = '/';
            memcpy(out + len, path, n);
            len += n;
            out[len] = '\0';
        }
        path += n + (path[n] == '/' ? 1 : 0);
    }
    return true;
}

/* Let the system resolve "..". Only the last segment may be missing: it can be watched for. */
static bool path_uri_resolve(char path[PATH_MAX])
{
    char real[PATH_MAX];
    if (realpath(path, real)) {
        memcpy(path, real, strlen(real) + 1);
        return true;
    }
    char *slash = strrchr(path, '/');
    if (errno != ENOENT || !slash || slash == path || strcmp(slash, "/..") == 0) {
        return false;
    }
    *slash = '\0';
    if (!realpath(path, real)) {
        return false;
    }
    char last[PATH_MAX];
    int n = snprintf(last, sizeof(last), "%s", slash + 1);
    bool up = false;
    path[0] = '\0';
    return n > 0 && path_uri_append(path, PATH_MAX, real, &up) &&
           path_uri_append(path, PATH_MAX, last, &up);
}

static bool absolute(const char *path, char out[PATH_MAX])
{
    char cwd[PATH_MAX];
    bool up = false;
    out[0] = '\0';
    if (path[0] != '/' &&
        (!getcwd(cwd, sizeof(cwd)) || !path_uri_append(out, PATH_MAX, cwd, &up))) {
        return false;
    }
    if (!path_uri_append(out, PATH_MAX, path, &up)) {
        errno = ENAMETOOLONG;
        return false;
    }
    return !up || path_uri_resolve(out);
}

static bool stays_raw(unsigned char c)
{
    return (c < 0x80 && isalnum(c)) || (c != '\0' && strchr("/-._~!$&'()+,;=:@", c));
}

char *uri_of_argument(const char *argument, struct tidings_error *err)
{
    static const char hex[] = "0123456789ABCDEF";
    char path[PATH_MAX];
    if (path_uri_has_scheme(argument)) {
        char *copy = strdup(argument);
        if (!copy) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        return copy;
    }
    if (!absolute(argument, path)) {
        tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.80s': %s", argument, strerror(errno));
        return NULL;
    }
    size_t size = 3 * strlen(path) + sizeof("file:///");
    char *uri = malloc(size);
    if (!uri) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    size_t n = (size_t)snprintf(uri, size, "file://");
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (stays_raw(c)) {
            uri[n++] = (char)c;
        } else {
            uri[n++] = '%';
            uri[n++] = hex[c >> 4];
            uri[n++] = hex[c & 15];
        }
    }
    struct stat st;
    size_t given = strlen(argument);
    bool is_directory =
        stat(path[0] ? path : "/", &st) == 0 ? S_ISDIR(st.st_mode) : argument[given - 1] == '/';
    if (is_directory) {
        uri[n++] = '/';
    }
    uri[n] = '\0';
    return uri;
}
