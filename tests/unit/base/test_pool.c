/* SPDX-License-Identifier: MIT
 *
 * The thread pool: every job runs once, the queue has a limit, and the pool can be destroyed with
 * work left. */
#include "base/thread.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fail_alloc.h"

static void count_job(void *job)
{
    atomic_fetch_add((atomic_uint *)job, 1);
}

static void every_job_runs_once(void **state)
{
    (void)state;
    enum { JOBS = 2000 };
    static atomic_uint ran[JOBS];
    struct pool *p = pool_create(3, JOBS, NULL);
    assert_non_null(p);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(pool_submit(p, count_job, &ran[i]), 0);
    }
    pool_destroy(p); /* runs the queued jobs */
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(ran[i], 1);
    }
}

static void unused_pool_starts_no_thread(void **state)
{
    (void)state;
    pool_destroy(pool_create(2, 1, NULL));
    pool_destroy(NULL);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    assert_null(pool_create(0, 1, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_null(pool_create(100000, 1, &err));
}

/* A job that blocks its thread until it is released: one blocking mailbox each way. */
struct gate {
    struct thread_message arrived, go;
    struct mailbox *owner, *thread;
    bool is_here, may_go;
    bool has_signals_blocked;
};

static void gate_drop(struct thread_message *message)
{
    (void)message;
}

static void gate_arrived(struct thread_message *message, void *owner)
{
    (void)message;
    *(bool *)owner = true;
}

static void gate_job(void *job)
{
    struct gate *g = job;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    g->has_signals_blocked = sigismember(&mask, SIGTERM) == 1;
    mailbox_send(g->owner, &g->arrived);
    while (!g->may_go) {
        (void)mailbox_wait(g->thread, -1);
    }
}

static void gate_open(struct gate *g, struct pool *p)
{
    *g = (struct gate){.arrived = {.deliver = gate_arrived, .drop = gate_drop},
                       .go = {.deliver = gate_arrived, .drop = gate_drop}};
    g->owner = mailbox_create_blocking(&g->is_here, NULL);
    g->thread = mailbox_create_blocking(&g->may_go, NULL);
    assert_int_equal(pool_submit(p, gate_job, g), 0);
    while (!g->is_here) {
        assert_true(mailbox_wait(g->owner, -1));
    }
}

static void gate_close(struct gate *g)
{
    mailbox_close(g->owner);
    mailbox_unref(g->owner);
    mailbox_close(g->thread);
    mailbox_unref(g->thread);
}

static void queue_length_is_limited(void **state)
{
    (void)state;
    atomic_uint ran = 0;
    struct gate g;
    struct pool *p = pool_create(1, 2, NULL);
    gate_open(&g, p); /* on the only thread, so no longer queued */
    assert_int_equal(pool_submit(p, count_job, &ran), 0);
    assert_int_equal(pool_submit(p, count_job, &ran), 0);
    assert_int_equal(pool_submit(p, count_job, &ran), TIDINGS_E_BUSY);
    assert_int_equal(ran, 0);
    mailbox_send(g.thread, &g.go);
    pool_destroy(p);
    assert_int_equal(ran, 2);
    assert_true(g.has_signals_blocked);
    gate_close(&g);
}

static void threads_run_jobs_in_parallel(void **state)
{
    (void)state;
    struct gate gates[3];
    struct pool *p = pool_create(3, 3, NULL);
    for (int i = 0; i < 3; i++) {
        gate_open(&gates[i], p); /* would never return if one thread ran them all */
    }
    for (int i = 0; i < 3; i++) {
        mailbox_send(gates[i].thread, &gates[i].go);
    }
    pool_destroy(p);
    for (int i = 0; i < 3; i++) {
        gate_close(&gates[i]);
    }
}

struct submitter {
    struct pool *pool;
    atomic_uint ran;
    int left;
    int last;
};

static void resubmit_job(void *job)
{
    struct submitter *s = job;
    atomic_fetch_add(&s->ran, 1);
    if (s->left-- > 0) {
        /* After the submit it may run on the other thread, so touch nothing then. */
        int rc = pool_submit(s->pool, resubmit_job, s);
        if (rc < 0) {
            s->last = rc;
            s->left = -1;
        }
    }
}

static void jobs_may_submit_until_the_pool_closes(void **state)
{
    (void)state;
    struct submitter s = {.left = 1000000};
    s.pool = pool_create(2, 4, NULL);
    assert_int_equal(pool_submit(s.pool, resubmit_job, &s), 0);
    pool_destroy(s.pool);
    assert_true(s.ran >= 1);
    assert_true(s.last == TIDINGS_E_CLOSED);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    bool reached = true;
    atomic_uint ran = 0;
    long n = 1;
    for (; reached; n++) {
        fail_alloc_start(n);
        struct pool *p = pool_create(1, 1, NULL);
        int rc = p ? pool_submit(p, count_job, &ran) : TIDINGS_E_NOMEM;
        reached =
            fail_alloc.has_failed; /* the job's thread may be freeing memory: stop counting here */
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        pool_destroy(p);
        (void)fail_alloc_stop();
        assert_int_equal(fail_alloc_live(), 0);
    }
    assert_int_equal(n, 5); /* pool, mailbox, job */
    assert_int_equal(ran, 1);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_runs_once),
        cmocka_unit_test(unused_pool_starts_no_thread),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(queue_length_is_limited),
        cmocka_unit_test(threads_run_jobs_in_parallel),
        cmocka_unit_test(jobs_may_submit_until_the_pool_closes),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
