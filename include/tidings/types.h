/* SPDX-License-Identifier: MIT
 *
 * Basic types of the API: byte slices, result codes, errors and the allocator.
 *
 * Conventions of the whole API
 *   - A function that can fail returns `int`: 0 or a positive value on success, a negative
 *     `TIDINGS_E_*` code on failure. Functions that return a pointer return NULL on failure. The
 *     last parameter is `struct tidings_error *err`. It may be NULL. It is unchanged on success,
 *     and contains the code and an error message on failure.
 *   - A function that calls a callback for each element continues while an `int` callback returns
 *     0. It returns 0 after the last element, otherwise the callback's result or an error code; it
 *     never returns the number of elements. A `bool` callback returns true to continue.
 *   - If a handle (a server, a client, a subscription, a copy) is NULL, functions that can fail
 *     return TIDINGS_E_INVALID. Other functions do nothing and return NULL, -1 for a descriptor or
 *     a time, or 0 for a number. Handles that a callback receives are never NULL.
 *   - Parameters are borrowed for the duration of the call, and pointers must not be NULL, unless
 *     the text says otherwise.
 *   - Strings are slices with a length and need no terminating NUL; a `const char *` is
 *     NUL-terminated. All text is UTF-8.
 *   - A program zeroes the structs that it fills in (`= {0}`, in C++ `{}`). Zero is the default,
 *     also for members added later. Each struct ends with `reserved`, which leaves room for them
 *     and must stay zero; otherwise functions that can fail return TIDINGS_E_INVALID. Only table
 *     rows (`struct tidings_argument`, `struct tidings_semantics`, `struct tidings_schema_field`)
 *     have no `reserved` and never grow. A table of functions has `abi` instead. If 0 is a valid
 *     value of a number, a `has_` member says whether it is set (`size` and `has_size`). Structs
 *     that the library returns may grow at the end; do not copy them by size.
 *   - Higher log levels are more severe (`enum tidings_log_level`).
 *   - TIDINGS_MUST_CHECK marks functions whose result the caller must release, or which return the
 *     only handle of an object. The compiler warns if a program ignores the result, because that
 *     leaks memory.
 *   - Some functions have the name of a struct. C++ then needs the word `struct` before the name of
 *     the type: `struct tidings_str`.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_TYPES_H
#define TIDINGS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
/* These functions share the name of a struct; -Wshadow reports a hidden constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#if defined(__GNUC__)
#define TIDINGS_API __attribute__((visibility("default")))
#define TIDINGS_MUST_CHECK __attribute__((warn_unused_result))
#define TIDINGS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define TIDINGS_API
#define TIDINGS_MUST_CHECK
#define TIDINGS_PRINTF(fmt, first)
#endif

/* Supported protocol revisions, newest first. MODERN is the stateless revision; LEGACY is the
 * newest one with sessions. */
#define TIDINGS_PROTOCOL_MODERN "2026-07-28"
#define TIDINGS_PROTOCOL_LEGACY "2025-11-25"
#define TIDINGS_PROTOCOL_VERSIONS                                                                  \
    TIDINGS_PROTOCOL_MODERN, TIDINGS_PROTOCOL_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"

/* A borrowed byte slice. `ptr` may be NULL only if `len` is 0. */
struct tidings_str {
    const char *ptr;
    size_t len;
};

/* Make a slice of a NUL-terminated string. NULL gives the empty slice. */
static inline struct tidings_str tidings_str(const char *s)
{
    struct tidings_str r;
    r.ptr = s ? s : "";
    r.len = s ? strlen(s) : 0;
    return r;
}

/* Make a slice of the `len` bytes at `s`. NULL gives the empty slice. */
static inline struct tidings_str tidings_strn(const char *s, size_t len)
{
    struct tidings_str r;
    r.ptr = s;
    r.len = s ? len : 0;
    return r;
}

/* Makes a slice of a string literal. */
#define TIDINGS_STR(literal) tidings_strn("" literal, sizeof(literal) - 1)

/* Return true if two slices contain the same bytes. */
static inline bool tidings_str_eq(struct tidings_str a, struct tidings_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* One row per code: symbol, value, text, HTTP status, process exit status. */
#define TIDINGS_ERROR_MAP(X)                                                                       \
    X(INVALID, -1, "invalid argument", 400, 64)                                                    \
    X(NOMEM, -2, "out of memory", 503, 71)                                                         \
    X(NOTFOUND, -3, "not found", 404, 66)                                                          \
    X(DENIED, -4, "not allowed", 403, 77)                                                          \
    X(LIMIT, -5, "limit reached", 413, 69)                                                         \
    X(BUSY, -6, "temporarily unavailable", 503, 75)                                                \
    X(TIMEOUT, -7, "timed out", 504, 75)                                                           \
    X(CANCELLED, -8, "cancelled", 499, 75)                                                         \
    X(CLOSED, -9, "closed", 410, 69)                                                               \
    X(IO, -10, "input/output error", 500, 74)                                                      \
    X(UNSUPPORTED, -11, "not supported", 501, 69)                                                  \
    X(EXISTS, -12, "already exists", 409, 73)                                                      \
    X(CONFLICT, -13, "conflict", 409, 75)                                                          \
    X(PARSE, -14, "malformed input", 400, 65)                                                      \
    X(INTERNAL, -15, "internal error", 500, 70)                                                    \
    X(GONE, -16, "deleted", 410, 66)                                                               \
    X(CONDITION, -17, "condition required", 428, 64)                                               \
    X(FORMAT, -18, "format not accepted", 415, 65)                                                 \
    X(FULL, -19, "no space left", 507, 74)                                                         \
    X(UNKNOWN, -20, "may or may not have been done", 500, 74)

enum tidings_code {
    TIDINGS_OK = 0,
#define TIDINGS_ERROR_ENUM(name, value, text, http, exit) TIDINGS_E_##name = (value),
    TIDINGS_ERROR_MAP(TIDINGS_ERROR_ENUM)
#undef TIDINGS_ERROR_ENUM
};

/* An error code for the program, and a message for people. It is a plain value and needs no
 * release. A message that does not fit is truncated: outer context is dropped first, and the root
 * cause is kept. */
struct tidings_error {
    int code;
    char text[252];
};

/* Return the name of a code ("TIDINGS_E_NOTFOUND"), or its general meaning ("not found"). The
 * string lives as long as the program. */
TIDINGS_API const char *tidings_code_name(int code);
TIDINGS_API const char *tidings_code_text(int code);

/* Return the process exit status for a code. The numbers come from sysexits.h; 0 means success. */
TIDINGS_API int tidings_code_exit(int code);

/* Fill in an error and return its code. Callbacks report failures with it. `err` may be NULL; `fmt`
 * and the other arguments are those of printf(3). A message that does not fit is truncated. */
TIDINGS_API int tidings_fail(struct tidings_error *err, int code, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);
#ifdef __clang_analyzer__ /* it cannot see that the function returns `code` */
#define tidings_fail(err, code, ...) ((tidings_fail)((err), (code), __VA_ARGS__), (code))
#endif

/* Severity of log messages, with the names of RFC 5424 and MCP. Higher levels are more severe. */
enum tidings_log_level {
    TIDINGS_LOG_DEBUG = 0,
    TIDINGS_LOG_INFO = 1,
    TIDINGS_LOG_NOTICE = 2,
    TIDINGS_LOG_WARNING = 3,
    TIDINGS_LOG_ERROR = 4,
    TIDINGS_LOG_CRITICAL = 5,
    TIDINGS_LOG_ALERT = 6,
    TIDINGS_LOG_EMERGENCY = 7,
    TIDINGS_LOG_OFF = 8, /* as a minimum level: log nothing */
};

/* How a resource changed. */
enum tidings_change_kind {
    TIDINGS_CHANGE_UPDATED = 0,
    TIDINGS_CHANGE_CREATED = 1,
    TIDINGS_CHANGE_DELETED = 2,
    /* The resource moved from `from` (required) to `uri`. The server reports a deletion of `from`
     * and a creation of `uri`. A provider that announces both itself uses CREATED with `from` for
     * the second. */
    TIDINGS_CHANGE_MOVED = 3,
};
/* Return the name of a kind of change: "updated", "created", "deleted" or "moved". The string lives
 * as long as the program. */
TIDINGS_API const char *tidings_change_name(enum tidings_change_kind kind);

/* A range of some content. Bytes and lines count from 0. `to` is exclusive; -1 means the end. A
 * line includes its line feed. */
enum tidings_unit {
    TIDINGS_UNIT_BYTES = 0,
    TIDINGS_UNIT_LINES = 1,
};

struct tidings_range {
    enum tidings_unit unit;
    int64_t from, to;
    int64_t last; /* if not 0: the last `last` units; `from` is 0 and `to` -1 */
};

/* Version of these headers, for `#if TIDINGS_VERSION >= TIDINGS_VERSION_NUMBER(1, 2, 0)`. */
#define TIDINGS_VERSION_MAJOR 0
#define TIDINGS_VERSION_MINOR 1
#define TIDINGS_VERSION_PATCH 0
#define TIDINGS_VERSION_NUMBER(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TIDINGS_VERSION                                                                            \
    TIDINGS_VERSION_NUMBER(TIDINGS_VERSION_MAJOR, TIDINGS_VERSION_MINOR, TIDINGS_VERSION_PATCH)
/* Return the version of the library at run time: "0.1.0". TIDINGS_VERSION is the version of the
 * headers. */
TIDINGS_API const char *tidings_version(void);

/* Replace the allocator for all memory that the library allocates. `resize` works like realloc(3):
 * with NULL it must allocate. Call this before any other function. Not thread-safe. */
TIDINGS_API void tidings_set_allocator(void *(*alloc)(size_t), void *(*resize)(void *, size_t),
                                       void (*release)(void *));

/* Allocate or release memory with the library's allocator. The function tidings_alloc is for memory
 * that the library takes over (tidings_read_take). tidings_free releases memory that the library
 * returns; NULL is allowed. Thread-safe.
 *
 * Returns NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK void *tidings_alloc(size_t bytes);
TIDINGS_API void tidings_free(void *memory);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
