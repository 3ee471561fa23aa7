/* SPDX-License-Identifier: MIT
 *
 * Tasks as resources: tidings://tasks/ID, which their owner can read and subscribe to, even if
 * another node runs them.
 */
#include "server/tasks.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/hub.h"
#include "engine/protocol/feature.h"
#include "store/commit_thread.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Tasks in the store. In a file: written when they start and when they end, and taken over when the
 * server starts. In a database that nodes share: every state is written, and announced to all nodes
 * in the same batch. The node that runs a task follows what other nodes write about it
 * (server_tasks_followed). Every SHARED_LOOK_MS a node looks for tasks whose node is dead, or that
 * have expired.
 */

#define KEPT_TTL_MAX_MS (INT64_C(31) * 24 * 3600 * 1000) /* longest TTL, plus delay */
#define SHARED_LOOK_MS 2000u
#define SHARED_GRACE_MS 10000u /* grace period for nodes after a store outage */

static const char tasks_lost_message[] = "the node that ran it is gone";
static const char tasks_lost_error[] =
    "{\"code\":-32603,\"message\":\"the node that ran the task is gone; call the tool again\"}";

/* ---- rows ------------------------------------------------------------------------------------ */

/* A row that another program wrote is skipped, like one that has expired. */
static bool server_tasks_read_row(const struct stored_task *k, struct task_row *ret)
{
    int status = task_status_find(k->status);
    struct json *payload = NULL;
    bool is_good =
        status >= 0 && k->ttl_ms > 0 && k->ttl_ms <= KEPT_TTL_MAX_MS &&
        k->payload.len <= TASKS_BYTES && k->message.len < TASK_MAX_MESSAGE &&
        str_is_utf8(k->message) && str_find(k->payload, '\n') < 0 &&
        str_find(k->payload, '\r') < 0 && /* line transports need single-line text */
        (k->payload.len == 0 ||
         (jv_parse(k->payload, JSON_MAX_DEPTH, &payload, NULL) == 0 && jv_is(payload, JV_OBJECT)));
    jv_unref(payload);
    *ret = (struct task_row){
        .id = k->id,
        .client = k->client,
        .status = is_good ? (enum task_status)status : TASK_FAILED,
        .created_ms = k->created_ms,
        .updated_ms = k->updated_ms,
        .ttl_ms = (uint64_t)k->ttl_ms,
        .message = k->message,
        .payload = k->payload,
        .questions = k->questions,
        .answers = k->answers,
    };
    return is_good && (status != TASK_COMPLETED || k->payload.len > 0);
}

static struct tidings_change server_tasks_change(struct tidings_str uri, bool is_gone)
{
    return (struct tidings_change){
        .uri = uri, .kind = is_gone ? TIDINGS_CHANGE_DELETED : TIDINGS_CHANGE_UPDATED};
}

/* In a batch: all nodes receive the announcement, this one after the commit. */
static int server_tasks_announce(struct store *store, struct tidings_str id, bool is_gone,
                                 uint64_t *ret_position, struct tidings_error *err)
{
    char uri[sizeof(OWNED_URI_PREFIX) + SHARED_TASK_ID_MAX] = OWNED_URI_PREFIX;
    size_t len = id.len < SHARED_TASK_ID_MAX ? id.len : SHARED_TASK_ID_MAX;
    memcpy(uri + sizeof(OWNED_URI_PREFIX) - 1, id.ptr, len);
    const struct tidings_change change =
        server_tasks_change(tidings_strn(uri, sizeof(OWNED_URI_PREFIX) - 1 + len), is_gone);
    return store->ops->announce(store, LOG_ENTRY_ANNOUNCED, &change, ret_position, err);
}

/* A refusal leaves its batch unchanged; any other failure loses the batch. */
static int server_tasks_classify(struct store_job *job, int rc)
{
    job->is_fatal = rc < 0 && rc != TIDINGS_E_CONFLICT && rc != TIDINGS_E_LIMIT &&
                    rc != TIDINGS_E_INVALID && rc != TIDINGS_E_NOTFOUND;
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct server_task_job {
    struct store_job job;
    struct server_tasks *owner;
    bool is_sweep;
    int64_t now_ms;
    struct stored_task row; /* slices into `text` */
    struct stored_task_limits room;
    struct refusal *why; /* it is new */
    uint64_t position;   /* position of its announcement; 0: none */
    void (*done)(void *user, int code);
    void *user;
    char text[];
};

/* TIDINGS_E_CONFLICT if the task has already ended; server_tasks_done follows that end after the
 * commit. A row that tidings did not write does not count. */
static int server_tasks_check_end(struct server_task_job *j, struct store *store)
{
    struct stored_task kept;
    struct task_row row;
    int rc = store->ops->find_task(store, j->row.id, &kept, &j->job.err);
    bool is_good = rc == 1 && server_tasks_read_row(&kept, &row) && row.status >= TASK_COMPLETED;
    return rc < 0 ? rc : is_good ? TIDINGS_E_CONFLICT : 0;
}

/* Follows what other nodes wrote about a task that runs here: its end, or answers, which are
 * consumed once. */
static int server_tasks_follow(struct tasks *tasks, struct store *store, struct tidings_str id,
                               struct tidings_error *err)
{
    struct stored_task kept;
    struct task_row row;
    int rc = store->ops->find_task(store, id, &kept, err);
    bool is_whole = rc == 1 && server_tasks_read_row(&kept, &row);
    if (is_whole && tasks_follow(tasks, &row)) {
        rc = store->ops->put_task_answers(store, id, STR_EMPTY, err);
    }
    return rc < 0 ? rc : 0;
}

/* A task with questions may have answers that this node did not receive: because of a store outage,
 * or because it could not look. The node then writes the state again (tasks_doubt). */
static int server_tasks_put_state(struct server_task_job *j, struct store *store)
{
    bool asks = j->row.questions.len > 0;
    int rc = server_tasks_announce(store, j->row.id, false, &j->position, &j->job.err);
    return rc == 0 && asks ? server_tasks_follow(j->owner->tasks, store, j->row.id, &j->job.err)
                           : rc;
}

static int server_tasks_run(struct store_job *job, struct entities *entities)
{
    struct server_task_job *j = list_entry(job, struct server_task_job, job);
    struct store *store = entities_store(entities);
    if (j->is_sweep) {
        return server_tasks_classify(job, store->ops->sweep_tasks(store, j->now_ms, &job->err));
    }
    j->position = 0;
    int rc = store->ops->put_task(store, &j->row, &job->err);
    if (rc == TIDINGS_E_CONFLICT && j->owner->store.is_shared) {
        rc = server_tasks_check_end(j, store);
    } else if (rc == 0 && j->owner->store.is_shared && !j->why) {
        rc = server_tasks_put_state(j, store);
    }
    return server_tasks_classify(job, rc);
}

static void server_tasks_notify(struct server_tasks *o, struct tidings_str id, bool is_gone,
                                uint64_t position)
{
    char uri[sizeof(OWNED_URI_PREFIX) + SHARED_TASK_ID_MAX] = OWNED_URI_PREFIX;
    memcpy(uri + sizeof(OWNED_URI_PREFIX) - 1, id.ptr, id.len);
    const struct tidings_change change =
        server_tasks_change(tidings_strn(uri, sizeof(OWNED_URI_PREFIX) - 1 + id.len), is_gone);
    (void)hub_announce_durable(o->hub, &change, position, NULL);
}

static void server_tasks_follow_id(struct server_tasks *o, struct tidings_str id);

static void server_tasks_refuse(struct server_task_job *j)
{
    bool is_many = j->room.full == STORED_TASKS_MANY;
    enum limit limit = !is_many            ? LIMIT_TASK_BYTES
                       : j->room.is_client ? LIMIT_CLIENT_TASKS
                                           : LIMIT_TASKS;
    uint64_t value = !is_many ? TASKS_BYTES : j->room.is_client ? j->room.max_client : j->room.max;
    *j->why = limit_refusal(limit, value, j->room.is_client);
}

static void server_tasks_done(struct store_job *job, int code)
{
    struct server_task_job *j = list_entry(job, struct server_task_job, job);
    if (code == TIDINGS_E_LIMIT && j->why) {
        server_tasks_refuse(j);
    }
    if (code == TIDINGS_E_CONFLICT && j->owner->store.is_shared) {
        server_tasks_follow_id(j->owner, j->row.id);
    }
    if (j->done) {
        j->done(j->user, code);
    }
    if (code >= 0 && j->position > 0) {
        server_tasks_notify(j->owner, j->row.id, false, j->position);
    }
    mem_free(j);
}

static struct server_task_job *server_tasks_job(struct server_tasks *o, size_t bytes)
{
    struct server_task_job *j = mem_zalloc(sizeof(*j) + bytes + 1);
    if (j) {
        j->owner = o;
        j->job.is_write = true;
        j->job.run = server_tasks_run;
        j->job.done = server_tasks_done;
    }
    return j;
}

static void server_tasks_put(struct task_store *store, const struct task_row *row,
                             void (*done)(void *user, int code), void *user)
{
    struct server_tasks *o = list_entry(store, struct server_tasks, store);
    struct server_task_job *j =
        server_tasks_job(o, row->id.len + row->client.len + row->message.len + row->payload.len +
                                row->questions.len);
    if (!j && done) {
        done(user, TIDINGS_E_NOMEM);
    }
    if (!j) {
        return;
    }
    char *at = j->text;
    j->row = (struct stored_task){
        .id = str_pack(&at, row->id),
        .client = str_pack(&at, row->client),
        .status = tidings_str(task_status_name(row->status)),
        .message = str_pack(&at, row->message),
        .payload = str_pack(&at, row->payload),
        .questions = str_pack(&at, row->questions),
        .created_ms = row->created_ms,
        .updated_ms = row->updated_ms,
        .ttl_ms = (int64_t)row->ttl_ms,
    };
    if (row->why && store->is_shared) {
        j->room = (struct stored_task_limits){
            .max = row->max, .max_client = row->max_client, .max_bytes = TASKS_BYTES};
        j->row.room = &j->room;
        j->why = row->why;
    }
    j->done = done;
    j->user = user;
    commit_thread_submit(o->commit_thread, &j->job);
}

static void server_tasks_sweep(struct task_store *store, int64_t now_ms)
{
    struct server_tasks *o = list_entry(store, struct server_tasks, store);
    struct server_task_job *j = store->is_shared ? NULL : server_tasks_job(o, 0);
    if (j) { /* otherwise with the next call; shared tasks by the timer */
        j->is_sweep = true;
        j->now_ms = now_ms;
        commit_thread_submit(o->commit_thread, &j->job);
    }
}

/* ---- tasks of other nodes -------------------------------------------------------------------- */

struct server_task_asking {
    struct store_job job;
    struct server_tasks *owner;
    struct task_asking *asking;
    uint64_t position; /* position of its announcement; 0: none */
};

static int server_tasks_cancel_row(struct store *store, const struct stored_task *found,
                                   struct tidings_error *err)
{
    static const char message[] = "cancelled by the client";
    struct stored_task row = *found;
    char id[SHARED_TASK_ID_MAX], client[SHARED_TASK_CLIENT_MAX];
    memcpy(id, found->id.ptr,
           found->id.len); /* the store bounds both; they are freed with the next call */
    memcpy(client, found->client.ptr, found->client.len);
    row.id = tidings_strn(id, found->id.len);
    row.client = tidings_strn(client, found->client.len);
    row.status = tidings_str(task_status_name(TASK_CANCELLED));
    row.message = tidings_str(message);
    row.payload = row.questions = row.answers = STR_EMPTY;
    row.updated_ms = clock_wall_ms();
    return store->ops->put_task(store, &row, err);
}

static int server_tasks_answer_row(struct store *store, struct task_asking *asking,
                                   const struct task_row *row, struct tidings_error *err)
{
    struct buf answers;
    int rc = task_merge_answers(row, asking->answers, &answers, err);
    int is_new = rc;
    rc = rc == 1 ? store->ops->put_task_answers(store, asking->id, buf_str(&answers), err) : rc;
    buf_deinit(&answers);
    return rc < 0 ? rc : is_new;
}

static int server_tasks_run_asking(struct store_job *job, struct entities *entities)
{
    struct server_task_asking *j = list_entry(job, struct server_task_asking, job);
    struct store *store = entities_store(entities);
    struct task_asking *a = j->asking;
    struct stored_task kept;
    struct task_row row;
    j->position = 0;
    int rc = store->ops->find_task(store, a->id, &kept, &job->err);
    if (rc == 0 || (rc == 1 && !server_tasks_read_row(&kept, &row))) {
        rc = tidings_fail(&job->err, TIDINGS_E_NOTFOUND, "there is no task of that id");
    }
    if (rc < 0) {
        return server_tasks_classify(job, rc);
    }
    int is_new = 0;
    if (a->verb == TASK_GET) {
        a->found = task_of_row(j->owner->tasks, &row);
        rc = a->found ? 0 : tidings_fail(&job->err, TIDINGS_E_NOTFOUND, "the task is not whole");
    } else if (row.status >= TASK_COMPLETED) {
        rc = 0; /* and stays so */
    } else if (a->verb == TASK_CANCEL) {
        rc = server_tasks_cancel_row(store, &kept, &job->err);
        is_new = rc == 0;
    } else {
        is_new = server_tasks_answer_row(store, a, &row, &job->err);
        rc = is_new < 0 ? is_new : 0;
    }
    if (rc == 0 && is_new > 0) {
        rc = server_tasks_announce(store, a->id, false, &j->position, &job->err);
    }
    return server_tasks_classify(job, rc);
}

static void server_tasks_asked(struct store_job *job, int code)
{
    struct server_task_asking *j = list_entry(job, struct server_task_asking, job);
    if (code >= 0 && j->position > 0) {
        server_tasks_notify(j->owner, j->asking->id, false, j->position);
    }
    j->asking->err = job->err;
    j->asking->done(j->asking, code);
    mem_free(j);
}

static void server_tasks_ask(struct task_store *store, struct task_asking *asking)
{
    struct server_task_asking *j = mem_zalloc(sizeof(*j));
    if (!j) {
        asking->done(asking, tidings_fail(&asking->err, TIDINGS_E_NOMEM, "out of memory"));
        return;
    }
    j->owner = list_entry(store, struct server_tasks, store);
    j->asking = asking;
    j->job.is_write = asking->verb != TASK_GET;
    j->job.run = server_tasks_run_asking;
    j->job.done = server_tasks_asked;
    commit_thread_submit(j->owner->commit_thread, &j->job);
}

/* ---- writes of other nodes ------------------------------------------------------------------- */

struct server_task_following {
    struct store_job job;
    struct hub *hub;
    struct tasks *tasks;
    char id[OWNED_ID_LEN];
};

static int server_tasks_run_following(struct store_job *job, struct entities *entities)
{
    struct server_task_following *f = list_entry(job, struct server_task_following, job);
    struct store *store = entities_store(entities);
    struct tidings_str id = tidings_strn(f->id, OWNED_ID_LEN);
    return server_tasks_classify(job, server_tasks_follow(f->tasks, store, id, &job->err));
}

/* Local subscribers were notified when the other node wrote the task, and may have read too early.
 * If following failed, it is repeated when the store is available again: tasks_doubt. */
static void server_tasks_on_followed(struct store_job *job, int code)
{
    struct server_task_following *f = list_entry(job, struct server_task_following, job);
    char uri[sizeof(OWNED_URI_PREFIX) + OWNED_ID_LEN] = OWNED_URI_PREFIX;
    if (code >= 0) {
        memcpy(uri + sizeof(OWNED_URI_PREFIX) - 1, f->id, OWNED_ID_LEN);
        const struct tidings_change change = server_tasks_change(tidings_str(uri), false);
        (void)hub_announce(f->hub, &change, NULL);
    } else if (code != TIDINGS_E_CLOSED) {
        tasks_doubt(f->tasks);
    }
    mem_free(f);
}

static void server_tasks_follow_id(struct server_tasks *o, struct tidings_str id)
{
    struct tasks *tasks = o->tasks;
    if (id.len != OWNED_ID_LEN || !tasks_runs(tasks, id)) {
        return;
    }
    struct server_task_following *f = mem_zalloc(sizeof(*f));
    if (!f) {
        tasks_doubt(tasks);
        return;
    }
    f->hub = o->hub;
    f->tasks = o->tasks;
    memcpy(f->id, id.ptr, OWNED_ID_LEN);
    f->job.is_write = true;
    f->job.run = server_tasks_run_following;
    f->job.done = server_tasks_on_followed;
    commit_thread_submit(o->commit_thread, &f->job);
}

void server_tasks_followed(struct server_tasks *o, struct tidings_str uri)
{
    server_tasks_follow_id(o, str_skip(uri, sizeof(OWNED_URI_PREFIX) - 1));
}

void server_tasks_on_data_loss(struct server_tasks *o)
{
    tasks_doubt(o->tasks);
}

/* ---- expired tasks --------------------------------------------------------------------------- */

void server_tasks_reach(struct server_tasks *o, bool is_unreachable)
{
    o->checks_at = is_unreachable ? UINT64_MAX : clock_monotonic_ms() + SHARED_GRACE_MS;
}

/* During a store outage no node can renew its sign of life, so none counts as dead until all had
 * time to do so. On the commit thread. */
static bool server_tasks_checks_stale(const struct server_tasks *o)
{
    return clock_monotonic_ms() >= o->checks_at;
}

struct server_task_look {
    struct store_job job;
    struct server_tasks *owner;
    unsigned count;
    struct {
        char id[SHARED_TASK_ID_MAX];
        size_t len;
        bool is_gone;
        uint64_t position;
    } over[SHARED_TASKS_AT_ONCE];
};

static void server_tasks_note_over(void *user, struct tidings_str id, bool is_gone)
{
    struct server_task_look *l = user;
    if (l->count < SHARED_TASKS_AT_ONCE && id.len <= SHARED_TASK_ID_MAX) {
        memcpy(l->over[l->count].id, id.ptr, id.len);
        l->over[l->count].len = id.len;
        l->over[l->count++].is_gone = is_gone;
    }
}

static int server_tasks_run_ending(struct store_job *job, struct entities *entities)
{
    struct server_task_look *l = list_entry(job, struct server_task_look, job);
    struct store *store = entities_store(entities);
    const struct stored_task end = {
        .status = tidings_str(task_status_name(TASK_FAILED)),
        .message = tidings_str(tasks_lost_message),
        .payload = tidings_str(tasks_lost_error),
    };
    l->count = 0;
    if (!server_tasks_checks_stale(l->owner)) {
        return 0;
    }
    int rc = store->ops->end_stale_tasks(store, &end, server_tasks_note_over, l, &job->err);
    for (unsigned i = 0; rc == 0 && i < l->count; i++) {
        rc = server_tasks_announce(store, tidings_strn(l->over[i].id, l->over[i].len),
                                   l->over[i].is_gone, &l->over[i].position, &job->err);
    }
    return server_tasks_classify(job, rc);
}

static void server_tasks_end_look(struct server_task_look *l)
{
    __atomic_store_n(&l->owner->is_looking, false, __ATOMIC_RELEASE);
    mem_free(l);
}

static void server_tasks_on_ended(struct store_job *job, int code)
{
    struct server_task_look *l = list_entry(job, struct server_task_look, job);
    for (unsigned i = 0; code >= 0 && i < l->count; i++) {
        struct tidings_str id = tidings_strn(l->over[i].id, l->over[i].len);
        server_tasks_notify(l->owner, id, l->over[i].is_gone, l->over[i].position);
    }
    server_tasks_end_look(l);
}

static int server_tasks_run_look(struct store_job *job, struct entities *entities)
{
    const struct server_task_look *l = list_entry(job, struct server_task_look, job);
    struct store *store = entities_store(entities);
    return server_tasks_checks_stale(l->owner) ? store->ops->has_stale_tasks(store, &job->err) : 0;
}

static void server_tasks_on_looked(struct store_job *job, int code)
{
    struct server_task_look *l = list_entry(job, struct server_task_look, job);
    if (code != 1) {
        server_tasks_end_look(l);
        return;
    }
    l->job = (struct store_job){
        .is_write = true, .run = server_tasks_run_ending, .done = server_tasks_on_ended};
    list_init(&l->job.message.link);
    commit_thread_submit(l->owner->commit_thread, &l->job);
}

static void server_tasks_on_timer(struct loop_timer *timer, void *user)
{
    struct server_tasks *o = user;
    (void)timer;
    tasks_keep_again(o->tasks);
    if (__atomic_exchange_n(&o->is_looking, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    struct server_task_look *l = mem_zalloc(sizeof(*l));
    if (!l) {
        __atomic_store_n(&o->is_looking, false, __ATOMIC_RELEASE);
        return;
    }
    l->owner = o;
    l->job.run = server_tasks_run_look;
    l->job.done = server_tasks_on_looked;
    commit_thread_submit(o->commit_thread, &l->job);
}

/* ---- loading at startup ---------------------------------------------------------------------- */

struct server_tasks_loading {
    struct store_job job;
    struct tasks *tasks;
    bool is_durable, is_shared;
};

static void server_tasks_restore(void *user, const struct stored_task *k)
{
    struct server_tasks_loading *l = user;
    struct task_row row;
    if (server_tasks_read_row(k, &row)) {
        (void)tasks_restore(l->tasks, &row);
    }
}

/* Tasks in a database stay there: a request for a task looks it up. */
static int server_tasks_load(struct store_job *job, struct entities *entities)
{
    struct server_tasks_loading *l = list_entry(job, struct server_tasks_loading, job);
    struct store *store = entities_store(entities);
    l->is_shared = store_is_shared(store) && store->ops->find_task;
    l->is_durable = store->ops->each_task && (l->is_shared || !store_is_shared(store));
    return l->is_durable && !l->is_shared
               ? store->ops->each_task(store, server_tasks_restore, l, &job->err)
               : 0;
}

static int server_tasks_begin_looking(struct server_tasks *o, struct tidings_error *err)
{
    o->timer = loop_timer_open(o->loop, server_tasks_on_timer, o);
    if (!o->timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    loop_timer_start(o->timer, SHARED_LOOK_MS, SHARED_LOOK_MS);
    return 0;
}

static int server_tasks_open(struct server_tasks *o, struct commit_thread *commit_thread,
                             struct tidings_error *err)
{
    struct server_tasks_loading l = {.tasks = o->tasks};
    l.job.run = server_tasks_load;
    int rc = commit_thread ? commit_thread_run(commit_thread, &l.job) : 0;
    if (rc < 0) {
        return tidings_fail(err, rc, "store: tasks: %s", l.job.err.text);
    }
    if (l.is_durable) {
        o->store = (struct task_store){
            .is_shared = l.is_shared,
            .put = server_tasks_put,
            .sweep = server_tasks_sweep,
            .ask = server_tasks_ask,
        };
        o->commit_thread = commit_thread;
        tasks_set_store(o->tasks, &o->store);
        server_tasks_sweep(&o->store, clock_wall_ms());
    }
    return l.is_shared ? server_tasks_begin_looking(o, err) : 0;
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- the resources --------------------------------------------------------------------------- */

struct tasks_provider {
    struct tasks *tasks;
};

/* Access is already checked: the id identifies the owner. */
static struct task *tasks_provider_find(struct tidings_provider *p, struct tidings_str uri)
{
    struct tasks_provider *o = tidings_provider_state(p);
    bool is_owned = owned_uri_is(uri) && o->tasks;
    return is_owned ? tasks_find(o->tasks, str_skip(uri, sizeof(OWNED_URI_PREFIX) - 1), NULL)
                    : NULL;
}

static int tasks_provider_open(struct tidings_provider *p, struct tidings_str config,
                               struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void tasks_provider_close(struct tidings_provider *p)
{
    (void)p;
}

static void tasks_provider_describe(struct task *t, struct tidings_resource *ret)
{
    *ret = (struct tidings_resource){0};
    ret->uri = task_uri(t);
    ret->name = task_id(t);
    ret->mime_type = STR("application/json");
    ret->modified_ms = task_updated_ms(t);
}

/* Takes the reference; NULL: there is none. */
static void tasks_provider_give(struct tidings_read *read, struct task *t)
{
    struct tidings_resource about;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    if (!t) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
        return;
    }
    buf_init(&text, TASK_TEXT_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    task_write(t, &w, true);
    jw_end_object(&w);
    tasks_provider_describe(t, &about);
    int rc = buf_check(&text, "the task", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    buf_deinit(&text);
    task_unref(t);
    tidings_read_done(read, rc, &err);
}

static void tasks_provider_give_stat(struct tidings_stat *stat, struct task *t)
{
    struct tidings_resource about;
    if (!t) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    tasks_provider_describe(t, &about);
    tidings_stat_done(stat, 0, &about, NULL);
    task_unref(t);
}

/* ---- tasks of other nodes -------------------------------------------------------------------- */

struct tasks_provider_asking {
    struct task_asking asking;
    struct tidings_read *read; /* or … */
    struct tidings_stat *stat;
    char id[OWNED_ID_LEN];
};

static void tasks_provider_asked(struct task_asking *asking, int code)
{
    struct tasks_provider_asking *a = list_entry(asking, struct tasks_provider_asking, asking);
    bool is_failure = code < 0 && code != TIDINGS_E_NOTFOUND;
    if (a->read && is_failure) {
        tidings_read_done(a->read, code, &asking->err);
    } else if (a->read) {
        tasks_provider_give(a->read, asking->found);
    } else if (is_failure) {
        tidings_stat_done(a->stat, code, NULL, &asking->err);
    } else {
        tasks_provider_give_stat(a->stat, asking->found);
    }
    mem_free(a);
}

/* Returns false if no store can be queried. */
static bool tasks_provider_ask(struct tidings_provider *p, struct tidings_str uri,
                               struct tidings_read *read, struct tidings_stat *stat)
{
    const struct tasks_provider *o = tidings_provider_state(p);
    struct tidings_str id = str_skip(uri, sizeof(OWNED_URI_PREFIX) - 1);
    bool is_possible = owned_uri_is(uri) && o->tasks && tasks_may_ask(o->tasks, id, NULL);
    struct tasks_provider_asking *a = is_possible ? mem_zalloc(sizeof(*a)) : NULL;
    if (!a) {
        return false;
    }
    memcpy(a->id, id.ptr, OWNED_ID_LEN);
    a->asking = (struct task_asking){
        .verb = TASK_GET, .id = tidings_strn(a->id, OWNED_ID_LEN), .done = tasks_provider_asked};
    a->read = read;
    a->stat = stat;
    tasks_ask(o->tasks, &a->asking);
    return true;
}

static void tasks_provider_read(struct tidings_provider *p, struct tidings_read *read,
                                struct tidings_str uri)
{
    struct task *t = tasks_provider_find(p, uri);
    if (t || !tasks_provider_ask(p, uri, read, NULL)) {
        tasks_provider_give(read, t);
    }
}

static void tasks_provider_stat(struct tidings_provider *p, struct tidings_stat *stat,
                                struct tidings_str uri)
{
    struct task *t = tasks_provider_find(p, uri);
    if (t || !tasks_provider_ask(p, uri, NULL, stat)) {
        tasks_provider_give_stat(stat, t);
    }
}

static const struct tidings_provider_ops tasks_provider_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "tasks",
    .size = sizeof(struct tasks_provider),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = tasks_provider_open,
    .read = tasks_provider_read,
    .stat = tasks_provider_stat,
    .close = tasks_provider_close,
};

/* ---- life cycle ------------------------------------------------------------------------------ */

static void server_tasks_changed(void *user, struct tidings_str uri, bool is_gone)
{
    struct tidings_change change = {0};
    change.uri = uri;
    change.kind = is_gone ? TIDINGS_CHANGE_DELETED : TIDINGS_CHANGE_UPDATED;
    (void)tidings_provider_changed(user, &change, NULL); /* on failure, clients must poll */
}

int server_tasks_mount(struct server_tasks *o, struct commit_thread *commit_thread,
                       struct tidings_error *err)
{
    struct tasks *tasks = o->tasks;
    struct feature_list *tools = hub_features(o->hub, FEATURE_TOOL);
    int rc = server_tasks_open(o, commit_thread, err);
    bool is_needed = (tools && tools->has_tasks) || o->store.is_shared ||
                     limit_in_use(o->limits, LIMIT_TASKS) > 0;
    feature_list_unref(tools);
    if (rc == 0 && is_needed) {
        rc = hub_mount(o->hub, &tasks_provider_ops, STR(OWNED_URI_PREFIX), STR_EMPTY, &o->provider,
                       err);
    }
    if (rc == 0 && is_needed) {
        struct tasks_provider *p = tidings_provider_state(o->provider);
        p->tasks = tasks;
        tasks_on_change(tasks, server_tasks_changed, o->provider);
    }
    return rc;
}

void server_tasks_close(struct server_tasks *o)
{
    loop_timer_close(o->timer);
    o->timer = NULL;
    tasks_on_change(o->tasks, NULL, NULL);
    tasks_set_store(o->tasks, NULL);
    o->provider = NULL;
}
