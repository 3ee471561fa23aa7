/* SPDX-License-Identifier: MIT
 *
 * Changes in the database in the order of positions: later commits of other nodes, and the state at
 * a start.
 *
 * One statement reads all three tables and the counter of positions, so from one snapshot. A
 * committer takes its positions under the lock and keeps the lock until the commit: a snapshot with
 * a position has all lower ones. Notifications have the same records (cluster/log_record.h);
 * `apply_record` applies both.
 */
#include "cluster/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Stores notifications by their unverified headers. Decryption verifies the headers later.
 */

void notifications_clear(struct notifications *h)
{
    while (h->count > 0) {
        mem_free(h->texts[--h->count]);
    }
    h->notified = 0;
}

bool notifications_add(struct notifications *h, struct tidings_str text, uint64_t followed)
{
    struct notify_payload_head head = {0};
    bool is_payload = notify_payload_parse(text, &head);
    if (!is_payload && !str_to_u64(text, &head.to)) {
        return false;
    }
    if (head.to <= followed) {
        return true;
    }
    h->notified = head.to > h->notified ? head.to : h->notified;
    char *copy = is_payload && h->count < NOTIFICATIONS_MAX ? str_dup(text) : NULL;
    if (copy) {
        h->texts[h->count++] = copy;
    }
    return true;
}

bool notifications_find(const struct notifications *h, uint64_t followed,
                        struct notify_payload_head *ret)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (notify_payload_parse(tidings_str(h->texts[i]), ret) && ret->from == followed + 1) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------- */

struct postgres_follow {
    uint64_t notified; /* a position that other nodes have reached */
    struct notifications notifications;
    struct notification_counts notification_counts; /* atomic */
    uint64_t say_refused_ms;                        /* not before: monotonic */
    struct seal_key payload_key;
    bool wants_to_listen, is_listening; /* NOTIFY; this connection listens */
    bool is_listener_new;       /* the descriptor has changed, even if its number is the same */
    bool has_all_notifications; /* no query is necessary if they lead up to `notified` */
    unsigned value_pages;       /* still to be read with values, to fill the heads */
};

#define PAGE_ROWS 1000 /* the number in the statements */
#define NO_VALUES (-1)
#define VALUE_PAGES 256 /* pages without an entity known here; then without values */
#define FLOOR_MAX 100000000
#define READY_MS 1000

static void postgres_store_listen(struct postgres_store *s)
{
    char sql[64];
    s->follow->wants_to_listen = true;
    if (!s->has_notify || s->follow->is_listening || !postgres_is_connected(s->db)) {
        return;
    }
    s->follow->is_listening = s->follow->is_listener_new = true;
    s->follow->has_all_notifications = false; /* notifications sent before this were lost */
    (void)snprintf(sql, sizeof sql, "LISTEN tidings_%016" PRIx64, s->cluster_id);
    if (postgres_exec(s->db, sql, NULL) < 0) {
        /* If the engine does not support it, polls at intervals; otherwise tries again. */
        s->has_notify = !postgres_store_is_unsupported(s);
        s->follow->is_listening = false;
    }
}

/* The columns of PG_FOLLOW after the counters and the clock. If there are no changes, the only row
 * has none of these. */
enum follow_column {
    F_POSITION = 6,
    F_RECORD,
    F_PREVIOUS,
    F_VALUE,
};

static int page_count(struct pg_result *r)
{
    int n = postgres_rows(r);
    return n == 1 && postgres_int(r, 0, F_POSITION) == 0 ? 0 : n;
}

static bool page_has_moved(struct pg_result *r, int i)
{
    struct tidings_str bytes = postgres_str(r, i, F_RECORD);
    return bytes.len > 0 && bytes.ptr[0] == LOG_ENTRY_MOVED;
}

static void page_read_row(struct pg_result *r, int i, struct kept_record *ret)
{
    struct tidings_str bytes = postgres_str(r, i, F_RECORD);
    if (!kept_record_take(&bytes, ret) || bytes.len > 0) {
        *ret = (struct kept_record){
            .kind = LOG_ENTRY_ENTITY}; /* it has no id: cluster/apply.c skips it and logs that */
    }
    ret->position = (uint64_t)postgres_int(r, i, F_POSITION);
    ret->version.previous = postgres_str(r, i, F_PREVIOUS);
    ret->version.value = postgres_str(r, i, F_VALUE);
}

/* A move has two rows: the entity left its URI, and it has a new version. Each row needs fields of
 * the other. */
static void page_read(struct pg_result *r, int count, int i, struct kept_record *ret)
{
    struct kept_record other;
    struct entity_version *v = &ret->version, *w = &other.version;
    page_read_row(r, i, ret);
    int at = page_has_moved(r, i) ? i + 1 : i > 0 && page_has_moved(r, i - 1) ? i - 1 : -1;
    if (at < 0 || at >= count) {
        return;
    }
    page_read_row(r, at, &other);
    if (!str_eq(v->id, w->id) || other.position + (uint64_t)i != ret->position + (uint64_t)at) {
        return;
    }
    if (at < i) {
        v->old_type_version = w->old_type_version;
    } else {
        ret->at_ms = other.at_ms;
        v->parent = w->parent;
        v->old_parent = w->old_parent;
        v->changed_by = w->changed_by;
        v->principal = w->principal;
    }
}

/* The number of rows to read now. Both rows of a move are read together. *ret_last: this is the
 * last page. */
static int page_complete(struct pg_result *r, bool *ret_last)
{
    int n = page_count(r);
    *ret_last = n < PAGE_ROWS;
    return !*ret_last && page_has_moved(r, n - 1) ? n - 1 : n;
}

/* Updates an entity that is cached as current after another node wrote it. From now on values are
 * read and sent with the change. */
static void renew_latest(struct postgres_store *s, const struct kept_record *r, struct log_entry *c)
{
    const struct entity_version *v = &r->version;
    entity_ids_add(&s->ids, v->id);
    const struct entity_version *head = latest_find(&s->latest, v->id);
    if (!head || head->from > v->from) { /* read since then, and newer than this */
        return;
    }
    s->follow->value_pages = VALUE_PAGES;
    if (!entity_version_is_whole(v, r->version_checksum)) {
        latest_drop(&s->latest, v->id);
    } else {
        latest_put(&s->latest, v);
        c->version = *v;
    }
}

/* Updates the state of the store itself. After a data loss, reads all existing rows again, because
 * some have positions below the followed ones. */
static int note_change(struct postgres_store *s, const struct kept_record *r, struct log_entry *c,
                       struct tidings_error *err)
{
    if (c->kind == LOG_ENTRY_ENTITY) {
        renew_latest(s, r, c);
    }
    if (c->kind == LOG_ENTRY_DATA_LOSS) {
        latest_clear(&s->latest);
        entity_ids_clear(&s->ids);
        mem_free(s->ids_after);
        s->ids_after = NULL;
    }
    return postgres_history_note(s, c, err);
}

void postgres_store_note_followed(struct postgres_store *s, uint64_t position, bool is_durable)
{
    s->followed = position > s->followed ? position : s->followed;
    postgres_history_follow(s, position, is_durable);
}

/* Reads everything that was published there. 0: it was published again later, and that change
 * follows. */
static int fill_published(struct postgres_store *s, struct log_entry *c, struct published_row *row,
                          struct pg_result **r, struct tidings_error *err)
{
    int rc = postgres_store_ask_int(s, PG_PUBLISHED_ONE, (int64_t)c->position, r, err);
    if (rc < 0 || postgres_rows(*r) == 0) {
        return rc;
    }
    postgres_store_read_published(*r, 0, row);
    c->published = row;
    return 1;
}

/* Applies every change of other nodes. 1: continue; 0: `fn` stopped. */
static int apply_record(struct postgres_store *s, const struct kept_record *r, log_entry_fn fn,
                        void *user, struct tidings_error *err)
{
    struct pg_result *content = NULL;
    struct log_entry c;
    struct published_row row;
    int rc = 1;
    kept_record_change(r, &c);
    if (c.kind == LOG_ENTRY_PUBLISHED && !c.removed) {
        rc = fill_published(s, &c, &row, &content, err);
        if (rc <= 0) {
            postgres_free(content);
            return rc < 0 ? rc : 1;
        }
    }
    rc = note_change(s, r, &c, err);
    if (rc < 0) {
        postgres_free(content);
        return rc;
    }
    rc = fn(user, &c) ? 1 : 0;
    bool is_durable = !log_entry_is_announced(c.kind) && c.kind != LOG_ENTRY_SESSION;
    postgres_store_note_followed(s, c.position, is_durable);
    postgres_free(content);
    return rc;
}

/* Announces that changes were removed before this node followed them. They are announced at the
 * position of the newest one, if the next change has the position `next`. */
static bool announce_missed(struct postgres_store *s, uint64_t next, uint64_t *missed,
                            log_entry_fn fn, void *user)
{
    if (*missed == 0 || next <= *missed) {
        return true;
    }
    const struct log_entry broken = {.kind = LOG_ENTRY_DATA_LOSS, .position = *missed};
    bool goes_on = fn(user, &broken);
    postgres_store_note_followed(s, *missed, false);
    *missed = 0;
    return goes_on;
}

/* Returns the position up to which changes may have been removed. */
static uint64_t postgres_store_floor(const struct postgres_store *s)
{
    return s->now.floor > s->now.announced ? s->now.floor : s->now.announced;
}

static void put_page(struct postgres_values *v, uint64_t after, int64_t value_bytes)
{
    postgres_put_int(v, (int64_t)after);
    postgres_put_int(v, value_bytes);
}

int postgres_store_send_page(struct postgres_store *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    put_page(&v, s->followed, s->follow->value_pages > 0 ? (int64_t)LATEST_BYTES : NO_VALUES);
    return postgres_store_send(s, PG_FOLLOW, &v, err);
}

static int ask_for_page(struct postgres_store *s, struct pg_result **ret, struct tidings_error *err)
{
    int rc = s->is_in_batch ? 0 : postgres_store_ready(s, READY_MS, err);
    rc = rc == 0 ? postgres_store_send_page(s, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, ret, 1, err) : rc;
}

/* A page of the changes after `followed`. `now.position` is the counter of that snapshot. */
static int read_page(struct postgres_store *s, struct pg_result **ret, struct tidings_error *err)
{
    if (s->is_in_batch && s->next_page && s->next_after == s->followed) {
        *ret = s->next_page; /* it came with the lock */
        s->next_page = NULL;
        return 0;
    }
    if (s->is_in_batch) {
        return ask_for_page(s, ret, err);
    }
    __atomic_fetch_add(&s->follow->notification_counts.asked, 1, __ATOMIC_RELAXED);
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = ask_for_page(s, ret, err);
    /* An idle connection was lost: another connection may work. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = ask_for_page(s, ret, err);
    }
    rc = rc == 0 ? postgres_store_read_counters(s, *ret, &s->now, err) : rc;
    if (rc == 0) {
        postgres_store_hear_clock(s, *ret, asked_ms);
    }
    return rc;
}

/* Returns true if other nodes marked this node's incarnation as ended. It must announce nothing
 * after that before they know that it lives, because they would reject its cursors. */
static bool must_revive(const struct postgres_store *s, bool was_tried)
{
    return postgres_history_must_revive(s) && !s->is_in_batch && !was_tried;
}

/* Follows a page of changes from other nodes. 1: continue; 0: the last page, or `fn` stopped. */
static int follow_page(struct postgres_store *s, bool was_tried, log_entry_fn fn, void *user,
                       struct tidings_error *err)
{
    struct pg_result *page = NULL;
    int rc = read_page(s, &page, err);
    if (rc < 0) {
        postgres_free(page);
        return rc;
    }
    uint64_t missed = s->followed < postgres_store_floor(s) ? postgres_store_floor(s) : 0;
    bool is_last = false, goes_on = true;
    int n = page_complete(page, &is_last);
    rc = 1;
    for (int i = 0; rc == 1 && goes_on && i < n; i++) {
        struct kept_record record;
        page_read(page, n, i, &record);
        goes_on =
            !must_revive(s, was_tried) && announce_missed(s, record.position, &missed, fn, user);
        rc = goes_on ? apply_record(s, &record, fn, user, err) : rc;
        goes_on = goes_on && rc != 0;
    }
    postgres_free(page);
    goes_on = goes_on && (rc < 0 || !is_last || announce_missed(s, UINT64_MAX, &missed, fn, user));
    if (rc < 0 || !goes_on) {
        return rc < 0 ? rc : 0;
    }
    if (is_last) {
        s->follow->value_pages -= s->follow->value_pages > 0;
        postgres_store_note_followed(s, s->now.position, false); /* rows stated durability */
        s->is_behind = false;
    }
    return is_last ? 0 : 1;
}

static int postgres_store_follow_heard(struct postgres_store *s, log_entry_fn fn, void *user,
                                       struct tidings_error *err);

int postgres_store_follow(struct store *store, log_entry_fn fn, void *user,
                          struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    if (s->is_in_batch && !s->is_behind) {
        return 0;
    }
    if (!s->is_in_batch) {
        postgres_store_listen(s);
        int notifications = postgres_store_follow_heard(s, fn, user, err);
        if (notifications != 0) {
            return notifications < 0 ? notifications : 0;
        }
    }
    int rc = 1;
    bool was_tried = false;
    while (rc == 1) {
        rc = follow_page(s, was_tried, fn, user, err);
        if (rc == 0 && must_revive(s, was_tried)) {
            /* If it fails, the next write of this node's row tries again. */
            was_tried = true;
            (void)postgres_store_keep_run(s, POSTGRES_INCARNATION_MS, NULL);
            rc = 1;
        }
    }
    return rc;
}

int postgres_store_each_change(struct store *store, size_t max, uint64_t *ret_floor,
                               log_entry_fn fn, void *user, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int64_t count = max > FLOOR_MAX ? FLOOR_MAX : (int64_t)max;
    int rc = postgres_store_ask_int(s, PG_FLOOR, count, &r, err);
    uint64_t floor = rc == 0 && postgres_rows(r) == 1 ? (uint64_t)postgres_int(r, 0, 0) : 0;
    postgres_free(r);
    floor = s->now.floor > floor ? s->now.floor : floor;
    floor = s->now.announced > floor ? s->now.announced : floor;
    /* Announcements from before a data loss are gone, so cursors from before it cannot be
     * served. */
    uint64_t broken = postgres_history_broken(s);
    floor = broken > floor ? broken : floor;
    *ret_floor = floor;
    uint64_t after = floor;
    bool is_last = false;
    for (bool more = true; !is_last && more && rc == 0;) {
        struct postgres_values v = {0};
        put_page(&v, after, NO_VALUES);
        rc = postgres_store_ask(s, PG_FOLLOW, &v, &r, err);
        int n = rc == 0 ? page_complete(r, &is_last) : 0;
        for (int i = 0; more && i < n; i++) {
            struct kept_record record;
            struct log_entry c;
            page_read(r, n, i, &record);
            kept_record_change(&record, &c);
            after = c.position;
            /* The other kinds need no resync, because the rules for earlier cursors suffice. */
            bool is_resource = c.kind <= LOG_ENTRY_FILE || log_entry_is_announced(c.kind);
            more = after <= s->followed && (!is_resource || fn(user, &c));
        }
        postgres_free(r);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Notifications in PostgreSQL. The rows of a batch travel with NOTIFY to the nodes that follow it,
 * so that they need no query. The rules are those of cluster/log_record.h. The channel has the name
 * of the cluster.
 */

#define SAY_AGAIN_MS 10000u

static void notification_count(uint64_t *counter, uint64_t more)
{
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

struct postgres_follow *postgres_follow_create(void)
{
    return mem_zalloc(sizeof(struct postgres_follow));
}

void postgres_follow_destroy(struct postgres_follow *f)
{
    if (f) {
        notifications_clear(&f->notifications);
        explicit_bzero(&f->payload_key, sizeof f->payload_key);
        mem_free(f);
    }
}

void postgres_follow_connected(struct postgres_store *s)
{
    if (s->follow->wants_to_listen) {
        postgres_store_listen(s); /* before reading, so that no notification is missed */
    }
}

void postgres_follow_disconnected(struct postgres_store *s)
{
    s->follow->is_listening = false;
}

/* ---- where they are good --------------------------------------------------------------------- */

/* Only the secret is confidential. */
static void read_scope(struct postgres_store *s, struct pg_result *r)
{
    struct postgres_values v = {0};
    struct sha256 version_checksum;
    postgres_put_int(&v, (int64_t)s->cluster_id);
    postgres_put_int(&v, (int64_t)postgres_history_server(s));
    for (int i = 1; i <= 3; i++) {
        postgres_put_int(&v, postgres_int(r, 0, i));
    }
    sha256_init(&version_checksum);
    sha256_put(&version_checksum, v.numbers, (size_t)v.count * sizeof *v.numbers);
    sha256_end(&version_checksum, s->scope.digest);
    sealer_deinit(&s->sealer);
    notify_payload_key((const unsigned char *)postgres_str(r, 0, 0).ptr, &s->follow->payload_key);
    sealer_init(&s->sealer, &s->follow->payload_key);
}

/* Without support in the engine, or without OpenSSL, the node uses only positions. */
int postgres_store_read_place(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct tidings_error why = {0};
    int rc = postgres_ask(s->db, PG_SCOPE, NULL, &r, &why);
    s->has_scope =
        rc == 0 && postgres_rows(r) == 1 && postgres_str(r, 0, 0).len == 32 && seal_load(NULL) == 0;
    if (s->has_scope) {
        read_scope(s, r);
    }
    postgres_free(r);
    s->follow->has_all_notifications = false;
    return rc < 0 && !postgres_is_connected(s->db) ? tidings_fail(err, rc, "%s", why.text) : 0;
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* Rejects a payload from another program or from before a restart. Logs that at most once per
 * interval. */
static void payload_refuse(struct postgres_store *s)
{
    notification_count(&s->follow->notification_counts.refused, 1);
    uint64_t now = clock_monotonic_ms();
    if (now >= s->follow->say_refused_ms) {
        s->follow->say_refused_ms = now + SAY_AGAIN_MS;
        log_warn(LOG_STORE, "a notification was not sent by a node of this cluster",
                 KV("database", postgres_redacted_url(s->db)));
    }
}

static void on_notified(void *user, struct tidings_str payload)
{
    struct postgres_store *s = user;
    if (!notifications_add(&s->follow->notifications, payload, s->followed)) {
        payload_refuse(s);
    }
}

static int postgres_store_hear(struct postgres_store *s)
{
    notifications_clear(&s->follow->notifications);
    int rc = postgres_notified(s->db, on_notified, s);
    s->follow->notified = s->follow->notifications.notified;
    s->follow->has_all_notifications = rc == 0 && s->follow->notifications.count > 0;
    return rc < 0 || s->follow->notified > s->followed ? 1 : 0;
}

/* ---- being woken ----------------------------------------------------------------------------- */

uint64_t postgres_store_followed(struct store *store)
{
    return postgres_store_of(store)->followed;
}

int postgres_store_descriptor(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    bool is_new = s->follow->is_listener_new;
    s->follow->is_listener_new = false;
    return s->follow->is_listening && !is_new ? postgres_descriptor(s->db) : -1;
}

int postgres_store_wake(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    return postgres_store_hear(s);
}

bool postgres_store_has_news(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    return s->follow->is_listening && postgres_is_connected(s->db) && postgres_store_hear(s) == 1;
}

/* ---- following ------------------------------------------------------------------------------- */

/* 1: continue; 0: `fn` stopped. */
static int apply_rows(struct postgres_store *s, const struct notify_payload_head *head,
                      struct tidings_str rows, log_entry_fn fn, void *user,
                      struct tidings_error *err)
{
    struct kept_record record;
    int rc = 1;
    notification_count(&s->follow->notification_counts.applied, 1);
    for (uint64_t at = head->from; rc == 1 && notify_payload_next(&rows, at, &record); at++) {
        rc = apply_record(s, &record, fn, user, err);
        notification_count(&s->follow->notification_counts.changes, 1);
    }
    s->now.position = s->now.position < s->followed ? s->followed : s->now.position;
    return rc;
}

/* The query announces changes that were removed before this node followed them. */
static bool notifications_may_be_followed(const struct postgres_store *s)
{
    return s->follow->has_all_notifications && s->has_scope && postgres_is_connected(s->db) &&
           postgres_store_floor(s) <= s->followed;
}

static int postgres_store_follow_heard(struct postgres_store *s, log_entry_fn fn, void *user,
                                       struct tidings_error *err)
{
    struct notify_payload_head head;
    struct buf rows;
    int rc = notifications_may_be_followed(s) ? 1 : TIDINGS_E_NOTFOUND;
    buf_init_secret(&rows, NOTIFY_PAYLOAD_TEXT_MAX);
    while (rc == 1 && notifications_find(&s->follow->notifications, s->followed, &head)) {
        buf_clear(&rows);
        int opened = notify_payload_open(&head, &s->sealer, &s->scope, &rows);
        if (opened == TIDINGS_E_INVALID) {
            payload_refuse(s);
        }
        rc = opened == 0 ? apply_rows(s, &head, buf_str(&rows), fn, user, err) : TIDINGS_E_NOTFOUND;
    }
    buf_deinit(&rows);
    notifications_clear(&s->follow->notifications);
    s->follow->has_all_notifications = false;
    if (rc == TIDINGS_E_NOTFOUND) {
        return 0;
    }
    return rc < 0 ? rc : rc == 0 || s->followed >= s->follow->notified ? 1 : 0;
}

void postgres_store_heard(struct store *store, struct notification_counts *ret)
{
    struct notification_counts *h = &postgres_store_of(store)->follow->notification_counts;
    *ret = (struct notification_counts){
        .applied = __atomic_load_n(&h->applied, __ATOMIC_RELAXED),
        .changes = __atomic_load_n(&h->changes, __ATOMIC_RELAXED),
        .asked = __atomic_load_n(&h->asked, __ATOMIC_RELAXED),
        .refused = __atomic_load_n(&h->refused, __ATOMIC_RELAXED),
    };
}
