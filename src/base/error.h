/* SPDX-License-Identifier: MIT
 *
 * Errors: a code for programs and a message for people (struct tidings_error).
 *
 * The function that fails sets the error with tidings_fail(); callers add context: "provider
 * 'notes': open '/srv/n': no such directory". No allocation. If the message does not fit, outer
 * context is dropped and the root cause is kept.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <tidings/types.h>

/* Prepends "context: " to err->text and returns `code`. `err` may be NULL. */
int error_wrap(struct tidings_error *err, int code, const char *fmt, ...) TIDINGS_PRINTF(3, 4);

/* Sets the error from errno: "what: No such file or directory"; maps ENOENT, EACCES, ENOMEM … to
 * codes. */
int error_errno(struct tidings_error *err, int errnum, const char *fmt, ...) TIDINGS_PRINTF(3, 4);

/* The code for an errno value. */
int error_code_from_errno(int errnum);

/* TIDINGS_E_INVALID unless the reserved members are zero: members unknown to the program must have
 * their defaults, and this detects structs that were not zeroed. */
int error_check_reserved(void *const *reserved, size_t count, struct tidings_error *err);
#define RESERVED_CHECK(s, err)                                                                     \
    error_check_reserved((s)->reserved, sizeof((s)->reserved) / sizeof((s)->reserved[0]), (err))

/* The HTTP status for a code. */
int error_http_status(int code);

#endif
