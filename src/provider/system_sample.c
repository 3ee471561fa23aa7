/* SPDX-License-Identifier: MIT
 *
 * Reading /proc and the file systems. Values are those of the moment, no rates: whoever wants a
 * rate has two samples and their times.
 */
#include "provider/system_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "provider/system_parse.h"
#include "json/write.h"

static int read_proc(const char *proc, const char *name, struct buf *text,
                     struct tidings_error *err)
{
    char path[4096 + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", proc, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return error_errno(err, errno, "open '%s'", path);
    }
    int rc = 0;
    for (;;) {
        if (buf_reserve(text, 4096) < 0) {
            rc = tidings_fail(err, text->failed, "'%s' is larger than %u bytes", path,
                              SYSTEM_TEXT_MAX);
            break;
        }
        ssize_t n = read(fd, text->ptr + text->len, 4096);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            rc = n < 0 ? error_errno(err, errno, "read '%s'", path) : 0;
            break;
        }
        text->len += (size_t)n;
    }
    close(fd);
    return rc;
}

/* JSON integers are signed: what is beyond 2^63 is no quantity of anything here. */
static void system_sample_put_count(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static bool write_load(struct tidings_str text, struct jw *w)
{
    static const char *const names[] = {"load1", "load5", "load15"};
    struct system_load load;
    if (!system_parse_load(text, &load)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        jw_key(w, tidings_str(names[i]));
        jw_number(w, load.hundredths[i] / 100.0);
    }
    system_sample_put_count(w, "running", load.running);
    system_sample_put_count(w, "threads", load.threads);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    system_sample_put_count(w, "cpus", cpus > 0 ? (uint64_t)cpus : 1);
    return true;
}

static bool write_memory(struct tidings_str text, struct jw *w)
{
    struct system_memory m;
    if (!system_parse_memory(text, &m)) {
        return false;
    }
    system_sample_put_count(w, "totalBytes", m.total);
    system_sample_put_count(w, "freeBytes", m.unused);
    system_sample_put_count(w, "availableBytes", m.available);
    system_sample_put_count(w, "buffersBytes", m.buffers);
    system_sample_put_count(w, "cachedBytes", m.cached);
    system_sample_put_count(w, "swapTotalBytes", m.swap_total);
    system_sample_put_count(w, "swapFreeBytes", m.swap_free);
    return true;
}

static void write_direction(struct jw *w, const char *key, const uint64_t counts[4])
{
    static const char *const names[] = {"bytes", "packets", "errors", "dropped"};
    jw_key(w, tidings_str(key));
    jw_begin_object(w);
    for (size_t i = 0; i < 4; i++) {
        system_sample_put_count(w, names[i], counts[i]);
    }
    jw_end_object(w);
}

static bool write_network(struct tidings_str text, struct jw *w)
{
    struct system_interface row;
    jw_key(w, STR("interfaces"));
    jw_begin_array(w);
    for (size_t n = 0; n < SYSTEM_ROWS_MAX && system_next_interface(&text, &row); n++) {
        jw_begin_object(w);
        jw_put_string(w, STR("name"), row.name);
        write_direction(w, "received", row.received);
        write_direction(w, "sent", row.sent);
        jw_end_object(w);
    }
    jw_end_array(w);
    return true;
}

/* A device mounted at several places (bind mounts) counts once, at the first. */
static bool seen_before(struct tidings_str devices[], size_t count, struct tidings_str device)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq(devices[i], device)) {
            return true;
        }
    }
    return false;
}

static bool write_disk(struct tidings_str text, struct jw *w)
{
    struct system_mount row;
    struct tidings_str devices[SYSTEM_ROWS_MAX];
    size_t n = 0;
    jw_key(w, STR("fileSystems"));
    jw_begin_array(w);
    while (n < SYSTEM_ROWS_MAX && system_next_mount(&text, &row)) {
        struct statvfs fs;
        if (seen_before(devices, n, row.device) || statvfs(row.path, &fs) < 0) {
            continue;
        }
        devices[n++] = row.device;
        jw_begin_object(w);
        jw_put_string(w, STR("path"), tidings_str(row.path));
        jw_put_string(w, STR("device"), row.device);
        jw_put_string(w, STR("type"), row.type);
        system_sample_put_count(w, "totalBytes", (uint64_t)fs.f_blocks * fs.f_frsize);
        system_sample_put_count(w, "freeBytes", (uint64_t)fs.f_bfree * fs.f_frsize);
        system_sample_put_count(w, "availableBytes", (uint64_t)fs.f_bavail * fs.f_frsize);
        system_sample_put_count(w, "files", fs.f_files);
        system_sample_put_count(w, "freeFiles", fs.f_ffree);
        jw_end_object(w);
    }
    jw_end_array(w);
    return true;
}

static const struct {
    const char *file;
    bool (*write)(struct tidings_str text, struct jw *w);
} sources[SYSTEM_METRICS] = {
    [SYSTEM_DISK] = {"self/mounts", write_disk},
    [SYSTEM_LOAD] = {"loadavg", write_load},
    [SYSTEM_MEMORY] = {"meminfo", write_memory},
    [SYSTEM_NETWORK] = {"self/net/dev", write_network},
};

int system_sample(const char *proc, enum system_metric metric, struct buf *out,
                  struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, SYSTEM_TEXT_MAX);
    int rc = read_proc(proc, sources[metric].file, &text, err);
    if (rc == 0) {
        struct jw w;
        jw_init(&w, out);
        jw_begin_object(&w);
        bool understood = sources[metric].write(buf_str(&text), &w);
        jw_end_object(&w);
        if (!understood) {
            rc = tidings_fail(err, TIDINGS_E_PARSE,
                              "'%s/%s' does not have the format that is expected", proc,
                              sources[metric].file);
        } else {
            rc = buf_check(out, "the metric", NULL, err);
        }
    }
    buf_deinit(&text);
    return rc;
}
