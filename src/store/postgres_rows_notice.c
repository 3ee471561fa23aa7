/* SPDX-License-Identifier: MIT
 *
 * Notices in PostgreSQL: the rows of a batch travel with NOTIFY to the nodes that follow it, which
 * then need not ask. The rules are those of store/row_notice.h.
 *
 * Two channels, named after the cluster: one for positions, which is all that older nodes know, and
 * `…_rows` for notices. Both are notified by one statement, so whoever listens is woken once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "store/postgres_rows_private.h"

#define SAY_AGAIN_MS 10000u

static void notice_count(uint64_t *counter, uint64_t more)
{
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

void postgres_rows_notice_deinit(struct postgres_rows *s)
{
    heard_clear(&s->heard);
    row_notice_deinit(&s->notice);
    sealer_deinit(&s->sealer);
    explicit_bzero(&s->notice_key, sizeof s->notice_key);
}

/* ---- where they are good --------------------------------------------------------------------- */

/* Everything but the secret is no secret. */
static void read_place(struct postgres_rows *s, struct pg_result *r)
{
    struct postgres_values v = {0};
    struct sha256 sum;
    postgres_put_int(&v, (int64_t)s->cluster_id);
    postgres_put_int(&v, (int64_t)s->server);
    for (int i = 1; i <= 3; i++) {
        postgres_put_int(&v, postgres_int(r, 0, i));
    }
    sha256_init(&sum);
    sha256_put(&sum, v.numbers, (size_t)v.count * sizeof *v.numbers);
    sha256_end(&sum, s->place.digest);
    sealer_deinit(&s->sealer);
    row_notice_key((const unsigned char *)postgres_str(r, 0, 0).ptr, &s->notice_key);
    sealer_init(&s->sealer, &s->notice_key);
}

/* An engine that cannot say where this is goes on with positions alone; so does who has no OpenSSL.
 */
int postgres_rows_read_place(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct tidings_error why = {0};
    int rc = postgres_ask(s->db, PG_PLACE, NULL, &r, &why);
    s->has_place =
        rc == 0 && postgres_rows(r) == 1 && postgres_str(r, 0, 0).len == 32 && seal_load(NULL) == 0;
    if (s->has_place) {
        read_place(s, r);
    }
    postgres_free(r);
    s->has_heard_all = false;
    return rc < 0 && !postgres_is_connected(s->db) ? tidings_fail(err, rc, "%s", why.text) : 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Does the newest position come after those of the rows that are there? */
static bool notice_takes(struct postgres_rows *s)
{
    bool takes = s->has_place && s->has_notify && !s->notice.is_partial &&
                 s->now.position == s->before.position + s->notice.count + 1;
    s->notice.is_partial = !takes;
    return takes;
}

/* What replaced a row of the same batch would be followed without that one: it is asked for. */
void postgres_rows_tell_version(struct postgres_rows *s, const struct entity_version *v,
                                int64_t sum, bool replaces_current)
{
    s->notice.is_partial = s->notice.is_partial || (replaces_current && s->notice.count > 0);
    if (notice_takes(s)) {
        row_notice_add_version(&s->notice, v, s->now_ms, sum);
    }
}

void postgres_rows_tell_announced(struct postgres_rows *s, enum kept_kind kind,
                                  const struct tidings_change *c)
{
    if (notice_takes(s)) {
        row_notice_add_announced(&s->notice, kind, c, s->now_ms);
    }
}

int postgres_rows_send_state(struct postgres_rows *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    char mark[POSTGRES_MARK];
    bool is_marked = row_notice_is_whole(&s->notice, s->before.position, s->now.position);
    postgres_put_int(&v, (int64_t)s->now.position);
    postgres_put_int(&v, (int64_t)s->now.floor);
    postgres_put_int(&v, (int64_t)s->now.announced);
    postgres_put_int(&v, s->now.keys);
    postgres_put_int(&v, s->now.max_keys);
    if (is_marked) {
        postgres_rows_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    return postgres_rows_send(s, is_marked ? PG_SET_STATE_MARKED : PG_SET_STATE, &v, err);
}

unsigned postgres_rows_notify(struct postgres_rows *s)
{
    char channel[40], rows_channel[48], position[24], mark[POSTGRES_MARK];
    struct postgres_values v = {0};
    struct buf text;
    if (!s->has_notify) {
        return 0;
    }
    buf_init(&text, ROW_NOTICE_TEXT_MAX + 1);
    bool has_rows =
        row_notice_is_whole(&s->notice, s->before.position, s->now.position) &&
        row_notice_put(&s->notice, &s->sealer, &s->place, s->before.position + 1, &text) == 0;
    (void)snprintf(channel, sizeof channel, "tidings_%016" PRIx64, s->cluster_id);
    (void)snprintf(rows_channel, sizeof rows_channel, "%s_rows", channel);
    (void)snprintf(position, sizeof position, "%" PRIu64, s->now.position);
    if (has_rows) {
        postgres_put_str(&v, tidings_str(rows_channel));
        postgres_put_str(&v, buf_str(&text));
    }
    postgres_put_str(&v, tidings_str(channel));
    postgres_put_str(&v, tidings_str(position));
    if (has_rows || s->is_unlocked) {
        postgres_rows_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    enum postgres_statement which = has_rows         ? PG_NOTIFY_ROWS
                                    : s->is_unlocked ? PG_NOTIFY_IF
                                                     : PG_NOTIFY;
    int rc = postgres_send(s->db, (int)which, &v, NULL);
    rc = rc == 0 ? postgres_end(s->db, NULL) : rc;
    buf_deinit(&text);
    return rc == 0 ? 1 : 0;
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* Somebody else wrote it, or it is of before a restart. Said now and then. */
static void notice_refuse(struct postgres_rows *s)
{
    notice_count(&s->heard_so_far.refused, 1);
    uint64_t now = clock_monotonic_ms();
    if (now >= s->say_refused_ms) {
        s->say_refused_ms = now + SAY_AGAIN_MS;
        log_warn(LOG_STORE, "a notification was not sent by a node of this cluster",
                 KV("database", postgres_redacted_url(s->db)));
    }
}

static void on_notified(void *user, struct tidings_str payload)
{
    struct postgres_rows *s = user;
    if (!heard_add(&s->heard, payload, s->followed)) {
        notice_refuse(s);
    }
}

int postgres_rows_hear(struct postgres_rows *s)
{
    heard_clear(&s->heard);
    int rc = postgres_notified(s->db, on_notified, s);
    s->notified = s->heard.notified;
    s->has_heard_all = rc == 0 && s->heard.count > 0;
    return rc < 0 || s->notified > s->followed ? 1 : 0;
}

/* ---- following ------------------------------------------------------------------------------- */

/* 1: go on; 0: `fn` has enough. */
static int apply_rows(struct postgres_rows *s, const struct row_notice_head *head,
                      struct tidings_str rows, kept_change_fn fn, void *user,
                      struct tidings_error *err)
{
    struct followed_row row;
    int rc = 1;
    notice_count(&s->heard_so_far.told, 1);
    for (uint64_t at = head->from; rc == 1 && row_notice_next(&rows, at, &row); at++) {
        rc = postgres_rows_hand_on(s, &row, fn, user, err);
        notice_count(&s->heard_so_far.changes, 1);
    }
    s->now.position = s->now.position < s->followed ? s->followed : s->now.position;
    return rc;
}

/* What was forgotten before it was followed is told by who asks. */
static bool heard_may_be_followed(const struct postgres_rows *s)
{
    return s->has_heard_all && s->has_place && postgres_is_connected(s->db) &&
           postgres_rows_floor(s) <= s->followed;
}

int postgres_rows_follow_heard(struct postgres_rows *s, kept_change_fn fn, void *user,
                               struct tidings_error *err)
{
    struct row_notice_head head;
    struct buf rows;
    int rc = heard_may_be_followed(s) ? 1 : TIDINGS_E_NOTFOUND;
    buf_init_secret(&rows, ROW_NOTICE_TEXT_MAX);
    while (rc == 1 && heard_find(&s->heard, s->followed, &head)) {
        buf_clear(&rows);
        int opened = row_notice_open(&head, &s->sealer, &s->place, &rows);
        if (opened == TIDINGS_E_INVALID) {
            notice_refuse(s);
        }
        rc = opened == 0 ? apply_rows(s, &head, buf_str(&rows), fn, user, err) : TIDINGS_E_NOTFOUND;
    }
    buf_deinit(&rows);
    heard_clear(&s->heard);
    s->has_heard_all = false;
    if (rc == TIDINGS_E_NOTFOUND) {
        return 0;
    }
    return rc < 0 ? rc : rc == 0 || s->followed >= s->notified ? 1 : 0;
}

void postgres_rows_heard(struct entity_rows *rows, struct shared_heard *ret)
{
    struct shared_heard *h = &postgres_rows_of(rows)->heard_so_far;
    *ret = (struct shared_heard){
        .told = __atomic_load_n(&h->told, __ATOMIC_RELAXED),
        .changes = __atomic_load_n(&h->changes, __ATOMIC_RELAXED),
        .asked = __atomic_load_n(&h->asked, __ATOMIC_RELAXED),
        .refused = __atomic_load_n(&h->refused, __ATOMIC_RELAXED),
    };
}
