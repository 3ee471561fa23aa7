/* SPDX-License-Identifier: MIT
 *
 * Keeps legacy sessions in the store that nodes share, so that they can continue at another node.
 * The commit thread performs the requests of workers, and notifies a worker when another node has
 * taken one of its sessions.
 */
#include "cluster/sessions.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "cluster/cluster_internal.h"
#include "cluster/postgres_nodes.h"
#include "engine/protocol/session_migration.h"
#include "store/commit_thread.h"
#include "store/store.h"

#define AGE_MS 60000u /* between two expiries of unused rows */

struct cluster_sessions {
    struct session_store store;
    struct commit_thread *commit_thread;
    char node[32];              /* this run of the server, as other nodes see it */
    int64_t idle_ms;            /* age at which an unwritten row is removed */
    uint64_t aged_ms;           /* commit thread: time of the last expiry */
    unsigned count;             /* atomic: … */
    struct mailbox **mailboxes; /* … workers' mailboxes, referenced */
};

/* ---- asking the commit thread ---------------------------------------------------------------- */

struct sessions_job {
    struct store_job job;
    struct cluster_sessions *owner;
    struct session_job *asked;
};

static int sessions_put(const struct sessions_job *j, struct store *store, const char *state,
                        struct tidings_error *err)
{
    const struct session_row row = {
        .id = tidings_str(j->asked->key),
        .node = tidings_str(j->owner->node),
        .state = state ? tidings_str(state) : buf_str(&j->asked->state),
        .generation = j->asked->generation,
    };
    return postgres_put_session(store, &row, err);
}

static int sessions_take(struct session_job *asked, struct store *store, const char *node,
                         struct tidings_error *err)
{
    struct session_row row = {.generation = 0};
    int rc = postgres_take_session(store, tidings_str(asked->key), tidings_str(node), &row, err);
    if (rc != 1) {
        return rc;
    }
    asked->generation = row.generation;
    (void)buf_puts(&asked->state, row.state);
    rc = buf_check(&asked->state, "the session", NULL, err);
    return rc < 0 ? rc : 1;
}

/* Drops only a session that this node still owns (another owner has another generation), unless the
 * session ends everywhere. */
static int sessions_drop(const struct sessions_job *j, struct store *store,
                         struct tidings_error *err)
{
    struct tidings_str key = tidings_str(j->asked->key);
    struct session_row row;
    int rc = sessions_put(j, store, "{}", err);
    if (rc == TIDINGS_E_CONFLICT &&
        j->asked->op == SESSION_END) { /* so that its owner is notified */
        rc = postgres_take_session(store, key, tidings_str(j->owner->node), &row, err);
    }
    return rc < 0 ? rc : postgres_drop_session(store, key, err);
}

/* Removes sessions of dead nodes that no client resumed. */
static void sessions_age(struct cluster_sessions *o, struct store *store)
{
    uint64_t now = clock_monotonic_ms();
    if (o->aged_ms == 0 || now - o->aged_ms >= AGE_MS) {
        o->aged_ms = now;
        (void)postgres_age_sessions(store, o->idle_ms, NULL); /* otherwise in the next minute */
    }
}

static int sessions_run(struct store_job *job, struct entities *entities)
{
    struct sessions_job *j = list_entry(job, struct sessions_job, job);
    struct store *store = entities_store(entities);
    int rc = 0;
    switch (j->asked->op) {
    case SESSION_PUT:
        rc = sessions_put(j, store, NULL, &job->err);
        break;
    case SESSION_TAKE:
        rc = sessions_take(j->asked, store, j->owner->node, &job->err);
        break;
    case SESSION_DROP:
    case SESSION_END:
        rc = sessions_drop(j, store, &job->err);
        break;
    }
    if (rc >= 0) {
        sessions_age(j->owner, store);
    }
    return rc;
}

static void sessions_done(struct store_job *job, int code)
{
    struct sessions_job *j = list_entry(job, struct sessions_job, job);
    j->asked->code = code;
    j->asked->err = job->err;
    session_job_answer(j->asked);
    mem_free(j);
}

static void sessions_submit(struct session_store *store, struct session_job *asked)
{
    struct cluster_sessions *o = list_entry(store, struct cluster_sessions, store);
    struct sessions_job *j = mem_zalloc(sizeof(*j));
    if (!j) {
        asked->code = tidings_fail(&asked->err, TIDINGS_E_NOMEM, "out of memory");
        session_job_answer(asked);
        return;
    }
    j->owner = o;
    j->asked = asked;
    j->job.run = sessions_run;
    j->job.done = sessions_done;
    commit_thread_submit(o->commit_thread, &j->job);
}

/* ---- taken by another node ------------------------------------------------------------------- */

struct migrated_message {
    struct thread_message message;
    size_t len;
    char key[];
};

static void migrated_deliver(struct thread_message *message, void *owner)
{
    struct migrated_message *l = list_entry(message, struct migrated_message, message);
    if (l->len > 0) {
        session_migrated(owner, tidings_strn(l->key, l->len));
    } else {
        sessions_write_again(owner);
    }
    mem_free(l);
}

static void migrated_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct migrated_message, message));
}

/* `key` empty: all sessions must be written again. If memory runs out, the worker finds out with
 * its next write of a session. */
static void migrated_send(struct mailbox *to, struct tidings_str key)
{
    struct migrated_message *l = mem_zalloc(sizeof(*l) + key.len);
    if (l) {
        l->message.deliver = migrated_deliver;
        l->message.drop = migrated_drop;
        l->len = key.len;
        memcpy(l->key, key.ptr, key.len);
        mailbox_send(to, &l->message);
    }
}

static unsigned sessions_count_workers(const struct cluster_sessions *o)
{
    return o ? __atomic_load_n(&o->count, __ATOMIC_ACQUIRE) : 0;
}

void cluster_sessions_migrated(struct cluster *c, struct tidings_str key)
{
    struct cluster_sessions *o = __atomic_load_n(&c->sessions, __ATOMIC_ACQUIRE);
    unsigned count = sessions_count_workers(o);
    int worker = count > 0 && key.len == SESSION_KEY_LEN
                     ? session_worker(tidings_strn(key.ptr, SESSION_ID_LEN), count)
                     : -1;
    if (worker >= 0) {
        migrated_send(o->mailboxes[worker], key);
    }
}

void cluster_sessions_on_data_loss(struct cluster *c)
{
    struct cluster_sessions *o = __atomic_load_n(&c->sessions, __ATOMIC_ACQUIRE);
    for (unsigned i = 0, count = sessions_count_workers(o); i < count; i++) {
        migrated_send(o->mailboxes[i], STR_EMPTY);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int cluster_sessions_open(struct cluster *c, struct tidings_error *err)
{
    if (!c->with.has_nodes) {
        return 0;
    }
    struct cluster_sessions *o = mem_zalloc(sizeof(*o));
    if (!o) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    o->store = (struct session_store){.max_bytes = SHARED_SESSION_MAX, .submit = sessions_submit};
    o->commit_thread = c->commit_thread;
    /* Owners write their sessions four times in that time. */
    o->idle_ms = (int64_t)c->with.session_timeout_ms + AGE_MS;
    (void)snprintf(o->node, sizeof(o->node), "run-%016llx", (unsigned long long)hub_epoch(c->hub));
    __atomic_store_n(&c->sessions, o, __ATOMIC_RELEASE); /* the commit thread follows already */
    return 0;
}

struct session_store *cluster_sessions_store(const struct cluster *c)
{
    return c && c->sessions ? &c->sessions->store : NULL;
}

void cluster_sessions_bind(struct cluster *c, struct worker *const *workers, size_t count)
{
    struct cluster_sessions *o = c->sessions;
    struct mailbox **mailboxes = o ? mem_zalloc(count * sizeof(struct mailbox *)) : NULL;
    if (!mailboxes) {
        return; /* if memory runs out, workers find out with their next write */
    }
    for (size_t i = 0; i < count; i++) {
        mailboxes[i] = mailbox_ref(workers[i]->mailbox);
    }
    o->mailboxes = mailboxes;
    __atomic_store_n(&o->count, (unsigned)count, __ATOMIC_RELEASE);
}

void cluster_sessions_close(struct cluster *c)
{
    struct cluster_sessions *o = c->sessions;
    if (!o) {
        return;
    }
    for (unsigned i = 0; i < o->count; i++) {
        mailbox_unref(o->mailboxes[i]);
    }
    mem_free(o->mailboxes);
    mem_free(o);
    c->sessions = NULL;
}
