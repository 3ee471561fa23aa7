/* SPDX-License-Identifier: MIT
 *
 * Makes the path of a file of the user's own, and its directories.
 */
#include "bin/cli/user_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
