/* SPDX-License-Identifier: MIT
 *
 * Acknowledged writes survive, and no partial write remains, if the power is cut at any write or
 * the program is killed at any moment.
 *
 * The writer numbers its batches: batch n writes n as the value of "count" and of every entity it
 * touches, all versions in one transaction, and publishes n under one URI. The state found
 * afterwards must be that after some started batch, and not before the last acknowledged one; and
 * new positions are above all reported ones.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/str.h"
#include "store/sqlite_store.h"
#include "store/store.h"
#include "support/powercut.h"

static char directory[] = "/tmp/tidings-crash-XXXXXX";
static char path[64];

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-mark"};
    for (size_t i = 0; i < 5; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

/* The entities that batch n touches besides "count": three of eight, always the same ones. */
static bool is_touched(int64_t n, unsigned which)
{
    return which == n % 8 || which == n * 3 % 8 || which == (n + 5) % 8;
}

static int put(struct store *r, const char *id, int64_t n, bool instead, struct tidings_error *err)
{
    char value[512];
    int length = snprintf(value, sizeof value, "%lld%300s", (long long)n, "");
    const struct entity_version v = {
        .id = tidings_str(id),
        .from = n,
        .value = tidings_strn(value, (size_t)length),
        .type = STR("t"),
        .type_version = STR("1"),
    };
    return r->ops->put(r, &v, instead, err);
}

static uint64_t told; /* the highest committed position known to this process */

static int publish(struct store *r, int64_t n, struct tidings_error *err)
{
    struct published_row row = {.created = n == 1};
    uint64_t position = 0;
    row.about.uri = n % 2 == 0 ? STR("p:///even") : STR("p:///odd");
    row.about.modified_ms = n;
    int rc = sqlite_published_put(r, &row, &position, err);
    row.about.uri = n % 2 == 0 ? STR("p:///odd") : STR("p:///even");
    return rc == 0 ? sqlite_published_remove(r, &row, &position, err) : rc;
}

static int write_batch(struct store *r, int64_t n, struct tidings_error *err)
{
    int rc = r->ops->begin(r, err);
    rc = rc == 0 ? put(r, "count", n, n % 3 == 0, err) : rc;
    for (unsigned i = 0; rc == 0 && i < 8; i++) {
        if (is_touched(n, i)) {
            char id[8];
            (void)snprintf(id, sizeof id, "e%u", i);
            rc = put(r, id, n, false, err);
            rc = rc == 0 && n % 11 == 0 ? r->ops->forget(r, tidings_str(id), n / 2, err) : rc;
        }
    }
    rc = rc == 0 ? publish(r, n, err) : rc;
    if (rc < 0) {
        r->ops->rollback(r);
        return rc;
    }
    uint64_t position = r->ops->position(r);
    assert_true(position > told);
    rc = r->ops->commit(r, err);
    told = rc == 0 ? position : told;
    if (rc == 0 && n % 5 == 0) {
        (void)r->ops->idle(r, NULL); /* the tables follow; a failure is harmless */
    }
    return rc;
}

static int64_t newest(struct store *r, const char *id)
{
    struct tidings_error err = {0};
    struct entity_version v;
    int rc = r->ops->find(r, tidings_str(id), TIMELINE_FOREVER, &v, &err);
    if (rc < 0) {
        fail_msg("%s: %s", id, err.text);
    }
    if (rc == 1) {
        assert_int_equal(strtoll(v.value.ptr, NULL, 10), v.from);
    }
    return rc == 1 ? v.from : 0;
}

static bool count_row(void *user, const struct entity_version *v)
{
    (void)v;
    ++*(unsigned *)user;
    return true;
}

static int take_published(void *user, const struct published_row *row, struct tidings_error *err)
{
    (void)err;
    assert_int_equal(*(int64_t *)user, 0); /* one of the two */
    *(int64_t *)user = row->about.modified_ms;
    return 0;
}

/* The number of the last batch in the file. */
static int64_t check_state(int64_t acknowledged, int64_t begun)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    if (sqlite_store_open(path, &r, &err) < 0) {
        fail_msg("after batch %lld: %s", (long long)acknowledged, err.text);
    }
    int64_t n = newest(r, "count");
    assert_in_range(n, acknowledged, begun);
    unsigned expected = n > 0;
    for (unsigned i = 0; i < 8; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "e%u", i);
        int64_t last = n;
        while (last > 0 && !is_touched(last, i)) {
            last--;
        }
        assert_int_equal(newest(r, id), last);
        expected += last > 0;
    }
    unsigned listed = 0;
    assert_int_equal(r->ops->list(r, &(struct entity_scope){0}, STR(""), count_row, &listed, &err),
                     0);
    assert_int_equal(listed, expected);
    int64_t published = 0;
    assert_int_equal(sqlite_published_each(r, take_published, &published, &err), 0);
    assert_int_equal(published, n);
    assert_true(r->ops->position(r) >= told);
    told = r->ops->position(r);
    r->ops->destroy(r);
    return n;
}

/* Like a server, which keeps a mark of its commits: the mark must never report a loss. */
static int open_as_server(struct store **r, struct tidings_error *err)
{
    const struct changelog_limits limits = {.max_entries = 1};
    struct changelog *log = NULL;
    int rc = sqlite_store_open(path, r, err);
    rc = rc == 0 ? (*r)->ops->create_changelog(*r, &limits, &log, err) : rc;
    if (log) {
        log->ops->destroy(log);
    } else if (*r) {
        (*r)->ops->destroy(*r);
    }
    return rc;
}

static void acknowledged_writes_survive_power_loss(void **state)
{
    (void)state;
    unsigned rounds = getenv("TIDINGS_LONG") ? 3000 : 200;
    powercut_install(42);
    remove_files();
    told = 0;
    int64_t n = 0;
    for (unsigned round = 0; round < rounds; round++) {
        if (round % 20 == 0) {
            remove_files();
            n = 0;
            told = 0;
        }
        struct store *r = NULL;
        struct tidings_error err = {0};
        int64_t acknowledged = n, begun = n;
        powercut_arm(1 + round * 7 % 97 + round % 5 * 40);
        if (open_as_server(&r, &err) == 0) {
            while (write_batch(r, begun + 1, &err) == 0 && begun < n + 60) {
                acknowledged = ++begun;
            }
            begun += powercut_is_off();
            r->ops->destroy(r);
        }
        powercut_restore();
        n = check_state(acknowledged, begun);
    }
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

/* Reports each acknowledged batch through the pipe. */
static void write_until_killed(int64_t from, int out)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    if (open_as_server(&r, &err) < 0) {
        _exit(1);
    }
    for (int64_t n = from + 1; write_batch(r, n, &err) == 0; n++) {
        if (write(out, &n, sizeof n) != sizeof n) {
            _exit(1);
        }
    }
    _exit(1);
}

static void acknowledged_writes_survive_kill(void **state)
{
    (void)state;
    unsigned rounds = getenv("TIDINGS_LONG") ? 300 : 25;
    remove_files();
    told = 0;
    int64_t n = 0;
    for (unsigned round = 0; round < rounds; round++) {
        int pipe_ends[2];
        assert_int_equal(pipe(pipe_ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(pipe_ends[0]);
            write_until_killed(n, pipe_ends[1]);
        }
        close(pipe_ends[1]);
        int64_t acknowledged = n, heard = 0;
        int64_t enough = n + 1 + round * 5 % 23; /* then in the middle of any operation */
        while (acknowledged < enough && read(pipe_ends[0], &heard, sizeof heard) == sizeof heard) {
            acknowledged = heard;
        }
        kill(child, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(pipe_ends[0], &heard, sizeof heard) == sizeof heard) {
            acknowledged = heard;
        }
        close(pipe_ends[0]);
        n = check_state(acknowledged, acknowledged + 1);
    }
}

int main(void)
{
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/rows.db", directory);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_writes_survive_kill),
        cmocka_unit_test(acknowledged_writes_survive_power_loss),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    remove_files();
    (void)rmdir(directory);
    return failures;
}
