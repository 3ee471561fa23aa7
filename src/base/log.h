/* SPDX-License-Identifier: MIT
 *
 * Leveled key=value lines: `2026-07-28T10:00:00.000Z info listening url=http://127.0.0.1:7777/mcp`.
 * The default sink writes whole lines to standard error with one write(2); an embedding program
 * installs its own, or none (level off is the library's default: the library never prints unasked).
 * Thread-safe. Never log secrets. Lines are cut at LOG_MAX_LINE bytes.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <tidings/types.h>

#define LOG_MAX_LINE 4095u /* with its newline within PIPE_BUF: lines of processes do not mix */

/* `line` has no newline. Called by one thread at a time; what a sink itself logs is left out. */
typedef void (*log_sink_fn)(void *user, enum tidings_log_level level, struct tidings_str line);

void log_set_level(enum tidings_log_level least); /* TIDINGS_LOG_OFF: nothing */
enum tidings_log_level log_get_level(void);
void log_set_sink(log_sink_fn sink, void *user); /* NULL: standard error */

/* `event` is a fixed phrase; `fmt` gives the key=value pairs and may be NULL. Keeps errno. */
void log_write(enum tidings_log_level level, const char *event, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

#define log_error(event, ...) log_write(TIDINGS_LOG_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) log_write(TIDINGS_LOG_WARNING, event, __VA_ARGS__)
#define log_info(event, ...) log_write(TIDINGS_LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_write(TIDINGS_LOG_DEBUG, event, __VA_ARGS__)

/* In the finished line, control characters, those that turn the direction of writing, and bytes
 * that are not UTF-8 are replaced by \xNN, so that no client's string can forge a line. */

#endif
