/* SPDX-License-Identifier: MIT
 *
 * Where records go. One lock keeps lines whole, and the settings of the output together; levels are
 * read without it, so a record that is not wanted costs one load. Deliberately no allocation and no
 * rotation: whoever renames the file says so (log_reopen_file).
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

#include "base/clock.h"
#include "base/confined_file.h"
#include "base/error.h"
#include "base/str.h"

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
    return tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is no area of the log (accepted: %s)",
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
                                "'%.*s' is no level of the log (accepted: off, error, warn, info, "
                                "debug; behind it areas, as in info,store=debug)",
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

/* ---- where lines go -------------------------------------------------------------------------- */

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

/* A socket that is not connected: the journal may be started again meanwhile. */
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
        return tidings_fail(err, TIDINGS_E_INVALID, "the log file '%s' is no ordinary file", path);
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

/* What a file or the journal does not take is not lost where standard error is read. */
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
        return; /* a sink that logs would wait for its own lock */
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
