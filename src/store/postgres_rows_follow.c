/* SPDX-License-Identifier: MIT
 *
 * What changed in the database, in the order of positions: what others committed since, and what is
 * known at a start.
 *
 * One statement reads all tables, so from one snapshot. Whoever is in it took a position under the
 * lock and held that to the commit: everything with a lower position is in it too.
 *
 * Most of the time others wrote entities, or announced something, and nothing else: one table or
 * two are read alone first (store/page.h). Who was notified of a position reads up to there and
 * need not ask where the store is.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "store/entity_sum.h"
#include "store/postgres_rows_private.h"

#define PAGE_ROWS 1000 /* as the statements say */
#define NO_VALUES (-1)
#define VALUE_PAGES 256 /* in a row that had no entity which is known here: then without values */
#define FLOOR_MAX 100000000
#define READY_MS 1000

/* The columns of PG_CHANGES. */
enum change_column {
    C_KIND,
    C_POSITION,
    C_FROM,
    C_SIZE,
    C_AT,
    C_REMOVED,
    C_CREATED,
    C_ID,
    C_TYPE,
    C_VERSION,
    C_PARENT,
    C_CHANGED_BY,
    C_OLD_TYPE_VERSION,
    C_PRINCIPAL,
    C_URI,
    C_ETAG,
    C_CAME_FROM,
    C_TARGET,
    C_METADATA,
    C_CHECKSUM,
    C_ORIGIN,
    C_CHANGE,
    C_SUBSCRIBABLE,
    C_SINCE,
    C_SUM,
    C_PREVIOUS,
    C_VALUE,
};

/* Those of PG_ENTITIES. */
enum entity_column {
    E_POSITION,
    E_FROM,
    E_AT,
    E_DELETED,
    E_CREATED,
    E_ID,
    E_TYPE,
    E_VERSION,
    E_PARENT,
    E_CHANGED_BY,
    E_PRINCIPAL,
    E_SINCE,
    E_SUM,
    E_PREVIOUS,
    E_VALUE,
};

/* Where a row has what it says of a version. */
struct version_columns {
    int type, version, parent, changed_by, principal, since, sum, previous, value;
};

/* What `ret->change` says already stands in the version too. */
static void postgres_read_followed(struct pg_result *r, int i, const struct version_columns *at,
                                   struct followed_row *ret)
{
    struct kept_change *c = &ret->change;
    c->version = (struct entity_version){
        .id = c->uri,
        .from = c->modified_ms,
        .to = TIMELINE_FOREVER,
        .type = postgres_str(r, i, at->type),
        .type_version = postgres_str(r, i, at->version),
        .parent = postgres_str(r, i, at->parent),
        .changed_by = postgres_str(r, i, at->changed_by),
        .principal = postgres_str(r, i, at->principal),
        .deleted = c->removed,
        .created = c->created,
        .since = postgres_int(r, i, at->since),
    };
    ret->sum = postgres_int(r, i, at->sum);
    ret->previous = postgres_str(r, i, at->previous);
    ret->value = postgres_str(r, i, at->value);
}

static void postgres_read_entity(struct pg_result *r, int i, struct followed_row *ret)
{
    static const struct version_columns at = {E_TYPE,       E_VERSION,   E_PARENT,
                                              E_CHANGED_BY, E_PRINCIPAL, E_SINCE,
                                              E_SUM,        E_PREVIOUS,  E_VALUE};
    struct kept_change *c = &ret->change;
    *c = (struct kept_change){
        .kind = KEPT_ENTITY,
        .position = (uint64_t)postgres_int(r, i, E_POSITION),
        .modified_ms = postgres_int(r, i, E_FROM),
        .at_ms = postgres_int(r, i, E_AT),
        .removed = postgres_int(r, i, E_DELETED) != 0,
        .created = postgres_int(r, i, E_CREATED) != 0,
        .uri = postgres_str(r, i, E_ID),
    };
    postgres_read_followed(r, i, &at, ret);
}

static void postgres_read_change(struct pg_result *r, int i, struct followed_row *ret)
{
    static const struct version_columns at = {C_TYPE,       C_VERSION,   C_PARENT,
                                              C_CHANGED_BY, C_PRINCIPAL, C_SINCE,
                                              C_SUM,        C_PREVIOUS,  C_VALUE};
    struct kept_change *c = &ret->change;
    *c = (struct kept_change){
        .kind = (enum kept_kind)postgres_int(r, i, C_KIND),
        .position = (uint64_t)postgres_int(r, i, C_POSITION),
        .modified_ms = postgres_int(r, i, C_FROM),
        .size = postgres_int(r, i, C_SIZE),
        .at_ms = postgres_int(r, i, C_AT),
        .removed = postgres_int(r, i, C_REMOVED) != 0,
        .created = postgres_int(r, i, C_CREATED) != 0,
        .old_type_version = postgres_str(r, i, C_OLD_TYPE_VERSION),
        .uri = postgres_str(r, i, C_URI),
        .etag = postgres_str(r, i, C_ETAG),
        .came_from = postgres_str(r, i, C_CAME_FROM),
        .target = postgres_str(r, i, C_TARGET),
        .metadata = postgres_str(r, i, C_METADATA),
        .not_subscribable = postgres_int(r, i, C_SUBSCRIBABLE) == 0,
    };
    if (c->kind == KEPT_ENTITY || c->kind == KEPT_MOVED) {
        c->uri = postgres_str(r, i, C_ID);
    }
    postgres_read_followed(r, i, &at, ret);
    if (kept_is_announced(c->kind)) {
        ret->announced = (struct tidings_change){
            .uri = c->uri,
            .kind = (enum tidings_change_kind)postgres_int(r, i, C_CHANGE),
            .etag = c->etag,
            .from = c->came_from,
            .metadata = c->metadata,
            .checksum = postgres_str(r, i, C_CHECKSUM),
            .origin = postgres_str(r, i, C_ORIGIN),
            .target = c->target,
            .modified_ms = c->modified_ms,
            .size = c->size < 0 ? 0 : c->size,
            .has_size = c->size >= 0,
            .not_subscribable = c->not_subscribable,
        };
        c->announced = &ret->announced;
    }
}

/* Somebody else wrote an entity that may be known here as current: values are read from now on, and
 * told with the change. */
static void renew_head(struct postgres_rows *s, struct followed_row *row)
{
    struct entity_version *told = &row->change.version, v = *told;
    entity_ids_add(&s->ids, v.id);
    const struct entity_version *head = heads_find(&s->heads, v.id);
    if (!head || head->from > v.from) { /* it was read since, and is newer than this */
        return;
    }
    s->value_pages = VALUE_PAGES;
    v.previous = row->previous;
    v.value = row->value;
    if (row->sum == 0 || !entity_version_is_whole(&v, row->sum)) {
        heads_drop(&s->heads, v.id);
    } else {
        heads_put(&s->heads, &v);
        *told = v;
    }
}

/* What the store itself has to know of it. After a loss, of what is there, all is read again: some
 * has positions below what was followed. */
static int note_change(struct postgres_rows *s, struct followed_row *row, struct tidings_error *err)
{
    const struct kept_change *c = &row->change;
    if (c->kind == KEPT_ENTITY) {
        renew_head(s, row);
    }
    if (c->kind == KEPT_BROKEN) {
        heads_clear(&s->heads);
        entity_ids_clear(&s->ids);
        mem_free(s->ids_after);
        s->ids_after = NULL;
    }
    if (!s->log) {
        return 0;
    }
    if (c->kind == KEPT_RUN) {
        runs_add(s->log->runs, (uint64_t)c->modified_ms,
                 c->size < 0 ? RUN_LIVES : (uint64_t)c->size);
        s->is_run_ended = s->is_run_ended || ((uint64_t)c->modified_ms == s->run && c->size >= 0);
    } else if (c->kind == KEPT_BROKEN) {
        const struct run_break b = {
            .kept = (uint64_t)c->modified_ms, .began = c->position, .is_lossy = c->size != 0};
        runs_add_break(s->log->runs, &b);
        return b.is_lossy ? postgres_rows_read_runs(s, s->log->runs, err) : 0;
    }
    return 0;
}

void postgres_rows_note_followed(struct postgres_rows *s, uint64_t position, bool is_durable)
{
    s->followed = position > s->followed ? position : s->followed;
    if (s->log) {
        runs_follow(s->log->runs, position, is_durable);
    }
}

/* All of what was published there. 0: it was published again since, and that comes later. */
static int fill_published(struct postgres_rows *s, struct followed_row *row, struct pg_result **r,
                          struct tidings_error *err)
{
    int rc = postgres_rows_ask_int(s, PG_PUBLISHED_ONE, (int64_t)row->change.position, r, err);
    if (rc < 0 || postgres_rows(*r) == 0) {
        return rc;
    }
    postgres_rows_read_published(*r, 0, &row->published);
    row->change.published = &row->published;
    return 1;
}

int postgres_rows_hand_on(struct postgres_rows *s, struct followed_row *row, kept_change_fn fn,
                          void *user, struct tidings_error *err)
{
    struct pg_result *content = NULL;
    struct kept_change *c = &row->change;
    int rc = 1;
    if (c->kind == KEPT_PUBLISHED && !c->removed) {
        rc = fill_published(s, row, &content, err);
        if (rc <= 0) {
            postgres_free(content);
            return rc < 0 ? rc : 1;
        }
    }
    rc = note_change(s, row, err);
    if (rc < 0) {
        postgres_free(content);
        return rc;
    }
    rc = fn(user, c) ? 1 : 0;
    bool is_durable = !kept_is_announced(c->kind) && c->kind != KEPT_SESSION;
    postgres_rows_note_followed(s, c->position, is_durable);
    postgres_free(content);
    return rc;
}

/* Some of it was forgotten before it was followed here: told in the place of the newest of those,
 * when what comes next has the position `next`. */
static bool tell_missed(struct postgres_rows *s, uint64_t next, uint64_t *missed, kept_change_fn fn,
                        void *user)
{
    if (*missed == 0 || next <= *missed) {
        return true;
    }
    const struct kept_change broken = {.kind = KEPT_BROKEN, .position = *missed};
    bool goes_on = fn(user, &broken);
    postgres_rows_note_followed(s, *missed, false);
    *missed = 0;
    return goes_on;
}

uint64_t postgres_rows_floor(const struct postgres_rows *s)
{
    return s->now.floor > s->now.announced ? s->now.floor : s->now.announced;
}

static enum postgres_statement page_statement(const struct postgres_rows *s)
{
    return PG_CHANGES + (enum postgres_statement)s->page.tables;
}

static void put_page(struct postgres_values *v, uint64_t after, int64_t value_bytes)
{
    postgres_put_int(v, (int64_t)after);
    postgres_put_int(v, value_bytes);
}

int postgres_rows_send_page(struct postgres_rows *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    put_page(&v, s->followed, s->value_pages > 0 ? (int64_t)HEADS_BYTES : NO_VALUES);
    return postgres_rows_send(s, page_statement(s), &v, err);
}

/* The counter first: what it covers is in the snapshot of the statement after it. */
static int ask_for_page(struct postgres_rows *s, bool with_state, struct pg_result *results[2],
                        struct tidings_error *err)
{
    int rc = postgres_rows_ready(s, READY_MS, err);
    rc = rc == 0 && with_state ? postgres_rows_send(s, PG_STATE, NULL, err) : rc;
    rc = rc == 0 ? postgres_rows_send_page(s, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, with_state ? results : results + 1,
                                     with_state ? 2 : 1, err)
                   : rc;
}

/* A page of what comes after `followed`; *ret_newest: where the store is at least. */
static int read_page(struct postgres_rows *s, struct pg_result **ret, uint64_t *ret_newest,
                     struct tidings_error *err)
{
    struct pg_result *results[2] = {NULL, NULL};
    uint64_t notified = s->page.tables == PAGE_ALL ? 0 : s->notified;
    bool with_state = notified <= s->followed;
    *ret_newest = s->now.position;
    if (s->is_in_batch && s->next_page && s->next_after == s->followed) {
        *ret = s->next_page; /* it came with the lock */
        s->next_page = NULL;
        return 0;
    }
    if (s->is_in_batch) {
        int rc = postgres_rows_send_page(s, err);
        rc = rc == 0 ? postgres_end(s->db, err) : rc;
        return rc == 0 ? postgres_finish(s->db, 0, ret, 1, err) : rc;
    }
    __atomic_fetch_add(&s->heard_so_far.asked, 1, __ATOMIC_RELAXED);
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = ask_for_page(s, with_state, results, err);
    /* It was lost while nobody used it: another may do. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = ask_for_page(s, with_state, results, err);
    }
    if (rc == 0 && with_state) {
        rc = postgres_rows_read_counters(s, results[0], &s->now, err);
        if (rc == 0) {
            postgres_rows_hear_clock(s, results[0], asked_ms);
        }
    }
    postgres_free(results[0]);
    s->notified = 0; /* if it says too much, the store is asked */
    *ret = results[1];
    *ret_newest = with_state ? s->now.position : notified;
    return rc;
}

/* A statement that would have given such a change. */
static enum postgres_statement statement_of(enum kept_kind kind)
{
    return kind == KEPT_ENTITY                               ? PG_ENTITIES
           : kept_is_announced(kind) || kind == KEPT_SESSION ? PG_RECENT
                                                             : PG_CHANGES;
}

/* `least` would have given all of the page. */
static void choose_statement(struct postgres_rows *s, enum postgres_statement least)
{
    page_choose(&s->page, (enum page_tables)(least - PG_CHANGES));
    s->value_pages -= s->value_pages > 0;
}

static uint64_t entity_position(void *rows, size_t i)
{
    return (uint64_t)postgres_int(rows, (int)i, E_POSITION);
}

static uint64_t change_position(void *rows, size_t i)
{
    return (uint64_t)postgres_int(rows, (int)i, C_POSITION);
}

/* How many rows of a page can be followed. *is_last: and that is all there is. */
static int count_followable(struct postgres_rows *s, struct pg_result *rows, uint64_t newest,
                            bool is_missed, bool *is_last)
{
    const struct page page = {
        .count = (size_t)postgres_rows(rows),
        .max = PAGE_ROWS,
        .newest = newest,
        .is_missed = is_missed,
        .position = s->page.tables == PAGE_ENTITIES ? entity_position : change_position,
        .rows = rows,
    };
    return (int)page_followable(&s->page, &page, s->followed, is_last);
}

/* Others took this node's run for ended: nobody is told of what comes after that before they know
 * better, or they would refuse its cursors. */
static bool must_revive(const struct postgres_rows *s, bool was_tried)
{
    return s->is_run_ended && !s->is_in_batch && !was_tried;
}

/* A page of what others wrote. 1: go on; 0: that was all, or `fn` has enough. */
static int follow_page(struct postgres_rows *s, bool was_tried, kept_change_fn fn, void *user,
                       struct tidings_error *err)
{
    struct pg_result *page = NULL;
    uint64_t newest = 0;
    enum postgres_statement which = page_statement(s), least = PG_ENTITIES;
    int rc = read_page(s, &page, &newest, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t missed = s->followed < postgres_rows_floor(s) ? postgres_rows_floor(s) : 0;
    bool is_last = false, goes_on = true;
    int n = count_followable(s, page, newest, missed > 0, &is_last);
    rc = 1;
    for (int i = 0; rc == 1 && goes_on && i < n; i++) {
        struct followed_row row = {.published = {.created = false}};
        (which == PG_ENTITIES ? postgres_read_entity : postgres_read_change)(page, i, &row);
        enum postgres_statement own = statement_of(row.change.kind);
        least = own < least ? own : least;
        /* Several runs have one position. */
        goes_on = !(must_revive(s, was_tried) && row.change.position > s->followed) &&
                  tell_missed(s, row.change.position, &missed, fn, user);
        rc = goes_on ? postgres_rows_hand_on(s, &row, fn, user, err) : rc;
        goes_on = goes_on && rc != 0;
    }
    postgres_free(page);
    goes_on = goes_on && (rc < 0 || !is_last || tell_missed(s, UINT64_MAX, &missed, fn, user));
    if (rc < 0 || !goes_on) {
        return rc < 0 ? rc : 0;
    }
    if (is_last) {
        choose_statement(s, least);
        postgres_rows_note_followed(s, newest, false); /* rows said what was durable */
        s->now.position = s->now.position < s->followed ? s->followed : s->now.position;
        s->is_behind = false;
    }
    return is_last ? 0 : 1;
}

int postgres_rows_follow(struct entity_rows *rows, kept_change_fn fn, void *user,
                         struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    postgres_rows_release(s);
    if (s->is_in_batch && !s->is_behind) {
        return 0;
    }
    if (!s->is_in_batch) {
        postgres_rows_listen(s);
        int heard = postgres_rows_follow_heard(s, fn, user, err);
        if (heard != 0) {
            return heard < 0 ? heard : 0;
        }
    }
    int rc = 1;
    bool was_tried = false;
    while (rc == 1) {
        rc = follow_page(s, was_tried, fn, user, err);
        if (rc == 0 && must_revive(s, was_tried)) {
            /* If it fails, it is tried again when the row of this node is written. */
            was_tried = true;
            (void)postgres_rows_keep_run(s, POSTGRES_RUN_MS, NULL);
            rc = 1;
        }
    }
    return rc;
}

int postgres_rows_each_change(struct entity_rows *rows, size_t max, uint64_t *ret_floor,
                              kept_change_fn fn, void *user, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct pg_result *r = NULL;
    postgres_rows_release(s);
    int64_t count = max > FLOOR_MAX ? FLOOR_MAX : (int64_t)max;
    int rc = postgres_rows_ask_int(s, PG_FLOOR, count, &r, err);
    uint64_t floor = rc == 0 && postgres_rows(r) == 1 ? (uint64_t)postgres_int(r, 0, 0) : 0;
    postgres_free(r);
    floor = s->now.floor > floor ? s->now.floor : floor;
    floor = s->now.announced > floor ? s->now.announced : floor;
    /* Of before a break the announcements are gone: nobody could tell who comes from there. */
    uint64_t broken = s->log ? runs_broken(s->log->runs) : 0;
    floor = broken > floor ? broken : floor;
    *ret_floor = floor;
    uint64_t after = floor;
    int n = rc == 0 ? PAGE_ROWS : 0;
    for (bool more = true; n == PAGE_ROWS && more && rc == 0;) {
        struct postgres_values v = {0};
        put_page(&v, after, NO_VALUES);
        rc = postgres_rows_ask(s, PG_CHANGES, &v, &r, err);
        n = rc == 0 ? postgres_rows(r) : 0;
        for (int i = 0; more && i < n; i++) {
            struct followed_row row = {.published = {.created = false}};
            postgres_read_change(r, i, &row);
            after = row.change.position;
            /* Of the others, what cursors of before are good for says enough. */
            bool is_resource = row.change.kind <= KEPT_FILE || kept_is_announced(row.change.kind);
            more = after <= s->followed && (!is_resource || fn(user, &row.change));
        }
        postgres_free(r);
    }
    return rc;
}
