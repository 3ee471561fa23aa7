/* SPDX-License-Identifier: MIT
 *
 * File state in a server with a store, from the inside: the number of remembered watched subtrees,
 * counting of repeats, and a clean error if memory runs out at start.
 */
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include <tidings/tidings.h>

#include "base/str.h"
#include "server/server_internal.h"
#include "store/sqlite_files.h"
#include "support/fail_alloc.h"
#include "support/remove_tree.h"

#define MOST 100000u /* the owners of history: docs/design/internal-limits.md */

struct fixture {
    char base[64], root[80], store[80], prefix[100];
    struct tidings_server *server;
};

static void begin_run(struct fixture *f)
{
    struct tidings_error err = {0};
    char mount[200];
    (void)snprintf(mount, sizeof mount, "%s=%s", f->prefix, f->root);
    f->server = tidings_server_create(&err);
    assert_non_null(f->server);
    if (tidings_server_set(f->server, "http", "127.0.0.1:0", &err) < 0 ||
        tidings_server_set(f->server, "store", f->store, &err) < 0 ||
        tidings_server_set(f->server, "mount", mount, &err) < 0 ||
        tidings_server_start(f->server, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static int turn(const struct fixture *f)
{
    int rc = tidings_server_turn(f->server, NULL);
    if (rc > 0) {
        struct pollfd ready = {.fd = tidings_server_fd(f->server), .events = POLLIN};
        (void)poll(&ready, 1, tidings_server_timeout_ms(f->server));
    }
    return rc;
}

static void end_run(struct fixture *f)
{
    tidings_server_stop(f->server);
    while (turn(f) > 0) {
    }
    tidings_server_destroy(f->server);
    f->server = NULL;
}

static int setup(void **state)
{
    static struct fixture f;
    char one[100];
    f = (struct fixture){.base = "/tmp/tidings-files-XXXXXX"};
    fail_alloc_start(0); /* before there are threads */
    assert_non_null(mkdtemp(f.base));
    (void)snprintf(f.root, sizeof f.root, "%s/root", f.base);
    (void)snprintf(f.store, sizeof f.store, "%s/store", f.base);
    (void)snprintf(f.prefix, sizeof f.prefix, "file://%s/", f.root);
    assert_int_equal(mkdir(f.root, 0755), 0);
    (void)snprintf(one, sizeof one, "%s/one", f.root);
    FILE *file = fopen(one, "w");
    assert_true(file && fclose(file) == 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    remove_tree(f->base);
    return 0;
}

/* ---- limits on remembered subtrees ----------------------------------------------------------- */

static void on_state(void *user, const struct tidings_state_event *event)
{
    bool *is_active = user;
    assert_int_not_equal(event->state, TIDINGS_STATE_REFUSED);
    *is_active = *is_active || event->state == TIDINGS_STATE_WATCHING;
}

static void on_update(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
}

/* A client watches one file, so the server saves its mount. */
static void watch_one(const struct fixture *f)
{
    struct tidings_error err = {0};
    static bool is_active; /* until the server stops */
    is_active = false;
    char uri[120];
    (void)snprintf(uri, sizeof uri, "%sone", f->prefix);
    struct tidings_subscribe_options options = {.fn = on_update, .on_state = on_state};
    options.user = &is_active;
    if (!tidings_server_subscribe(f->server, tidings_str(uri), &options, &err)) {
        fail_msg("%s", err.text);
    }
    while (!is_active) {
        assert_true(turn(f) > 0);
    }
}

/* As the watcher says it. */
static void know(const struct fixture *f, unsigned from, unsigned to)
{
    struct server_files *files = f->server->store.files;
    struct file_keeping *keeping = (struct file_keeping *)(void *)files; /* its first */
    char uri[120];
    for (unsigned i = from; i < to; i++) {
        (void)snprintf(uri, sizeof uri, "%s%u", f->prefix, i);
        keeping->known(keeping, tidings_str(f->prefix), tidings_str(uri));
    }
    assert_true(tidings_server_turn(f->server, NULL) > 0);
}

static unsigned count_kept(const struct fixture *f, const char *which)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    char sql[200];
    assert_int_equal(sqlite3_open_v2(f->store, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM file_scopes WHERE uri GLOB '*/%s'",
                   which);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    unsigned count = (unsigned)sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return count;
}

static void remembered_files_are_limited(void **state)
{
    struct fixture *f = *state;
    begin_run(f);
    watch_one(f);
    know(f, 1, MOST + 10); /* with "one" ten too many */
    end_run(f);
    assert_int_equal(count_kept(f, "*"), MOST);
    assert_int_equal(count_kept(f, "one"), 1);
    assert_int_equal(count_kept(f, "99999"), 1);
    assert_int_equal(count_kept(f, "100000"), 0);
    begin_run(f); /* including subtrees of earlier runs */
    watch_one(f);
    know(f, 200000, 200010);
    end_run(f);
    assert_int_equal(count_kept(f, "*"), MOST);
}

/* A client that repeats a subscription uses no space of others. */
static void repeated_subscription_counts_once(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin_run(f);
        watch_one(f);
        for (unsigned i = 0; i < MOST; i += 100) {
            know(f, 0, 100);
        }
        know(f, 100, 102 + run);
        end_run(f);
        assert_int_equal(count_kept(f, "*"), 103 + run); /* with "one" */
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void allocation_failure_is_reported_and_cleaned_up(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0};
    begin_run(f);
    struct server_store *s = &f->server->store;
    server_files_close(s, true);
    for (unsigned is_lasting = 0; is_lasting < 2; is_lasting++) {
        bool reached = true;
        for (long n = 1; reached; n++) {
            long live = fail_alloc_live();
            if (is_lasting) {
                fail_alloc_start_lasting(n);
            } else {
                fail_alloc_start(n);
            }
            err = (struct tidings_error){0};
            int rc = server_files_open(s, 1000, &err);
            reached = fail_alloc_stop();
            assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
            assert_string_equal(err.text, reached ? err.text : "");
            assert_true(!reached || strstr(err.text, "memory"));
            server_files_close(s, true);
            assert_null(s->files);
            assert_int_equal(fail_alloc_live(), live);
        }
    }
    assert_int_equal(server_files_open(s, 1000, &err), 0);
    end_run(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(remembered_files_are_limited),
        TEST(repeated_subscription_counts_once),
        TEST(allocation_failure_is_reported_and_cleaned_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
