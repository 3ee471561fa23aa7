/* SPDX-License-Identifier: MIT
 *
 * Trusted small files: settings, server names, secrets. A user who can write such a file controls
 * the program, so the library checks the permissions before it reads a byte.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_FILE_H
#define TIDINGS_FILE_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the program found the file. */
enum tidings_file_from {
    /* A person named it. It is rejected if every user can write it. */
    TIDINGS_FILE_NAMED = 0,
    /* It was in a place that the program searches, where other users may have put it. It is also
     * rejected if it, or a symbolic link that leads to it, belongs to a user other than the current
     * one or root. It is also rejected if its group can write it, unless that is the private group
     * of the owner (the same number), which systems create for each user. */
    TIDINGS_FILE_FOUND = 1,
};

/* Read a small trusted file, after a check of its permissions. It must be a regular file of at most
 * `max` bytes. `ret_len` may be NULL.
 *
 * Returns the whole content, NUL-terminated, which the caller releases with tidings_free, or NULL
 * on failure. The error message starts with the path in quotes. TIDINGS_E_NOTFOUND: the file does
 * not exist. TIDINGS_E_DENIED: it is rejected or cannot be read. TIDINGS_E_LIMIT: it is larger than
 * `max`. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_file_read(const char *path,
                                                       enum tidings_file_from from, size_t max,
                                                       size_t *ret_len, struct tidings_error *err);

/* Compute the SHA-256 of bytes, in lower-case hexadecimal. The result is NUL-terminated. It serves
 * to recognize content that a user approved. */
#define TIDINGS_DIGEST_MAX 65
TIDINGS_API void tidings_digest(struct tidings_str bytes, char out[TIDINGS_DIGEST_MAX]);

#ifdef __cplusplus
}
#endif

#endif
