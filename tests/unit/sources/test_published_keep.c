/* SPDX-License-Identifier: MIT
 *
 * Stored publications: the store commits them before they become visible, are announced and
 * answered. Earlier jobs of the same batch count for each decision. Publications survive a restart
 * and are undone if the write fails. */
#include "sources/published.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/commit_thread.h"
#include "store/sqlite_store.h"
#include "support/fail_alloc.h"
#include "support/provider_host.h"

#define AT "pub:///"

static char directory[] = "/tmp/tidings-published-XXXXXX";
static char path[64];
static uint64_t max_count, max_bytes;

struct fixture {
    struct published *store;
    struct host *host;
    struct commit_thread *commit_thread;
    struct store *rows; /* the commit thread's own */
    size_t unseen;
    struct buf told; /* on the commit thread */
};
static struct fixture f;

/* ---- the store ------------------------------------------------------------------------------- */

static int tell(void *user, const struct tidings_change *change, uint64_t position)
{
    static const char *const kinds[] = {"updated", "created", "deleted"};
    (void)user;
    buf_putf(&f.told, "%llu %s %.*s\n", (unsigned long long)position, kinds[change->kind],
             STR_ARG(change->uri));
    return 0;
}

static bool may_be(void *user, const struct tidings_resource *about)
{
    (void)user;
    return !str_eq(about->uri, STR(AT "secret"));
}

static void open_store(void)
{
    struct tidings_error err = {0, ""};
    f = (struct fixture){.store = published_create(&max_count, &max_bytes, &err)};
    f.host = host_open(&provider_published_ops, AT, "", &err);
    assert_true(f.store && f.host);
    published_bind(host_provider(f.host), f.store);
    buf_init(&f.told, 1u << 20);
}

static int keep(struct tidings_error *err)
{
    int rc = sqlite_store_open(path, &f.rows, err);
    rc = rc == 0 ? commit_thread_open(f.rows, &f.commit_thread, err) : rc;
    rc = rc == 0 ? published_keep(f.store, f.commit_thread, may_be, NULL, &f.unseen, err) : rc;
    if (rc == 0) {
        commit_thread_on_change(f.commit_thread, tell, NULL);
    }
    return rc;
}

static void keep_store(void)
{
    struct tidings_error err = {0, ""};
    if (keep(&err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void close_store(void)
{
    commit_thread_close(f.commit_thread);
    f.commit_thread = NULL;
    published_unkeep(f.store, false);
    host_close(f.host);
    published_destroy(f.store);
    buf_deinit(&f.told);
}

static void restart(void)
{
    close_store();
    open_store();
    keep_store();
}

static int begin(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 4; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    max_count = 100;
    max_bytes = 1u << 20;
    open_store();
    return 0;
}

static int end(void **state)
{
    (void)state;
    close_store();
    return 0;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static struct publication about(const char *uri, const char *content)
{
    struct publication p = {.content = tidings_str(content)};
    p.about = (struct tidings_resource){0};
    p.about.uri = tidings_str(uri);
    return p;
}

static int put(const char *uri, const char *content)
{
    struct publication p = about(uri, content);
    return published_put(f.store, host_provider(f.host), &p, NULL, NULL);
}

static int take_away(const char *uri)
{
    return published_remove(
        f.store, host_provider(f.host),
        &(struct publication){.about = {.uri = tidings_str(uri)}, .if_match = STR_EMPTY}, NULL);
}

static void check_read(const char *uri, const char *content)
{
    struct host_answer *a = host_read(f.host, uri);
    assert_int_equal(a->code, content ? 0 : TIDINGS_E_NOTFOUND);
    if (content) {
        assert_string_equal(a->rows[0].bytes, content);
    }
    host_answer_free(a);
}

static int run_nothing(struct store_job *job, struct entities *e)
{
    (void)job;
    (void)e;
    return 0;
}

static void check_told(const char *expected)
{
    struct store_job job = {.run = run_nothing};
    assert_int_equal(commit_thread_run(f.commit_thread, &job), 0); /* earlier jobs are done */
    assert_string_equal(f.told.len > 0 ? f.told.ptr : "", expected);
    buf_clear(&f.told);
}

/* Several changes in one batch: the commit thread waits until all of them are submitted and takes
 * them in one turn. */
struct gate {
    struct store_job job;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool begun, open;
};

static int run_gate(struct store_job *job, struct entities *e)
{
    struct gate *g = list_entry(job, struct gate, job);
    (void)e;
    pthread_mutex_lock(&g->lock);
    g->begun = true;
    pthread_cond_broadcast(&g->cond);
    while (!g->open) {
        pthread_cond_wait(&g->cond, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    return 0;
}

static void gate_done(struct store_job *job, int code)
{
    (void)job;
    assert_int_equal(code, 0);
}

static void gate_shut(struct gate *g)
{
    *g = (struct gate){.job = {.run = run_gate, .done = gate_done}};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->cond, NULL);
    list_init(&g->job.message.link);
    commit_thread_submit(f.commit_thread, &g->job);
    pthread_mutex_lock(&g->lock);
    while (!g->begun) {
        pthread_cond_wait(&g->cond, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->cond);
    pthread_mutex_unlock(&g->lock);
    struct store_job job = {.run = run_nothing};
    assert_int_equal(commit_thread_run(f.commit_thread, &job), 0);
}

/* The outcomes of calls that do not wait, in order. */
static struct {
    int rc[32];
    char text[32][128];
    size_t count;
} outcomes;

static void came_out(void *user, int rc, const char *etag, const struct tidings_error *err)
{
    (void)user;
    assert_true(rc < 0 ? err->text[0] != '\0' : etag != NULL);
    (void)snprintf(outcomes.text[outcomes.count], sizeof outcomes.text[0], "%.100s", err->text);
    outcomes.rc[outcomes.count++] = rc;
}

static void put_later(const char *uri, const char *content, bool if_absent)
{
    struct publication p = about(uri, content);
    p.if_absent = if_absent;
    published_put_then(f.store, host_provider(f.host), &p, came_out, NULL);
}

static void remove_later(const char *uri)
{
    published_remove_then(
        f.store, host_provider(f.host),
        &(struct publication){.about = {.uri = tidings_str(uri)}, .if_match = STR_EMPTY}, came_out,
        NULL);
}

static void check_outcomes(const int *expected, size_t count)
{
    assert_int_equal(outcomes.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(outcomes.rc[i], expected[i]);
    }
    outcomes.count = 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void publications_survive_a_restart(void **state)
{
    (void)state;
    char etag[PUBLISHED_ETAG_SIZE], again[PUBLISHED_ETAG_SIZE];
    keep_store();
    struct publication p = about(AT "a", "one");
    p.about.title = STR("A");
    assert_int_equal(published_put(f.store, NULL, &p, etag, NULL), 1);
    assert_int_equal(put(AT "b", "two"), 1);
    assert_int_equal(put(AT "b", "three"), 0);
    assert_int_equal(put(AT "b", "three"), 0); /* no change */
    assert_int_equal(put(AT "c", "four"), 1);
    assert_int_equal(take_away(AT "c"), 0);
    assert_int_equal(take_away(AT "c"), TIDINGS_E_NOTFOUND);
    check_told("1 created " AT "a\n2 created " AT "b\n3 updated " AT "b\n4 created " AT
               "c\n5 deleted " AT "c\n");
    check_read(AT "b", "three");
    restart();
    check_read(AT "a", "one");
    check_read(AT "b", "three");
    check_read(AT "c", NULL);
    p.if_match = tidings_str(etag);
    assert_int_equal(published_put(f.store, NULL, &p, again, NULL), 0);
    assert_string_equal(etag, again);
    check_told("");
    assert_int_equal(take_away(AT "a"), 0);
    check_told("6 deleted " AT "a\n");
}

static void batch_jobs_see_earlier_jobs(void **state)
{
    (void)state;
    struct gate g;
    keep_store();
    assert_int_equal(put(AT "old", "0"), 1);
    gate_shut(&g);
    put_later(AT "a", "1", true);
    put_later(AT "a", "2", true); /* exists by then */
    put_later(AT "a", "3", false);
    put_later(AT "a", "3", false); /* no change */
    remove_later(AT "old");
    remove_later(AT "old"); /* deleted by then */
    put_later(AT "old", "4", true);
    remove_later(AT "old");
    put_later(AT "old", "5", false);
    assert_int_equal(outcomes.count, 0);
    check_read(AT "a", NULL);
    check_read(AT "old", "0");
    gate_open(&g);
    check_outcomes((int[]){1, TIDINGS_E_CONFLICT, 0, 0, 0, TIDINGS_E_NOTFOUND, 1, 0, 1}, 9);
    check_told("1 created " AT "old\n2 created " AT "a\n3 updated " AT "a\n4 deleted " AT
               "old\n5 created " AT "old\n6 deleted " AT "old\n7 created " AT "old\n");
    check_read(AT "a", "3");
    check_read(AT "old", "5");
    restart();
    check_read(AT "a", "3");
    check_read(AT "old", "5");
}

static void pending_publication_and_reservation_exclude_each_other(void **state)
{
    (void)state;
    struct gate g;
    keep_store();
    assert_int_equal(published_reserve(f.store, STR(AT "mine"), NULL), 0);
    assert_int_equal(put(AT "mine", "1"), TIDINGS_E_EXISTS);
    assert_int_equal(put(AT "ours", "1"), 1);
    assert_int_equal(published_reserve(f.store, STR(AT "ours"), NULL), TIDINGS_E_EXISTS);
    gate_shut(&g);
    put_later(AT "late", "1", false);
    gate_open(&g);
    check_outcomes((int[]){1}, 1);
    assert_int_equal(published_reserve(f.store, STR(AT "late"), NULL), TIDINGS_E_EXISTS);
    published_release(f.store, STR(AT "mine"));
    assert_int_equal(put(AT "mine", "1"), 1);
}

static void limits_include_pending_publications(void **state)
{
    (void)state;
    struct gate g;
    max_count = 2;
    keep_store();
    gate_shut(&g);
    put_later(AT "a", "1", false);
    put_later(AT "b", "2", false);
    put_later(AT "c", "3", false);
    remove_later(AT "a");
    put_later(AT "c", "4", false);
    gate_open(&g);
    check_outcomes((int[]){1, 1, TIDINGS_E_LIMIT, 0, 1}, 5);
    assert_non_null(strstr(outcomes.text[2], "published-max"));
}

/* A job that reserves a URI while its publication is still in the batch. */
struct standing {
    struct store_job job;
    int reserved;
};

static int run_reserve(struct store_job *job, struct entities *e)
{
    struct standing *s = list_entry(job, struct standing, job);
    (void)e;
    s->reserved = published_reserve(f.store, STR(AT "coming"), NULL);
    return 0;
}

static void gate_done_quietly(struct store_job *job, int code)
{
    (void)job;
    (void)code;
}

static void uri_is_busy_while_its_commit_may_fail(void **state)
{
    (void)state;
    struct gate g;
    struct standing s = {.job = {.is_write = true, .run = run_reserve, .done = gate_done_quietly}};
    keep_store();
    gate_shut(&g);
    put_later(AT "coming", "1", false);
    list_init(&s.job.message.link);
    commit_thread_submit(f.commit_thread, &s.job);
    gate_open(&g);
    assert_int_equal(s.reserved, TIDINGS_E_BUSY);
    check_outcomes((int[]){1}, 1);
    assert_int_equal(published_reserve(f.store, STR(AT "coming"), NULL), TIDINGS_E_EXISTS);
}

static void full_disk_fails_the_batch_without_traces_and_later_writes_succeed(void **state)
{
    (void)state;
    struct gate g;
    static char large[500000];
    memset(large, 'x', sizeof large - 1);
    keep_store();
    assert_int_equal(put(AT "old", "0"), 1);
    assert_int_equal(sqlite_store_limit(f.rows, 300000, NULL), 0);
    max_count = 2;
    gate_shut(&g);
    put_later(AT "small", "1", false);
    put_later(AT "small", "2", true); /* a commit would make this a conflict … */
    put_later(AT "tiny", "", false);  /* … this one exceed the limit … */
    remove_later(AT "old");
    remove_later(AT "old"); /* … and this unknown */
    put_later(AT "large", large, false);
    gate_open(&g);
    check_outcomes((int[]){TIDINGS_E_FULL, TIDINGS_E_FULL, TIDINGS_E_FULL, TIDINGS_E_FULL,
                           TIDINGS_E_FULL, TIDINGS_E_FULL},
                   6);
    assert_non_null(strstr(outcomes.text[1], "full"));
    check_told("1 created " AT "old\n");
    check_read(AT "old", "0");
    check_read(AT "small", NULL);
    check_read(AT "large", NULL);
    /* Their URIs are free and do not count. */
    assert_int_equal(published_reserve(f.store, STR(AT "small"), NULL), 0);
    published_release(f.store, STR(AT "small"));
    max_count = 3;
    assert_int_equal(sqlite_store_limit(f.rows, 30000000, NULL), 0);
    assert_int_equal(put(AT "small", "1"), 1);
    assert_int_equal(put(AT "large", large), 1);
    assert_int_equal(put(AT "other", "1"), TIDINGS_E_LIMIT);
    restart();
    check_read(AT "large", large);
    check_read(AT "old", "0");
}

static void earlier_publication_replaces_the_one_in_the_file(void **state)
{
    (void)state;
    keep_store();
    assert_int_equal(put(AT "same", "1"), 1);
    assert_int_equal(put(AT "other", "1"), 1);
    assert_int_equal(put(AT "secret", "1"), 1);
    close_store();

    open_store();
    assert_int_equal(put(AT "same", "1"), 1);
    assert_int_equal(put(AT "other", "2"), 1);
    assert_int_equal(put(AT "new", "3"), 1);
    keep_store();
    assert_int_equal(f.unseen, 1);
    assert_int_equal(f.rows->ops->position(f.rows), 5);
    check_read(AT "secret", NULL);
    assert_int_equal(put(AT "new", "3"), 0);
    restart();
    check_read(AT "same", "1");
    check_read(AT "other", "2");
    check_read(AT "new", "3");
    assert_int_equal(f.rows->ops->position(f.rows), 5);
}

static void failed_start_keeps_the_programs_publications(void **state)
{
    (void)state;
    keep_store();
    assert_int_equal(put(AT "file", "1"), 1);
    close_store();
    open_store();
    assert_int_equal(put(AT "own", "2"), 1);
    keep_store();
    check_read(AT "file", "1");
    commit_thread_close(f.commit_thread);
    f.commit_thread = NULL;
    published_unkeep(f.store, true);
    check_read(AT "file", NULL);
    check_read(AT "own", "2");
    max_count = 2;
    assert_int_equal(put(AT "more", "3"), 1);
    assert_int_equal(put(AT "too many", "4"), TIDINGS_E_LIMIT);
}

static void failed_allocation_rejects_or_keeps_the_publication(void **state)
{
    (void)state;
    keep_store();
    assert_int_equal(put(AT "warm", "1"), 1);
    for (long n = 1;; n++) {
        char uri[40];
        (void)snprintf(uri, sizeof uri, AT "%ld", n);
        fail_alloc_start(n);
        int rc = put(uri, "x");
        bool reached = fail_alloc_stop();
        assert_true(rc == 1 || (reached && rc == TIDINGS_E_NOMEM));
        check_read(uri, rc == 1 ? "x" : NULL);
        assert_int_equal(put(uri, "y"), rc == 1 ? 0 : 1);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(publications_survive_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(batch_jobs_see_earlier_jobs, begin, end),
        cmocka_unit_test_setup_teardown(pending_publication_and_reservation_exclude_each_other,
                                        begin, end),
        cmocka_unit_test_setup_teardown(limits_include_pending_publications, begin, end),
        cmocka_unit_test_setup_teardown(uri_is_busy_while_its_commit_may_fail, begin, end),
        cmocka_unit_test_setup_teardown(
            full_disk_fails_the_batch_without_traces_and_later_writes_succeed, begin, end),
        cmocka_unit_test_setup_teardown(earlier_publication_replaces_the_one_in_the_file, begin,
                                        end),
        cmocka_unit_test_setup_teardown(failed_start_keeps_the_programs_publications, begin, end),
        cmocka_unit_test_setup_teardown(failed_allocation_rejects_or_keeps_the_publication, begin,
                                        end),
    };
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/db", directory);
    struct store *store = NULL;
    if (sqlite_store_open(":memory:", &store, NULL) == TIDINGS_E_UNSUPPORTED) {
        return 77; /* it cannot be loaded */
    }
    store->ops->destroy(store);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)rmdir(directory);
    return failed;
}
