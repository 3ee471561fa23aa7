/* SPDX-License-Identifier: MIT
 *
 * The table of tasks: their start and end, the limits they count against, and their removal. Ended
 * tasks are in a heap by the time of their removal, so that no work is spent on the others.
 */
#include "engine/protocol/tasks.h"

#include <pthread.h>
#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "formats/json.h"
#include "security/access.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * The parts of a task.
 */

/* A question of a handler. */
struct task_question {
    struct buf key;              /* as clients see it: "2.name" */
    size_t name_at;              /* … where the handler's own begins */
    struct buf question, answer; /* JSON; the last is empty while it is open */
};

/* The owner of tasks, for the limits; freed with the last of them. */
struct task_client {
    size_t count;
    struct tidings_str name;
    char text[];
};

struct task {
    unsigned refs; /* atomic */
    struct tasks *all;
    char uri[sizeof(OWNED_URI_PREFIX) + OWNED_ID_LEN]; /* ends in its id */
    int64_t created_ms;                                /* Unix time */
    uint64_t begun_ms;                                 /* monotonic */
    struct mailbox *home;                              /* a reference; NULL: no call works on it */
    const struct task_ops *ops;
    struct tidings_call *call; /* owned by the home; NULL: it is done */
    /* Under the lock: */
    struct task_client *client;     /* NULL: another node's, in no table */
    struct client_account *account; /* its shares hold it; NULL: of an earlier run */
    bool is_operator;               /* … and its owner counts one */
    enum task_status status, end_status;
    bool is_published; /* it can be found */
    bool is_ending;    /* it has ended, which is seen when it is kept */
    bool is_counted;   /* in by_status */
    /* Where the store is shared: */
    bool is_keeping;        /* its state is on the way there … */
    bool is_stale;          /* … and is another since */
    bool is_unkept;         /* it could not be kept: tasks_keep_again tries */
    size_t max, max_client; /* there may be so many, as it began */
    struct refusal refused;
    uint64_t ttl_ms, due_ms;
    int64_t updated_ms, ended_ms; /* Unix time */
    size_t heap_at;               /* from 1; 0: not in the heap */
    size_t held;                  /* bytes of the call's input, which count like those of results */
    struct buf message, end_message, payload;
    struct task_question questions[TASK_MAX_QUESTIONS];
    unsigned question_count, open_count;
};

struct tasks {
    pthread_mutex_t lock;
    struct limit_counters *counters;
    struct map by_id;   /* struct task: each is a reference */
    struct map clients; /* struct task_client, by name */
    struct task **heap; /* ended tasks, the next to be removed at 1 */
    size_t heap_count, heap_room, count;
    size_t by_status[TASK_CANCELLED + 1];
    uint64_t due_ms; /* atomic: of the first in the heap; UINT64_MAX: none */
    tasks_changed_fn changed;
    void *changed_user;
    struct task_store *store;
};

/* -------------------------------------------------------------------------------------------------
 * The heap of tasks that have ended, by the moment they are forgotten: 1 is the top, the children
 * of n are 2n and 2n + 1.
 */

static void task_heap_set(struct tasks *all, size_t at, struct task *t)
{
    all->heap[at] = t;
    t->heap_at = at;
}

static void task_heap_notify_due(struct tasks *all)
{
    uint64_t due = all->heap_count > 0 ? all->heap[1]->due_ms : UINT64_MAX;
    __atomic_store_n(&all->due_ms, due, __ATOMIC_RELEASE);
}

/* With the lock: adds a task, to be removed at its due_ms; the heap has room for it. */
static void task_heap_add(struct tasks *all, struct task *t)
{
    size_t at = ++all->heap_count;
    for (; at > 1 && all->heap[at / 2]->due_ms > t->due_ms; at /= 2) {
        task_heap_set(all, at, all->heap[at / 2]);
    }
    task_heap_set(all, at, t);
    task_heap_notify_due(all);
}

static struct task *task_heap_take(struct tasks *all)
{
    struct task *first = all->heap[1], *last = all->heap[all->heap_count--];
    size_t at = 1;
    for (size_t child = 2; child <= all->heap_count; child = 2 * at) {
        if (child < all->heap_count && all->heap[child + 1]->due_ms < all->heap[child]->due_ms) {
            child++;
        }
        if (all->heap[child]->due_ms >= last->due_ms) {
            break;
        }
        task_heap_set(all, at, all->heap[child]);
        at = child;
    }
    if (all->heap_count > 0) {
        task_heap_set(all, at, last);
    }
    first->heap_at = 0;
    task_heap_notify_due(all);
    return first;
}

static int task_heap_reserve(struct tasks *all)
{
    if (all->count + 2 <= all->heap_room) {
        return 0;
    }
    size_t room = all->heap_room > 0 ? all->heap_room * 2 : 64;
    struct task **heap = mem_realloc(all->heap, room * sizeof(struct task *));
    if (!heap) {
        return TIDINGS_E_NOMEM;
    }
    all->heap = heap;
    all->heap_room = room;
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * A task as JSON: the members that the extension names.
 */

static const char *const task_names[] = {
    [TASK_WORKING] = "working",     [TASK_INPUT_REQUIRED] = "input_required",
    [TASK_COMPLETED] = "completed", [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
};

const char *task_status_name(enum task_status status)
{
    return task_names[status];
}

int task_status_find(struct tidings_str name)
{
    for (int i = 0; i <= TASK_CANCELLED; i++) {
        if (str_eq(name, tidings_str(task_names[i]))) {
            return i;
        }
    }
    return -1;
}

/* With the lock: the open questions, as an object. */
static void task_put_questions(const struct task *t, struct jw *w)
{
    jw_begin_object(w);
    for (unsigned i = 0; i < t->question_count; i++) {
        const struct task_question *q = &t->questions[i];
        if (q->answer.len == 0) {
            jw_put_raw(w, buf_str(&q->key), buf_str(&q->question));
        }
    }
    jw_end_object(w);
}

static void task_write_time(struct jw *w, struct tidings_str key, int64_t wall_ms)
{
    char text[25];
    clock_format_iso(wall_ms, text);
    jw_put_string(w, key, tidings_str(text));
}

static void tasks_unlock(struct tasks *all);

static void tasks_lock(struct tasks *all);

void task_write(struct task *t, struct jw *w, bool is_detailed)
{
    tasks_lock(t->all);
    jw_put_string(w, STR("taskId"), task_id(t));
    jw_put_string(w, STR("status"), tidings_str(task_names[t->status]));
    if (t->message.len > 0) {
        jw_put_string(w, STR("statusMessage"), buf_str(&t->message));
    }
    task_write_time(w, STR("createdAt"), t->created_ms);
    task_write_time(w, STR("lastUpdatedAt"), t->updated_ms);
    jw_put_integer(w, STR("ttlMs"), (int64_t)t->ttl_ms);
    jw_put_integer(w, STR("pollIntervalMs"), TASK_POLL_MS);
    if (is_detailed && t->status == TASK_INPUT_REQUIRED) {
        jw_key(w, STR("inputRequests"));
        task_put_questions(t, w);
    } else if (is_detailed && t->status == TASK_COMPLETED) {
        jw_put_raw(w, STR("result"), buf_str(&t->payload));
    } else if (is_detailed && t->status == TASK_FAILED) {
        jw_put_raw(w, STR("error"),
                   t->payload.len > 0 ? buf_str(&t->payload)
                                      : STR("{\"code\":-32603,\"message\":\"out of memory\"}"));
    }
    tasks_unlock(t->all);
}

/* -------------------------------------------------------------------------------------------------
 * Writing tasks to a store: their start and their end, and in a shared store every state between.
 * At most one state of a task is on its way; changes in that time go with the next. If a shared
 * store could not keep a state, tasks_keep_again writes it later; until then the end of the task is
 * not seen, here or elsewhere.
 */

#define ROW_TEXT_MAX (TASKS_BYTES + (64u << 20))
#define AGAIN_MAX 64u /* tasks that are written again at a time */

static bool tasks_are_shared(const struct tasks *all)
{
    return all->store && all->store->is_shared;
}

/* A row as it is kept; with the lock, or when it has ended. */
static struct task_row task_row_of(const struct task *t)
{
    bool is_new = !t->is_published;
    return (struct task_row){
        .id = task_id(t),
        .client = t->client->name,
        .status = t->is_ending ? t->end_status : t->status,
        .created_ms = t->created_ms,
        .updated_ms = t->is_ending ? t->ended_ms : t->updated_ms,
        .ttl_ms = t->ttl_ms,
        .message = t->is_ending ? buf_str(&t->end_message)
                   : is_new     ? STR_EMPTY /* its handler may be setting it */
                                : buf_str(&t->message),
        .payload = buf_str(&t->payload),
        .max = is_new ? t->max : 0,
        .max_client = is_new ? t->max_client : 0,
    };
}

/* With the lock: the same as a copy, with the questions. `text` is to be freed. Returns false when
 * out of memory. */
static bool task_copy_row(const struct task *t, struct task_row *ret, struct buf *text)
{
    struct jw w;
    *ret = task_row_of(t);
    bool has_ended = t->status >= TASK_COMPLETED; /* then the messages have changed places */
    ret->status = has_ended ? t->status : ret->status;
    ret->message = has_ended ? buf_str(&t->message) : ret->message;
    buf_init(text, ROW_TEXT_MAX);
    buf_puts(text, ret->message);
    buf_puts(text, ret->payload);
    size_t asked_at = text->len;
    if (!t->is_ending && t->question_count > 0) {
        jw_init(&w, text);
        task_put_questions(t, &w);
    }
    ret->message = tidings_strn(text->ptr, ret->message.len);
    ret->payload = tidings_strn(text->ptr + ret->message.len, ret->payload.len);
    ret->questions = tidings_strn(text->ptr + asked_at, text->len - asked_at);
    return text->failed == 0;
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct task_keeping {
    struct task *t; /* a reference */
    void (*done)(void *user, int code);
    void *user;
};

static void task_notify(struct task *t);

static void task_set_status(struct task *t, enum task_status status);

static void task_found(struct task *t)
{
    tasks_lock(t->all);
    bool is_stale = t->is_stale;
    t->is_published = true;
    t->is_stale = false;
    if (!t->is_ending) {
        task_set_status(t, TASK_WORKING);
    }
    tasks_unlock(t->all);
    if (is_stale) {
        task_notify(t);
    }
}

static void task_created(void *user, int code)
{
    struct task_keeping *k = user;
    if (code >= 0) {
        task_found(k->t);
    }
    k->done(k->user, code);
    task_unref(k->t);
    mem_free(k);
}

static struct task *task_ref(struct task *t);

void task_publish(struct task *t, void (*done)(void *user, int code), void *user)
{
    struct task_store *store = t->all->store;
    struct task_keeping *k = store ? mem_zalloc(sizeof(*k)) : NULL;
    if (!store) {
        task_found(t);
        done(user, 0);
    } else if (!k) {
        done(user, TIDINGS_E_NOMEM);
    } else {
        *k = (struct task_keeping){.t = task_ref(t), .done = done, .user = user};
        struct task_row row = task_row_of(t);
        row.why = &t->refused;
        store->put(store, &row, task_created, k);
    }
}

const struct refusal *task_refusal(const struct task *t)
{
    return &t->refused;
}

/* ---- states between -------------------------------------------------------------------------- */

static void task_keep_state(struct task *t);

/* Takes the reference. */
static void task_on_state_stored(void *user, int code)
{
    struct task *t = user;
    tasks_lock(t->all);
    bool is_stale = t->is_stale;
    t->is_keeping = t->is_stale = false;
    t->is_unkept = t->is_unkept || (code < 0 && code != TIDINGS_E_CONFLICT &&
                                    code != TIDINGS_E_INVALID); /* would fail again */
    tasks_unlock(t->all);
    if (is_stale && code >= 0) {
        task_keep_state(t);
    }
    task_unref(t);
}

static void task_keep_state(struct task *t)
{
    struct task_row row;
    struct buf text;
    tasks_lock(t->all);
    bool is_due = t->is_published && !t->is_keeping && !t->is_ending;
    bool is_copied = is_due && task_copy_row(t, &row, &text);
    t->is_unkept = is_due && !is_copied ? true : t->is_unkept;
    t->is_stale = t->is_stale || t->is_keeping || !t->is_published;
    t->is_keeping = t->is_keeping || is_copied;
    tasks_unlock(t->all);
    if (is_copied) {
        t->all->store->put(t->all->store, &row, task_on_state_stored, task_ref(t));
    }
    if (is_due) {
        buf_deinit(&text);
    }
}

/* Without the lock: notifies the listener that it changed. */
static void task_notify(struct task *t)
{
    if (tasks_are_shared(t->all)) {
        task_keep_state(t);
    } else if (t->all->changed) {
        t->all->changed(t->all->changed_user, task_uri(t), false);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void task_show_end(struct task *t);

/* An end that a file could not keep is visible until the server stops. Takes the reference. */
static void task_on_end_stored(void *user, int code)
{
    struct task *t = user;
    (void)code;
    task_show_end(t);
    task_notify(t);
    task_unref(t);
}

/* The shared store decides: after TIDINGS_E_CONFLICT this node follows its state. */
static void task_end_shared(void *user, int code)
{
    struct task *t = user;
    if (code >= 0) {
        task_show_end(t);
    } else if (code != TIDINGS_E_CONFLICT) {
        tasks_lock(t->all);
        t->is_unkept = true;
        tasks_unlock(t->all);
    }
    task_unref(t);
}

/* Writes the outcome to the store, then shows it. */
static void task_keep_end(struct task *t)
{
    struct task_store *store = t->all->store;
    struct task_row row;
    struct buf text;
    task_ref(t);
    if (!store) {
        task_on_end_stored(t, 0);
        return;
    }
    if (!store->is_shared) {
        row = task_row_of(t);
        store->put(store, &row, task_on_end_stored, t);
        return;
    }
    tasks_lock(t->all);
    bool is_copied = task_copy_row(t, &row, &text);
    tasks_unlock(t->all);
    if (is_copied) {
        store->put(store, &row, task_end_shared, t);
    } else {
        task_end_shared(t, TIDINGS_E_NOMEM);
    }
    buf_deinit(&text);
}

/* ---- again ----------------------------------------------------------------------------------- */

void tasks_keep_again(struct tasks *all)
{
    struct task *found[AGAIN_MAX], *t;
    size_t count = 0;
    if (!tasks_are_shared(all)) {
        return;
    }
    tasks_lock(all);
    for (size_t pos = 0; count < AGAIN_MAX && (t = map_next(&all->by_id, &pos)) != NULL;) {
        if (t->is_unkept && t->is_published) {
            t->is_unkept = false;
            found[count++] = task_ref(t);
        }
    }
    tasks_unlock(all);
    for (size_t i = 0; i < count; i++) {
        tasks_lock(all);
        bool is_ending = found[i]->is_ending;
        tasks_unlock(all);
        if (is_ending) {
            task_keep_end(found[i]);
        } else {
            task_keep_state(found[i]);
        }
        task_unref(found[i]);
    }
}

void tasks_doubt(struct tasks *all)
{
    struct task *t;
    tasks_lock(all);
    for (size_t pos = 0; (t = map_next(&all->by_id, &pos)) != NULL;) {
        t->is_unkept = t->is_published;
    }
    tasks_unlock(all);
}

bool tasks_may_ask(const struct tasks *all, struct tidings_str id, const struct principal *p)
{
    return tasks_are_shared(all) && id.len == OWNED_ID_LEN && owned_id_is_of(id, p);
}

void tasks_ask(struct tasks *all, struct task_asking *asking)
{
    all->store->ask(all->store, asking);
}

/* ---------------------------------------------------------------------------------------------- */

static void tasks_lock(struct tasks *all)
{
    pthread_mutex_lock(&all->lock);
}

static void tasks_unlock(struct tasks *all)
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

/* With the lock: its input or its payload no longer counts. */
static void task_give_bytes(struct task *t, size_t bytes)
{
    if (bytes > 0) {
        share_give(t->all->counters, LIMIT_TASK_BYTES, bytes, t->account);
    }
}

/* ---- references ------------------------------------------------------------------------------ */

static struct task *task_ref(struct task *t)
{
    __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

static void task_clear_questions(struct task *t);

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

/* With the lock: its status becomes that, and the time of its last update now. */
static void task_set_status(struct task *t, enum task_status status)
{
    task_uncount(t);
    t->status = status;
    t->all->by_status[status]++;
    t->is_counted = true;
    t->updated_ms = clock_wall_ms();
}

/* One in no table, with a reference. */
static struct task *task_create(struct tasks *all, const char *id)
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

/* Takes the quota of one more task: its place, and room for its input. With the lock. */
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

static void task_show_end(struct task *t)
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
        task_uncount(t); /* it was removed in the meantime */
    }
    tasks_unlock(t->all);
}

/* With the lock. It takes the room of the call's input, which will be free soon. */
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

/* With the lock: sets the outcome, as far as there is room for it. */
static void task_set_end(struct task *t, enum task_status status, struct tidings_str message,
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

/* With the lock: it is ending, and will be removed at its time. */
static void task_begin_end(struct task *t)
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

/* A row that has expired already goes with the next sweep. */
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
        task_notify(t);
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
        bool is_notified = all->store && all->store->is_shared; /* by the store, with its row */
        if (t && all->changed && !is_notified) {
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

/* -------------------------------------------------------------------------------------------------
 * Questions of a task's handler to its client, the answers, and cancellation: messages from any
 * worker go to the one where the call is.
 */

#define QUESTION_MAX (2u << 20)
#define ROUND_TEXT 16u

/* ---- to the home ----------------------------------------------------------------------------- */

struct task_message {
    struct thread_message thread_message;
    struct task *t; /* a reference */
    bool is_cancel;
    struct buf answers;
};

static void task_message_free(struct thread_message *thread_message)
{
    struct task_message *l = list_entry(thread_message, struct task_message, thread_message);
    buf_deinit(&l->answers);
    task_unref(l->t);
    mem_free(l);
}

static void task_message_deliver(struct thread_message *thread_message, void *owner)
{
    (void)owner;
    struct task_message *l = list_entry(thread_message, struct task_message, thread_message);
    struct tidings_call *call = l->t->call;
    if (call && l->is_cancel) {
        l->t->ops->cancelled(call);
    } else if (call) {
        l->t->ops->answered(call, &l->answers);
    }
    task_message_free(thread_message);
}

static struct task_message *task_message_create(struct task *t, bool is_cancel, size_t max)
{
    struct task_message *l = mem_zalloc(sizeof(*l));
    if (l) {
        l->thread_message.deliver = task_message_deliver;
        l->thread_message.drop = task_message_free;
        l->t = task_ref(t);
        l->is_cancel = is_cancel;
        buf_init(&l->answers, max);
    }
    return l;
}

/* Notifies its call that the result is not needed. */
static void task_cancel_call(struct task *t)
{
    struct task_message *l = t->home ? task_message_create(t, true, 1) : NULL;
    if (l) {
        mailbox_send(t->home, &l->thread_message);
    }
}

void task_cancel(struct task *t)
{
    /* Without memory for the message, its handler runs on without effect. */
    struct task_message *l = t->home ? task_message_create(t, true, 1) : NULL;
    bool has_ended = task_end(t, TASK_CANCELLED, STR("cancelled by the client"), STR_EMPTY);
    if (l && has_ended) {
        mailbox_send(t->home, &l->thread_message);
    } else if (l) {
        task_message_free(&l->thread_message);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

static void task_clear_questions(struct task *t)
{
    for (unsigned i = 0; i < t->question_count; i++) {
        struct task_question *q = &t->questions[i];
        buf_deinit(&q->key);
        buf_deinit(&q->question);
        buf_deinit(&q->answer);
    }
    t->question_count = t->open_count = 0;
}

/* With the lock: one more question, under the key that clients see. */
static int task_add_question(struct task *t, struct tidings_str key, size_t name_at,
                             const struct json *value)
{
    struct task_question *q = &t->questions[t->question_count];
    struct jw w;
    buf_init(&q->key, key.len);
    buf_init(&q->question, QUESTION_MAX);
    buf_init(&q->answer, TASK_MAX_ANSWERS);
    buf_puts(&q->key, key);
    q->name_at = name_at;
    jw_init(&w, &q->question);
    jw_value(&w, value);
    t->question_count++;
    t->open_count++;
    return q->key.failed ? q->key.failed : q->question.failed;
}

static int task_add_named(struct task *t, unsigned round, struct tidings_str name,
                          const struct json *value)
{
    struct buf key;
    buf_init(&key, name.len + ROUND_TEXT);
    buf_putf(&key, "%u.", round);
    size_t name_at = key.len;
    buf_puts(&key, name);
    int rc = key.failed ? key.failed : task_add_question(t, buf_str(&key), name_at, value);
    buf_deinit(&key);
    return rc;
}

int task_ask(struct task *t, unsigned round, struct json *questions, struct tidings_error *err)
{
    struct tidings_str name;
    struct json *value = NULL;
    int rc = 0;
    tasks_lock(t->all);
    if (t->is_ending) {
        tasks_unlock(t->all);
        return tidings_fail(err, TIDINGS_E_CANCELLED, "the task has ended");
    }
    task_clear_questions(t);
    for (void *at = jv_next(questions, NULL, &name, &value); at && rc == 0;
         at = jv_next(questions, at, &name, &value)) {
        rc = t->question_count < TASK_MAX_QUESTIONS ? task_add_named(t, round, name, value)
                                                    : TIDINGS_E_LIMIT;
    }
    if (rc == 0) {
        task_set_status(t, TASK_INPUT_REQUIRED);
    }
    tasks_unlock(t->all);
    if (rc < 0) {
        return tidings_fail(err, rc, "the questions do not fit");
    }
    task_notify(t);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* With the lock. Writes the text of each expected answer; counts the bytes of all of them. */
static int task_take_answers(struct task *t, struct json *answers, size_t *ret_bytes)
{
    int rc = 0;
    *ret_bytes = 2;
    for (unsigned i = 0; i < t->question_count && rc == 0; i++) {
        struct task_question *q = &t->questions[i];
        const struct json *value =
            q->answer.len == 0 ? jv_get_str(answers, buf_str(&q->key)) : NULL;
        if (value) {
            struct jw w;
            jw_init(&w, &q->answer);
            jw_value(&w, value);
            rc = *ret_bytes + q->answer.len > TASK_MAX_ANSWERS ? TIDINGS_E_LIMIT : q->answer.failed;
            if (rc < 0) { /* as if it had not come */
                buf_deinit(&q->answer);
                buf_init(&q->answer, TASK_MAX_ANSWERS);
            } else {
                t->open_count--;
            }
        }
        *ret_bytes += q->answer.len + 8;
    }
    return rc;
}

/* With the lock: the object that the handler gets, under its own names. */
static void task_put_answers(const struct task *t, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    for (unsigned i = 0; i < t->question_count; i++) {
        const struct task_question *q = &t->questions[i];
        jw_put_raw(&w, str_skip(buf_str(&q->key), q->name_at), buf_str(&q->answer));
    }
    jw_end_object(&w);
}

int task_answer(struct task *t, struct json *answers, struct tidings_error *err)
{
    struct task_message *l = t->home ? task_message_create(t, false, 1) : NULL;
    size_t bytes = 0;
    bool is_new = false;
    if (!l) {
        return t->home ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
    }
    tasks_lock(t->all);
    bool is_waiting = !t->is_ending && t->status == TASK_INPUT_REQUIRED && t->open_count > 0;
    unsigned before = t->open_count;
    int rc = is_waiting ? task_take_answers(t, answers, &bytes) : 0;
    if (is_waiting && rc == 0 && t->open_count == 0) {
        buf_init(&l->answers, bytes + TASK_MAX_ANSWERS); /* names, quoted */
        task_put_answers(t, &l->answers);
        task_clear_questions(t);
        task_set_status(t, TASK_WORKING);
        mailbox_send(t->home, &l->thread_message);
        l = NULL;
    }
    is_new = is_waiting && before != t->open_count;
    tasks_unlock(t->all);
    if (l) {
        task_message_free(&l->thread_message);
    }
    if (is_new) {
        task_notify(t);
    }
    return rc < 0 ? tidings_fail(err, rc, "the answers do not fit") : 0;
}

/* -------------------------------------------------------------------------------------------------
 * Tasks in a shared store: answers queries for those of other nodes, and follows what other nodes
 * wrote about those of this one.
 */

bool tasks_runs(struct tasks *all, struct tidings_str id)
{
    tasks_lock(all);
    const struct task *t = map_find(&all->by_id, id);
    bool runs = t && t->is_published && t->status < TASK_COMPLETED;
    tasks_unlock(all);
    return runs;
}

/* An object of objects, or NULL. */
static struct json *row_parse(struct tidings_str text)
{
    struct json *value = NULL;
    struct tidings_str key;
    struct json *member = NULL;
    bool is_good = text.len > 0 && jv_parse(text, JSON_MAX_DEPTH, &value, NULL) == 0 &&
                   jv_is(value, JV_OBJECT);
    void *at = is_good ? jv_next(value, NULL, &key, &member) : NULL;
    for (; at && is_good; at = jv_next(value, at, &key, &member)) {
        is_good = jv_is(member, JV_OBJECT);
    }
    if (!is_good) {
        jv_unref(value);
    }
    return is_good ? value : NULL;
}

/* ---- those of other nodes -------------------------------------------------------------------- */

/* Reads the open questions. If all are answered, the task works: its node is about to continue. */
static int task_fill_questions(struct task *t, const struct task_row *row)
{
    struct json *asked = row_parse(row->questions), *answers = row_parse(row->answers);
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    void *at = asked ? jv_next(asked, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(asked, at, &key, &value)) {
        if (answers && jv_get_str(answers, key)) {
            continue;
        }
        rc = t->question_count < TASK_MAX_QUESTIONS ? task_add_question(t, key, 0, value)
                                                    : TIDINGS_E_INVALID;
    }
    t->status = t->question_count > 0 ? TASK_INPUT_REQUIRED : TASK_WORKING;
    jv_unref(asked);
    jv_unref(answers);
    return rc;
}

struct task *task_of_row(struct tasks *all, const struct task_row *row)
{
    char id[OWNED_ID_LEN + 1];
    if (row->id.len != OWNED_ID_LEN) {
        return NULL;
    }
    memcpy(id, row->id.ptr, OWNED_ID_LEN);
    id[OWNED_ID_LEN] = '\0';
    struct task *t = task_create(all, id);
    if (!t) {
        return NULL;
    }
    t->created_ms = row->created_ms;
    t->updated_ms = row->updated_ms;
    t->ttl_ms = row->ttl_ms;
    t->status = row->status;
    buf_puts(&t->message, row->message);
    buf_puts(&t->payload, row->payload);
    int rc = row->status == TASK_INPUT_REQUIRED ? task_fill_questions(t, row) : 0;
    if (rc < 0 || t->message.failed || t->payload.failed) {
        task_unref(t);
        return NULL;
    }
    return t;
}

/* ---- answers --------------------------------------------------------------------------------- */

int task_merge_answers(const struct task_row *row, struct json *given, struct buf *ret,
                       struct tidings_error *err)
{
    struct json *asked = row->status == TASK_INPUT_REQUIRED ? row_parse(row->questions) : NULL;
    struct json *before = row_parse(row->answers);
    struct tidings_str key;
    struct json *value = NULL;
    bool is_new = false;
    struct jw w;
    buf_init(ret, TASK_MAX_ANSWERS);
    jw_init(&w, ret);
    jw_begin_object(&w);
    void *at = asked ? jv_next(asked, NULL, &key, &value) : NULL;
    for (; at; at = jv_next(asked, at, &key, &value)) {
        const struct json *old = before ? jv_get_str(before, key) : NULL;
        const struct json *answer = old ? old : jv_get_str(given, key);
        is_new = is_new || (answer && !old);
        if (answer) {
            jw_key(&w, key);
            jw_value(&w, answer);
        }
    }
    jw_end_object(&w);
    jv_unref(asked);
    jv_unref(before);
    if (ret->failed) {
        return tidings_fail(err, ret->failed, "the answers do not fit");
    }
    return is_new ? 1 : 0;
}

/* ---- those of this node ---------------------------------------------------------------------- */

/* Another node has ended it. */
static void task_adopt(struct task *t, const struct task_row *row)
{
    tasks_lock(t->all);
    bool is_shown = t->status >= TASK_COMPLETED, was_ending = t->is_ending;
    if (!is_shown) {
        if (!was_ending) {
            task_begin_end(t);
        }
        task_give_bytes(t, t->payload.len);
        buf_clear(&t->payload);
        task_set_end(t, row->status, row->message, row->payload);
        t->ended_ms = row->updated_ms;
    }
    tasks_unlock(t->all);
    if (!is_shown) {
        task_show_end(t);
    }
    if (!is_shown && !was_ending) {
        task_cancel_call(t);
    }
}

bool tasks_follow(struct tasks *all, const struct task_row *row)
{
    bool is_taken = false;
    tasks_lock(all);
    struct task *t = map_find(&all->by_id, row->id);
    t = t && t->is_published ? task_ref(t) : NULL;
    tasks_unlock(all);
    if (t && row->status >= TASK_COMPLETED) {
        task_adopt(t, row);
    } else if (t && row->answers.len > 0) {
        struct json *answers = row_parse(row->answers);
        /* answers that are too large were refused by the other node */
        is_taken = !answers || task_answer(t, answers, NULL) == 0;
        jv_unref(answers);
    }
    task_unref(t);
    return is_taken;
}
