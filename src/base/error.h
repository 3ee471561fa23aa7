/* SPDX-License-Identifier: MIT
 *
 * Errors: a code for the program, a sentence for the person (struct tidings_error).
 *
 * The origin of a failure sets it with tidings_fail(); a caller that knows more wraps it as it
 * rises: "provider 'notes': open '/srv/n': no such directory". No allocation. When the text does
 * not fit, outer context is dropped and the root cause stays.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <tidings/types.h>

/* Put "context: " in front of err->text and return `code`. `err` may be NULL. */
int error_wrap(struct tidings_error *err, int code, const char *fmt, ...) TIDINGS_PRINTF(3, 4);

/* Set from errno: "what: No such file or directory"; maps ENOENT, EACCES, ENOMEM … to codes. */
int error_errno(struct tidings_error *err, int errnum, const char *fmt, ...) TIDINGS_PRINTF(3, 4);

/* The code alone for an errno value. */
int error_code_from_errno(int errnum);

/* TIDINGS_E_INVALID unless the room for members to come is zero: what a program does not know of
 * must be the default, and a struct that was never zeroed is found early. */
int error_check_reserved(void *const *reserved, size_t count, struct tidings_error *err);
#define RESERVED_CHECK(s, err)                                                                     \
    error_check_reserved((s)->reserved, sizeof((s)->reserved) / sizeof((s)->reserved[0]), (err))

/* The HTTP status that fits a code. */
int error_http_status(int code);

#endif
