/* SPDX-License-Identifier: MIT
 *
 * Converts paths on the command line to URIs, spelled as `tidings serve` spells the same files: the
 * name as typed, made absolute; symbolic links are not resolved, except before a "..".
 */
#include "cli/paths.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------------
 * Makes the path of a user's own file, and its directories.
 */

int user_file_path(char path[PATH_MAX], const char *variable, const char *below_home,
                   const char *name, struct tidings_error *err)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    bool has_base = base && base[0] == '/';
    int n = has_base || (home && home[0] == '/')
                ? snprintf(path, PATH_MAX, "%s%s/tidings/%s", has_base ? base : home,
                           has_base ? "" : below_home, name)
                : 0;
    if (n <= 0 || n >= (int)PATH_MAX) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND,
                            "there is no place for '%.80s': set HOME or %s", name, variable);
    }
    return 0;
}

int user_file_make_directories(char path[PATH_MAX], struct tidings_error *err)
{
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        bool is_there = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!is_there) {
            return tidings_fail(err, TIDINGS_E_IO, "%.160s: %s", path, strerror(errno));
        }
        *at = '/';
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * Secrets: only makes this process undumpable (PR_SET_DUMPABLE). That prevents core files of any
 * size and destination; a core limit of 0 would be inherited by child processes. The process list
 * still shows the memory of the arguments to all users.
 */

void process_has_secrets(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* The start of the hidden part, or NULL: all of a URL after its scheme. */
static char *process_secret_in(char *argument)
{
    char *url = strstr(argument, "://");
    char *at = url ? strrchr(url, '@') : NULL, *colon = url ? strchr(url + 3, ':') : NULL;
    if ((at && colon && colon < at) || (url && strcasestr(url, "pass"))) {
        return url + 3;
    }
    char *plain = strcasestr(argument, "password=");
    return plain ? plain + strlen("password=") : NULL;
}

void process_hide_passwords(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *secret = process_secret_in(argv[i]);
        char *copy = secret ? strdup(argv[i]) : NULL;
        if (copy) { /* kept until exit */
            memset(secret, '*', strlen(secret));
            argv[i] = copy;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */

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

/* Append `path` to `out` without empty and "." segments. Returns false if it does not fit. */
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

/* Let the kernel resolve "..". The last segment stays unchanged, even if it is a link or missing,
 * because it can be watched. */
static bool path_uri_resolve(char path[PATH_MAX])
{
    char real[PATH_MAX], last[PATH_MAX];
    bool up = false;
    char *slash = strrchr(path, '/');
    if (!slash || slash == path || strcmp(slash, "/..") == 0) {
        bool is_found = realpath(path, real) != NULL;
        memcpy(path, is_found ? real : path, is_found ? strlen(real) + 1 : 0);
        return is_found;
    }
    int n = snprintf(last, sizeof(last), "%s", slash + 1);
    *slash = '\0';
    if (n <= 0 || !realpath(path, real)) {
        return false;
    }
    path[0] = '\0';
    return path_uri_append(path, PATH_MAX, real, &up) && path_uri_append(path, PATH_MAX, last, &up);
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

/* Append the path at `*n`, escaping as %XX all characters except path characters and `kept`; there
 * is room. */
static void path_uri_encode(char *uri, size_t *n, const char *path, const char *kept)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        if (stays_raw(c) || strchr(kept, c)) {
            uri[(*n)++] = (char)c;
        } else {
            uri[(*n)++] = '%';
            uri[(*n)++] = hex[c >> 4];
            uri[(*n)++] = hex[c & 15];
        }
    }
    uri[*n] = '\0';
}

static char *path_uri_no_memory(struct tidings_error *err)
{
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    return NULL;
}

/* A separate copy. */
static char *path_uri_copy(const char *text, struct tidings_error *err)
{
    char *copy = strdup(text);
    return copy ? copy : path_uri_no_memory(err);
}

char *uri_of_argument(const char *argument, struct tidings_error *err)
{
    char path[PATH_MAX];
    if (path_uri_has_scheme(argument)) {
        return path_uri_copy(argument, err);
    }
    if (!absolute(argument, path)) {
        tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.80s': %s", argument, strerror(errno));
        return NULL;
    }
    size_t size = 3 * strlen(path) + sizeof("file:///");
    char *uri = malloc(size);
    if (!uri) {
        return path_uri_no_memory(err);
    }
    size_t n = (size_t)snprintf(uri, size, "file://");
    path_uri_encode(uri, &n, path, "");
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

/* ---- patterns -------------------------------------------------------------------------------- */

/* The segments with wildcards and the rest of the path, as the path of a URI. */
static bool path_uri_append_pattern(char out[PATH_MAX], const char *pattern)
{
    bool up = false;
    size_t len = strlen(pattern);
    out[0] = '\0';
    if (!path_uri_append(out, PATH_MAX - 1, pattern, &up) || up) {
        errno = up ? EINVAL : ENAMETOOLONG;
        return false;
    }
    size_t end = strlen(out);
    if (pattern[len - 1] == '/') {
        out[end] = '/';
        out[end + 1] = '\0';
    }
    /* A negated class: a URI cannot contain '^'. */
    for (char *at = strstr(out, "[^"); at; at = strstr(at, "[^")) {
        at[1] = '!';
    }
    return true;
}

char *uri_of_pattern(const char *argument, const char *wildcards, struct tidings_error *err)
{
    char base[PATH_MAX], rest[PATH_MAX];
    size_t fixed = strcspn(argument, wildcards);
    if (path_uri_has_scheme(argument) || strcmp(argument, "**") == 0) {
        return path_uri_copy(argument, err);
    }
    while (fixed > 0 && argument[fixed - 1] != '/') {
        fixed--;
    }
    int n = snprintf(rest, sizeof(rest), "%.*s", (int)fixed, fixed > 0 ? argument : "");
    if (n < 0 || (size_t)n >= sizeof(rest) || !absolute(rest[0] ? rest : ".", base) ||
        !path_uri_append_pattern(rest, argument + fixed)) {
        tidings_fail(err, errno == EINVAL ? TIDINGS_E_INVALID : TIDINGS_E_NOTFOUND, "'%.80s': %s",
                     argument,
                     errno == EINVAL ? "'..' is not allowed after a wildcard" : strerror(errno));
        return NULL;
    }
    size_t size = 3 * (strlen(base) + strlen(rest)) + sizeof("file://");
    char *uri = malloc(size);
    if (!uri) {
        return path_uri_no_memory(err);
    }
    size_t len = (size_t)snprintf(uri, size, "file://");
    path_uri_encode(uri, &len, base, "");
    path_uri_encode(uri, &len, rest, wildcards);
    return uri;
}

bool argument_is_glob(const char *argument)
{
    struct stat st;
    return !path_uri_has_scheme(argument) && strpbrk(argument, "*?[") != NULL &&
           lstat(argument, &st) < 0;
}
