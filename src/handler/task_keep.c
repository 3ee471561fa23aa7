/* SPDX-License-Identifier: MIT
 *
 * Keeping tasks in a store: when they begin and when they end, and in a store that nodes share
 * every state between. Of one task at most one state is on the way there; what changes meanwhile
 * goes with the next. What a shared store could not keep is written again by tasks_keep_again;
 * until then its end is not seen, here as elsewhere.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "handler/task_private.h"

#define ROW_TEXT_MAX (TASKS_BYTES + (64u << 20))
#define AGAIN_MAX 64u /* tasks that are written again at a time */

static bool tasks_are_shared(const struct tasks *all)
{
    return all->store && all->store->is_shared;
}

struct task_row task_row_of(const struct task *t)
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

/* With the lock: the same as a copy, with what is asked. `text` is to be freed. false: out of
 * memory. */
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
        task_tell(t);
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
static void task_state_kept(void *user, int code)
{
    struct task *t = user;
    tasks_lock(t->all);
    bool is_stale = t->is_stale;
    t->is_keeping = t->is_stale = false;
    t->is_unkept = t->is_unkept || (code < 0 && code != TIDINGS_E_CONFLICT &&
                                    code != TIDINGS_E_INVALID); /* which it will be again */
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
        t->all->store->put(t->all->store, &row, task_state_kept, task_ref(t));
    }
    if (is_due) {
        buf_deinit(&text);
    }
}

void task_tell(struct task *t)
{
    if (tasks_are_shared(t->all)) {
        task_keep_state(t);
    } else if (t->all->changed) {
        t->all->changed(t->all->changed_user, task_uri(t), false);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What a file could not keep is there until the server stops. Takes the reference. */
static void task_end_kept(void *user, int code)
{
    struct task *t = user;
    (void)code;
    task_show_end(t);
    task_tell(t);
    task_unref(t);
}

/* What a shared store has counts: with TIDINGS_E_CONFLICT that is followed. */
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

void task_keep_end(struct task *t)
{
    struct task_store *store = t->all->store;
    struct task_row row;
    struct buf text;
    task_ref(t);
    if (!store) {
        task_end_kept(t, 0);
        return;
    }
    if (!store->is_shared) {
        row = task_row_of(t);
        store->put(store, &row, task_end_kept, t);
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
