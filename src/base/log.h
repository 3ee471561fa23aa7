/* SPDX-License-Identifier: MIT
 *
 * The log. A record is a fixed phrase for what happened and typed fields:
 *
 *     log_warn(LOG_STORE, "store cannot be written", KV("reason", err->text), KV("tries", n));
 *
 * It becomes a line in the configured format (text, JSON, logfmt) on standard error, in a file or
 * for the host program, or a datagram for the journal. Each area of the server has a minimum level;
 * a disabled record costs one load, and its fields are not evaluated. The library's default is off:
 * it never prints unless asked to.
 *
 * Nothing is allocated (the log must work when memory is gone). Strings are truncated at LOG_SHOWN
 * bytes, lines at LOG_MAX_LINE: fields that do not fit are omitted, which `cut=true` indicates.
 * Untrusted input is quoted and escaped, so that it can forge neither lines nor fields; control
 * characters, characters that change the text direction, and invalid UTF-8 are always escaped.
 * Never log secrets. Thread-safe.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * A log record, an event with typed fields, and its formats: it becomes a line of text, JSON or
 * logfmt, or a datagram of the journal's native protocol.
 *
 * Pure: no lock, no clock, no output. A line never contains a newline or another control character,
 * and is valid in its format whatever bytes the fields contain.
 */

#define LOG_MAX_LINE 4095u /* fits PIPE_BUF with its newline: lines of processes do not mix */
#define LOG_SHOWN 512u     /* bytes of one string */

/* The source of a record; the words of `--log-level AREA=LEVEL` are in log_area_names. */
enum log_area {
    LOG_SERVER,    /* start, settings, reload, sandbox, end */
    LOG_TRANSPORT, /* listeners and connections */
    LOG_REQUEST,   /* requests: the access log, and failures */
    LOG_AUTH,      /* keys and tokens */
    LOG_ACCESS,    /* refusals: authentication, access rules, limits */
    LOG_DELIVERY,  /* changes, subscriptions, slow readers */
    LOG_STORE,     /* the store */
    LOG_NODES,     /* the other nodes of a shared store */
    LOG_FILES,     /* served directories */
    LOG_PROVIDER,  /* other sources, and handlers */
    LOG_AREAS
};
extern const char *const log_area_names[LOG_AREAS];

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_LOGFMT, LOG_FORMAT_JOURNAL };

/* ---- fields ---------------------------------------------------------------------------------- */

enum log_kind { LOG_KIND_TEXT, LOG_KIND_INTEGER, LOG_KIND_COUNT, LOG_KIND_BOOL };

/* A string whose `ptr` is NULL is omitted. */
struct log_field {
    const char *name; /* lower case and underscores; static. NULL: end of the list */
    enum log_kind kind;
    union {
        struct tidings_str text;
        int64_t integer;
        uint64_t count;
    } as;
};

static inline struct log_field log_field_text(const char *name, struct tidings_str text)
{
    return (struct log_field){.name = name, .kind = LOG_KIND_TEXT, .as.text = text};
}
static inline struct log_field log_field_string(const char *name, const char *text)
{
    return log_field_text(name, text ? tidings_str(text) : tidings_strn(NULL, 0));
}
static inline struct log_field log_field_integer(const char *name, int64_t integer)
{
    return (struct log_field){.name = name, .kind = LOG_KIND_INTEGER, .as.integer = integer};
}
static inline struct log_field log_field_count(const char *name, uint64_t count)
{
    return (struct log_field){.name = name, .kind = LOG_KIND_COUNT, .as.count = count};
}
static inline struct log_field log_field_bool(const char *name, bool is_so)
{
    return (struct log_field){.name = name, .kind = LOG_KIND_BOOL, .as.count = is_so};
}

/* A field of the type of `value`. */
#define KV(name, value)                                                                            \
    _Generic((value),                                                                              \
             struct tidings_str: log_field_text,                                                   \
             char *: log_field_string,                                                             \
             const char *: log_field_string,                                                       \
             bool: log_field_bool,                                                                 \
             short: log_field_integer,                                                             \
             int: log_field_integer,                                                               \
             long: log_field_integer,                                                              \
             long long: log_field_integer,                                                         \
             unsigned char: log_field_count,                                                       \
             unsigned short: log_field_count,                                                      \
             unsigned: log_field_count,                                                            \
             unsigned long: log_field_count,                                                       \
             unsigned long long: log_field_count)(name, value)
/* For records without fields, and after the last field. */
#define NO_FIELDS ((struct log_field){.name = NULL})

/* ---- records --------------------------------------------------------------------------------- */

/* The request that a line belongs to. */
struct log_context {
    char request_id[17];            /* empty: none */
    char trace_id[33], span_id[17]; /* W3C Trace Context; empty: none */
};

struct log_record {
    int64_t time_ms;
    enum tidings_log_level level;
    enum log_area area;
    const char *event;
    const struct log_context *context; /* NULL: none */
    const struct log_field *fields;
};

/* The line being built, plus room for the newline. */
struct log_line {
    char bytes[LOG_MAX_LINE + 1];
    size_t len;
};

/* LOG_FORMAT_JOURNAL: like text, without time and level, which the journal adds. */
void log_record_line(const struct log_record *record, enum log_format format,
                     struct log_line *line);

/* Writes each field separately and unescaped: PRIORITY, MESSAGE (the record as text),
 * SYSLOG_IDENTIFIER, TIDINGS_AREA and TIDINGS_NAME for each field. Returns the number of bytes in
 * `out`; a field that does not fit is omitted. */
#define LOG_JOURNAL_MAX (3u * LOG_MAX_LINE)
size_t log_record_journal(const struct log_record *record, char out[LOG_JOURNAL_MAX]);

/* ---- writing --------------------------------------------------------------------------------- */

bool log_wants(enum tidings_log_level level, enum log_area area);
/* `fields` end with NO_FIELDS. Preserves errno. Drops records that a sink itself logs. */
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

/* Returns true if each request gets a line (`--access-log`). It belongs to LOG_REQUEST and is
 * written by log_write_access, possibly to its own file. */
bool log_wants_access(void);
void log_set_access(bool is_wanted);
void log_write_access(const char *event, const struct log_field *fields);

/* Sets the context that this thread adds to every line. It must live until the previous one is
 * restored. Returns the previous one; NULL: none. */
const struct log_context *log_enter(const struct log_context *context);

/* ---- settings -------------------------------------------------------------------------------- */

struct log_levels {
    enum tidings_log_level of[LOG_AREAS];
};
/* "info", "warn,store=debug,request=off". TIDINGS_E_INVALID with the accepted values. */
int log_levels_parse(struct tidings_str text, struct log_levels *ret, struct tidings_error *err);
void log_set_levels(const struct log_levels *levels);
void log_set_level(enum tidings_log_level least); /* of all areas; TIDINGS_LOG_OFF: nothing */

/* TIDINGS_E_IO: the journal is unreachable; nothing changes. `journal_path` NULL: systemd's
 * default. */
int log_set_format(enum log_format format, const char *journal_path, struct tidings_error *err);

/* Appends lines to this file, which is created if missing. NULL: standard error. */
int log_open_file(const char *path, struct tidings_error *err);
/* The same for the lines of log_write_access. NULL: they go to the main log. */
int log_open_access_file(const char *path, struct tidings_error *err);
/* Reopens both files after they were renamed. On failure the old ones stay in use. */
int log_reopen_file(struct tidings_error *err);
/* Returns true if lines go neither to a file, nor to the journal, nor to a host's sink. */
bool log_is_on_stderr(void);

/* `line` has no newline; for the journal it is text. Called by one thread at a time. */
typedef void (*log_sink_fn)(void *user, enum tidings_log_level level, struct tidings_str line);
void log_set_sink(log_sink_fn sink, void *user); /* NULL: none */

#endif
