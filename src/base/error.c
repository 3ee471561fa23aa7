/* SPDX-License-Identifier: MIT
 *
 * Error values and the table of codes.
 *
 * Invariant: err->text is always NUL-terminated and never ends inside a UTF-8 sequence, because it
 * may be sent to a client as JSON. Text is formatted into a separate buffer first, so that
 * arguments may point into the error being written. Deliberately no allocation and no locale.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON_MAX 127u /* maximum length of a system error message */

struct code_row {
    int code;
    const char *name;
    const char *text;
    int http;
    int exit;
};

static const struct code_row rows[] = {{TIDINGS_OK, "TIDINGS_OK", "success", 200, 0},
#define ERROR_ROW(name, value, text, http, exit) {(value), "TIDINGS_E_" #name, text, http, exit},
                                       TIDINGS_ERROR_MAP(ERROR_ROW)
#undef ERROR_ROW
};

static const struct code_row *row_find(int code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].code == code) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The length of the longest prefix of the first `len` bytes that does not split a UTF-8 sequence.
 */
static size_t whole_length(const char *text, size_t len)
{
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)text[len - 1 - back] & 0xC0) == 0x80) {
        back++;
    }
    if (back == len) {
        return len;
    }
    unsigned char lead = (unsigned char)text[len - 1 - back];
    size_t follow = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    return follow > back ? len - 1 - back : len;
}

/* Formats text, at most `size` - 1 bytes of it. Returns the length kept; *ret_cut reports whether
 * it was truncated. */
static size_t format(char *out, size_t size, bool *ret_cut, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

static size_t format(char *out, size_t size, bool *ret_cut, const char *fmt, va_list args)
{
    out[0] = '\0';
    int n = vsnprintf(out, size, fmt, args);
    size_t len = n < 0 ? 0 : (size_t)n;
    *ret_cut = n < 0 || len >= size;
    if (len >= size) {
        len = whole_length(out, size - 1);
        out[len] = '\0';
    }
    return len;
}

const char *tidings_code_name(int code)
{
    const struct code_row *row = row_find(code);
    return row ? row->name : "not a TIDINGS_E_ code";
}

const char *tidings_code_text(int code)
{
    const struct code_row *row = row_find(code);
    return row ? row->text : "unknown error";
}

int tidings_code_exit(int code)
{
    const struct code_row *row = row_find(code);
    return row ? row->exit : code > 0 ? 0 : 70;
}

int tidings_fail(struct tidings_error *err, int code, const char *fmt, ...)
{
    if (!err) {
        return code;
    }
    char text[sizeof err->text];
    bool cut;
    va_list args;
    va_start(args, fmt);
    size_t len = format(text, sizeof text, &cut, fmt, args);
    va_end(args);
    memcpy(err->text, text, len + 1);
    err->code = code;
    return code;
}

int error_wrap(struct tidings_error *err, int code, const char *fmt, ...)
{
    if (!err) {
        return code;
    }
    char context[sizeof err->text];
    bool cut;
    va_list args;
    va_start(args, fmt);
    size_t len = format(context, sizeof context, &cut, fmt, args);
    va_end(args);
    size_t cause = strnlen(err->text, sizeof err->text - 1);
    if (cause == 0) {
        memcpy(err->text, context, len + 1);
    } else if (!cut && len + 2 + cause < sizeof err->text) {
        memmove(err->text + len + 2, err->text, cause);
        err->text[len + 2 + cause] = '\0';
        memcpy(err->text, context, len);
        err->text[len] = ':';
        err->text[len + 1] = ' ';
    }
    err->code = code;
    return code;
}

int error_errno(struct tidings_error *err, int errnum, const char *fmt, ...)
{
    int code = error_code_from_errno(errnum);
    if (!err) {
        return code;
    }
    const char *reason = strerror(errnum); /* thread-safe since glibc 2.32, and in musl */
    size_t reason_len = strnlen(reason, REASON_MAX);
    char what[sizeof err->text];
    bool cut;
    va_list args;
    va_start(args, fmt);
    /* The reason is the root cause, so the context is truncated first. */
    size_t len = format(what, sizeof what - reason_len - 2, &cut, fmt, args);
    va_end(args);
    memcpy(err->text, what, len);
    err->text[len] = ':';
    err->text[len + 1] = ' ';
    memcpy(err->text + len + 2, reason, reason_len);
    err->text[len + 2 + reason_len] = '\0';
    err->code = code;
    return code;
}

static const struct {
    int errnum;
    int code;
} errno_rows[] = {
    {ENOENT, TIDINGS_E_NOTFOUND},
    {ENOTDIR, TIDINGS_E_NOTFOUND},
    {ENODEV, TIDINGS_E_NOTFOUND},
    {ENXIO, TIDINGS_E_NOTFOUND},
    {EACCES, TIDINGS_E_DENIED},
    {EPERM, TIDINGS_E_DENIED},
    {EROFS, TIDINGS_E_DENIED},
    {ELOOP, TIDINGS_E_DENIED},
    {ENOMEM, TIDINGS_E_NOMEM},
    {ENOBUFS, TIDINGS_E_NOMEM},
    {EMFILE, TIDINGS_E_BUSY}, /* temporary: not a limit that the request reached */
    {ENFILE, TIDINGS_E_BUSY},
    {ENOSPC, TIDINGS_E_FULL},
    {EDQUOT, TIDINGS_E_FULL},
    {EFBIG, TIDINGS_E_LIMIT},
    {E2BIG, TIDINGS_E_LIMIT},
    {ENAMETOOLONG, TIDINGS_E_LIMIT},
    {EMSGSIZE, TIDINGS_E_LIMIT},
    {EAGAIN, TIDINGS_E_BUSY},
    {EBUSY, TIDINGS_E_BUSY},
    {EINTR, TIDINGS_E_BUSY},
    {ETXTBSY, TIDINGS_E_BUSY},
    {ETIMEDOUT, TIDINGS_E_TIMEOUT},
    {ECANCELED, TIDINGS_E_CANCELLED},
    {EPIPE, TIDINGS_E_CLOSED},
    {ECONNRESET, TIDINGS_E_CLOSED},
    {ECONNABORTED, TIDINGS_E_CLOSED},
    {ENOTCONN, TIDINGS_E_CLOSED},
    {ESHUTDOWN, TIDINGS_E_CLOSED},
    {ENOSYS, TIDINGS_E_UNSUPPORTED},
    {EOPNOTSUPP, TIDINGS_E_UNSUPPORTED},
    {EAFNOSUPPORT, TIDINGS_E_UNSUPPORTED},
    {EPROTONOSUPPORT, TIDINGS_E_UNSUPPORTED},
    {EEXIST, TIDINGS_E_EXISTS},
    {EADDRINUSE, TIDINGS_E_EXISTS},
    {ENOTEMPTY, TIDINGS_E_CONFLICT},
    {EISDIR, TIDINGS_E_INVALID},
    {EINVAL, TIDINGS_E_INVALID},
    {EBADF, TIDINGS_E_INTERNAL},
    {EFAULT, TIDINGS_E_INTERNAL},
};

int error_code_from_errno(int errnum)
{
    for (size_t i = 0; i < sizeof errno_rows / sizeof errno_rows[0]; i++) {
        if (errno_rows[i].errnum == errnum) {
            return errno_rows[i].code;
        }
    }
    return TIDINGS_E_IO;
}

int error_http_status(int code)
{
    const struct code_row *row = row_find(code > 0 ? 0 : code);
    return row ? row->http : 500;
}

int error_check_reserved(void *const *reserved, size_t count, struct tidings_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (reserved[i]) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "`reserved` is not zero: zero the struct before it is filled in");
        }
    }
    return 0;
}
