/* SPDX-License-Identifier: MIT
 *
 * Inserts rows into a bare table of SQLite (bare_rows.h). Synced as the store's own files are
 * (store/sqlite.c).
 */
#include "bare_rows.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "common.h"
#include "store/sqlite.h"

enum { VALUE_MAX = 8192 };

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void bare_value(char *out, size_t size, unsigned long n, size_t value_bytes)
{
    static char filler[VALUE_MAX];
    if (filler[0] == '\0') {
        memset(filler, 'x', sizeof(filler) - 1);
    }
    char head[48];
    int used = snprintf(head, sizeof(head), "{\"n\":%lu,\"text\":\"", n);
    size_t rest = value_bytes > (size_t)used + 2 ? value_bytes - (size_t)used - 2 : 0;
    int length = snprintf(out, size, "%s%.*s\"}", head, (int)rest, filler);
    if (length < 0 || (size_t)length >= size) {
        bench_die("a value of more than %zu bytes", size);
    }
}

static void put_row(struct sqlite *db, struct sqlite3_stmt *insert, unsigned long i,
                    unsigned long entities, size_t value_bytes)
{
    char id[32];
    char value[VALUE_MAX];
    struct tidings_error err;
    snprintf(id, sizeof(id), "e%lu", i % entities);
    bare_value(value, sizeof(value), i, value_bytes);
    sqlite_bind_str(insert, 1, tidings_str(id));
    sqlite_bind_int(insert, 2, (int64_t)i);
    sqlite_bind_str(insert, 3, STR("[{\"userId\":\"bench\"}]"));
    sqlite_bind_str(insert, 4, tidings_str(value));
    if (sqlite_run(db, insert, &err) < 0) {
        bench_die("%s", err.text);
    }
}

struct bare_cost bare_rows(unsigned long count, unsigned long per_commit, unsigned long entities,
                           size_t value_bytes)
{
    char path[BENCH_PATH_MAX];
    struct tidings_error err;
    struct sqlite *db = NULL;
    struct sqlite3_stmt *insert = NULL;
    snprintf(path, sizeof(path), "%.4000s/bare.db", bench_scratch());
    if (sqlite_open(path, &db, &err) < 0 ||
        sqlite_exec(db,
                    "DROP TABLE IF EXISTS log; CREATE TABLE log(seq INTEGER PRIMARY KEY, id TEXT,"
                    " vfrom INTEGER, changed_by TEXT, value TEXT)",
                    &err) < 0 ||
        sqlite_prepare(db, "INSERT INTO log(id, vfrom, changed_by, value) VALUES(?1,?2,?3,?4)",
                       &insert, &err) < 0) {
        bench_die("%s", err.text);
    }
    double wall = now_us(CLOCK_MONOTONIC);
    double cpu = now_us(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned long i = 0; i < count;) {
        int rc = sqlite_exec(db, "BEGIN IMMEDIATE", &err);
        for (unsigned long k = 0; rc == 0 && k < per_commit && i < count; k++, i++) {
            put_row(db, insert, i, entities, value_bytes);
        }
        if (rc < 0 || sqlite_exec(db, "COMMIT", &err) < 0) {
            bench_die("%s", err.text);
        }
    }
    struct bare_cost cost = {
        .wall_us = (now_us(CLOCK_MONOTONIC) - wall) / (double)count,
        .cpu_us = (now_us(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)count,
    };
    sqlite_finalize(insert);
    sqlite_close(db);
    unlink(path);
    return cost;
}
