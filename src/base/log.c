/* SPDX-License-Identifier: MIT
 *
 * The log's outputs. One lock keeps lines complete and output settings consistent; levels are read
 * without it, so a disabled record costs one load. Deliberately no allocation and no rotation: the
 * program that renames the file must call log_reopen_file.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * Formats records as text, JSON, logfmt and journal datagrams. One function writes values with two
 * kinds of escapes: \xNN in text, which shows the exact byte, \uNNNN in formats that a parser
 * reads.
 */

/* Reserved for the end of a truncated line: ` cut=true`, `,"cut":true}`. */
#define CUT_ROOM 16u
#define ELLIPSIS STR("\xE2\x80\xA6")

static const char *const level_names[] = {"debug", "info",     "notice", "warn",
                                          "error", "critical", "alert",  "emergency"};
/* Priorities of syslog and the journal. */
static const char priorities[] = {'7', '6', '5', '4', '3', '2', '1', '0'};

const char *const log_area_names[LOG_AREAS] = {
    [LOG_SERVER] = "server",    [LOG_TRANSPORT] = "transport", [LOG_REQUEST] = "request",
    [LOG_AUTH] = "auth",        [LOG_ACCESS] = "access",       [LOG_DELIVERY] = "delivery",
    [LOG_STORE] = "store",      [LOG_NODES] = "nodes",         [LOG_FILES] = "files",
    [LOG_PROVIDER] = "provider"};

/* ---- characters ------------------------------------------------------------------------------ */

/* Returns true if `s` starts with a character that ends a line or changes the text direction:
 * U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
static bool record_is_direction(struct tidings_str s)
{
    if (s.len < 3 || (unsigned char)s.ptr[0] != 0xE2) {
        return false;
    }
    unsigned char second = (unsigned char)s.ptr[1], third = (unsigned char)s.ptr[2];
    return (second == 0x80 &&
            (third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE))) ||
           (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

/* The length of the first character; 0: invalid UTF-8. */
static size_t record_char_length(struct tidings_str s)
{
    if ((unsigned char)s.ptr[0] < 0x80) {
        return 1;
    }
    for (size_t n = 2; n <= 4 && n <= s.len; n++) {
        if (str_is_utf8(tidings_strn(s.ptr, n))) {
            return n;
        }
    }
    return 0;
}

/* Returns true if the first character, of `n` bytes, may be written unescaped. */
static bool record_is_printable(struct tidings_str s, size_t n)
{
    unsigned char c = (unsigned char)s.ptr[0];
    if (n == 1) {
        return c >= 0x20 && c != 0x7F;
    }
    bool is_c1 = c == 0xC2 && (unsigned char)s.ptr[1] < 0xA0; /* some terminals interpret them */
    return n > 1 && !is_c1 && !record_is_direction(s);
}

/* For characters of one to three bytes: all unprintable ones are that short. */
static unsigned record_code_point(struct tidings_str s, size_t n)
{
    const unsigned char *b = (const unsigned char *)s.ptr;
    return n == 1   ? b[0]
           : n == 2 ? (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu)
           : n == 3 ? (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu)
                    : 0xFFFDu;
}

/* ---- the line -------------------------------------------------------------------------------- */

static bool record_line_put(struct log_line *line, struct tidings_str s)
{
    if (s.len > LOG_MAX_LINE - CUT_ROOM - line->len) {
        return false;
    }
    memcpy(line->bytes + line->len, s.ptr, s.len);
    line->len += s.len;
    return true;
}

/* The end of a line always has room. */
static void record_line_end(struct log_line *line, struct tidings_str s)
{
    memcpy(line->bytes + line->len, s.ptr, s.len);
    line->len += s.len;
}

static bool record_put_escape(struct log_line *line, struct tidings_str s, size_t n, bool is_text)
{
    char escaped[16];
    if (is_text) {
        size_t len = 0;
        for (size_t i = 0; i < (n ? n : 1); i++) {
            len += (size_t)snprintf(escaped + len, sizeof escaped - len, "\\x%02x",
                                    (unsigned)(unsigned char)s.ptr[i]);
        }
        return record_line_put(line, tidings_strn(escaped, len));
    }
    snprintf(escaped, sizeof escaped, "\\u%04x", record_code_point(s, n));
    return record_line_put(line, tidings_str(escaped));
}

/* Writes `text` without quotes, truncated after a complete character. */
static bool record_put_escaped(struct log_line *line, struct tidings_str text, bool is_text)
{
    size_t shown = 0;
    while (shown < text.len) {
        struct tidings_str rest = str_skip(text, shown);
        size_t n = record_char_length(rest);
        if (shown + (n ? n : 1) > LOG_SHOWN) {
            return record_line_put(line, ELLIPSIS);
        }
        bool is_fine;
        if (rest.ptr[0] == '"' || rest.ptr[0] == '\\') {
            char pair[2] = {'\\', rest.ptr[0]};
            is_fine = record_line_put(line, tidings_strn(pair, 2));
        } else if (record_is_printable(rest, n)) {
            is_fine = record_line_put(line, tidings_strn(rest.ptr, n));
        } else {
            is_fine = record_put_escape(line, rest, n, is_text);
        }
        if (!is_fine) {
            return false;
        }
        shown += n ? n : 1;
    }
    return true;
}

static bool record_put_quoted(struct log_line *line, struct tidings_str text, bool is_text)
{
    return record_line_put(line, STR("\"")) && record_put_escaped(line, text, is_text) &&
           record_line_put(line, STR("\""));
}

/* Returns true if the value needs no quotes between fields separated by blanks. */
static bool record_is_bare(struct tidings_str text)
{
    static const char others[] = "-_.:/@%+,;*?&#~^!$()[]{}|<>";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_word && (c == '\0' || !strchr(others, c))) {
            return false;
        }
    }
    return text.len > 0 && text.len <= LOG_SHOWN;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool record_put_value(struct log_line *line, const struct log_field *f,
                             enum log_format format)
{
    char number[24];
    if (f->kind == LOG_KIND_TEXT) {
        if (format != LOG_FORMAT_JSON && record_is_bare(f->as.text)) {
            return record_line_put(line, f->as.text);
        }
        return record_put_quoted(line, f->as.text,
                                 format == LOG_FORMAT_TEXT || format == LOG_FORMAT_JOURNAL);
    }
    if (f->kind == LOG_KIND_BOOL) {
        return record_line_put(line, f->as.count ? STR("true") : STR("false"));
    }
    if (f->kind == LOG_KIND_COUNT) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)f->as.count);
    } else {
        snprintf(number, sizeof number, "%lld", (long long)f->as.integer);
    }
    return record_line_put(line, tidings_str(number));
}

/* Writes the complete field, or nothing. */
static bool record_put_field(struct log_line *line, const struct log_field *f,
                             enum log_format format)
{
    size_t before = line->len;
    if (f->kind == LOG_KIND_TEXT && !f->as.text.ptr) {
        return true;
    }
    bool is_json = format == LOG_FORMAT_JSON;
    if (record_line_put(line, is_json      ? STR(",\"")
                              : before > 0 ? STR(" ")
                                           : STR("")) &&
        record_line_put(line, tidings_str(f->name)) &&
        record_line_put(line, is_json ? STR("\":") : STR("=")) &&
        record_put_value(line, f, format)) {
        return true;
    }
    line->len = before;
    return false;
}

/* The fields of the context, after the others. */
struct context_fields {
    struct log_field all[4];
};

static const struct log_field *record_context_fields(const struct log_context *c,
                                                     struct context_fields *out)
{
    size_t n = 0;
    if (c && c->request_id[0]) {
        out->all[n++] = log_field_string("request_id", c->request_id);
    }
    if (c && c->trace_id[0]) {
        out->all[n++] = log_field_string("trace_id", c->trace_id);
        out->all[n++] = log_field_string("span_id", c->span_id);
    }
    out->all[n] = NO_FIELDS;
    return out->all;
}

static bool record_put_fields(struct log_line *line, const struct log_field *f,
                              enum log_format format)
{
    bool is_whole = true;
    for (; f && f->name; f++) {
        is_whole = record_put_field(line, f, format) && is_whole;
    }
    return is_whole;
}

/* ---- formats --------------------------------------------------------------------------------- */

/* `2026-07-28T10:00:00.000Z info server: listening` */
static void record_begin_text(struct log_line *line, const struct log_record *r, const char *time)
{
    char head[64];
    snprintf(head, sizeof head, "%s %s %s: ", time, level_names[r->level], log_area_names[r->area]);
    (void)record_line_put(line, tidings_str(head));
    (void)record_put_escaped(line, tidings_str(r->event), true);
}

static void record_begin_json(struct log_line *line, const struct log_record *r, const char *time)
{
    char head[96];
    snprintf(head, sizeof head,
             "{\"time\":\"%s\",\"level\":\"%s\",\"area\":\"%s\",\"message\":", time,
             level_names[r->level], log_area_names[r->area]);
    (void)record_line_put(line, tidings_str(head));
    (void)record_put_quoted(line, tidings_str(r->event), false);
}

static void record_begin_logfmt(struct log_line *line, const struct log_record *r, const char *time)
{
    const struct log_field head[] = {
        log_field_string("time", time),
        log_field_string("level", level_names[r->level]),
        log_field_string("area", log_area_names[r->area]),
        log_field_string("message", r->event),
        NO_FIELDS,
    };
    (void)record_put_fields(line, head, LOG_FORMAT_LOGFMT);
}

void log_record_line(const struct log_record *r, enum log_format format, struct log_line *line)
{
    char time[32];
    struct context_fields context;
    clock_format_iso(r->time_ms, time);
    line->len = 0;
    switch (format) {
    case LOG_FORMAT_TEXT:
        record_begin_text(line, r, time);
        break;
    case LOG_FORMAT_JSON:
        record_begin_json(line, r, time);
        break;
    case LOG_FORMAT_LOGFMT:
        record_begin_logfmt(line, r, time);
        break;
    case LOG_FORMAT_JOURNAL:
        (void)record_put_escaped(line, tidings_str(r->event), true);
        break;
    }
    bool is_whole = record_put_fields(line, r->fields, format);
    is_whole =
        record_put_fields(line, record_context_fields(r->context, &context), format) && is_whole;
    if (!is_whole) {
        record_line_end(line, format == LOG_FORMAT_JSON ? STR(",\"cut\":true") : STR(" cut=true"));
    }
    if (format == LOG_FORMAT_JSON) {
        record_line_end(line, STR("}"));
    }
}

/* ---- the journal ----------------------------------------------------------------------------- */

struct datagram {
    char *bytes;
    size_t len;
};

/* NAME=value and a newline; for values with a newline: NAME, a newline, the length in eight bytes,
 * little-endian, the value and a newline (systemd: Native Journal Protocol). */
static void journal_put(struct datagram *d, const char *name, struct tidings_str value)
{
    size_t name_len = strlen(name);
    if (name_len + value.len + 10 > LOG_JOURNAL_MAX - d->len) {
        return;
    }
    bool is_long = value.len > 0 && memchr(value.ptr, '\n', value.len) != NULL;
    memcpy(d->bytes + d->len, name, name_len);
    d->len += name_len;
    d->bytes[d->len++] = is_long ? '\n' : '=';
    for (size_t i = 0; is_long && i < 8; i++) {
        d->bytes[d->len++] = (char)(unsigned char)((uint64_t)value.len >> (8 * i));
    }
    if (value.len > 0) {
        memcpy(d->bytes + d->len, value.ptr, value.len);
    }
    d->len += value.len;
    d->bytes[d->len++] = '\n';
}

static void journal_put_fields(struct datagram *d, const struct log_field *f)
{
    for (; f && f->name; f++) {
        struct log_line value = {.len = 0};
        char name[64] = "TIDINGS_";
        size_t at = strlen(name);
        for (const char *c = f->name; *c && at + 1 < sizeof name; c++) {
            name[at++] = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
        }
        name[at] = '\0';
        if (f->kind != LOG_KIND_TEXT) {
            (void)record_put_value(&value, f, LOG_FORMAT_LOGFMT);
            journal_put(d, name, tidings_strn(value.bytes, value.len));
        } else if (f->as.text.ptr) {
            size_t len = f->as.text.len < LOG_SHOWN ? f->as.text.len : LOG_SHOWN;
            journal_put(d, name, tidings_strn(f->as.text.ptr, len));
        }
    }
}

size_t log_record_journal(const struct log_record *r, char out[LOG_JOURNAL_MAX])
{
    struct datagram d = {.bytes = out};
    struct log_line line;
    struct context_fields context;
    log_record_line(r, LOG_FORMAT_JOURNAL, &line);
    journal_put(&d, "MESSAGE", tidings_strn(line.bytes, line.len));
    journal_put(&d, "PRIORITY", tidings_strn(&priorities[r->level], 1));
    journal_put(&d, "SYSLOG_IDENTIFIER", STR("tidings"));
    journal_put(&d, "TIDINGS_AREA", tidings_str(log_area_names[r->area]));
    journal_put_fields(&d, r->fields);
    journal_put_fields(&d, record_context_fields(r->context, &context));
    return d.len;
}

/* ---------------------------------------------------------------------------------------------- */

#define JOURNAL_PATH "/run/systemd/journal/socket"

static atomic_int least[LOG_AREAS] = {
    TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF,
    TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF, TIDINGS_LOG_OFF,
};
_Static_assert(LOG_AREAS == 10, "each area is off at first");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct log_file {
    char path[PATH_MAX];
    int fd; /* -1: none */
};
static struct {
    enum log_format format;
    log_sink_fn sink;
    void *user;
    struct log_file file, access;
    int journal;
    struct sockaddr_un journal_address;
} output = {.file.fd = -1, .access.fd = -1, .journal = -1};

static _Thread_local bool is_logging;
static _Thread_local const struct log_context *current_context;

/* ---- levels ---------------------------------------------------------------------------------- */

bool log_wants(enum tidings_log_level level, enum log_area area)
{
    return level < TIDINGS_LOG_OFF &&
           (int)level >= atomic_load_explicit(&least[area], memory_order_relaxed);
}

static atomic_bool has_access_log;

bool log_wants_access(void)
{
    return atomic_load_explicit(&has_access_log, memory_order_relaxed) &&
           log_wants(TIDINGS_LOG_INFO, LOG_REQUEST);
}

void log_set_access(bool is_wanted)
{
    atomic_store_explicit(&has_access_log, is_wanted, memory_order_relaxed);
}

void log_set_levels(const struct log_levels *levels)
{
    for (size_t i = 0; i < LOG_AREAS; i++) {
        atomic_store_explicit(&least[i], (int)levels->of[i], memory_order_relaxed);
    }
}

void log_set_level(enum tidings_log_level level)
{
    struct log_levels levels;
    for (size_t i = 0; i < LOG_AREAS; i++) {
        levels.of[i] = level;
    }
    log_set_levels(&levels);
}

static bool read_level(struct tidings_str word, enum tidings_log_level *ret)
{
    static const struct {
        const char *word;
        enum tidings_log_level level;
    } rows[] = {
        {"off", TIDINGS_LOG_OFF},      {"error", TIDINGS_LOG_ERROR},
        {"warn", TIDINGS_LOG_WARNING}, {"warning", TIDINGS_LOG_WARNING},
        {"info", TIDINGS_LOG_INFO},    {"debug", TIDINGS_LOG_DEBUG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (str_eq(word, tidings_str(rows[i].word))) {
            *ret = rows[i].level;
            return true;
        }
    }
    return false;
}

static int read_area(struct tidings_str word, enum log_area *ret, struct tidings_error *err)
{
    char known[160];
    size_t len = 0;
    for (unsigned i = 0; i < LOG_AREAS; i++) {
        if (str_eq(word, tidings_str(log_area_names[i]))) {
            *ret = (enum log_area)i;
            return 0;
        }
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i > 0 ? ", " : "",
                                log_area_names[i]);
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is not a log area (accepted: %s)",
                        STR_ARG_MAX(word, 40), known);
}

int log_levels_parse(struct tidings_str text, struct log_levels *ret, struct tidings_error *err)
{
    struct log_levels levels;
    bool is_first = true;
    do {
        struct tidings_str item = str_cut(text, ',', &text, NULL), word;
        enum tidings_log_level level;
        enum log_area area = LOG_AREAS;
        bool has_area;
        struct tidings_str name = str_cut(item, '=', &word, &has_area);
        if (!read_level(has_area ? word : item, &level)) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "'%.*s' is not a log level (accepted: off, error, warn, info, "
                                "debug; then areas, as in info,store=debug)",
                                STR_ARG_MAX(item, 40));
        }
        if (has_area != !is_first) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                is_first ? "a level for all areas comes first, as in info,%.*s"
                                         : "one level is for all areas; '%.*s' needs an area, as "
                                           "in store=debug",
                                STR_ARG_MAX(item, 40));
        }
        if (has_area && read_area(name, &area, err) < 0) {
            return TIDINGS_E_INVALID;
        }
        for (unsigned i = 0; i < LOG_AREAS; i++) {
            levels.of[i] = !has_area || i == area ? level : levels.of[i];
        }
        is_first = false;
    } while (text.len > 0);
    *ret = levels;
    return 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

void log_set_sink(log_sink_fn sink, void *user)
{
    pthread_mutex_lock(&lock);
    output.sink = sink;
    output.user = user;
    pthread_mutex_unlock(&lock);
}

bool log_is_on_stderr(void)
{
    pthread_mutex_lock(&lock);
    bool is_so = !output.sink && output.file.fd < 0 && output.format != LOG_FORMAT_JOURNAL;
    pthread_mutex_unlock(&lock);
    return is_so;
}

/* An unconnected socket, because the journal can restart. */
static int journal_open(const char *path, struct sockaddr_un *address, struct tidings_error *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path of the journal is too long");
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_there = probe >= 0 && fd >= 0 &&
                    connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;
    int errnum = errno;
    if (probe >= 0) {
        close(probe);
    }
    if (is_there) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    int rc = error_errno(err, errnum, "reach the journal at '%s'", path);
    return error_wrap(err, rc, "log format journal (use text, json or logfmt without systemd)");
}

int log_set_format(enum log_format format, const char *journal_path, struct tidings_error *err)
{
    struct sockaddr_un address;
    int fd = -1;
    if (format == LOG_FORMAT_JOURNAL) {
        fd = journal_open(journal_path ? journal_path : JOURNAL_PATH, &address, err);
        if (fd < 0) {
            return fd;
        }
    }
    pthread_mutex_lock(&lock);
    int old = output.journal;
    output.format = format;
    output.journal = fd;
    if (fd >= 0) {
        output.journal_address = address;
    }
    pthread_mutex_unlock(&lock);
    if (old >= 0) {
        close(old);
    }
    return 0;
}

static int file_open(const char *path, struct tidings_error *err)
{
    struct stat st;
    int fd = file_open_log(path);
    if (fd < 0) {
        return error_errno(err, -fd, "open the log file '%s'", path);
    }
    if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))) {
        close(fd);
        return tidings_fail(err, TIDINGS_E_INVALID, "the log file '%s' is not a regular file",
                            path);
    }
    return fd;
}

static int log_file_set(struct log_file *file, const char *path, struct tidings_error *err)
{
    size_t len = path ? strlen(path) : 0;
    if (len >= sizeof file->path) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path of the log file is too long");
    }
    int fd = path ? file_open(path, err) : -1;
    if (path && fd < 0) {
        return fd;
    }
    pthread_mutex_lock(&lock);
    int old = file->fd;
    file->fd = fd;
    memmove(file->path, path ? path : "", len + 1);
    pthread_mutex_unlock(&lock);
    if (old >= 0) {
        close(old);
    }
    return 0;
}

int log_open_file(const char *path, struct tidings_error *err)
{
    return log_file_set(&output.file, path, err);
}

int log_open_access_file(const char *path, struct tidings_error *err)
{
    return log_file_set(&output.access, path, err);
}

static int log_file_reopen(struct log_file *file, struct tidings_error *err)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&lock);
    memcpy(path, file->path, sizeof path);
    pthread_mutex_unlock(&lock);
    return path[0] ? log_file_set(file, path, err) : 0;
}

int log_reopen_file(struct tidings_error *err)
{
    struct tidings_error other;
    int rc = log_file_reopen(&output.file, err);
    int access_rc = log_file_reopen(&output.access, rc < 0 ? &other : err);
    return rc < 0 ? rc : access_rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

const struct log_context *log_enter(const struct log_context *context)
{
    const struct log_context *before = current_context;
    current_context = context;
    return before;
}

static bool log_write_bytes(int fd, const char *bytes, size_t len)
{
    ssize_t n;
    do {
        n = write(fd, bytes, len);
    } while (n < 0 && errno == EINTR);
    return n >= 0;
}

static bool write_journal(const struct log_record *record)
{
    char bytes[LOG_JOURNAL_MAX];
    size_t len = log_record_journal(record, bytes);
    ssize_t n;
    do {
        n = sendto(output.journal, bytes, len, MSG_NOSIGNAL,
                   (const struct sockaddr *)&output.journal_address, sizeof output.journal_address);
    } while (n < 0 && errno == EINTR);
    return n >= 0;
}

/* If the file or the journal fails, lines go to standard error. */
static void log_deliver(const struct log_record *record, bool is_access)
{
    struct log_line line;
    enum log_format format = output.format;
    bool has_own = is_access && output.access.fd >= 0;
    int file = has_own ? output.access.fd : output.file.fd;
    bool is_journal = format == LOG_FORMAT_JOURNAL && !output.sink && !has_own;
    if (is_journal && write_journal(record)) {
        return;
    }
    log_record_line(record, format == LOG_FORMAT_JOURNAL ? LOG_FORMAT_TEXT : format, &line);
    if (output.sink) {
        output.sink(output.user, record->level, tidings_strn(line.bytes, line.len));
        return;
    }
    line.bytes[line.len] = '\n';
    if (file < 0 || is_journal || !log_write_bytes(file, line.bytes, line.len + 1)) {
        (void)log_write_bytes(STDERR_FILENO, line.bytes, line.len + 1);
    }
}

static void log_write_to(bool is_access, enum tidings_log_level level, enum log_area area,
                         const char *event, const struct log_field *fields)
{
    if (is_logging || !log_wants(level, area)) {
        return; /* a sink that logs would deadlock */
    }
    int saved = errno;
    const struct log_record record = {.time_ms = clock_wall_ms(),
                                      .level = level,
                                      .area = area,
                                      .event = event,
                                      .context = current_context,
                                      .fields = fields};
    is_logging = true;
    pthread_mutex_lock(&lock);
    log_deliver(&record, is_access);
    pthread_mutex_unlock(&lock);
    is_logging = false;
    errno = saved;
}

void log_write(enum tidings_log_level level, enum log_area area, const char *event,
               const struct log_field *fields)
{
    log_write_to(false, level, area, event, fields);
}

void log_write_access(const char *event, const struct log_field *fields)
{
    log_write_to(true, TIDINGS_LOG_INFO, LOG_REQUEST, event, fields);
}
