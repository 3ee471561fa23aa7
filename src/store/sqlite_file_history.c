/* SPDX-License-Identifier: MIT
 *
 * What the store knew of file mounts at the start, read once and asked for cursors of earlier runs.
 *
 * Numbers of an epoch up to its `first` are positions (store/changelog.h). Above that, a number is
 * found in `events`: within an epoch positions rise with numbers, so those are in the order of
 * both.
 */
#include "store/sqlite_file_history.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/sqlite_private.h"

struct history_epoch {
    uint64_t epoch, first, last;
    size_t events_from, events_to; /* in `events` */
};

struct history_event {
    uint64_t number, position;
};

/* How far the changes of a mount were saved in an epoch. */
struct history_announced {
    uint64_t epoch, number;
    int64_t mount;
};

struct history_scope {
    int64_t mount;
    size_t epoch; /* index; SIZE_MAX: longer ago than is remembered */
    uint64_t number, position;
    struct tidings_str uri;
    /* the URI follows */
};

struct file_history {
    struct history_epoch *epochs; /* oldest first; the last one is the present */
    size_t epoch_count;
    struct history_event *events; /* by epoch, then by position */
    size_t event_count;
    size_t event_epoch; /* index of that of the last one, while it is read */
    struct history_announced *announced;
    size_t announced_count;
    struct map scopes; /* by URI */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Make room for one more in an array that doubles. */
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

/* They come in the order of their epochs. */
static bool add_event(struct file_history *h, struct sqlite3_stmt *st)
{
    size_t epoch = h->event_epoch;
    if (epoch >= h->epoch_count || h->epochs[epoch].epoch != (uint64_t)sqlite_int(st, 0)) {
        epoch = h->event_epoch = find_epoch(h, (uint64_t)sqlite_int(st, 0));
    }
    if (epoch == SIZE_MAX) {
        return true; /* nobody can ask for it */
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

int file_history_read(struct entity_rows *rows, uint64_t epoch, struct file_history **ret,
                      struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct file_history *h = mem_zalloc(sizeof *h);
    if (!h) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    map_init(&h->scopes);
    sqlite_entities_release(s);
    /* One that began before this was written down is of no use. */
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

/* Were all changes of the mount up to the cursor announced before its state was saved? */
static bool was_announced(const struct file_history *h, int64_t mount, const struct file_cursor *at)
{
    for (size_t i = 0; i < h->announced_count; i++) {
        if (h->announced[i].mount == mount && h->announced[i].epoch == at->epoch) {
            return at->number <= h->announced[i].number;
        }
    }
    return false;
}

/* Was it known already when the cursor was given? One of numbers that are positions was given when
 * its position was reached, or later. */
static bool was_known(const struct file_history *h, const struct history_scope *scope, size_t epoch,
                      const struct file_cursor *at)
{
    if (at->number <= h->epochs[epoch].first) {
        return scope->position <= at->number;
    }
    return scope->epoch == SIZE_MAX || scope->epoch < epoch ||
           (scope->epoch == epoch && scope->number <= at->number);
}

/* Are all changes below this very scope since the cursor in the store, or found by comparing? */
static bool scope_is_complete(const struct file_history *h, struct tidings_str uri, size_t epoch,
                              const struct file_cursor *at)
{
    const struct history_scope *scope = map_find(&h->scopes, uri);
    bool is_present = epoch + 1 == h->epoch_count;
    return scope && was_known(h, scope, epoch, at) &&
           (is_present || was_announced(h, scope->mount, at));
}

/* The same of this scope, or of a directory it lies in. */
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
