/* SPDX-License-Identifier: MIT
 *
 * The commit thread: writes share commits and are answered after the commit. If the commit fails,
 * they all fail, with the refusals that depend on them. Reads see every answered write. This test
 * is meant to run under the thread sanitizer too. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/commit_thread.h"
#include "store/memory_store.h"

/* ---- rows that count commits, and fail one on request ---------------------------------------- */

static const struct store_ops *real_ops;
static struct store_ops counted_ops;
static unsigned commits, fail_commit;
static int fail_code;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: commits wait */
static sem_t at_gate;                                    /* posted by each commit that reaches it */

static int counted_commit(struct store *store, struct tidings_error *err)
{
    sem_post(&at_gate);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    commits++;
    store->ops = real_ops;
    int rc = 0;
    if (commits == fail_commit) {
        real_ops->rollback(store);
        rc = tidings_fail(err, fail_code, "the disk is gone");
    } else {
        rc = real_ops->commit(store, err);
    }
    store->ops = &counted_ops;
    return rc;
}

/* The implementation asserts that it owns the row table, so return it for each call. */
#define LEND(result, name, params, args)                                                           \
    static result counted_##name params                                                            \
    {                                                                                              \
        store->ops = real_ops;                                                                     \
        result rc = real_ops->name args;                                                           \
        store->ops = &counted_ops;                                                                 \
        return rc;                                                                                 \
    }
LEND(int, begin, (struct store * store, struct tidings_error *err), (store, err))
LEND(int, put,
     (struct store * store, const struct entity_version *v, bool instead,
      struct tidings_error *err),
     (store, v, instead, err))
LEND(int, find,
     (struct store * store, struct tidings_str id, int64_t at, struct entity_version *ret,
      struct tidings_error *err),
     (store, id, at, ret, err))
LEND(int, put_type,
     (struct store * store, const struct entity_type_row *row, struct tidings_error *err),
     (store, row, err))
LEND(int, types, (struct store * store, entity_type_fn fn, void *user, struct tidings_error *err),
     (store, fn, user, err))
LEND(uint64_t, position, (struct store * store), (store))
LEND(int, idle, (struct store * store, struct tidings_error *err), (store, err))

static void counted_destroy(struct store *store)
{
    store->ops = real_ops;
    real_ops->destroy(store);
}

static void counted_rollback(struct store *store)
{
    store->ops = real_ops;
    real_ops->rollback(store);
    store->ops = &counted_ops;
}

static struct store *counted_rows(void)
{
    struct store *store = memory_store_create(NULL);
    real_ops = store->ops;
    counted_ops = (struct store_ops){
        .name = "counted",
        .destroy = counted_destroy,
        .begin = counted_begin,
        .commit = counted_commit,
        .rollback = counted_rollback,
        .position = counted_position,
        .put = counted_put,
        .find = counted_find,
        .put_type = counted_put_type,
        .types = counted_types,
        .idle = counted_idle,
    };
    store->ops = &counted_ops;
    return store;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct job {
    struct store_job base;
    char id[32], value[24];
    bool must_be_new;
    int64_t found; /* a read: the value of the entity; -1: it does not exist */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_done;
    int code;
};

static void ended(struct store_job *base, int code)
{
    struct job *j = (struct job *)(void *)base;
    pthread_mutex_lock(&j->lock);
    j->code = code;
    j->is_done = true;
    pthread_cond_signal(&j->ended);
    pthread_mutex_unlock(&j->lock);
}

static void job_init(struct job *j, const char *id, int value, bool is_write)
{
    *j = (struct job){.base = {.is_write = is_write, .done = ended}};
    (void)snprintf(j->id, sizeof j->id, "%s", id);
    (void)snprintf(j->value, sizeof j->value, "%d", value);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->ended, NULL);
}

static int await(struct job *j)
{
    pthread_mutex_lock(&j->lock);
    while (!j->is_done) {
        pthread_cond_wait(&j->ended, &j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return j->code;
}

static int run_type(struct store_job *base, struct entities *e)
{
    struct json *schema = NULL;
    assert_int_equal(jv_parse(STR("{\"type\":\"integer\"}"), 8, &schema, NULL), 0);
    const struct entity_type_spec spec = {STR("n"), STR("1"), STR(""), schema, NULL, NULL};
    int rc = entities_add_type(e, &spec, &base->err);
    jv_unref(schema);
    return rc;
}

static int run_put(struct store_job *base, struct entities *e)
{
    struct job *j = (struct job *)(void *)base;
    struct entity_write w = {
        .id = tidings_str(j->id),
        .type = STR("n"),
        .type_version = STR("1"),
        .changed_by = STR("[]"),
        .baseline = TIMELINE_NEVER,
        .must_be_new = j->must_be_new,
        .valid_from = TIMELINE_NEVER,
    };
    struct arena arena;
    struct entity_done done;
    struct entity_problem problem;
    arena_init(&arena, 1u << 16);
    int rc = jv_parse(tidings_str(j->value), 8, &w.value, &base->err);
    const struct entity_transaction t = {.writes = &w, .count = 1, .key = STR(""), .now = 1};
    rc = rc == 0 ? entities_transact(e, &t, &arena, &done, &problem, &base->err) : rc;
    base->is_fatal = rc < 0 && problem.reason == ENTITY_MEDIUM;
    jv_unref(w.value);
    arena_deinit(&arena);
    return rc;
}

static int run_find(struct store_job *base, struct entities *e)
{
    struct job *j = (struct job *)(void *)base;
    struct arena arena;
    struct entity_version v;
    arena_init(&arena, 1u << 16);
    int rc = entities_find(e, tidings_str(j->id), TIMELINE_FOREVER, &arena, &v, &base->err);
    j->found = rc == 1 ? strtoll(v.value.ptr, NULL, 10) : -1;
    arena_deinit(&arena);
    return rc < 0 ? rc : 0;
}

static struct commit_thread *open_commit_thread(void)
{
    struct tidings_error err = {0};
    struct commit_thread *k = NULL;
    commits = fail_commit = 0;
    fail_code = TIDINGS_E_IO;
    sem_init(&at_gate, 0, 0);
    if (commit_thread_open(counted_rows(), &k, &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct job type;
    job_init(&type, "", 0, true);
    type.base.run = run_type;
    commit_thread_submit(k, &type.base);
    assert_int_equal(await(&type), 0);
    return k;
}

static int64_t find(struct commit_thread *k, const char *id)
{
    struct job j;
    job_init(&j, id, 0, false);
    j.base.run = run_find;
    commit_thread_submit(k, &j.base);
    assert_int_equal(await(&j), 0);
    return j.found;
}

/* ---- tests ----------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 200 };

static struct commit_thread *shared;

static void *write_and_look(void *arg)
{
    char id[32];
    (void)snprintf(id, sizeof id, "e%d", *(int *)arg);
    for (int i = 0; i < EACH; i++) {
        struct job j;
        job_init(&j, id, i, true);
        j.base.run = run_put;
        commit_thread_submit(shared, &j.base);
        if (await(&j) != 0 || find(shared, id) != i) {
            return arg;
        }
    }
    return NULL;
}

static void answered_write_is_visible_to_the_next_read(void **state)
{
    (void)state;
    shared = open_commit_thread();
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_look, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    commit_thread_close(shared);
}

/* The first commit waits at the gate while the others are submitted, so they share the next
 * commits. */
static void submit_together(struct commit_thread *k, struct job *jobs, size_t count)
{
    pthread_mutex_lock(&gate);
    for (size_t i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "t%zu", i);
        job_init(&jobs[i], id, (int)i, true);
        jobs[i].base.run = run_put;
        commit_thread_submit(k, &jobs[i].base);
    }
    pthread_mutex_unlock(&gate);
}

static void concurrent_writes_share_a_commit(void **state)
{
    (void)state;
    static struct job jobs[200];
    struct commit_thread *k = open_commit_thread();
    submit_together(k, jobs, 200);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(await(&jobs[i]), 0);
    }
    commit_thread_close(k);
    assert_in_range(commits, 2, 6); /* one for the type; the loop delivers a few per turn */
}

static void failed_commit_fails_only_the_writes_that_shared_it(void **state)
{
    (void)state;
    static struct job jobs[100];
    struct commit_thread *k = open_commit_thread();
    fail_commit = 2; /* after the type's commit: at least the first of these */
    submit_together(k, jobs, 100);
    unsigned failed = 0;
    for (size_t i = 0; i < 100; i++) {
        int rc = await(&jobs[i]);
        assert_true(rc == 0 || rc == TIDINGS_E_IO);
        assert_true(rc == 0 || jobs[i].base.is_fatal);
        failed += rc < 0;
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(find(k, jobs[i].id), jobs[i].code == 0 ? (int64_t)i : -1);
    }
    assert_in_range(failed, 1, 100);
    struct job after;
    job_init(&after, "after", 7, true);
    after.base.run = run_put;
    commit_thread_submit(k, &after.base);
    assert_int_equal(await(&after), 0);
    commit_thread_close(k);
}

static void refused_write_does_not_affect_others(void **state)
{
    (void)state;
    struct commit_thread *k = open_commit_thread();
    struct job good, bad, also;
    pthread_mutex_lock(&gate);
    job_init(&good, "a", 1, true);
    job_init(&bad, "b", 2, true);
    (void)snprintf(bad.value, sizeof bad.value, "\"text\"");
    job_init(&also, "c", 3, true);
    good.base.run = bad.base.run = also.base.run = run_put;
    commit_thread_submit(k, &good.base);
    commit_thread_submit(k, &bad.base);
    commit_thread_submit(k, &also.base);
    pthread_mutex_unlock(&gate);
    assert_int_equal(await(&good), 0);
    assert_int_equal(await(&bad), TIDINGS_E_INVALID);
    assert_int_equal(await(&also), 0);
    assert_int_equal(find(k, "b"), -1);
    commit_thread_close(k);
}

/* A read that blocks the commit thread until the test has submitted all jobs, so they share a
 * batch. */
struct stop {
    struct job job;
    sem_t begun, go;
};

static int run_stop(struct store_job *base, struct entities *e)
{
    struct stop *s = (struct stop *)(void *)base;
    (void)e;
    sem_post(&s->begun);
    sem_wait(&s->go);
    return 0;
}

static void run_in_one_batch(struct commit_thread *k, struct job *const *jobs, size_t count)
{
    struct stop s;
    job_init(&s.job, "", 0, false);
    s.job.base.run = run_stop;
    sem_init(&s.begun, 0, 0);
    sem_init(&s.go, 0, 0);
    commit_thread_submit(k, &s.job.base);
    sem_wait(&s.begun);
    for (size_t i = 0; i < count; i++) {
        jobs[i]->base.run = run_put;
        commit_thread_submit(k, &jobs[i]->base);
    }
    sem_post(&s.go);
    assert_int_equal(await(&s.job), 0);
}

static void job_create(struct job *j, const char *id, int value)
{
    job_init(j, id, value, true);
    j->must_be_new = true;
}

static void refusal_fails_with_the_write_it_depends_on(void **state)
{
    (void)state;
    struct commit_thread *k = open_commit_thread();
    struct job first, second;
    for (int round = 0; round < 2; round++) { /* the second commit succeeds */
        job_create(&first, "x", 1);
        job_create(&second, "x", 2);
        fail_commit = round == 0 ? commits + 1 : 0;
        run_in_one_batch(k, (struct job *const[]){&first, &second}, 2);
        assert_int_equal(await(&first), round == 0 ? TIDINGS_E_IO : 0);
        assert_int_equal(await(&second), round == 0 ? TIDINGS_E_IO : TIDINGS_E_EXISTS);
        assert_int_equal(second.base.is_fatal, round == 0);
        assert_int_equal(find(k, "x"), round == 0 ? -1 : 1);
    }
    assert_int_equal(commits, 3); /* one for the type, and one for both each time */
    commit_thread_close(k);
}

static void refusal_before_the_first_write_is_answered_at_once(void **state)
{
    (void)state;
    struct commit_thread *k = open_commit_thread();
    struct job there, refused, good;
    job_create(&there, "there", 1);
    run_in_one_batch(k, (struct job *const[]){&there}, 1);
    assert_int_equal(await(&there), 0);
    job_create(&refused, "there", 2);
    job_create(&good, "new", 3);
    fail_commit = commits + 1;
    run_in_one_batch(k, (struct job *const[]){&refused, &good}, 2);
    assert_int_equal(await(&refused), TIDINGS_E_EXISTS);
    assert_int_equal(await(&good), TIDINGS_E_IO);
    commit_thread_close(k);
}

static bool is_done(struct job *j)
{
    pthread_mutex_lock(&j->lock);
    bool done = j->is_done;
    pthread_mutex_unlock(&j->lock);
    return done;
}

static void refusal_waits_for_the_write_it_depends_on(void **state)
{
    (void)state;
    struct commit_thread *k = open_commit_thread();
    struct job first, second;
    sem_wait(&at_gate); /* the commit of the type */
    job_create(&first, "x", 1);
    job_create(&second, "x", 2);
    pthread_mutex_lock(&gate);
    run_in_one_batch(k, (struct job *const[]){&first, &second}, 2);
    sem_wait(&at_gate);
    assert_false(is_done(&first));
    assert_false(is_done(&second));
    pthread_mutex_unlock(&gate);
    assert_int_equal(await(&first), 0);
    assert_int_equal(await(&second), TIDINGS_E_EXISTS);
    commit_thread_close(k);
}

static void store_error_is_never_reported_as_a_refusal(void **state)
{
    (void)state;
    static const struct {
        int failed, answered;
    } codes[] = {{TIDINGS_E_EXISTS, TIDINGS_E_IO},    {TIDINGS_E_NOTFOUND, TIDINGS_E_IO},
                 {TIDINGS_E_CONFLICT, TIDINGS_E_IO},  {TIDINGS_E_DENIED, TIDINGS_E_IO},
                 {TIDINGS_E_LIMIT, TIDINGS_E_IO},     {TIDINGS_E_INVALID, TIDINGS_E_IO},
                 {TIDINGS_E_FULL, TIDINGS_E_FULL},    {TIDINGS_E_BUSY, TIDINGS_E_BUSY},
                 {TIDINGS_E_NOMEM, TIDINGS_E_NOMEM},  {TIDINGS_E_UNKNOWN, TIDINGS_E_UNKNOWN},
                 {TIDINGS_E_CLOSED, TIDINGS_E_CLOSED}};
    struct commit_thread *k = open_commit_thread();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct job j;
        job_init(&j, "x", (int)i, true);
        fail_commit = commits + 1;
        fail_code = codes[i].failed;
        run_in_one_batch(k, (struct job *const[]){&j}, 1);
        assert_int_equal(await(&j), codes[i].answered);
        assert_int_equal(j.base.err.code, codes[i].answered);
        assert_string_equal(j.base.err.text, "the disk is gone");
    }
    commit_thread_close(k);
}

static void submitted_jobs_finish_before_the_end(void **state)
{
    (void)state;
    static struct job jobs[100];
    struct commit_thread *k = open_commit_thread();
    submit_together(k, jobs, 100);
    commit_thread_close(k);
    for (size_t i = 0; i < 100; i++) {
        assert_true(jobs[i].is_done);
        assert_int_equal(jobs[i].code, 0);
    }
    commit_thread_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answered_write_is_visible_to_the_next_read),
        cmocka_unit_test(concurrent_writes_share_a_commit),
        cmocka_unit_test(failed_commit_fails_only_the_writes_that_shared_it),
        cmocka_unit_test(refused_write_does_not_affect_others),
        cmocka_unit_test(refusal_fails_with_the_write_it_depends_on),
        cmocka_unit_test(refusal_before_the_first_write_is_answered_at_once),
        cmocka_unit_test(refusal_waits_for_the_write_it_depends_on),
        cmocka_unit_test(store_error_is_never_reported_as_a_refusal),
        cmocka_unit_test(submitted_jobs_finish_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
