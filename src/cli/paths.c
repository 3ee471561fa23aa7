/* SPDX-License-Identifier: MIT
 *
 * Paths on the command line as URIs, in the spelling `tidings serve` gives to the same files: the
 * name the user typed, made absolute; symbolic links are not resolved, except in what stands before
 * a "..".
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
 * Makes the path of a file of the user's own, and its directories.
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
 * Secrets: this process is made undumpable (PR_SET_DUMPABLE), and nothing else: not being dumpable
 * includes core files, whatever the limit and wherever they would go; a limit of 0 would be handed
 * on to the programs we start. The list of processes shows the memory that the arguments came in,
 * to everybody, also then.
 */

void process_has_secrets(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Where what is not shown begins, or NULL: all of a URL after its scheme. */
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
        if (copy) { /* ours until the end */
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

/* Let the system resolve "..". The last segment stays as it is, a link or missing: it can be
 * watched for. */
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

/* Append it at `*n`, with what is in neither a path nor `kept` as %XX; there is room. */
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

/* A text of its own. */
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

/* Segments with wildcards and what is behind them, as the path of a URI. */
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
    /* The class of what is not in it: a URI has no '^'. */
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
