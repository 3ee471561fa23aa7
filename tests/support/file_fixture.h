/* SPDX-License-Identifier: MIT
 *
 * A separate directory for each test of the file provider, served at file://data/, and short
 * helpers for it. Header only: several programs use it. Paths are relative to the directory; any
 * system failure ends the test.
 */
#ifndef TESTS_SUPPORT_FILE_FIXTURE_H
#define TESTS_SUPPORT_FILE_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sources/file.h"
#include "support/provider_host.h"
#include "support/remove_tree.h"

#define MOUNT "file://data/"

struct fixture {
    char base[64]; /* holds "root", the served directory, and what lies outside it */
    char root[128];
    struct host *host;
};

static inline const char *at(const struct fixture *f, const char *path)
{
    static char texts[4][4200];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    (void)snprintf(text, sizeof texts[0], "%s/%s", f->root, path);
    return text;
}

static inline void make_dir(const struct fixture *f, const char *path)
{
    assert_int_equal(mkdir(at(f, path), 0755), 0);
}

static inline void write_with(const struct fixture *f, const char *path, int flags,
                              const void *bytes, size_t len)
{
    int fd = open(at(f, path), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(close(fd), 0);
}

static inline void put(const struct fixture *f, const char *path, const char *text)
{
    write_with(f, path, O_TRUNC, text, strlen(text));
}

static inline void append(const struct fixture *f, const char *path, const char *text)
{
    write_with(f, path, O_APPEND, text, strlen(text));
}

static inline void move(const struct fixture *f, const char *from, const char *to)
{
    assert_int_equal(rename(at(f, from), at(f, to)), 0);
}

static inline void remove_file(const struct fixture *f, const char *path)
{
    assert_int_equal(unlink(at(f, path)), 0);
}

/* `extra` is more of the configuration: ", \"quietMs\": 5". */
static inline void serve(struct fixture *f, const char *extra)
{
    char config[4400];
    struct tidings_error err = {0};
    (void)snprintf(config, sizeof config, "{\"root\": \"%s\"%s}", f->root, extra);
    f->host = host_open(&provider_file_ops, MOUNT, config, &err);
    if (!f->host) {
        fail_msg("%s", err.text);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static inline void check_read(struct fixture *f, const char *uri, const char *text)
{
    struct host_answer *a = host_read(f->host, uri);
    assert_string_equal(a->error, "");
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 1);
    assert_string_equal(a->rows[0].bytes, text);
    host_answer_free(a);
}

/* Reading fails with this code and a message that contains `part`; stat fails too. */
static inline void check_refused(struct fixture *f, const char *uri, int code, const char *part)
{
    struct host_answer *a = host_read(f->host, uri);
    assert_int_equal(a->code, code);
    assert_int_equal(a->count, 0);
    if (!strstr(a->error, part)) {
        fail_msg("'%s' does not hold '%s'", a->error, part);
    }
    host_answer_free(a);
    a = host_stat(f->host, uri);
    assert_int_equal(a->code, code);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
}

static inline bool is_listed(struct fixture *f, const char *uri)
{
    struct host_answer *a = host_list(f->host, "", 1000);
    bool found = false;
    assert_int_equal(a->code, 0);
    for (size_t i = 0; i < a->count; i++) {
        found = found || strcmp(a->rows[i].uri, uri) == 0;
    }
    host_answer_free(a);
    return found;
}

/* ---- the fixture ----------------------------------------------------------------------------- */

static inline int fixture_open(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    if (!f) {
        return -1;
    }
    const char *where = getenv("TMPDIR");
    (void)snprintf(f->base, sizeof f->base, "%s/tidings-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(f->base)) {
        return -1;
    }
    (void)snprintf(f->root, sizeof f->root, "%s/root", f->base);
    *state = f;
    return mkdir(f->root, 0755);
}

static inline int fixture_close(void **state)
{
    struct fixture *f = *state;
    if (f->host) {
        host_close(f->host);
    }
    assert_int_equal(remove_tree(f->base), 0);
    mem_free(f);
    return 0;
}

#endif
