/* SPDX-License-Identifier: MIT
 *
 * A record of the log, an event with typed fields, and its formats: it becomes a line of text, of
 * JSON or of logfmt, or a datagram of the journal's native protocol.
 *
 * Pure: no lock, no clock, no output. A line never has a newline or another control character in
 * it, and is valid in its format whatever bytes the fields hold.
 */
#ifndef BASE_LOG_RECORD_H
#define BASE_LOG_RECORD_H

#include <tidings/types.h>

#define LOG_MAX_LINE 4095u /* with its newline within PIPE_BUF: lines of processes do not mix */
#define LOG_SHOWN 512u     /* bytes of one text */

/* Who says it; the words of `--log-level AREA=LEVEL` are in log_area_names. */
enum log_area {
    LOG_SERVER,    /* start, settings, reload, sandbox, end */
    LOG_TRANSPORT, /* listeners and connections */
    LOG_REQUEST,   /* requests: the access log, and those that fail */
    LOG_AUTH,      /* keys and tokens */
    LOG_ACCESS,    /* what is refused: who one is, what one may, how much */
    LOG_DELIVERY,  /* changes, subscriptions, slow readers */
    LOG_STORE,     /* what is kept */
    LOG_NODES,     /* the other servers on the same store */
    LOG_FILES,     /* served directories */
    LOG_PROVIDER,  /* other sources, and handlers */
    LOG_AREAS
};
extern const char *const log_area_names[LOG_AREAS];

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_LOGFMT, LOG_FORMAT_JOURNAL };

/* ---- fields ---------------------------------------------------------------------------------- */

enum log_kind { LOG_KIND_TEXT, LOG_KIND_INTEGER, LOG_KIND_COUNT, LOG_KIND_BOOL };

/* A text whose `ptr` is NULL is left out. */
struct log_field {
    const char *name; /* lower case and underscores; lives for ever. NULL: the last */
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

/* A field of whatever type `value` has. */
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
/* For records without fields, and after the last of those with. */
#define NO_FIELDS ((struct log_field){.name = NULL})

/* ---- records --------------------------------------------------------------------------------- */

/* What a line is about. */
struct log_context {
    char request_id[17];            /* empty: none */
    char trace_id[33], span_id[17]; /* of W3C Trace Context; empty: none */
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

/* LOG_FORMAT_JOURNAL: as text, without time and level, which the journal has itself. */
void log_record_line(const struct log_record *record, enum log_format format,
                     struct log_line *line);

/* Every field by itself, as its bytes are: PRIORITY, MESSAGE (the record as text),
 * SYSLOG_IDENTIFIER, TIDINGS_AREA and TIDINGS_NAME for each field. Returns how much of `out` it
 * takes; what does not fit is left out whole. */
#define LOG_JOURNAL_MAX (3u * LOG_MAX_LINE)
size_t log_record_journal(const struct log_record *record, char out[LOG_JOURNAL_MAX]);

#endif
