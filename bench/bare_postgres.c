/* SPDX-License-Identifier: MIT
 *
 * The minimum that keeps the same rows in PostgreSQL, using only libpq: one prepared INSERT for
 * each row, pipelined, with a fixed number per commit; with `--current`, each row also becomes the
 * current one of its entity, in a second table, as in the store. With `--notify` one row at a time
 * instead, each followed by a NOTIFY, until another listening connection receives it: the minimum
 * time from a write to a reader elsewhere.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { VALUE_MAX = 8192, PARAMS = 15 };

static const char tables[] =
    "DROP TABLE IF EXISTS bare_versions, bare_current;"
    "CREATE TABLE bare_versions(id text COLLATE \"C\" NOT NULL, vfrom int8 NOT NULL,"
    " position int8 NOT NULL UNIQUE, deleted int8 NOT NULL, created int8 NOT NULL,"
    " at int8 NOT NULL, since int8 NOT NULL, sum int8 NOT NULL, type text NOT NULL,"
    " tversion text NOT NULL, parent text NOT NULL, changed_by text NOT NULL,"
    " principal text NOT NULL, previous text NOT NULL, value text NOT NULL,"
    " PRIMARY KEY (id, vfrom));"
    "CREATE TABLE bare_current(id text COLLATE \"C\" PRIMARY KEY, type text COLLATE \"C\" NOT NULL,"
    " tversion text COLLATE \"C\" NOT NULL, parent text COLLATE \"C\" NOT NULL,"
    " deleted int8 NOT NULL, position int8 NOT NULL) WITH (fillfactor=80);"
    "CREATE INDEX ON bare_current(type, tversion, id);"
    "CREATE INDEX ON bare_current(parent, id)";
#define INSERT                                                                                     \
    "INSERT INTO bare_versions VALUES($1::text, $2::int8, $3::int8, $4::int8, $5::int8, $6::int8," \
    " $7::int8, $8::int8, $9::text, $10::text, $11::text, $12::text, $13::text, $14::text,"        \
    " $15::text)"
static const char insert[] = INSERT;
static const char insert_both[] =
    "WITH v AS (" INSERT ") INSERT INTO bare_current VALUES($1::text, $9::text, $10::text,"
    " $11::text, $4::int8, $3::int8) ON CONFLICT (id) DO UPDATE SET type=excluded.type,"
    " tversion=excluded.tversion, parent=excluded.parent, deleted=excluded.deleted,"
    " position=excluded.position";

static unsigned long rows = 20000, group = 64, entities = 1000, value_bytes = 1000;
static unsigned long written;

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static PGconn *connect_to(const char *url)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK) {
        bench_die("%s", PQerrorMessage(c));
    }
    return c;
}

static void check(PGconn *c, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_PIPELINE_SYNC) {
        bench_die("%s", PQerrorMessage(c));
    }
    PQclear(r);
}

static void prepare(PGconn *c, bool is_current)
{
    check(c, PQexec(c, tables));
    check(c, PQprepare(c, "row", is_current ? insert_both : insert, PARAMS, NULL));
    check(c, PQprepare(c, "begin", "BEGIN", 0, NULL));
    check(c, PQprepare(c, "commit", "COMMIT", 0, NULL));
    check(c, PQprepare(c, "notify", "SELECT pg_notify('bare', '')", 0, NULL));
    if (!PQenterPipelineMode(c)) {
        bench_die("no pipeline");
    }
}

static void send_plain(PGconn *c, const char *name)
{
    if (!PQsendQueryPrepared(c, name, 0, NULL, NULL, NULL, 0)) {
        bench_die("%s", PQerrorMessage(c));
    }
}

static void send_row(PGconn *c)
{
    static char value[VALUE_MAX];
    char id[32];
    char number[32];
    written++;
    snprintf(id, sizeof(id), "e%lu", written % entities);
    snprintf(number, sizeof(number), "%lu", written);
    memset(value, 'x', value_bytes);
    int head = snprintf(value, sizeof(value), "{\"n\":%lu,\"text\":\"", written);
    value[head] = 'x';
    memcpy(value + value_bytes - 2, "\"}", 3);
    const char *values[PARAMS] = {id,      number, number, "0",
                                  "1",     number, number, "12345678901",
                                  "thing", "1",    "",     "[{\"userId\":\"bench\"}]",
                                  "",      "",     value};
    if (!PQsendQueryPrepared(c, "row", PARAMS, values, NULL, NULL, 0)) {
        bench_die("%s", PQerrorMessage(c));
    }
}

/* Sends what is queued and takes all answers up to the end of the pipeline. */
static void finish(PGconn *c)
{
    if (!PQpipelineSync(c)) {
        bench_die("%s", PQerrorMessage(c));
    }
    for (;;) {
        PGresult *r = PQgetResult(c);
        if (!r) {
            continue; /* the end of one statement */
        }
        bool is_end = PQresultStatus(r) == PGRES_PIPELINE_SYNC;
        check(c, r);
        if (is_end) {
            return;
        }
    }
}

static void run_groups(PGconn *c, unsigned long n)
{
    for (unsigned long done = 0; done < n; done += group) {
        send_plain(c, "begin");
        for (unsigned long i = 0; i < group; i++) {
            send_row(c);
        }
        send_plain(c, "commit");
        finish(c);
    }
}

static void print_rows(PGconn *c)
{
    run_groups(c, entities > 2000 ? entities : 2000);
    double cpu = cpu_us();
    int64_t begun = bench_now_ns();
    run_groups(c, rows);
    double seconds = (double)(bench_now_ns() - begun) / 1e9;
    printf("{\"rows\":%lu,\"group\":%lu,\"per_s\":%.0f,\"cpu_us\":%.2f}\n", rows, group,
           (double)rows / seconds, (cpu_us() - cpu) / (double)rows);
}

/* ---- a row at a time, until a reader is told ---------------------------------------------------
 */

static void await_notice(PGconn *reader)
{
    int64_t until = bench_now_ns() + (int64_t)BENCH_WAIT_MS * 1000000;
    for (;;) {
        PGnotify *told = PQnotifies(reader);
        if (told) {
            PQfreemem(told);
            return;
        }
        struct pollfd p = {.fd = PQsocket(reader), .events = POLLIN};
        if (bench_now_ns() > until || poll(&p, 1, BENCH_WAIT_MS) < 0 || !PQconsumeInput(reader)) {
            bench_die("no notification: %s", PQerrorMessage(reader));
        }
    }
}

static void print_notices(PGconn *c, const char *url)
{
    PGconn *reader = connect_to(url);
    check(reader, PQexec(reader, "LISTEN bare"));
    struct bench_samples committed, told;
    bench_samples_init(&committed, rows);
    bench_samples_init(&told, rows);
    for (unsigned long i = 0; i < rows; i++) {
        int64_t begun = bench_now_ns();
        send_plain(c, "begin");
        send_row(c);
        send_plain(c, "commit");
        send_plain(c, "notify");
        finish(c);
        bench_samples_add(&committed, (double)(bench_now_ns() - begun) / 1e3);
        await_notice(reader);
        bench_samples_add(&told, (double)(bench_now_ns() - begun) / 1e3);
        usleep(2000);
    }
    printf("{\"rows\":%lu,\"answer_us\":{\"p50\":%.0f,\"p99\":%.0f},\"told_us\":{\"p50\":%.0f,"
           "\"p99\":%.0f}}\n",
           rows, bench_samples_at(&committed, 0.5), bench_samples_at(&committed, 0.99),
           bench_samples_at(&told, 0.5), bench_samples_at(&told, 0.99));
    PQfinish(reader);
}

int main(int argc, char **argv)
{
    char url[BENCH_PATH_MAX] = "";
    bool is_current = false, is_notify = false;
    bench_init("bare_postgres", 300);
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "url", .help = "of the database", .text = url},
                      {.name = "rows", .help = "to be written (20000)", .number = &rows},
                      {.name = "group", .help = "rows of a commit (64)", .number = &group},
                      {.name = "entities", .help = "that they go to (1000)", .number = &entities},
                      {.name = "bytes", .help = "of a value (1000)", .number = &value_bytes},
                      {.name = "current", .help = "two tables", .flag = &is_current},
                      {.name = "notify", .help = "one at a time, told", .flag = &is_notify},
                      {.name = NULL},
                  });
    if (value_bytes < 64 || value_bytes >= VALUE_MAX || group < 1 || entities < 1 || rows < 1) {
        bench_die("--bytes is 64 to %d, the others at least 1", VALUE_MAX - 1);
    }
    PGconn *c = connect_to(url);
    prepare(c, is_current);
    if (is_notify) {
        print_notices(c, url);
    } else {
        print_rows(c);
    }
    PQfinish(c);
    return 0;
}
