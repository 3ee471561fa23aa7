/* SPDX-License-Identifier: MIT
 *
 * Tasks in PostgreSQL: a row for each, written by the node that works on it, and by any other that
 * cancels it, answers what it asks, or finds that its node is gone.
 *
 * `run` is the epoch of its node (tidings_runs): a task that works without a run that lives is
 * lost. `until`, when it is forgotten, is by the database's clock; the times that clients see are
 * those of its node. Another node whose clock goes otherwise does not bring that nearer; only a
 * task that is taken back (without time to live) goes at once.
 */
#include <string.h>

#include "base/clock.h"
#include "store/postgres_rows_private.h"

_Static_assert(SHARED_TASK_ID_MAX == 128 && SHARED_TASK_CLIENT_MAX == 4096 &&
                   SHARED_TASK_MESSAGE_MAX == 4096 && SHARED_TASK_PAYLOAD_MAX == 67108864 &&
                   SHARED_TASK_ASKED_MAX == 41943040,
               "as TASK_IS_SHORT of the statements has them");

#define TASK_KEPT_LOST_MS 60000 /* that one whose node is gone can be asked for, at least */

static int tasks_check(struct tidings_str text, size_t max, const char *what,
                       struct tidings_error *err)
{
    return text.len <= max ? 0
                           : tidings_fail(err, TIDINGS_E_INVALID,
                                          "%s of a task has at most %zu "
                                          "bytes",
                                          what, max);
}

static int tasks_check_id(struct tidings_str id, struct tidings_error *err)
{
    return str_is_utf8(id) && str_find(id, '\0') < 0
               ? tasks_check(id, SHARED_TASK_ID_MAX, "the id", err)
               : tidings_fail(err, TIDINGS_E_INVALID, "the id of a task is text without NUL");
}

/* A time of this machine's clock by that of the database, inside a batch. */
static int64_t tasks_to_database(const struct postgres_rows *s, int64_t wall_ms)
{
    return s->now_ms + (wall_ms - clock_wall_ms());
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Is there room for one more? */
static int tasks_check_room(struct postgres_rows *s, const unsigned char owner[32],
                            const struct kept_task *task, struct tidings_error *err)
{
    struct kept_task_room *room = task->room;
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_put_str(&v, tidings_strn((const char *)owner, 32));
    int rc = postgres_rows_ask(s, PG_TASK_ROOM, &v, &r, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t all = (uint64_t)postgres_int(r, 0, 0), bytes = (uint64_t)postgres_int(r, 0, 1),
             own = (uint64_t)postgres_int(r, 0, 2), own_bytes = (uint64_t)postgres_int(r, 0, 3);
    postgres_free(r);
    bool has_name = task->client.len > 0;
    bool is_many_own = has_name && room->max_client > 0 && own >= room->max_client;
    bool is_large_own = has_name && room->max_bytes > 0 && own_bytes > room->max_bytes / 4;
    bool is_many = is_many_own || (room->max > 0 && all >= room->max);
    bool is_large = is_large_own || (room->max_bytes > 0 && bytes > room->max_bytes);
    room->full = is_many ? KEPT_TASKS_MANY : is_large ? KEPT_TASKS_LARGE : KEPT_TASKS_FIT;
    room->is_client = is_many ? is_many_own : is_large_own;
    return room->full == KEPT_TASKS_FIT
               ? 0
               : tidings_fail(err, TIDINGS_E_LIMIT, "there is no room for one more task");
}

int postgres_rows_put_task(struct entity_rows *rows, const struct kept_task *task,
                           struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    unsigned char owner[32];
    postgres_rows_release(s);
    int rc = tasks_check_id(task->id, err);
    rc = rc == 0 ? tasks_check(task->client, SHARED_TASK_CLIENT_MAX, "the client", err) : rc;
    rc = rc == 0 ? tasks_check(task->message, SHARED_TASK_MESSAGE_MAX, "the message", err) : rc;
    rc = rc == 0 ? tasks_check(task->payload, SHARED_TASK_PAYLOAD_MAX, "the result", err) : rc;
    rc = rc == 0 ? tasks_check(task->questions, SHARED_TASK_ASKED_MAX, "the questions", err) : rc;
    postgres_rows_digest(task->client, owner);
    rc = rc == 0 && task->room ? tasks_check_room(s, owner, task, err) : rc;
    if (rc < 0) {
        return rc;
    }
    postgres_put_str(&v, task->id);
    postgres_put_int(&v, (int64_t)s->run);
    postgres_put_str(&v, tidings_strn((const char *)owner, sizeof owner));
    postgres_put_str(&v, task->client);
    postgres_put_str(&v, task->status);
    postgres_put_int(&v, task->created_ms);
    postgres_put_int(&v, task->updated_ms);
    postgres_put_int(&v, task->ttl_ms);
    postgres_put_int(&v, tasks_to_database(s, task->created_ms + task->ttl_ms));
    postgres_put_int(&v, (int64_t)task->payload.len);
    postgres_put_str(&v, task->message);
    postgres_put_str(&v, task->payload);
    postgres_put_str(&v, task->questions);
    rc = postgres_rows_ask(s, PG_PUT_TASK, &v, &r, err);
    bool is_kept = postgres_rows(r) == 1;
    postgres_free(r);
    s->is_durable = true;
    return rc < 0 || is_kept ? rc
                             : tidings_fail(err, TIDINGS_E_CONFLICT, "the task has ended already");
}

int postgres_rows_put_task_answers(struct entity_rows *rows, struct tidings_str id,
                                   struct tidings_str answers, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_values v = {0};
    postgres_rows_release(s);
    int rc = tasks_check_id(id, err);
    rc = rc == 0 ? tasks_check(answers, SHARED_TASK_ASKED_MAX, "the answers", err) : rc;
    postgres_put_str(&v, id);
    postgres_put_str(&v, answers);
    s->is_durable = true;
    return rc == 0 ? postgres_rows_send(s, PG_TASK_ANSWERS, &v, err) : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct kept_task postgres_rows_read_task(struct pg_result *r, int row, int first)
{
    struct tidings_str status = postgres_str(r, row, first + 2);
    bool runs = str_eq(status, STR("working")) || str_eq(status, STR("input_required"));
    return (struct kept_task){
        .id = postgres_str(r, row, first),
        .client = postgres_str(r, row, first + 1),
        .status = status,
        .message = postgres_str(r, row, first + 3),
        .payload = postgres_str(r, row, first + 4),
        .questions = postgres_str(r, row, first + 5),
        .answers = postgres_str(r, row, first + 6),
        .created_ms = postgres_int(r, row, first + 7),
        .updated_ms = postgres_int(r, row, first + 8),
        .ttl_ms = postgres_int(r, row, first + 9),
        .is_lost = runs && postgres_int(r, row, first + 10) != 0,
    };
}

int postgres_rows_find_task(struct entity_rows *rows, struct tidings_str id, struct kept_task *ret,
                            struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_rows_release(s);
    int rc = tasks_check_id(id, err);
    postgres_put_str(&v, id);
    postgres_put_int(&v, s->is_in_batch ? s->now_ms : rows->shared->now(rows));
    rc = rc == 0 ? postgres_rows_ask(s, PG_FIND_TASK, &v, &r, err) : rc;
    if (rc < 0 || postgres_rows(r) != 1) {
        postgres_free(r);
        return rc;
    }
    *ret = postgres_rows_read_task(r, 0, 0);
    s->handed_out = r;
    return 1;
}

int postgres_rows_each_task(struct entity_rows *rows, kept_task_fn fn, void *user,
                            struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    char after[SHARED_TASK_ID_MAX + 1] = "";
    int rc = 0, count = 0;
    postgres_rows_release(s);
    do {
        struct postgres_values v = {0};
        struct pg_result *r = NULL;
        postgres_put_str(&v, tidings_str(after));
        rc = postgres_rows_ask(s, PG_TASKS, &v, &r, err);
        count = rc == 0 ? postgres_rows(r) : 0;
        for (int i = 0; i < count; i++) {
            const struct kept_task task = postgres_rows_read_task(r, i, 0);
            memcpy(after, task.id.ptr, task.id.len); /* the statement bounds it */
            after[task.id.len] = '\0';
            fn(user, &task);
        }
        postgres_free(r);
    } while (count > 0);
    return rc;
}

/* ---- those that are over --------------------------------------------------------------------- */

int postgres_rows_sweep_tasks(struct entity_rows *rows, int64_t now_ms, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_values v = {0};
    postgres_rows_release(s);
    postgres_put_int(&v, tasks_to_database(s, now_ms));
    s->is_durable = true;
    return postgres_rows_send(s, PG_SWEEP_TASKS, &v, err);
}

int postgres_rows_has_stale_tasks(struct entity_rows *rows, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct pg_result *r = NULL;
    postgres_rows_release(s);
    int rc = postgres_rows_ask(s, PG_STALE_TASKS, NULL, &r, err);
    rc = rc == 0 && postgres_rows(r) > 0 ? 1 : rc;
    postgres_free(r);
    return rc;
}

int postgres_rows_end_stale_tasks(struct entity_rows *rows, const struct kept_task *end,
                                  void (*fn)(void *user, struct tidings_str id, bool is_gone),
                                  void *user, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_values old = {0}, lost = {0};
    struct pg_result *gone = NULL, *failed = NULL;
    postgres_rows_release(s);
    postgres_put_int(&old, s->now_ms);
    postgres_put_int(&old, SHARED_TASKS_AT_ONCE);
    int rc = postgres_rows_ask(s, PG_OLD_TASKS, &old, &gone, err);
    int left = (int)SHARED_TASKS_AT_ONCE - postgres_rows(gone);
    postgres_put_str(&lost, end->status);
    postgres_put_str(&lost, end->message);
    postgres_put_str(&lost, end->payload);
    postgres_put_int(&lost, s->now_ms);
    postgres_put_int(&lost, s->now_ms + TASK_KEPT_LOST_MS);
    postgres_put_int(&lost, left);
    rc = rc == 0 && left > 0 ? postgres_rows_ask(s, PG_LOST_TASKS, &lost, &failed, err) : rc;
    s->is_durable = true;
    for (int i = 0; rc == 0 && i < postgres_rows(gone); i++) {
        fn(user, postgres_str(gone, i, 0), true);
    }
    for (int i = 0; rc == 0 && i < postgres_rows(failed); i++) {
        fn(user, postgres_str(failed, i, 0), false);
    }
    postgres_free(gone);
    postgres_free(failed);
    return rc;
}
