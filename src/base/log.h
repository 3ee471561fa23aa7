/* SPDX-License-Identifier: MIT
 *
 * The log. A record is a fixed phrase for what happened and typed fields:
 *
 *     log_warn(LOG_STORE, "store cannot be written", KV("reason", err->text), KV("tries", n));
 *
 * It becomes a line of the format that is set (text, JSON, logfmt) on standard error, in a file or
 * for the host program, or a datagram for the journal. Each area of the server has a least level; a
 * record that is not wanted costs one load, and its fields are not evaluated. The library's default
 * is off: it never prints unasked.
 *
 * Nothing is allocated (the log must work when memory is gone). A text is cut at LOG_SHOWN bytes, a
 * line at LOG_MAX_LINE: fields that do not fit are left out, and `cut=true` says so. What strangers
 * wrote is quoted and escaped, so that it forges neither lines nor fields; control characters,
 * those that turn the direction of writing, and bytes that are not UTF-8 are never written as they
 * are. Never give secrets to it. Thread-safe.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/log_record.h"

/* ---- writing --------------------------------------------------------------------------------- */

bool log_wants(enum tidings_log_level level, enum log_area area);
/* `fields` end with NO_FIELDS. Keeps errno. What a sink itself logs is dropped. */
void log_write(enum tidings_log_level level, enum log_area area, const char *event,
               const struct log_field *fields);

#define log_at(level, area, event, ...)                                                            \
    do {                                                                                           \
        if (log_wants((level), (area))) {                                                          \
            log_write((level), (area), (event),                                                    \
                      (const struct log_field[]){__VA_ARGS__, NO_FIELDS});                         \
        }                                                                                          \
    } while (0)
#define log_error(area, event, ...) log_at(TIDINGS_LOG_ERROR, area, event, __VA_ARGS__)
#define log_warn(area, event, ...) log_at(TIDINGS_LOG_WARNING, area, event, __VA_ARGS__)
#define log_info(area, event, ...) log_at(TIDINGS_LOG_INFO, area, event, __VA_ARGS__)
#define log_debug(area, event, ...) log_at(TIDINGS_LOG_DEBUG, area, event, __VA_ARGS__)

/* Is a line for each request wanted (`--access-log`)? Then it is of LOG_REQUEST, and written by
 * log_write_access, which may have a file of its own. */
bool log_wants_access(void);
void log_set_access(bool is_wanted);
void log_write_access(const char *event, const struct log_field *fields);

/* What this thread works on: every line it writes carries it. From now on it is this one, which has
 * to live until the other is put back. Returns the one before; NULL: none. */
const struct log_context *log_enter(const struct log_context *context);

/* ---- settings -------------------------------------------------------------------------------- */

struct log_levels {
    enum tidings_log_level of[LOG_AREAS];
};
/* "info", "warn,store=debug,request=off". TIDINGS_E_INVALID with what is accepted. */
int log_levels_parse(struct tidings_str text, struct log_levels *ret, struct tidings_error *err);
void log_set_levels(const struct log_levels *levels);
void log_set_level(enum tidings_log_level least); /* of all areas; TIDINGS_LOG_OFF: nothing */

/* TIDINGS_E_IO: the journal cannot be reached; all stays as it was. `journal_path` NULL: where
 * systemd has it. */
int log_set_format(enum log_format format, const char *journal_path, struct tidings_error *err);

/* Lines go to the end of this file, which is made where it is not there. NULL: standard error. */
int log_open_file(const char *path, struct tidings_error *err);
/* The same for the lines of log_write_access. NULL: they go where the others do. */
int log_open_access_file(const char *path, struct tidings_error *err);
/* Open both again, because the old ones were renamed. On failure the old ones are written on. */
int log_reopen_file(struct tidings_error *err);
/* Neither a file, nor the journal, nor a host's sink. */
bool log_is_on_stderr(void);

/* `line` has no newline; of the journal it is text. Called by one thread at a time. */
typedef void (*log_sink_fn)(void *user, enum tidings_log_level level, struct tidings_str line);
void log_set_sink(log_sink_fn sink, void *user); /* NULL: none */

#endif
