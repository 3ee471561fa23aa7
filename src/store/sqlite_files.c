/* SPDX-License-Identifier: MIT
 *
 * File mount state in SQLite. A directory is one row, rewritten when one of its names changed. A
 * change is one row per URI, with a new position for each change, like those of published
 * resources.
 *
 * Invariant: within an epoch, positions of changes rise with their numbers.
 */
#include "store/sqlite_files.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/change.h"
#include "store/sqlite_internal.h"

/* -------------------------------------------------------------------------------------------------
 * File history: the state of file mounts at the start, read once and used for cursors of earlier
 * runs.
 *
 * Numbers of an epoch up to its `first` are positions (store/change_log.h). A higher number is
 * looked up in `events`: within an epoch positions rise with numbers, so events are in the order of
 * both.
 */

struct history_epoch {
    uint64_t epoch, first, last;
    size_t events_from, events_to; /* range in `events` */
};

struct history_event {
    uint64_t number, position;
};

/* The number up to which the changes of a mount were saved in an epoch. */
struct history_announced {
    uint64_t epoch, number;
    int64_t mount;
};

struct history_scope {
    int64_t mount;
    size_t epoch; /* index; SIZE_MAX: before the oldest known epoch */
    uint64_t number, position;
    struct tidings_str uri;
    /* the URI follows */
};

struct file_history {
    struct history_epoch *epochs; /* oldest first; the last one is the current one */
    size_t epoch_count;
    struct history_event *events; /* by epoch, then by position */
    size_t event_count;
    size_t event_epoch; /* index of the epoch of the last event, during reading */
    struct history_announced *announced;
    size_t announced_count;
    struct map scopes; /* by URI */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Makes room for one more in an array that doubles. */
static bool history_grow(void **array, size_t count, size_t size)
{
    if (count > 0 && (count & (count - 1)) != 0) {
        return true;
    }
    void *bigger = mem_realloc(*array, (count ? 2 * count : 1) * size);
    *array = bigger ? bigger : *array;
    return bigger != NULL;
}

static size_t find_epoch(const struct file_history *h, uint64_t epoch)
{
    for (size_t i = h->epoch_count; i > 0; i--) {
        if (h->epochs[i - 1].epoch == epoch) {
            return i - 1;
        }
    }
    return SIZE_MAX;
}

static bool add_epoch(struct file_history *h, struct sqlite3_stmt *st)
{
    if (!history_grow((void **)&h->epochs, h->epoch_count, sizeof *h->epochs)) {
        return false;
    }
    h->epochs[h->epoch_count++] = (struct history_epoch){.epoch = (uint64_t)sqlite_int(st, 0),
                                                         .first = (uint64_t)sqlite_int(st, 1),
                                                         .last = (uint64_t)sqlite_int(st, 2)};
    return true;
}

/* Events arrive in the order of their epochs. */
static bool add_event(struct file_history *h, struct sqlite3_stmt *st)
{
    size_t epoch = h->event_epoch;
    if (epoch >= h->epoch_count || h->epochs[epoch].epoch != (uint64_t)sqlite_int(st, 0)) {
        epoch = h->event_epoch = find_epoch(h, (uint64_t)sqlite_int(st, 0));
    }
    if (epoch == SIZE_MAX) {
        return true; /* no cursor can refer to it */
    }
    if (!history_grow((void **)&h->events, h->event_count, sizeof *h->events)) {
        return false;
    }
    struct history_epoch *e = &h->epochs[epoch];
    e->events_from = e->events_to > 0 ? e->events_from : h->event_count;
    h->events[h->event_count++] =
        (struct history_event){(uint64_t)sqlite_int(st, 1), (uint64_t)sqlite_int(st, 2)};
    e->events_to = h->event_count;
    return true;
}

static bool add_announced(struct file_history *h, struct sqlite3_stmt *st)
{
    if (!history_grow((void **)&h->announced, h->announced_count, sizeof *h->announced)) {
        return false;
    }
    h->announced[h->announced_count++] =
        (struct history_announced){.mount = sqlite_int(st, 0),
                                   .epoch = (uint64_t)sqlite_int(st, 1),
                                   .number = (uint64_t)sqlite_int(st, 2)};
    return true;
}

static bool history_add_scope(struct file_history *h, struct sqlite3_stmt *st)
{
    struct tidings_str uri = sqlite_str(st, 4);
    struct history_scope *scope = mem_zalloc(sizeof *scope + uri.len);
    if (!scope) {
        return false;
    }
    char *at = (char *)(scope + 1);
    scope->mount = sqlite_int(st, 0);
    scope->epoch = find_epoch(h, (uint64_t)sqlite_int(st, 1));
    scope->number = (uint64_t)sqlite_int(st, 2);
    scope->position = (uint64_t)sqlite_int(st, 3);
    scope->uri = str_pack(&at, uri);
    void *before = NULL;
    if (map_put(&h->scopes, scope->uri, scope, &before) < 0) {
        mem_free(scope);
        return false;
    }
    mem_free(before);
    return true;
}

static int history_each(struct file_history *h, struct sqlite *db, const char *sql,
                        bool (*add)(struct file_history *h, struct sqlite3_stmt *st),
                        struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(db, sql, &st, err);
    while (rc == 0 && (rc = sqlite_step(db, st, err)) == 1) {
        rc = add(h, st) ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    sqlite_finalize(st);
    return rc;
}

int file_history_read(struct store *store, uint64_t epoch, struct file_history **ret,
                      struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct file_history *h = mem_zalloc(sizeof *h);
    if (!h) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    map_init(&h->scopes);
    sqlite_store_release(s);
    /* Epochs from before `first` was recorded are useless. */
    int rc = history_each(h, s->db,
                          "SELECT epoch, first, ifnull(last, first) FROM main.epochs WHERE first IS"
                          " NOT NULL ORDER BY number",
                          add_epoch, err);
    rc = rc == 0 ? history_each(h, s->db,
                                "SELECT e.epoch, e.number, e.seq FROM (SELECT epoch, number, seq"
                                " FROM main.file_changes UNION ALL SELECT created_epoch,"
                                " created_number, created FROM main.file_changes WHERE created IS"
                                " NOT NULL) e JOIN main.epochs p ON p.epoch=e.epoch"
                                " ORDER BY p.number, e.seq",
                                add_event, err)
                 : rc;
    rc = rc == 0 ? history_each(h, s->db, "SELECT mount, epoch, number FROM main.file_told",
                                add_announced, err)
                 : rc;
    rc = rc == 0 ? history_each(h, s->db,
                                "SELECT mount, epoch, number, position, uri FROM main.file_scopes",
                                history_add_scope, err)
                 : rc;
    if (rc == 0 && (h->epoch_count == 0 || h->epochs[h->epoch_count - 1].epoch != epoch)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "the newest epoch in the store is not the one that begins");
    }
    if (rc < 0) {
        file_history_destroy(h);
        return rc;
    }
    *ret = h;
    return 0;
}

void file_history_destroy(struct file_history *h)
{
    if (!h) {
        return;
    }
    size_t position = 0;
    struct history_scope *scope;
    while ((scope = map_next(&h->scopes, &position))) {
        mem_free(scope);
    }
    map_deinit(&h->scopes);
    mem_free(h->epochs);
    mem_free(h->events);
    mem_free(h->announced);
    mem_free(h);
}

size_t file_history_scopes(const struct file_history *h)
{
    return h->scopes.count;
}

bool file_history_has_scope(const struct file_history *h, struct tidings_str uri)
{
    return map_find(&h->scopes, uri) != NULL;
}

/* ---- resuming from a cursor ------------------------------------------------------------------ */

/* Returns true if all changes of the mount up to the cursor were announced before its state was
 * saved. */
static bool was_announced(const struct file_history *h, int64_t mount, const struct file_cursor *at)
{
    for (size_t i = 0; i < h->announced_count; i++) {
        if (h->announced[i].mount == mount && h->announced[i].epoch == at->epoch) {
            return at->number <= h->announced[i].number;
        }
    }
    return false;
}

/* Returns true if the scope was already known at the time of the cursor. A cursor whose number is a
 * position was issued when this position was reached, or later. */
static bool was_known(const struct file_history *h, const struct history_scope *scope, size_t epoch,
                      const struct file_cursor *at)
{
    if (at->number <= h->epochs[epoch].first) {
        return scope->position <= at->number;
    }
    return scope->epoch == SIZE_MAX || scope->epoch < epoch ||
           (scope->epoch == epoch && scope->number <= at->number);
}

/* Returns true if all changes below exactly this scope since the cursor are in the store, or will
 * be found by comparison. */
static bool scope_is_complete(const struct file_history *h, struct tidings_str uri, size_t epoch,
                              const struct file_cursor *at)
{
    const struct history_scope *scope = map_find(&h->scopes, uri);
    bool is_present = epoch + 1 == h->epoch_count;
    return scope && was_known(h, scope, epoch, at) &&
           (is_present || was_announced(h, scope->mount, at));
}

/* The same for this scope, or a directory that contains it. */
static bool history_is_complete(const struct file_history *h, struct tidings_str uri, size_t epoch,
                                const struct file_cursor *at)
{
    bool is_found = scope_is_complete(h, uri, epoch, at);
    while (!is_found && uri.len > 0) {
        do {
            uri.len--;
        } while (uri.len > 0 && uri.ptr[uri.len - 1] != '/');
        is_found = uri.len > 0 && scope_is_complete(h, uri, epoch, at);
    }
    return is_found;
}

bool file_history_resume(const struct file_history *h, struct tidings_str scope,
                         const struct file_cursor *at, uint64_t *ret)
{
    size_t index = find_epoch(h, at->epoch);
    if (index == SIZE_MAX) {
        return false;
    }
    const struct history_epoch *e = &h->epochs[index];
    bool is_present = index + 1 == h->epoch_count;
    if ((!is_present && at->position > e->last) || !history_is_complete(h, scope, index, at)) {
        return false;
    }
    if (at->number <= e->first || is_present) {
        *ret = at->number;
        return true;
    }
    size_t low = e->events_from, high = e->events_to; /* the first with a higher number */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->events[middle].number <= at->number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret = low < e->events_to ? h->events[low].position - 1 : e->last;
    return true;
}

/* -------------------------------------------------------------------------------------------------
 * Creates, fills and reads a chunk of a file mount's state.
 */

#define DIRECTORIES_MAX (1u << 30) /* a single directory can exceed the size of a chunk */
#define GONE_MAX (1u << 30)

struct chunk_lengths {
    uint32_t path, record;
};

struct file_chunk *file_chunk_create(struct tidings_str prefix)
{
    struct file_chunk *chunk = mem_zalloc(sizeof(*chunk));
    if (chunk) {
        chunk->prefix = prefix;
        buf_init(&chunk->gone, GONE_MAX);
        buf_init(&chunk->directories, DIRECTORIES_MAX);
    }
    return chunk;
}

void file_chunk_free(struct file_chunk *chunk)
{
    if (!chunk) {
        return;
    }
    for (size_t i = 0; i < chunk->change_count; i++) {
        change_unref(chunk->changes[i].change);
    }
    for (size_t i = 0; i < chunk->scope_count; i++) {
        mem_free((char *)(uintptr_t)chunk->scopes[i].uri.ptr);
    }
    mem_free(chunk->changes);
    mem_free(chunk->scopes);
    buf_deinit(&chunk->gone);
    buf_deinit(&chunk->directories);
    mem_free(chunk);
}

size_t file_chunk_begin(struct file_chunk *chunk, struct tidings_str path)
{
    struct chunk_lengths lengths = {.path = (uint32_t)path.len};
    size_t begun = chunk->directories.len;
    buf_put(&chunk->directories, &lengths, sizeof lengths);
    buf_puts(&chunk->directories, path);
    return begun;
}

void file_chunk_end(struct file_chunk *chunk, size_t begun)
{
    struct buf *out = &chunk->directories;
    struct chunk_lengths lengths;
    if (!out->failed) {
        memcpy(&lengths, out->ptr + begun, sizeof lengths);
        lengths.record = (uint32_t)(out->len - begun - sizeof lengths - lengths.path);
        memcpy(out->ptr + begun, &lengths, sizeof lengths);
    }
}

/* Reads the next record; false: no more. *at starts at 0. */
static bool file_chunk_next(const struct file_chunk *chunk, size_t *at,
                            struct tidings_str *ret_path, struct tidings_str *ret_record)
{
    struct tidings_str all = buf_str(&chunk->directories);
    struct chunk_lengths lengths;
    if (*at >= all.len) {
        return false;
    }
    memcpy(&lengths, all.ptr + *at, sizeof lengths);
    *ret_path = tidings_strn(all.ptr + *at + sizeof lengths, lengths.path);
    *ret_record = tidings_strn(ret_path->ptr + lengths.path, lengths.record);
    *at += sizeof lengths + lengths.path + lengths.record;
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- statements ------------------------------------------------------------------------------ */

/* Runs a statement with these parameters: numbers first, then strings, then bytes. */
struct files_parameters {
    int64_t numbers[4];
    struct tidings_str texts[1], bytes[2];
    int number_count, text_count, byte_count;
};

static void files_bind(struct sqlite3_stmt *st, const struct files_parameters *p)
{
    int at = 1;
    for (int i = 0; i < p->number_count; i++) {
        sqlite_bind_int(st, at++, p->numbers[i]);
    }
    for (int i = 0; i < p->text_count; i++) {
        sqlite_bind_str(st, at++, p->texts[i]);
    }
    for (int i = 0; i < p->byte_count; i++) {
        sqlite_bind_bytes(st, at++, &p->bytes[i]);
    }
}

static int files_run(struct sqlite_store *s, enum statement which, const struct files_parameters *p,
                     struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    if (rc < 0) {
        return rc;
    }
    files_bind(st, p);
    return sqlite_run(s->db, st, err);
}

static int files_run_on_mount(struct sqlite_store *s, enum statement which, int64_t mount,
                              struct tidings_error *err)
{
    const struct files_parameters p = {.numbers = {mount}, .number_count = 1};
    return files_run(s, which, &p, err);
}

/* 0: there is none. */
static int find_mount(struct sqlite_store *s, struct tidings_str prefix, int64_t *ret,
                      struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, FILE_MOUNT, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, prefix);
    rc = sqlite_step(s->db, st, err);
    *ret = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_reset(st);
    return rc < 0 ? rc : 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static int forget_mount(struct sqlite_store *s, int64_t mount, struct tidings_error *err)
{
    static const enum statement each[] = {DROP_FILE_DIRECTORIES, DROP_FILE_SCOPES, DROP_FILE_TOLD,
                                          DROP_FILE_ROOT};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof each / sizeof *each; i++) {
        rc = files_run_on_mount(s, each[i], mount, err);
    }
    return rc;
}

static bool sqlite_files_is_mounted(struct tidings_str prefix, struct tidings_str settings,
                                    const struct file_mount_row *mounts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq(mounts[i].prefix, prefix) && str_eq(mounts[i].settings, settings)) {
            return true;
        }
    }
    return false;
}

/* Finds an obsolete mount; 0: there is none. */
static int find_stale(struct sqlite_store *s, const struct file_mount_row *mounts, size_t count,
                      int64_t *ret, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc =
        sqlite_prepare(s->db, "SELECT mount, prefix, settings FROM main.file_mounts", &st, err);
    *ret = 0;
    while (rc == 0 && *ret == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        rc = 0;
        if (!sqlite_files_is_mounted(sqlite_str(st, 1), sqlite_str(st, 2), mounts, count)) {
            *ret = sqlite_int(st, 0);
        }
    }
    sqlite_finalize(st);
    return rc;
}

int sqlite_files_set_mounts(struct store *store, const struct file_mount_row *mounts, size_t count,
                            struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    int64_t stale = 0;
    sqlite_store_release(s);
    int rc = find_stale(s, mounts, count, &stale, err);
    while (rc == 0 && stale != 0) {
        rc = forget_mount(s, stale, err);
        rc = rc == 0 ? files_run_on_mount(s, DROP_FILE_MOUNT, stale, err) : rc;
        rc = rc == 0 ? find_stale(s, mounts, count, &stale, err) : rc;
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct sqlite3_stmt *st = NULL;
        rc = sqlite_statement(s, ADD_FILE_MOUNT, &st, err);
        if (rc == 0) {
            sqlite_bind_str(st, 1, mounts[i].prefix);
            sqlite_bind_str(st, 2, mounts[i].settings);
            rc = sqlite_run(s->db, st, err);
        }
    }
    return rc == 0 ? sqlite_statement_run(s, DROP_OLD_FILE_TOLD, err) : rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

static int put_change(struct sqlite_store *s, const struct file_chunk_change *row,
                      struct tidings_error *err)
{
    const struct change *c = row->change;
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, PUT_FILE_CHANGE, &st, err);
    if (rc < 0) {
        return rc;
    }
    const int64_t numbers[] = {s->last_seq + 1,    (int64_t)c->epoch, (int64_t)c->seq,
                               (int64_t)row->kind, c->size,           c->modified_ms,
                               s->now_ms};
    const struct tidings_str texts[] = {c->uri, c->etag, c->from, c->target};
    int at = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sqlite_bind_int(st, at++, numbers[i]);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sqlite_bind_str(st, at++, texts[i]);
    }
    sqlite_bind_int(st, at, !c->is_mute);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

/* Removes the oldest changes; they are no longer announced, even if the limit is raised later. */
static int forget_old_changes(struct sqlite_store *s, size_t max, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int64_t floor = s->last_seq - (int64_t)max;
    int rc = floor > 0 ? sqlite_statement(s, OLD_FILE_CHANGE, &st, err) : 0;
    if (rc < 0 || floor <= 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, floor);
    rc = sqlite_step(s->db, st, err);
    sqlite_reset(st);
    if (rc == 1) {
        rc = files_run_on_mount(s, DROP_FILE_CHANGES, floor, err);
        rc = rc == 0 ? files_run_on_mount(s, RAISE_FLOOR, floor, err) : rc;
    }
    return rc;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static int write_directories(struct sqlite_store *s, int64_t mount, const struct file_chunk *chunk,
                             struct tidings_error *err)
{
    int rc = 0;
    struct tidings_str path, record, rest = buf_str(&chunk->gone);
    while (rc == 0 && rest.len > 0) {
        path = str_cut(rest, '\0', &rest, NULL);
        const struct files_parameters p = {
            .numbers = {mount}, .number_count = 1, .bytes = {path}, .byte_count = 1};
        rc = files_run(s, DROP_FILE_DIRECTORY, &p, err);
    }
    for (size_t at = 0; rc == 0 && file_chunk_next(chunk, &at, &path, &record);) {
        const struct files_parameters p = {
            .numbers = {mount}, .number_count = 1, .bytes = {path, record}, .byte_count = 2};
        rc = files_run(s, PUT_FILE_DIRECTORY, &p, err);
    }
    const struct files_parameters root = {
        .numbers = {mount, (int64_t)chunk->root_print, (int64_t)chunk->device}, .number_count = 3};
    return rc == 0 ? files_run(s, PUT_FILE_ROOT, &root, err) : rc;
}

/* With a complete chunk, records how far this epoch has announced changes, and which scopes are
 * known. */
static int write_marks(struct sqlite_store *s, int64_t mount, const struct file_chunk *chunk,
                       int64_t position, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < chunk->scope_count; i++) {
        const struct files_parameters p = {
            .numbers = {mount, (int64_t)chunk->epoch, (int64_t)chunk->scopes[i].number, position},
            .number_count = 4,
            .texts = {chunk->scopes[i].uri},
            .text_count = 1,
        };
        rc = files_run(s, PUT_FILE_SCOPE, &p, err);
    }
    const struct files_parameters told = {
        .numbers = {mount, (int64_t)chunk->epoch, (int64_t)chunk->number}, .number_count = 3};
    return rc == 0 ? files_run(s, PUT_FILE_TOLD, &told, err) : rc;
}

int sqlite_files_write(struct store *store, const struct file_chunk *chunk,
                       struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    int64_t mount = 0, position = s->last_seq;
    sqlite_store_release(s);
    int rc = find_mount(s, chunk->prefix, &mount, err);
    if (rc < 0 || mount == 0) {
        return rc;
    }
    rc = chunk->is_reset ? forget_mount(s, mount, err) : 0;
    for (size_t i = 0; rc == 0 && i < chunk->change_count; i++) {
        rc = put_change(s, &chunk->changes[i], err);
    }
    rc = rc == 0 ? write_directories(s, mount, chunk, err) : rc;
    rc = rc == 0 && chunk->is_whole ? write_marks(s, mount, chunk, position, err) : rc;
    return rc == 0 && chunk->change_count > 0 ? forget_old_changes(s, chunk->change_max, err) : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

int sqlite_files_root(struct store *store, struct tidings_str prefix, struct saved_root *ret,
                      struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    *ret = (struct saved_root){0};
    sqlite_store_release(s);
    int rc = sqlite_statement(s, FILE_MOUNT, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, prefix);
    rc = sqlite_step(s->db, st, err);
    if (rc == 1) {
        *ret = (struct saved_root){.print = (uint64_t)sqlite_int(st, 1),
                                   .device = (uint64_t)sqlite_int(st, 2),
                                   .is_known = sqlite_int(st, 3) != 0};
    }
    sqlite_reset(st);
    return rc < 0 ? rc : 0;
}

int sqlite_files_each(struct store *store, struct tidings_str prefix, saved_directory_fn fn,
                      void *user, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc = sqlite_prepare(s->db,
                            "SELECT d.path, d.names FROM main.file_mounts m JOIN"
                            " main.file_directories d ON d.mount=m.mount WHERE m.prefix=?1 ORDER BY"
                            " d.mount, d.path",
                            &st, err);
    if (rc == 0) {
        sqlite_bind_str(st, 1, prefix);
    }
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        rc = fn(user, sqlite_bytes(st, 0), sqlite_bytes(st, 1));
    }
    sqlite_finalize(st);
    return rc;
}
