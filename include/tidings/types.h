/* SPDX-License-Identifier: MIT
 *
 * Types every other header uses: byte slices, result codes, errors, the allocator.
 *
 * Conventions that hold for the whole API
 *   - A function that can fail returns `int`: 0 or a positive value on success, a negative
 *     `TIDINGS_E_*` code on failure; or a pointer, NULL on failure. Its last parameter is
 *     `struct tidings_error *err`: it may be NULL, is untouched on success, and on failure holds
 *     the code and a sentence for a person.
 *   - A callback that is called for each of several things, and returns `int`, is called as long as
 *     it returns 0. Whoever calls it returns 0 after the last of them, otherwise what the callback
 *     returned, or a code of its own; never how many there were. One that returns `bool` only says
 *     whether to go on.
 *   - A handle (a server, a client, a subscription, a copy) that is NULL is refused with
 *     TIDINGS_E_INVALID by functions that can fail. Others do nothing, and return what means
 *     "nothing": NULL, -1 for a descriptor or a time, 0 for a number. Handles that a callback is
 *     given are never NULL.
 *   - Parameters are borrowed for the duration of the call unless the text says otherwise. A
 *     pointer may be NULL only where the text says so.
 *   - Strings are slices with a length; they need no terminating NUL. Where a parameter is a
 *     `const char *` it has one. All text is UTF-8.
 *   - Structs that a program fills in are zeroed first (`= {0}`, in C++ `{}`): what is zero is the
 *     default, also of members to come. Each ends with `reserved`, room for those, which stays
 *     zero: functions that can fail refuse what is not (TIDINGS_E_INVALID). Only the rows of
 *     tables (`struct tidings_argument`, `struct tidings_semantics`, `struct
 *     tidings_schema_field`) have none, and stay as they are; a table of functions has `abi`
 *     instead. A number of which 0 is a value like others is known when `has_` says so (`size`
 *     and `has_size`). Structs that the library hands out may get members at their end: do not
 *     copy them by size.
 *   - A higher level of a log matters more (`enum tidings_log_level`), wherever levels are
 *     spoken of.
 *   - TIDINGS_MUST_CHECK marks what returns memory that the caller has to release, or the one
 *     handle of something: to pass over it is a leak, and the compiler says so.
 *   - Some functions are named like the struct they make or return. C++ then needs the word
 *     `struct` before the name of the type: `struct tidings_str`.
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
/* Functions named like the struct they return: -Wshadow calls that hiding its constructor. */
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

/* Revisions of the protocol that are spoken, newest first: the stateless one, and the newest with
 * sessions first among its like. */
#define TIDINGS_PROTOCOL_MODERN "2026-07-28"
#define TIDINGS_PROTOCOL_LEGACY "2025-11-25"
#define TIDINGS_PROTOCOL_VERSIONS                                                                  \
    TIDINGS_PROTOCOL_MODERN, TIDINGS_PROTOCOL_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"

/* A borrowed run of bytes. `ptr` may be NULL only when `len` is 0. */
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

/* Make a slice of the `len` bytes from `s` on. NULL gives the empty slice. */
static inline struct tidings_str tidings_strn(const char *s, size_t len)
{
    struct tidings_str r;
    r.ptr = s;
    r.len = s ? len : 0;
    return r;
}

/* The slice of a string literal. */
#define TIDINGS_STR(literal) tidings_strn("" literal, sizeof(literal) - 1)

/* Say whether two slices hold the same bytes. */
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

/* A code for the program and a sentence for the person. A plain value: nothing to free. The text
 * is cut when it does not fit; the root cause is kept, outer context goes first. */
struct tidings_error {
    int code;
    char text[252];
};

/* Return the name of a code ("TIDINGS_E_NOTFOUND"), or what it means in general ("not found").
 * Lives as long as the program. */
TIDINGS_API const char *tidings_code_name(int code);
TIDINGS_API const char *tidings_code_text(int code);

/* Return the exit status of a process that fits a code. The numbers are those of sysexits.h; 0 for
 * success. */
TIDINGS_API int tidings_code_exit(int code);

/* Fill in an error and return its code. For callbacks that report failures: `err` may be NULL,
 * `fmt` and what follows are as for printf(3); a text that does not fit is cut. */
TIDINGS_API int tidings_fail(struct tidings_error *err, int code, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);
#ifdef __clang_analyzer__ /* which cannot see that it returns `code` */
#define tidings_fail(err, code, ...) ((tidings_fail)((err), (code), __VA_ARGS__), (code))
#endif

/* How much something matters; the words of RFC 5424, of MCP too. A higher level matters more. */
enum tidings_log_level {
    TIDINGS_LOG_DEBUG = 0,
    TIDINGS_LOG_INFO = 1,
    TIDINGS_LOG_NOTICE = 2,
    TIDINGS_LOG_WARNING = 3,
    TIDINGS_LOG_ERROR = 4,
    TIDINGS_LOG_CRITICAL = 5,
    TIDINGS_LOG_ALERT = 6,
    TIDINGS_LOG_EMERGENCY = 7,
    TIDINGS_LOG_OFF = 8, /* where a least level is asked for: nothing matters so much */
};

/* What became of a resource. */
enum tidings_change_kind {
    TIDINGS_CHANGE_UPDATED = 0,
    TIDINGS_CHANGE_CREATED = 1,
    TIDINGS_CHANGE_DELETED = 2,
    /* `uri` was `from` before (which is required): told as deleted and, of the new URI, created. A
     * provider that announces both halves itself says CREATED with `from` for the second. */
    TIDINGS_CHANGE_MOVED = 3,
};
/* Return the word for a kind of change: "updated", "created", "deleted", "moved". Lives as long as
 * the program. */
TIDINGS_API const char *tidings_change_name(enum tidings_change_kind kind);

/* A part of some content. Bytes and lines count from 0; `to` is the first one left out, -1: to the
 * end. A line ends behind its line feed. */
enum tidings_unit {
    TIDINGS_UNIT_BYTES = 0,
    TIDINGS_UNIT_LINES = 1,
};

struct tidings_range {
    enum tidings_unit unit;
    int64_t from, to;
    int64_t last; /* not 0: the last so many, and `from` is 0, `to` -1 */
};

/* The version of these headers, for `#if TIDINGS_VERSION >= TIDINGS_VERSION_NUMBER(1, 2, 0)`; … */
#define TIDINGS_VERSION_MAJOR 0
#define TIDINGS_VERSION_MINOR 1
#define TIDINGS_VERSION_PATCH 0
#define TIDINGS_VERSION_NUMBER(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TIDINGS_VERSION                                                                            \
    TIDINGS_VERSION_NUMBER(TIDINGS_VERSION_MAJOR, TIDINGS_VERSION_MINOR, TIDINGS_VERSION_PATCH)
/* Return the version of the library the program runs with: "0.1.0". That of the headers is
 * TIDINGS_VERSION. */
TIDINGS_API const char *tidings_version(void);

/* Replace the allocator of everything the library allocates itself. Call before any other function;
 * not thread-safe. `realloc(NULL, n)` must allocate. */
TIDINGS_API void tidings_set_allocator(void *(*alloc)(size_t), void *(*resize)(void *, size_t),
                                       void (*release)(void *));

/* Allocate or release memory with the allocator of the library. The former is for what the library
 * takes over (tidings_read_take), and gives NULL when memory is gone; the latter releases what the
 * library hands out. NULL is fine. Any thread. */
TIDINGS_API TIDINGS_MUST_CHECK void *tidings_alloc(size_t bytes);
TIDINGS_API void tidings_free(void *memory);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
