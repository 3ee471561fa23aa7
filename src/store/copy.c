/* SPDX-License-Identifier: MIT
 *
 * Copies a store into another one, in batches, and computes the digest that compares the two.
 */
#include "store/copy.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "store/sqlite_internal.h"
#include "store/sqlite_store.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Copies between a SQLite store and another one. While a copy writes to the file, it has a table
 * `copying` with the source and the progress; such a file cannot be used otherwise.
 */

/* ---- reading --------------------------------------------------------------------------------- */

/* Rows after ?1. The long columns of versions come last. */
static const char *const reading[TRANSFER_TASK] = {
    [TRANSFER_TYPE] = "SELECT seq, name, version, schema, description, options FROM main.types"
                      " WHERE seq>?1 ORDER BY seq",
    [TRANSFER_VERSION] = "SELECT seq, id, vfrom, type, tversion, parent, deleted, created, at,"
                         " since, changed_by, principal, previous, value, sum, old_parent FROM"
                         " main.log WHERE seq>?1 AND forget=-9223372036854775807-1 ORDER BY seq",
    [TRANSFER_MOVED] = "SELECT seq, id, type, tversion, became, vfrom FROM main.moved"
                       " WHERE seq>?1 ORDER BY seq",
    [TRANSFER_PUBLISHED] =
        "SELECT seq, uri, created, etag, size, modified, name, title, description, mime, icons,"
        " audience, priority, subscribable, at, content IS NULL, meta, metadata, content FROM"
        " main.published WHERE seq>?1 ORDER BY seq",
    [TRANSFER_RUN] = "SELECT row_number() OVER (ORDER BY coalesce(first, 0), epoch) AS n, epoch,"
                     " coalesce(first, 0), coalesce(last, -1) FROM main.epochs ORDER BY n",
};

static void sqlite_transfer_version(struct sqlite3_stmt *st, struct transfer_row *r)
{
    r->version = (struct entity_version){
        .id = sqlite_str(st, 1),
        .from = sqlite_int(st, 2),
        .to = TIMELINE_FOREVER,
        .type = sqlite_str(st, 3),
        .type_version = sqlite_str(st, 4),
        .parent = sqlite_str(st, 5),
        .deleted = sqlite_int(st, 6) != 0,
        .created = sqlite_int(st, 7) != 0,
        .since = sqlite_int(st, 9),
        .changed_by = sqlite_str(st, 10),
        .principal = sqlite_str(st, 11),
        .previous = sqlite_str(st, 12),
        .value = sqlite_str(st, 13),
        .old_parent = sqlite_str(st, 15),
    };
    r->at_ms = sqlite_int(st, 8);
}

static void sqlite_transfer_published(struct sqlite3_stmt *st, struct transfer_row *r)
{
    r->removed = sqlite_int(st, 15) != 0;
    r->at_ms = sqlite_int(st, 14);
    r->published = (struct published_row){
        .about =
            {
                .uri = sqlite_str(st, 1),
                .etag = sqlite_str(st, 3),
                .size = sqlite_int(st, 4),
                .has_size = true,
                .modified_ms = sqlite_int(st, 5),
                .name = sqlite_str(st, 6),
                .title = sqlite_str(st, 7),
                .description = sqlite_str(st, 8),
                .mime_type = sqlite_str(st, 9),
                .icons = sqlite_str(st, 10),
                .audience = sqlite_str(st, 11),
                .not_subscribable = sqlite_int(st, 13) == 0,
                .meta = sqlite_str(st, 16),
            },
        .created = sqlite_int(st, 2) != 0,
        .metadata = sqlite_str(st, 17),
        .content = sqlite_bytes(st, 18),
    };
    resource_set_priority_bits(&r->published.about, sqlite_int(st, 12));
}

static void sqlite_transfer_row(struct sqlite3_stmt *st, enum transfer_kind kind,
                                struct transfer_row *r)
{
    *r = (struct transfer_row){.kind = kind, .number = sqlite_int(st, 0)};
    switch (kind) {
    case TRANSFER_TYPE:
        r->type = (struct entity_type_row){
            .name = sqlite_str(st, 1),
            .version = sqlite_str(st, 2),
            .schema = sqlite_str(st, 3),
            .description = sqlite_str(st, 4),
            .options = sqlite_str(st, 5),
        };
        break;
    case TRANSFER_VERSION:
        sqlite_transfer_version(st, r);
        break;
    case TRANSFER_MOVED:
        r->version.id = sqlite_str(st, 1);
        r->version.type = sqlite_str(st, 2);
        r->version.old_type_version = sqlite_str(st, 3);
        r->version.type_version = sqlite_str(st, 4);
        r->version.from = sqlite_int(st, 5);
        break;
    case TRANSFER_PUBLISHED:
        sqlite_transfer_published(st, r);
        break;
    case TRANSFER_RUN:
    case TRANSFER_TASK:
    case TRANSFER_KINDS:
        r->epoch = (uint64_t)sqlite_int(st, 1);
        r->first = sqlite_int(st, 2);
        r->last = sqlite_int(st, 3);
        break;
    }
}

static int sqlite_transfer_each(struct store *store, struct transfer_mark after, transfer_row_fn fn,
                                void *user, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    int rc = sqlite_apply(s, err); /* removes replaced and dropped changes from the log */
    for (unsigned kind = after.kind; rc == 0 && kind < TRANSFER_TASK; kind++) {
        struct sqlite3_stmt *st = NULL;
        rc = sqlite_prepare(s->db, reading[kind], &st, err);
        if (rc == 0 && kind < TRANSFER_RUN) {
            sqlite_bind_int(st, 1, kind == after.kind ? after.number : INT64_MIN);
        }
        while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
            struct transfer_row row;
            sqlite_transfer_row(st, kind, &row);
            rc = kind == TRANSFER_VERSION &&
                         !entity_version_is_whole(&row.version, sqlite_int(st, 14))
                     ? tidings_fail(err, TIDINGS_E_INTERNAL,
                                    "stored entity '%.*s' at position %lld is damaged: restore an "
                                    "older copy of the store",
                                    STR_ARG(row.version.id), (long long)row.number)
                     : fn(user, &row, err);
        }
        sqlite_finalize(st);
    }
    return rc;
}

static int sqlite_transfer_state(struct store *store, struct transfer_state *ret,
                                 struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    int64_t floor = 0;
    sqlite_store_release(s);
    int rc = sqlite_store_number(s, "SELECT floor FROM main.state", &floor, err);
    *ret = (struct transfer_state){.position = (uint64_t)s->last_seq, .floor = (uint64_t)floor};
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int transfer_find_copying(struct sqlite_store *s, struct tidings_str source,
                                 struct transfer_mark *ret, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(s->db, "SELECT source, kind, number FROM main.copying", &st, err);
    rc = rc == 0 ? sqlite_step(s->db, st, err) : rc;
    if (rc == 1 && !str_eq(sqlite_str(st, 0), source)) {
        rc = tidings_fail(err, TIDINGS_E_EXISTS,
                          "a copy of '%.*s' has started here: resume it, or name another file",
                          STR_ARG(sqlite_str(st, 0)));
    } else if (rc == 1) {
        *ret = (struct transfer_mark){(enum transfer_kind)sqlite_int(st, 1), sqlite_int(st, 2)};
        rc = (unsigned)ret->kind < TRANSFER_KINDS
                 ? 1
                 : tidings_fail(err, TIDINGS_E_INVALID, "the table 'copying' is damaged");
    }
    sqlite_finalize(st);
    return rc;
}

static int transfer_make_copying(struct sqlite_store *s, struct tidings_str source,
                                 struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int64_t starts = 0;
    int rc = sqlite_store_number(s, "SELECT count(*) FROM main.epochs", &starts, err);
    if (rc == 0 && (starts > 0 || s->last_seq > 0)) {
        return tidings_fail(err, TIDINGS_E_EXISTS,
                            "there is something in it: a copy needs a new store");
    }
    rc = rc == 0 ? sqlite_exec(s->db,
                               "CREATE TABLE main.copying(source TEXT, kind INTEGER, number"
                               " INTEGER);",
                               err)
                 : rc;
    rc = rc == 0 ? sqlite_prepare(s->db,
                                  "INSERT INTO main.copying VALUES(?1, 0,"
                                  " -9223372036854775807-1)",
                                  &st, err)
                 : rc;
    if (rc == 0) {
        sqlite_bind_str(st, 1, source);
        rc = sqlite_run(s->db, st, err);
    }
    sqlite_finalize(st);
    return rc;
}

static int sqlite_transfer_begin(struct store *store, struct tidings_str source,
                                 struct transfer_mark *ret, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    int64_t is_copying = 0;
    sqlite_store_release(s);
    *ret = TRANSFER_BEGINNING;
    int rc = sqlite_transfer_is_copying(s, &is_copying, err);
    if (rc < 0) {
        return rc;
    }
    return is_copying ? transfer_find_copying(s, source, ret, err)
                      : transfer_make_copying(s, source, err);
}

static int transfer_run_ints(struct sqlite_store *s, enum statement which, const int64_t *numbers,
                             size_t count, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        sqlite_bind_int(st, (int)i + 1, numbers[i]);
    }
    return rc == 0 ? sqlite_run(s->db, st, err) : rc;
}

static int transfer_put_version(struct sqlite_store *s, const struct transfer_row *r,
                                struct tidings_error *err)
{
    static const enum statement more[] = {TRANSFER_ADD_VERSION, TRANSFER_SET_CURRENT,
                                          TRANSFER_SET_APPLIED};
    s->last_seq = r->number - 1;
    s->now_ms = r->at_ms;
    int rc = sqlite_store_append(s, &r->version, TIMELINE_NEVER, TIMELINE_NEVER, err);
    for (size_t i = 0; rc == 0 && i < 3; i++) {
        rc = transfer_run_ints(s, more[i], &r->number, 1, err);
    }
    return rc;
}

static int transfer_put_published(struct sqlite_store *s, const struct transfer_row *r,
                                  struct tidings_error *err)
{
    s->last_seq = r->number - 1;
    s->now_ms = r->at_ms;
    return sqlite_published_write(s, &r->published, r->removed ? NULL : &r->published.content, err);
}

static int transfer_put_type(struct store *store, struct sqlite_store *s,
                             const struct transfer_row *r, struct tidings_error *err)
{
    s->last_seq = r->number - 1;
    return sqlite_store_put_type(store, &r->type, err);
}

static int sqlite_transfer_put(struct store *store, const struct transfer_row *r,
                               struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    const int64_t run[] = {(int64_t)r->epoch, r->first, r->last};
    int64_t mark[] = {r->kind, r->number};
    int rc = 0;
    switch (r->kind) {
    case TRANSFER_TYPE:
        rc = transfer_put_type(store, s, r, err);
        break;
    case TRANSFER_VERSION:
        rc = transfer_put_version(s, r, err);
        break;
    case TRANSFER_MOVED:
        s->last_seq = r->number - 1;
        rc = sqlite_store_leave(s, &r->version, err);
        break;
    case TRANSFER_PUBLISHED:
        rc = transfer_put_published(s, r, err);
        break;
    case TRANSFER_RUN:
    case TRANSFER_TASK:
    case TRANSFER_KINDS:
        mark[1] = INT64_MIN; /* a resumed copy starts with the first run again */
        rc = transfer_run_ints(s, TRANSFER_PUT_RUN, run, 3, err);
        break;
    }
    return rc == 0 ? transfer_run_ints(s, TRANSFER_SET_MARK, mark, 2, err) : rc;
}

static int sqlite_transfer_end(struct store *store, const struct transfer_state *state,
                               struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    const int64_t numbers[] = {(int64_t)state->position, (int64_t)state->floor};
    sqlite_store_release(s);
    s->last_seq = (int64_t)state->position;
    int rc = sqlite_exec(s->db, "BEGIN IMMEDIATE", err);
    rc = rc == 0 ? transfer_run_ints(s, TRANSFER_SET_STATE, numbers, 2, err) : rc;
    rc = rc == 0 ? sqlite_exec(s->db, "DROP TABLE main.copying", err) : rc;
    rc = rc == 0 ? sqlite_exec(s->db, "COMMIT", err) : rc;
    if (rc < 0) {
        sqlite_roll_back(s->db);
    }
    return rc;
}

int sqlite_transfer_is_copying(struct sqlite_store *s, int64_t *ret, struct tidings_error *err)
{
    return sqlite_store_number(s, "SELECT count(*) FROM main.sqlite_master WHERE name='copying'",
                               ret, err);
}

const struct transfer_ops sqlite_transfer = {
    .each = sqlite_transfer_each,
    .state = sqlite_transfer_state,
    .begin = sqlite_transfer_begin,
    .put = sqlite_transfer_put,
    .end = sqlite_transfer_end,
};

/* ---------------------------------------------------------------------------------------------- */

#define BATCH_ROWS 1000u
#define BATCH_BYTES (8u << 20)

/* ---- reading both kinds of rows ----------------------------------------------------------------
 */

struct transfer_tasks {
    transfer_row_fn fn;
    void *user;
    struct tidings_error *err;
    int64_t count;
    int rc;
};

static void transfer_task(void *user, const struct stored_task *task)
{
    struct transfer_tasks *t = user;
    const struct transfer_row row = {.kind = TRANSFER_TASK, .number = ++t->count, .task = *task};
    t->rc = t->rc < 0 ? t->rc : t->fn(t->user, &row, t->err);
}

/* Reads rows with positions from the medium, then tasks. */
static int transfer_each(struct store *store, struct transfer_mark after, transfer_row_fn fn,
                         void *user, struct tidings_error *err)
{
    struct transfer_tasks t = {.fn = fn, .user = user, .err = err};
    int rc = store->ops->transfer->each(store, after, fn, user, err);
    rc = rc == 0 ? store->ops->each_task(store, transfer_task, &t, err) : rc;
    return rc < 0 ? rc : t.rc;
}

/* ---- digest ---------------------------------------------------------------------------------- */

static void transfer_add_number(struct sha256 *s, int64_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    sha256_put(s, bytes, sizeof bytes);
}

/* The length precedes each string, so that different rows never hash the same bytes. */
static void transfer_add_texts(struct sha256 *s, const struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        transfer_add_number(s, (int64_t)texts[i].len);
        sha256_put(s, texts[i].ptr, texts[i].len);
    }
}

static void transfer_add_numbers(struct sha256 *s, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        transfer_add_number(s, numbers[i]);
    }
}

#define TEXTS(...)                                                                                 \
    transfer_add_texts(s, (const struct tidings_str[]){__VA_ARGS__},                               \
                       sizeof((const struct tidings_str[]){__VA_ARGS__}) /                         \
                           sizeof(struct tidings_str))
#define NUMBERS(...)                                                                               \
    transfer_add_numbers(s, (const int64_t[]){__VA_ARGS__},                                        \
                         sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void transfer_add_row(struct sha256 *s, const struct transfer_row *r)
{
    const struct entity_version *v = &r->version;
    const struct tidings_resource *a = &r->published.about;
    NUMBERS(r->kind, r->number);
    switch (r->kind) {
    case TRANSFER_TYPE:
        TEXTS(r->type.name, r->type.version, r->type.schema, r->type.description, r->type.options);
        break;
    case TRANSFER_VERSION:
        TEXTS(v->id, v->type, v->type_version, v->parent, v->value, v->changed_by, v->principal,
              v->previous, v->old_parent);
        NUMBERS(v->from, v->since, v->deleted, v->created, r->at_ms);
        break;
    case TRANSFER_MOVED:
        TEXTS(v->id, v->type, v->type_version, v->old_type_version);
        NUMBERS(v->from);
        break;
    case TRANSFER_PUBLISHED:
        TEXTS(a->uri, a->etag, a->name, a->title, a->description, a->mime_type, a->icons,
              a->audience, a->meta, r->published.content, r->published.metadata);
        NUMBERS(r->removed, r->published.created, a->size, a->modified_ms, a->not_subscribable,
                resource_priority_bits(a), r->at_ms);
        break;
    case TRANSFER_RUN:
        NUMBERS((int64_t)r->epoch, r->first, r->last);
        break;
    case TRANSFER_TASK:
        TEXTS(r->task.id, r->task.client, r->task.status, r->task.message, r->task.payload);
        NUMBERS(r->task.created_ms, r->task.updated_ms, r->task.ttl_ms);
        break;
    case TRANSFER_KINDS:
        break;
    }
}

struct transfer_counting {
    struct transfer_stats *stats;
    struct sha256 digest;
};

static int transfer_count_row(void *user, const struct transfer_row *row, struct tidings_error *err)
{
    struct transfer_counting *c = user;
    (void)err;
    c->stats->rows[row->kind]++;
    transfer_add_row(&c->digest, row);
    return 0;
}

int transfer_count(struct store *store, struct transfer_stats *ret, struct tidings_error *err)
{
    struct transfer_counting c = {.stats = ret};
    struct transfer_state state;
    *ret = (struct transfer_stats){.position = 0};
    sha256_init(&c.digest);
    int rc = store->ops->transfer->state(store, &state, err);
    rc = rc == 0 ? transfer_each(store, TRANSFER_BEGINNING, transfer_count_row, &c, err) : rc;
    ret->position = rc == 0 ? state.position : 0;
    sha256_end(&c.digest, ret->digest);
    return rc;
}

/* ---- copying --------------------------------------------------------------------------------- */

struct transfer_copying {
    struct store *to;
    struct transfer_stats stats;
    size_t rows, bytes; /* in the batch */
    bool is_open;
    transfer_progress_fn progress;
    void *user;
};

static int transfer_commit(struct transfer_copying *c, struct tidings_error *err)
{
    if (!c->is_open) {
        return 0;
    }
    c->is_open = false;
    c->rows = c->bytes = 0;
    int rc = c->to->ops->commit(c->to, err);
    if (rc == 0 && c->progress && !c->progress(c->user, &c->stats)) {
        rc = tidings_fail(err, TIDINGS_E_CANCELLED, "stopped; rerun the command to resume");
    }
    return rc;
}

static int transfer_put_row(void *user, const struct transfer_row *row, struct tidings_error *err)
{
    struct transfer_copying *c = user;
    int rc = c->is_open ? 0 : c->to->ops->begin(c->to, err);
    c->is_open = rc == 0;
    if (rc == 0 && row->kind == TRANSFER_TASK) {
        rc = c->to->ops->put_task(c->to, &row->task, err);
        rc = rc == TIDINGS_E_CONFLICT ? 0 : rc; /* the task exists already */
    } else if (rc == 0) {
        rc = c->to->ops->transfer->put(c->to, row, err);
    }
    if (rc < 0) {
        return rc;
    }
    c->stats.rows[row->kind]++;
    c->rows++;
    c->bytes += row->version.value.len + row->version.previous.len + row->published.content.len +
                row->type.schema.len + row->task.payload.len;
    return c->rows >= BATCH_ROWS || c->bytes >= BATCH_BYTES ? transfer_commit(c, err) : 0;
}

int transfer_copy(struct store *from, struct store *to, struct tidings_str source,
                  transfer_progress_fn progress, void *user, struct tidings_error *err)
{
    struct transfer_copying c = {.to = to, .progress = progress, .user = user};
    struct transfer_mark mark = TRANSFER_BEGINNING;
    struct transfer_state state;
    int rc = from->ops->transfer->state(from, &state, err);
    rc = rc == 0 ? to->ops->transfer->begin(to, source, &mark, err) : rc;
    if (rc < 0) {
        return rc;
    }
    c.stats.was_resumed = rc == 1;
    rc = transfer_each(from, mark, transfer_put_row, &c, err);
    rc = rc == 0 ? transfer_commit(&c, err) : rc;
    if (rc < 0 && c.is_open) {
        to->ops->rollback(to);
    }
    return rc == 0 ? to->ops->transfer->end(to, &state, err) : rc;
}
