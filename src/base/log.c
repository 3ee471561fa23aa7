/* SPDX-License-Identifier: MIT
 *
 * Log lines. One lock keeps lines whole and the sink and its argument together; the level is read
 * without it, so a line that is not wanted costs one load. Deliberately no allocation (the log must
 * work when memory is gone), no rotation and no files: standard error or the host's sink.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

static atomic_int current_level = TIDINGS_LOG_OFF;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static log_sink_fn current_sink;
static void *current_user;
static _Thread_local bool is_logging;

static const char *const level_names[] = {"debug", "info",     "notice", "warn",
                                          "error", "critical", "alert",  "emergency"};

/* The line being built: bytes that fit, plus room for the newline. */
struct line {
    char bytes[LOG_MAX_LINE + 1];
    size_t len;
};

void log_set_level(enum tidings_log_level least)
{
    atomic_store_explicit(&current_level, (int)least, memory_order_relaxed);
}

enum tidings_log_level log_get_level(void)
{
    return (enum tidings_log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_set_sink(log_sink_fn sink, void *user)
{
    pthread_mutex_lock(&lock);
    current_sink = sink;
    current_user = user;
    pthread_mutex_unlock(&lock);
}

/* Does a character begin it that ends a line, or turns the direction of writing: U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069? */
static bool is_direction(struct tidings_str s)
{
    if (s.len < 3 || (unsigned char)s.ptr[0] != 0xE2) {
        return false;
    }
    unsigned char second = (unsigned char)s.ptr[1], third = (unsigned char)s.ptr[2];
    return (second == 0x80 &&
            (third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE))) ||
           (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

/* The length of the printable character at the front; 0: the first byte must be escaped. */
static size_t printable(struct tidings_str s)
{
    unsigned char c = (unsigned char)s.ptr[0];
    if (c < 0x80) {
        return c >= 0x20 && c != 0x7F;
    }
    if (c == 0xC2 && s.len > 1 && (unsigned char)s.ptr[1] < 0xA0) {
        return 0; /* U+0080 to U+009F: some terminals obey them */
    }
    if (is_direction(s)) {
        return 0;
    }
    for (size_t n = 2; n <= 4 && n <= s.len; n++) {
        if (str_is_utf8(tidings_strn(s.ptr, n))) {
            return n;
        }
    }
    return 0;
}

static void log_put_escaped(struct line *line, struct tidings_str s)
{
    static const char hex[] = "0123456789abcdef";
    while (s.len > 0) {
        size_t n = printable(s);
        unsigned char c = (unsigned char)s.ptr[0];
        char escaped[4] = {'\\', 'x', hex[c >> 4], hex[c & 15]};
        size_t put = n ? n : sizeof escaped;
        if (put > LOG_MAX_LINE - line->len) {
            return;
        }
        memcpy(line->bytes + line->len, n ? s.ptr : escaped, put);
        line->len += put;
        s = str_skip(s, n ? n : 1);
    }
}

static void write_stderr(struct line *line)
{
    line->bytes[line->len] = '\n';
    ssize_t n;
    do {
        n = write(STDERR_FILENO, line->bytes, line->len + 1);
    } while (n < 0 && errno == EINTR);
}

static void log_deliver(enum tidings_log_level level, struct line *line)
{
    if (is_logging) {
        return; /* a sink that logs would wait for its own lock */
    }
    is_logging = true;
    pthread_mutex_lock(&lock);
    if (current_sink) {
        current_sink(current_user, level, tidings_strn(line->bytes, line->len));
    } else {
        write_stderr(line);
    }
    pthread_mutex_unlock(&lock);
    is_logging = false;
}

void log_write(enum tidings_log_level level, const char *event, const char *fmt, ...)
{
    if (level >= TIDINGS_LOG_OFF || level < log_get_level()) {
        return;
    }
    int saved = errno;
    struct line line;
    char raw[LOG_MAX_LINE + 1];
    line.len = 0;
    clock_format_iso(clock_wall_ms(), raw);
    log_put_escaped(&line, tidings_str(raw));
    log_put_escaped(&line, STR(" "));
    log_put_escaped(&line, tidings_str(level_names[level]));
    log_put_escaped(&line, STR(" "));
    log_put_escaped(&line, tidings_str(event));
    if (fmt) {
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(raw, sizeof raw, fmt, args);
        va_end(args);
        size_t len = n < 0 ? 0 : (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1;
        log_put_escaped(&line, len ? STR(" ") : STR_EMPTY);
        log_put_escaped(&line, tidings_strn(raw, len));
    }
    log_deliver(level, &line);
    errno = saved;
}
