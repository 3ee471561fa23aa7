/* SPDX-License-Identifier: MIT
 *
 * Small files whose content is obeyed: settings, names of servers, secrets. Whoever can write such
 * a file can have the program do what it says, so it is looked at who that is before a byte is
 * read.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_FILE_H
#define TIDINGS_FILE_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the program came to the file. */
enum tidings_file_from {
    /* A person named it. One that everybody can write is refused. */
    TIDINGS_FILE_NAMED = 0,
    /* It lay where the program looked, and whoever may write there can have put it there. It is
     * refused also when it belongs to somebody else than the user or root (a symbolic link that
     * leads to it counts too), and when its group can write it, unless that is the private group of
     * its owner (the same number), as systems make one for each user. */
    TIDINGS_FILE_FOUND = 1,
};

/* Read a small file that is obeyed, after a look at who may write it. The whole content of a
 * regular file of at most `max` bytes, with a NUL behind it; free it with tidings_free. NULL with
 * `err`: TIDINGS_E_NOTFOUND when there is none, TIDINGS_E_DENIED when it is refused or cannot be
 * read, TIDINGS_E_LIMIT when it is larger. The sentence begins with the path in quotes. `ret_len`
 * may be NULL. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_file_read(const char *path,
                                                       enum tidings_file_from from, size_t max,
                                                       size_t *ret_len, struct tidings_error *err);

/* Compute the SHA-256 of bytes, in lower-case hexadecimal. With a NUL behind it: to know content
 * again that was approved once. */
#define TIDINGS_DIGEST_MAX 65
TIDINGS_API void tidings_digest(struct tidings_str bytes, char out[TIDINGS_DIGEST_MAX]);

#ifdef __cplusplus
}
#endif

#endif
