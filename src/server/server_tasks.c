/* SPDX-License-Identifier: MIT
 *
 * Tasks as resources (tidings://tasks/ID, read and subscribed to by their owner) and in the store:
 * written when they begin and when they end, taken over when the server starts. In a store that
 * nodes share they are not kept: a task is known to the node where it was begun.
 */
#include "server/server_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "handler/handlers.h"
#include "store/keeper.h"
#include "store/kept.h"

#define TASK_TEXT_MAX (TASKS_BYTES + (1u << 20))
#define KEPT_TTL_MAX_MS (INT64_C(31) * 24 * 3600 * 1000) /* the longest there is, ended late */

/* ---- the store ------------------------------------------------------------------------------- */

struct server_task_job {
    struct keeper_job job;
    bool is_sweep;
    int64_t now_ms;
    struct kept_task row; /* slices into `text` */
    void (*done)(void *user, int code);
    void *user;
    char text[];
};

static int server_tasks_run(struct keeper_job *job, struct entities *entities)
{
    struct server_task_job *j = list_entry(job, struct server_task_job, job);
    struct entity_rows *rows = entities_rows(entities);
    return j->is_sweep ? rows->kept->sweep_tasks(rows, j->now_ms, &job->err)
                       : rows->kept->put_task(rows, &j->row, &job->err);
}

static void server_tasks_done(struct keeper_job *job, int code)
{
    struct server_task_job *j = list_entry(job, struct server_task_job, job);
    if (j->done) {
        j->done(j->user, code);
    }
    mem_free(j);
}

static struct server_task_job *server_tasks_job(size_t bytes)
{
    struct server_task_job *j = mem_zalloc(sizeof(*j) + bytes + 1);
    if (j) {
        j->job.is_write = true;
        j->job.run = server_tasks_run;
        j->job.done = server_tasks_done;
    }
    return j;
}

static struct tidings_str server_tasks_copy(char **at, struct tidings_str text)
{
    char *begin = *at;
    if (text.len > 0) {
        memcpy(begin, text.ptr, text.len);
    }
    *at += text.len;
    return tidings_strn(begin, text.len);
}

static void server_tasks_put(struct task_store *store, const struct task_row *row,
                             void (*done)(void *user, int code), void *user)
{
    struct server_tasks *o = list_entry(store, struct server_tasks, store);
    struct server_task_job *j =
        server_tasks_job(row->id.len + row->client.len + row->message.len + row->payload.len);
    if (!j && done) {
        done(user, TIDINGS_E_NOMEM);
    }
    if (!j) {
        return;
    }
    char *at = j->text;
    j->row = (struct kept_task){
        .id = server_tasks_copy(&at, row->id),
        .client = server_tasks_copy(&at, row->client),
        .status = tidings_str(task_status_name(row->status)),
        .message = server_tasks_copy(&at, row->message),
        .payload = server_tasks_copy(&at, row->payload),
        .created_ms = row->created_ms,
        .updated_ms = row->updated_ms,
        .ttl_ms = (int64_t)row->ttl_ms,
    };
    j->done = done;
    j->user = user;
    keeper_submit(o->keeper, &j->job);
}

static void server_tasks_sweep(struct task_store *store, int64_t now_ms)
{
    struct server_tasks *o = list_entry(store, struct server_tasks, store);
    struct server_task_job *j = server_tasks_job(0);
    if (j) { /* else with the next */
        j->is_sweep = true;
        j->now_ms = now_ms;
        keeper_submit(o->keeper, &j->job);
    }
}

/* ---- taking over ----------------------------------------------------------------------------- */

struct server_tasks_loading {
    struct keeper_job job;
    struct tasks *tasks;
    bool is_kept;
};

/* A row of another program is passed over like one that is too old. */
static void server_tasks_restore(void *user, const struct kept_task *k)
{
    struct server_tasks_loading *l = user;
    int status = task_status_find(k->status);
    struct json *payload = NULL;
    bool is_good =
        status >= 0 && k->ttl_ms > 0 && k->ttl_ms <= KEPT_TTL_MAX_MS &&
        k->payload.len <= TASKS_BYTES &&
        (k->payload.len == 0 ||
         (jv_parse(k->payload, JSON_MAX_DEPTH, &payload, NULL) == 0 && jv_is(payload, JV_OBJECT)));
    jv_unref(payload);
    if (is_good && (status != TASK_COMPLETED || k->payload.len > 0)) {
        const struct task_row row = {
            .id = k->id,
            .client = k->client,
            .status = (enum task_status)status,
            .created_ms = k->created_ms,
            .updated_ms = k->updated_ms,
            .ttl_ms = (uint64_t)k->ttl_ms,
            .message = k->message,
            .payload = k->payload,
        };
        (void)tasks_restore(l->tasks, &row);
    }
}

static int server_tasks_load(struct keeper_job *job, struct entities *entities)
{
    struct server_tasks_loading *l = list_entry(job, struct server_tasks_loading, job);
    struct entity_rows *rows = entities_rows(entities);
    l->is_kept = rows->kept && rows->kept->each_task;
    return l->is_kept ? rows->kept->each_task(rows, server_tasks_restore, l, &job->err) : 0;
}

static int server_tasks_open(struct tidings_server *s, struct tidings_error *err)
{
    struct server_tasks_loading l = {.tasks = hub_tasks(s->hub)};
    l.job.run = server_tasks_load;
    int rc = s->keeper && s->has_file ? keeper_run(s->keeper, &l.job) : 0;
    if (rc < 0) {
        return tidings_fail(err, rc, "store: tasks: %s", l.job.err.text);
    }
    if (l.is_kept) {
        s->tasks.store = (struct task_store){.put = server_tasks_put, .sweep = server_tasks_sweep};
        s->tasks.keeper = s->keeper;
        tasks_set_store(hub_tasks(s->hub), &s->tasks.store);
        server_tasks_sweep(&s->tasks.store, clock_wall_ms());
    }
    return 0;
}

/* ---- the resources --------------------------------------------------------------------------- */

struct tasks_provider {
    struct tasks *tasks;
};

/* Access has been asked: the id says whose it is. */
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

static void tasks_provider_read(struct tidings_provider *p, struct tidings_read *read,
                                struct tidings_str uri)
{
    struct task *t = tasks_provider_find(p, uri);
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

static void tasks_provider_stat(struct tidings_provider *p, struct tidings_stat *stat,
                                struct tidings_str uri)
{
    struct task *t = tasks_provider_find(p, uri);
    struct tidings_resource about;
    if (!t) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    tasks_provider_describe(t, &about);
    tidings_stat_done(stat, 0, &about, NULL);
    task_unref(t);
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

/* ---- life ------------------------------------------------------------------------------------ */

static void server_tasks_changed(void *user, struct tidings_str uri, bool is_gone)
{
    struct tidings_change change = {0};
    change.uri = uri;
    change.kind = is_gone ? TIDINGS_CHANGE_DELETED : TIDINGS_CHANGE_UPDATED;
    (void)tidings_provider_changed(user, &change, NULL); /* who cannot be told looks again */
}

int server_tasks_mount(struct tidings_server *s, struct tidings_error *err)
{
    struct tasks *tasks = hub_tasks(s->hub);
    struct feature_list *tools = hub_features(s->hub, FEATURE_TOOL);
    int rc = server_tasks_open(s, err);
    bool is_needed =
        (tools && tools->has_tasks) || limit_in_use(hub_limit_counters(s->hub), LIMIT_TASKS) > 0;
    feature_list_unref(tools);
    if (rc == 0 && is_needed) {
        rc = hub_mount(s->hub, &tasks_provider_ops, STR(OWNED_URI_PREFIX), STR_EMPTY,
                       &s->tasks.provider, err);
    }
    if (rc == 0 && is_needed) {
        struct tasks_provider *o = tidings_provider_state(s->tasks.provider);
        o->tasks = tasks;
        tasks_on_change(tasks, server_tasks_changed, s->tasks.provider);
    }
    return rc;
}

void server_tasks_close(struct tidings_server *s)
{
    tasks_on_change(hub_tasks(s->hub), NULL, NULL);
    tasks_set_store(hub_tasks(s->hub), NULL);
    s->tasks.provider = NULL;
}
