/* SPDX-License-Identifier: MIT
 *
 * Tasks as resources: tidings://tasks/ID, read and subscribed to by their owner, also where another
 * node works on them. How they are kept is in server_tasks_store.c.
 */
#include "server/server_private.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "handler/handlers.h"

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

/* ---- those of other nodes -------------------------------------------------------------------- */

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

/* false: there is nobody to ask. */
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
    bool is_needed = (tools && tools->has_tasks) || s->tasks.store.is_shared ||
                     limit_in_use(hub_limit_counters(s->hub), LIMIT_TASKS) > 0;
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
    loop_timer_close(s->tasks.timer);
    s->tasks.timer = NULL;
    tasks_on_change(hub_tasks(s->hub), NULL, NULL);
    tasks_set_store(hub_tasks(s->hub), NULL);
    s->tasks.provider = NULL;
}
