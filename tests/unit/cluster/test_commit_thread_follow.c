/* SPDX-License-Identifier: MIT
 *
 * The commit thread of a shared store. The thread watches descriptors that report other writers.
 * After a reconnect, its loop keeps no descriptor of the old connection, even if other code still
 * holds it open. The tests also cover which writes share a commit, and the second run of a batch
 * that another writer overtook. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "store/commit_thread.h"
#include "support/shared_memory.h"
#include "support/store_steps.h"

#define JOBS_MAX 10000u

struct looking {
    struct store_job job;
    struct store *rows; /* must reconnect */
    int held;
    unsigned watched;
};

/* Count this process's descriptors that are in an epoll instance. */
static unsigned count_watched(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fdinfo");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[300], line[256];
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", e->d_name);
        FILE *info = fopen(path, "r");
        while (info && fgets(line, sizeof(line), info)) {
            count += strncmp(line, "tfd:", 4) == 0;
        }
        if (info) {
            fclose(info);
        }
    }
    closedir(dir);
    return count;
}

/* Runs on the commit thread, so no turn of its loop is half done. */
static int look(struct store_job *job, struct entities *e)
{
    struct looking *l = (struct looking *)(void *)job;
    (void)e;
    l->held = l->rows ? shared_memory_reconnect(l->rows) : -1;
    l->watched = count_watched();
    return 0;
}

static struct looking look_now(struct commit_thread *k, struct store *reconnect)
{
    struct looking l = {.job = {.run = look}, .rows = reconnect};
    assert_int_equal(commit_thread_run(k, &l.job), 0);
    return l;
}

/* The current connection wakes it. */
static void await_woken(struct commit_thread *k, struct store *store)
{
    shared_memory_wake(store);
    for (unsigned i = 0; !shared_memory_is_awake(store); i++) {
        assert_true(i < JOBS_MAX);
        (void)look_now(k, NULL);
    }
}

static void descriptors_of_a_lost_connection_are_not_watched(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct commit_thread_follower follower = {0};
    struct commit_thread *k = NULL;
    struct shared_memory *db = shared_memory_create();
    struct store *store = shared_memory_connect(db);
    assert_int_equal(commit_thread_open(store, &k, &err), 0);
    assert_int_equal(commit_thread_on_follow(k, &follower, &err), 0);
    await_woken(k, store);
    unsigned watched = look_now(k, NULL).watched;
    for (int i = 0; i < 3; i++) {
        int held = look_now(k, store).held;
        uint64_t one = 1;
        assert_int_equal(look_now(k, NULL).watched, watched); /* the new one, immediately */
        await_woken(k, store);
        assert_int_equal(look_now(k, NULL).watched, watched);
        assert_int_equal(write(held, &one, sizeof(one)), sizeof(one)); /* nothing reads it */
        await_woken(k, store);
        close(held);
    }
    commit_thread_close(k);
    shared_memory_destroy(db);
}

struct writing {
    struct store_job job;
    struct commit_thread *commit_thread;
    struct writing *next; /* arrives while this batch runs, as during a wait for the lock */
    bool is_done;
};

static int write_nothing(struct store_job *job, struct entities *e)
{
    struct writing *w = (struct writing *)(void *)job;
    (void)e;
    if (w->next) {
        commit_thread_submit(w->commit_thread, &w->next->job);
    }
    return 0;
}

static void note_done(struct store_job *job, int code)
{
    assert_int_equal(code, 0);
    ((struct writing *)(void *)job)->is_done = true;
}

static void writes_submitted_while_a_batch_starts_share_its_commit(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct commit_thread *k = NULL;
    struct durations commits;
    uint64_t lost = 0;
    struct shared_memory *db = shared_memory_create();
    assert_int_equal(commit_thread_open(shared_memory_connect(db), &k, &err), 0);
    struct writing second = {.job = {.is_write = true, .run = write_nothing, .done = note_done}};
    struct writing first = {.job = {.is_write = true, .run = write_nothing, .done = note_done},
                            .commit_thread = k,
                            .next = &second};
    assert_int_equal(commit_thread_run(k, &first.job), 0);
    (void)look_now(k, NULL); /* after it */
    assert_true(first.is_done && second.is_done);
    commit_thread_get_commits(k, &commits, &lost);
    assert_int_equal(durations_total(&commits), 1);
    assert_int_equal(lost, 0);
    commit_thread_close(k);
    shared_memory_destroy(db);
}

/* ---- overtaken batches ----------------------------------------------------------------------- */

static struct buf trace;

struct traced {
    struct store_job job;
    char name;
    int codes[2]; /* in the first and the second run */
    unsigned runs;
    struct commit_thread *commit_thread;
    struct traced *next;
    bool is_first; /* the next ones arrive while it runs */
    struct shared_memory *db;
    struct store *rows;
    bool is_lost; /* the store is unreachable during the undo … */
    bool loses;   /* … or the next commit is lost */
};

static int run_traced(struct store_job *job, struct entities *e)
{
    struct traced *t = (struct traced *)(void *)job;
    (void)e;
    buf_putf(&trace, "run %c\n", t->name);
    for (struct traced *n = t->is_first && t->runs == 0 ? t->next : NULL; n; n = n->next) {
        commit_thread_submit(t->commit_thread, &n->job);
    }
    return t->codes[t->runs++];
}

static void undo_traced(struct store_job *job)
{
    struct traced *t = (struct traced *)(void *)job;
    buf_putf(&trace, "undo %c\n", t->name);
    if (t->is_lost) {
        shared_memory_set_unreachable(t->db, NULL, true);
    }
    if (t->loses) {
        shared_memory_lose_answer(t->db, t->rows, false);
    }
}

static void traced_done(struct store_job *job, int code)
{
    buf_putf(&trace, "done %c %s\n", ((struct traced *)(void *)job)->name,
             code == 0 ? "ok" : tidings_code_name(code));
}

static struct traced traced(char name, int first, int second)
{
    return (struct traced){
        .job = {.is_write = true, .run = run_traced, .undo = undo_traced, .done = traced_done},
        .name = name,
        .codes = {first, second}};
}

/* `first` and the writes submitted during its run form one batch, which another writer overtakes.
 * */
static const char *run_overtaken(struct traced *first, bool is_in_doubt)
{
    struct tidings_error err = {0, ""};
    struct commit_thread_follower follower = {0};
    struct commit_thread *k = NULL;
    struct shared_memory *db = shared_memory_create();
    struct store *store = shared_memory_connect(db);
    shared_memory_overtake(store, is_in_doubt);
    assert_int_equal(commit_thread_open(store, &k, &err), 0);
    assert_int_equal(commit_thread_on_follow(k, &follower, &err), 0);
    for (struct traced *t = first; t; t = t->next) {
        t->commit_thread = k;
        t->db = db;
        t->rows = store;
    }
    first->is_first = true;
    buf_deinit(&trace);
    buf_init(&trace, 4096);
    (void)commit_thread_run(k, &first->job);
    (void)look_now(k, NULL); /* after all of them */
    commit_thread_close(k);
    shared_memory_destroy(db);
    return trace.ptr;
}

/* A refusal from the first run can become a success, and the reverse. Nothing is answered before
 * the second run. */
static void overtaken_writes_are_undone_and_decided_again(void **state)
{
    (void)state;
    struct traced c = traced('c', 0, TIDINGS_E_CONFLICT), b = traced('b', TIDINGS_E_CONFLICT, 0),
                  a = traced('a', 0, 0);
    a.next = &b;
    b.next = &c;
    assert_string_equal(run_overtaken(&a, false),
                        "run a\nrun b\nrun c\nundo c\nundo b\nundo a\nrun a\nrun b\nrun c\n"
                        "done a ok\ndone b ok\ndone c TIDINGS_E_CONFLICT\n");
    assert_true(c.runs == 2);
}

static void refusal_in_second_run_fails_with_earlier_writes(void **state)
{
    (void)state;
    struct traced c = traced('c', 0, TIDINGS_E_CONFLICT), b = traced('b', 0, 0),
                  a = traced('a', 0, TIDINGS_E_CONFLICT);
    a.next = &b;
    b.next = &c;
    a.loses = true;
    assert_string_equal(run_overtaken(&a, false),
                        "run a\nrun b\nrun c\nundo c\nundo b\nundo a\nrun a\n"
                        "done a TIDINGS_E_CONFLICT\nrun b\nrun c\n"
                        "done b TIDINGS_E_UNKNOWN\ndone c TIDINGS_E_UNKNOWN\n");
    buf_deinit(&trace);
}

/* If the second run fails too, the store may have kept the first one. */
static void result_is_unknown_if_a_doubtful_batch_cannot_rerun(void **state)
{
    (void)state;
    struct traced b = traced('b', 0, 0), a = traced('a', 0, 0);
    a.next = &b;
    a.is_lost = true;
    assert_string_equal(run_overtaken(&a, true),
                        "run a\nrun b\nundo b\nundo a\ndone a TIDINGS_E_UNKNOWN\n"
                        "done b TIDINGS_E_UNKNOWN\n");
    struct traced d = traced('d', 0, 0), c = traced('c', 0, 0);
    c.next = &d;
    c.is_lost = true;
    assert_string_equal(run_overtaken(&c, false),
                        "run c\nrun d\nundo d\nundo c\ndone c TIDINGS_E_BUSY\n"
                        "done d TIDINGS_E_BUSY\n");
    buf_deinit(&trace);
}

/* If the second run's commit is lost too, the store may have kept a write that the second run
 * refuses. */
static void refusals_after_a_doubtful_commit_wait_for_the_next_commit(void **state)
{
    (void)state;
    struct traced b = traced('b', 0, 0), a = traced('a', 0, TIDINGS_E_CONFLICT);
    a.next = &b;
    assert_string_equal(run_overtaken(&a, true), "run a\nrun b\nundo b\nundo a\nrun a\nrun b\n"
                                                 "done a TIDINGS_E_CONFLICT\ndone b ok\n");
    struct traced d = traced('d', 0, 0), c = traced('c', 0, TIDINGS_E_CONFLICT);
    c.next = &d;
    d.loses = true;
    assert_string_equal(run_overtaken(&c, true),
                        "run c\nrun d\nundo d\nundo c\nrun c\nrun d\n"
                        "done c TIDINGS_E_UNKNOWN\ndone d TIDINGS_E_UNKNOWN\n");
    buf_deinit(&trace);
}

/* Writes gather during the wait. */
static void next_batch_takes_the_lock_after_a_large_one(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct commit_thread_follower follower = {0};
    struct commit_thread *k = NULL;
    struct shared_memory *db = shared_memory_create();
    struct store *store = shared_memory_connect(db);
    struct traced many[8], x = traced('x', 0, 0), y = traced('y', 0, 0);
    assert_int_equal(commit_thread_open(store, &k, &err), 0);
    assert_int_equal(commit_thread_on_follow(k, &follower, &err), 0);
    for (int i = 7; i >= 0; i--) {
        many[i] = traced('m', 0, 0);
        many[i].commit_thread = k;
        many[i].next = i < 7 ? &many[i + 1] : NULL;
    }
    many[0].is_first = true;
    buf_init(&trace, 4096);
    assert_int_equal(commit_thread_run(k, &many[0].job), 0);
    (void)look_now(k, NULL);
    shared_memory_overtake(store, false);
    buf_clear(&trace);
    assert_int_equal(commit_thread_run(k, &x.job), 0);
    /* after a single write, the batch needs no lock */
    assert_int_equal(commit_thread_run(k, &y.job), 0);
    assert_string_equal(trace.ptr, "run x\ndone x ok\nrun y\nundo y\nrun y\ndone y ok\n");
    buf_deinit(&trace);
    commit_thread_close(k);
    shared_memory_destroy(db);
}

/* A follower on the commit thread that forgets its first announcement. */
struct forgetful {
    struct buf said;
    bool has_forgotten;
    unsigned failures; /* of attempts to read again */
};

static bool forget_first(void *user, const struct log_entry *c)
{
    struct forgetful *f = user;
    bool is_first = !f->has_forgotten && c->kind == LOG_ENTRY_ANNOUNCED;
    f->has_forgotten = f->has_forgotten || is_first;
    buf_putf(&f->said, "%s %llu\n",
             is_first                         ? "forgets"
             : c->kind == LOG_ENTRY_DATA_LOSS ? "everybody looks again at"
                                              : "follows",
             (unsigned long long)c->position);
    return !is_first;
}

static int reread(void *user, struct store *store, struct tidings_error *err)
{
    struct forgetful *f = user;
    (void)store;
    bool fails = f->failures > 0;
    f->failures -= fails;
    buf_puts(&f->said, fails ? STR("cannot read\n") : STR("reads everything\n"));
    return fails ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* Otherwise it would decide writes from state that is out of date. */
static void rows_that_could_not_be_stored_are_read_again_before_writes(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct forgetful f = {.failures = 1};
    struct commit_thread_follower follower = {.user = &f, .change = forget_first, .reread = reread};
    struct commit_thread *k = NULL;
    struct shared_memory *db = shared_memory_create();
    struct store *store = shared_memory_connect(db), *other = shared_memory_connect(db);
    struct traced x = traced('x', 0, 0), y = traced('y', 0, 0);
    buf_init(&f.said, 4096);
    buf_init(&trace, 4096);
    shared_memory_set_quiet(db, true);
    assert_int_equal(commit_thread_open(store, &k, &err), 0);
    assert_int_equal(commit_thread_on_follow(k, &follower, &err), 0);
    uint64_t first = store_announce_alone(other, "n:///1");
    (void)store_announce_alone(other, "n:///2");
    assert_int_equal(commit_thread_run(k, &x.job), TIDINGS_E_NOMEM);
    assert_int_equal(commit_thread_run(k, &y.job), 0);
    char expected[256];
    snprintf(expected, sizeof(expected),
             "forgets %llu\ncannot read\nreads everything\neverybody looks again at %llu\n"
             "follows %llu\n",
             (unsigned long long)first, (unsigned long long)first, (unsigned long long)first + 1);
    assert_string_equal(f.said.ptr, expected);
    assert_string_equal(trace.ptr, "done x TIDINGS_E_NOMEM\nrun y\ndone y ok\n");
    buf_deinit(&trace);
    commit_thread_close(k);
    store_close(other);
    shared_memory_destroy(db);
    buf_deinit(&f.said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_of_a_lost_connection_are_not_watched),
        cmocka_unit_test(writes_submitted_while_a_batch_starts_share_its_commit),
        cmocka_unit_test(overtaken_writes_are_undone_and_decided_again),
        cmocka_unit_test(refusal_in_second_run_fails_with_earlier_writes),
        cmocka_unit_test(result_is_unknown_if_a_doubtful_batch_cannot_rerun),
        cmocka_unit_test(refusals_after_a_doubtful_commit_wait_for_the_next_commit),
        cmocka_unit_test(next_batch_takes_the_lock_after_a_large_one),
        cmocka_unit_test(rows_that_could_not_be_stored_are_read_again_before_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
