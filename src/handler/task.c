/* SPDX-License-Identifier: MIT
 *
 * The table of tasks: their beginning and end, what they count against, and when they are
 * forgotten: those that have ended hang in a heap by the moment they go (task_heap.c), so that
 * nobody looks at the others. What they ask is in task_ask.c, how they are written in task_write.c.
 */
#include "handler/task.h"

#include <stdio.h>

#include "access/access.h"
#include "access/share.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "handler/task_private.h"

void tasks_lock(struct tasks *all)
{
    pthread_mutex_lock(&all->lock);
}

void tasks_unlock(struct tasks *all)
{
    pthread_mutex_unlock(&all->lock);
}

/* ---- whose limits they count against --------------------------------------------------------- */

static struct task_client *client_enter(struct tasks *all, struct tidings_str name)
{
    struct task_client *c = map_find(&all->clients, name);
    if (!c) {
        c = mem_zalloc(sizeof(*c) + name.len + 1);
        if (!c) {
            return NULL;
        }
        memcpy(c->text, name.ptr, name.len);
        c->name = tidings_strn(c->text, name.len);
        if (map_put(&all->clients, c->name, c, NULL) < 0) {
            mem_free(c);
            return NULL;
        }
    }
    c->count++;
    return c;
}

static void client_leave(struct tasks *all, struct task_client *c)
{
    if (--c->count == 0) {
        (void)map_remove(&all->clients, c->name);
        mem_free(c);
    }
}

void task_give_bytes(struct task *t, size_t bytes)
{
    if (bytes > 0) {
        share_give(t->all->counters, LIMIT_TASK_BYTES, bytes, t->account);
    }
}

/* ---- references ------------------------------------------------------------------------------ */

struct task *task_ref(struct task *t)
{
    __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

static void task_free(struct task *t)
{
    struct tasks *all = t->all;
    tasks_lock(all);
    task_clear_questions(t);
    if (t->client) {
        task_give_bytes(t, t->payload.len);
        task_give_bytes(t, t->held);
        client_leave(all, t->client);
        all->count--;
        share_give(all->counters, LIMIT_TASKS, 1, t->account);
    }
    tasks_unlock(all);
    mailbox_unref(t->home);
    buf_deinit(&t->message);
    buf_deinit(&t->end_message);
    buf_deinit(&t->payload);
    mem_free(t);
}

void task_unref(struct task *t)
{
    if (t && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        task_free(t);
    }
}

struct tidings_str task_uri(const struct task *t)
{
    return tidings_str(t->uri);
}

struct tidings_str task_id(const struct task *t)
{
    return str_skip(task_uri(t), sizeof(OWNED_URI_PREFIX) - 1);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void task_uncount(struct task *t)
{
    t->all->by_status[t->status] -= t->is_counted;
    t->is_counted = false;
}

void task_set_status(struct task *t, enum task_status status)
{
    task_uncount(t);
    t->status = status;
    t->all->by_status[status]++;
    t->is_counted = true;
    t->updated_ms = clock_wall_ms();
}

struct task *task_create(struct tasks *all, const char *id)
{
    struct task *t = mem_zalloc(sizeof(*t));
    if (t) {
        t->all = all;
        t->refs = 1;
        (void)snprintf(t->uri, sizeof(t->uri), "%s%s", OWNED_URI_PREFIX, id);
        buf_init(&t->message, TASK_MAX_MESSAGE);
        buf_init(&t->end_message, TASK_MAX_MESSAGE);
        buf_init(&t->payload, TASKS_BYTES);
        t->created_ms = t->updated_ms = clock_wall_ms();
        t->begun_ms = clock_monotonic_ms();
    }
    return t;
}

/* Two references: the table's, and the caller's. With the lock. */
static int task_make(struct tasks *all, const char *id, struct tidings_str client,
                     struct task **ret)
{
    struct task *t = task_create(all, id);
    if (!t) {
        return TIDINGS_E_NOMEM;
    }
    t->refs = 2;
    t->client = client_enter(all, client);
    if (!t->client || map_put(&all->by_id, task_id(t), t, NULL) < 0) {
        if (t->client) {
            client_leave(all, t->client);
        }
        mem_free(t);
        return TIDINGS_E_NOMEM;
    }
    all->count++;
    *ret = t;
    return 0;
}

/* Takes what one more needs: its place, and room for what its call was given. With the lock. */
static bool tasks_take_room(struct tasks *all, const struct task_spec *spec,
                            const struct share_taker *who, struct refusal *why)
{
    const struct task_client *c = map_find(&all->clients, spec->client);
    if (c && spec->client.len > 0 && spec->max_client > 0 && c->count >= spec->max_client) {
        limit_hit(all->counters, LIMIT_CLIENT_TASKS);
        *why = limit_refusal(LIMIT_CLIENT_TASKS, spec->max_client, true);
        return false;
    }
    if (!share_take(all->counters, LIMIT_TASKS, spec->max, 1, who, why)) {
        return false;
    }
    if (spec->bytes > 0 &&
        !share_take(all->counters, LIMIT_TASK_BYTES, TASKS_BYTES, spec->bytes, who, why)) {
        share_give(all->counters, LIMIT_TASKS, 1, who->account);
        return false;
    }
    return true;
}

int tasks_open(struct tasks *all, const struct task_spec *spec, const struct task_ops *ops,
               struct task **ret, struct refusal *why)
{
    char id[OWNED_ID_LEN + 1];
    const struct share_taker who = {spec->account, NULL, access_is_operator(spec->principal)};
    int rc = owned_id_create(spec->principal, id);
    if (rc < 0) {
        return rc;
    }
    tasks_sweep(all);
    tasks_lock(all);
    if (!tasks_take_room(all, spec, &who, why)) {
        tasks_unlock(all);
        return TIDINGS_E_LIMIT;
    }
    rc = task_heap_reserve(all);
    rc = rc < 0 ? rc : task_make(all, id, spec->client, ret);
    if (rc == 0) {
        struct task *t = *ret;
        t->account = spec->account;
        t->is_operator = who.is_operator;
        t->ttl_ms = spec->ttl_ms;
        t->max = spec->max;
        t->max_client = spec->max_client;
        t->held = spec->bytes;
        t->home = mailbox_ref(spec->home);
        t->ops = ops;
        t->call = spec->call;
    } else {
        share_give(all->counters, LIMIT_TASKS, 1, spec->account);
        if (spec->bytes > 0) {
            share_give(all->counters, LIMIT_TASK_BYTES, spec->bytes, spec->account);
        }
    }
    tasks_unlock(all);
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

void task_show_end(struct task *t)
{
    tasks_lock(t->all);
    if (t->status >= TASK_COMPLETED) { /* another node was first */
        tasks_unlock(t->all);
        return;
    }
    struct buf before = t->message;
    t->message = t->end_message;
    t->end_message = before;
    task_clear_questions(t);
    task_set_status(t, t->end_status);
    t->updated_ms = t->ended_ms;
    if (t->heap_at == 0) {
        task_uncount(t); /* it was forgotten meanwhile */
    }
    tasks_unlock(t->all);
}

/* With the lock. It takes the room of what the call was given, which will be free soon. */
static bool task_set_payload(struct task *t, struct tidings_str payload)
{
    struct limit_counters *counters = t->all->counters;
    const struct share_taker who = {t->account, NULL, t->is_operator};
    struct refusal why;
    task_give_bytes(t, t->held);
    bool fits = share_take(counters, LIMIT_TASK_BYTES, TASKS_BYTES, payload.len, &who, &why);
    if (t->held > 0) {
        share_add(counters, LIMIT_TASK_BYTES, t->held, t->account);
    }
    if (fits && buf_puts(&t->payload, payload) < 0) {
        task_give_bytes(t, payload.len);
        fits = false;
    }
    return fits;
}

void task_set_end(struct task *t, enum task_status status, struct tidings_str message,
                  struct tidings_str payload)
{
    static const char full[] = "{\"code\":-32603,\"message\":\"there is no room for the result of "
                               "the task (task-bytes); fetch or cancel others\"}";
    if (payload.len > 0 && !task_set_payload(t, payload)) {
        status = TASK_FAILED;
        message = STR("there is no room for its result");
        buf_deinit(&t->payload);
        buf_init(&t->payload, sizeof(full));
        buf_puts(&t->payload, tidings_str(full));
        share_add(t->all->counters, LIMIT_TASK_BYTES, t->payload.len, t->account);
    }
    size_t len = message.len < TASK_MAX_MESSAGE ? message.len : 0;
    buf_clear(&t->end_message);
    buf_put(&t->end_message, message.ptr, len);
    t->end_status = status;
}

void task_begin_end(struct task *t)
{
    uint64_t age = clock_monotonic_ms() - t->begun_ms;
    t->is_ending = true;
    t->ended_ms = clock_wall_ms();
    t->ttl_ms = age + TASK_KEPT_MS > t->ttl_ms ? age + TASK_KEPT_MS : t->ttl_ms;
    t->due_ms = t->begun_ms + t->ttl_ms;
    task_heap_add(t->all, t);
}

bool task_end(struct task *t, enum task_status status, struct tidings_str message,
              struct tidings_str payload)
{
    struct tasks *all = t->all;
    tasks_lock(all);
    if (t->is_ending) {
        tasks_unlock(all);
        return false;
    }
    task_begin_end(t);
    task_set_end(t, status, message, payload);
    tasks_unlock(all);
    task_keep_end(t);
    return true;
}

void task_discard(struct task *t)
{
    struct tasks *all = t->all;
    tasks_lock(all);
    bool was_there = !t->is_ending && map_remove(&all->by_id, task_id(t)) != NULL;
    if (was_there) {
        t->is_ending = true;
        task_uncount(t);
    }
    tasks_unlock(all);
    if (was_there) {
        task_unref(t);
    }
}

/* A row that is over from the beginning goes with the next sweep. */
void task_retract(struct task *t)
{
    struct task_store *store = t->all->store;
    task_discard(t);
    if (store) {
        struct task_row row = task_row_of(t);
        row.ttl_ms = 0;
        store->put(store, &row, NULL, NULL);
        store->sweep(store, clock_wall_ms());
    }
}

void task_detach(struct task *t)
{
    t->call = NULL;
    tasks_lock(t->all);
    task_give_bytes(t, t->held);
    t->held = 0;
    tasks_unlock(t->all);
    task_unref(t);
}

void task_set_message(struct task *t, struct tidings_str message)
{
    size_t len = message.len < TASK_MAX_MESSAGE ? message.len : TASK_MAX_MESSAGE - 1;
    while (len > 0 && len < message.len && ((unsigned char)message.ptr[len] & 0xc0) == 0x80) {
        len--;
    }
    tasks_lock(t->all);
    bool is_new = !t->is_ending && !str_eq(buf_str(&t->message), tidings_strn(message.ptr, len));
    if (is_new) {
        buf_clear(&t->message);
        buf_put(&t->message, message.ptr, len);
        t->updated_ms = clock_wall_ms();
    }
    tasks_unlock(t->all);
    if (is_new) {
        task_tell(t);
    }
}

uint64_t task_deadline_ms(struct task *t)
{
    return t->begun_ms + task_ttl_ms(t);
}

uint64_t task_ttl_ms(struct task *t)
{
    tasks_lock(t->all);
    uint64_t ttl = t->ttl_ms;
    tasks_unlock(t->all);
    return ttl;
}

int64_t task_updated_ms(struct task *t)
{
    tasks_lock(t->all);
    int64_t updated = t->updated_ms;
    tasks_unlock(t->all);
    return updated;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct tasks *tasks_create(struct limit_counters *counters)
{
    struct tasks *all = mem_zalloc(sizeof(*all));
    if (all) {
        pthread_mutex_init(&all->lock, NULL);
        map_init(&all->by_id);
        map_init(&all->clients);
        all->counters = counters;
        all->due_ms = UINT64_MAX;
    }
    return all;
}

void tasks_destroy(struct tasks *all)
{
    if (!all) {
        return;
    }
    struct task *t;
    for (size_t pos = 0; (t = map_next(&all->by_id, &pos)) != NULL;) {
        task_unref(t);
    }
    map_deinit(&all->by_id);
    map_deinit(&all->clients);
    mem_free(all->heap);
    pthread_mutex_destroy(&all->lock);
    mem_free(all);
}

void tasks_on_change(struct tasks *all, tasks_changed_fn changed, void *user)
{
    all->changed = changed;
    all->changed_user = user;
}

void tasks_set_store(struct tasks *all, struct task_store *store)
{
    all->store = store;
}

bool tasks_restore(struct tasks *all, const struct task_row *row)
{
    static const char stopped[] = "{\"code\":-32603,\"message\":\"the server was stopped while the "
                                  "task ran; call the tool again\"}";
    char id[OWNED_ID_LEN + 1];
    int64_t now = clock_wall_ms();
    uint64_t age = now > row->created_ms ? (uint64_t)now - (uint64_t)row->created_ms : 0;
    bool has_ended = row->status >= TASK_COMPLETED;
    struct task *t = NULL;
    if (row->ttl_ms <= age || row->id.len != OWNED_ID_LEN || map_find(&all->by_id, row->id)) {
        return false;
    }
    memcpy(id, row->id.ptr, OWNED_ID_LEN);
    id[OWNED_ID_LEN] = '\0';
    share_add(all->counters, LIMIT_TASKS, 1, NULL);
    tasks_lock(all);
    int rc = task_heap_reserve(all);
    rc = rc < 0 ? rc : task_make(all, id, row->client, &t);
    if (rc == 0) {
        t->created_ms = row->created_ms;
        t->ttl_ms = row->ttl_ms;
        t->is_ending = t->is_published = true;
        task_set_end(t, has_ended ? row->status : TASK_FAILED,
                     has_ended ? row->message : STR("the server was stopped while it ran"),
                     has_ended ? row->payload : tidings_str(stopped));
        buf_puts(&t->message, buf_str(&t->end_message));
        task_set_status(t, t->end_status);
        t->updated_ms = has_ended ? row->updated_ms : t->updated_ms;
        t->due_ms = clock_monotonic_ms() + (row->ttl_ms - age);
        task_heap_add(all, t);
    }
    tasks_unlock(all);
    if (rc < 0) {
        share_give(all->counters, LIMIT_TASKS, 1, NULL);
    }
    task_unref(t);
    return rc == 0;
}

uint64_t tasks_due_ms(const struct tasks *all)
{
    return __atomic_load_n(&all->due_ms, __ATOMIC_ACQUIRE);
}

void tasks_sweep(struct tasks *all)
{
    uint64_t now = clock_monotonic_ms();
    bool has_swept = false;
    while (tasks_due_ms(all) <= now) {
        struct task *t = NULL;
        tasks_lock(all);
        if (all->heap_count > 0 && all->heap[1]->due_ms <= now) {
            t = task_heap_take(all);
            (void)map_remove(&all->by_id, task_id(t));
            task_uncount(t);
        }
        tasks_unlock(all);
        bool is_told = all->store && all->store->is_shared; /* by the store, when its row goes */
        if (t && all->changed && !is_told) {
            all->changed(all->changed_user, task_uri(t), true);
        }
        task_unref(t);
        has_swept = true;
    }
    if (has_swept && all->store) {
        all->store->sweep(all->store, clock_wall_ms());
    }
}

struct task *tasks_find(struct tasks *all, struct tidings_str id, const struct principal *p)
{
    if (!owned_id_is_of(id, p)) {
        return NULL;
    }
    tasks_lock(all);
    struct task *t = map_find(&all->by_id, id);
    bool is_there = t && t->is_published && (t->heap_at == 0 || t->due_ms > clock_monotonic_ms());
    t = is_there ? task_ref(t) : NULL;
    tasks_unlock(all);
    return t;
}

void tasks_count(struct tasks *all, size_t ret[TASK_CANCELLED + 1])
{
    tasks_lock(all);
    memcpy(ret, all->by_status, sizeof(all->by_status));
    tasks_unlock(all);
}
