/* SPDX-License-Identifier: MIT
 *
 * Notifications: a node's report of its committed batch (cluster/log_record.h), in transit to the
 * others; forgeries of untrusted clients; and the use that a node makes of them without a query.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ---- telling --------------------------------------------------------------------------------- */

static void notice_open(struct world *w, struct sealer *sealer)
{
    static const unsigned char secret[32] = {7};
    notify_payload_key(secret, &w->payload_key);
    sealer_init(sealer, &w->payload_key);
}

/* The server, and when it was started. */
struct notify_payload_scope engine_place(const struct engine *e)
{
    struct notify_payload_scope place = {{0}};
    if (e->world->fault != FAULT_NOTICE_PLACE) {
        memcpy(place.digest, &e->server, sizeof e->server);
        memcpy(place.digest + sizeof e->server, &e->boots, sizeof e->boots);
    }
    return place;
}

static void notice_put(struct notify_payload *notice, const struct record *r)
{
    char uri[8], node[8];
    record_uri(r, uri);
    struct kept_record put = {
        .kind = r->kind == RECORD_ENTITY    ? LOG_ENTRY_ENTITY
                : r->kind == RECORD_SESSION ? LOG_ENTRY_SESSION
                : r->kind == RECORD_OWNED   ? LOG_ENTRY_MOUNTED
                                            : LOG_ENTRY_ANNOUNCED,
        .at_ms = 1,
        .version_checksum = 1,
        .version = record_version(r),
        .resource = {.uri = tidings_str(uri), .etag = r->is_missed ? STR("*") : STR_EMPTY},
    };
    if (r->kind == RECORD_SESSION) {
        (void)snprintf(uri, sizeof uri, "s:%u", r->index % 10);
        (void)snprintf(node, sizeof node, "%u", r->session.node);
        put.resource.uri = tidings_str(uri);
        put.resource.target = tidings_str(node);
    }
    notify_payload_add(notice, &put);
}

/* With all of its rows, or only the position. */
static char *notice_text(struct engine *e, const struct record *records, size_t count)
{
    struct world *w = e->world;
    struct notify_payload notice;
    struct sealer sealer;
    struct buf text;
    const struct notify_payload_scope place = engine_place(e);
    uint64_t first = 0, last = 0;
    notify_payload_init(&notice);
    notice_open(w, &sealer);
    buf_init(&text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        bool is_told = records[i].kind <= RECORD_OWNED || records[i].kind == RECORD_SESSION;
        if (records[i].position == 0) {
            continue;
        }
        first = first == 0 ? records[i].position : first;
        last = records[i].position;
        if (is_told) {
            notice_put(&notice, &records[i]);
        }
        notice.is_partial = notice.is_partial || !is_told;
    }
    bool is_whole = notify_payload_is_whole(&notice, first - 1, last);
    if (first == 0 || !is_whole || notify_payload_put(&notice, &sealer, &place, first, &text) < 0) {
        buf_clear(&text);
        buf_putu(&text, last > 0 ? last : e->counter);
    }
    char *copy = str_dup(buf_str(&text));
    notify_payload_deinit(&notice);
    sealer_deinit(&sealer);
    buf_deinit(&text);
    return copy;
}

/* Kept for a while by the attacker who records traffic. */
static uint64_t engine_say(struct engine *e, char *text)
{
    uint64_t serial = e->said_count++;
    free(e->said[serial % SAID]);
    e->said[serial % SAID] = text;
    return serial;
}

static const char *said_text(const struct engine *e, uint64_t serial)
{
    return serial + SAID > e->said_count ? e->said[serial % SAID] : NULL;
}

/* Rows that were never written, at the next position of every node. */
static void engine_hear_forger(struct engine *e, struct node *n)
{
    const struct record r = {.kind = RECORD_ANNOUNCED, .position = e->counter + 1};
    char *text = notice_text(e, &r, 1);
    if (text && e->world->fault != FAULT_NOTICE_FORGED) { /* an attacker without the key */
        size_t at = strlen(text) - 2;
        text[at] = text[at] == 'A' ? 'B' : 'A';
    }
    node_notify(n, &(struct notification){e->world->now_ms, engine_say(e, text)});
}

/* Any client may notify: of a position, or of a recorded payload, altered or not. */
static void engine_hear_strangers(struct engine *e, struct node *n)
{
    struct world *w = e->world;
    char text[32];
    switch (world_random(w, 4)) {
    case 0:
        (void)snprintf(text, sizeof text, "%llu",
                       (unsigned long long)(e->counter + 1 + world_random(w, 4)));
        break;
    case 1:
        (void)snprintf(text, sizeof text, "%llu",
                       (unsigned long long)world_random(w, UINT64_MAX / 2));
        break;
    case 2: { /* some time later, perhaps to another server */
        uint64_t back = world_random(w, e->said_count < SAID ? e->said_count + 1 : SAID);
        struct notification again = {w->now_ms + world_random(w, 8000), e->said_count - back};
        if (back > 0) {
            node_notify(n, &again);
        }
        return;
    }
    default:
        engine_hear_forger(e, n);
        return;
    }
    node_notify(n, &(struct notification){w->now_ms, engine_say(e, str_dup(tidings_str(text)))});
}

/* Where the store is, and what was committed. */
void engine_notify(struct engine *e, const struct record *records, size_t count)
{
    struct world *w = e->world;
    if (w->is_deaf) {
        return;
    }
    uint64_t serial = engine_say(e, notice_text(e, records, count));
    for (unsigned i = 0; i < NODES; i++) {
        struct notification said = {w->now_ms, serial};
        if (world_chance(w, 20)) {
            engine_hear_strangers(e, &w->nodes[i]);
        }
        if (world_random(w, 4) == 0) {
            continue; /* lost, even without faults */
        }
        said.at_ms += world_random(w, w->is_calm ? 2 : world_random(w, 4) == 0 ? 3000 : 50);
        node_notify(&w->nodes[i], &said);
        if (world_chance(w, 8)) { /* doubled */
            said.at_ms += world_random(w, 3000);
            node_notify(&w->nodes[i], &said);
        }
    }
}

void engine_replay(struct engine *e, struct node *n)
{
    for (uint64_t back = 1; back <= 8 && back <= e->said_count; back++) {
        node_notify(n, &(struct notification){e->world->now_ms, e->said_count - back});
    }
}

/* ---- hearing --------------------------------------------------------------------------------- */

void node_notify(struct node *n, const struct notification *said)
{
    if (n->inbox_count < INBOX) {
        n->inbox[n->inbox_count++] = *said;
    }
}

/* The arrived ones, together; for earlier wakeups the node queries. */
void node_hear(struct node *n)
{
    const struct world *w = n->world;
    uint64_t followed = w->fault == FAULT_NOTICE_TWICE ? 0 : incarnations_followed(n->incarnations);
    size_t kept = 0, count = n->inbox_count;
    for (size_t i = 0; i < count; i++) {
        const struct notification said = n->inbox[i];
        const char *text = said_text(node_store(n), said.serial);
        if (said.at_ms > w->now_ms) {
            n->inbox[kept++] = said;
            continue;
        }
        if (i == kept) { /* the first of them */
            notifications_clear(&n->notifications);
        }
        if (text) {
            (void)notifications_add(&n->notifications, tidings_str(text), followed);
        }
    }
    n->inbox_count = kept;
    n->is_woken = n->is_woken || n->notifications.notified > incarnations_followed(n->incarnations);
}

static void copy_text(char *out, size_t room, struct tidings_str text)
{
    size_t len = text.len < room ? text.len : room - 1;
    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

static struct record heard_record(const struct kept_record *row)
{
    struct log_entry c;
    kept_record_change(row, &c);
    struct record r = {.position = c.position, .is_missed = c.etag.len > 0};
    r.index = c.uri.len > 1 ? (unsigned)(c.uri.ptr[c.uri.len - 1] - '0') : 0;
    r.kind = c.kind == LOG_ENTRY_ENTITY    ? RECORD_ENTITY
             : c.kind == LOG_ENTRY_SESSION ? RECORD_SESSION
             : c.kind == LOG_ENTRY_MOUNTED ? RECORD_OWNED
                                           : RECORD_ANNOUNCED;
    if (r.kind == RECORD_SESSION) {
        r.session.node = (unsigned)(c.target.ptr[0] - '0');
    } else if (r.kind == RECORD_ENTITY) {
        r.from = c.version.from;
        r.since = c.version.since;
        r.created = c.created;
        copy_text(r.value, sizeof r.value, row->version.value);
        copy_text(r.previous, sizeof r.previous, row->version.previous);
    }
    return r;
}

/* With a mistake, all of them in turn. */
static bool node_next_notice(const struct node *n, unsigned *at, struct notify_payload_head *ret)
{
    enum fault fault = n->world->fault;
    uint64_t followed = incarnations_followed(n->incarnations);
    if (fault != FAULT_NOTICE_GAP && fault != FAULT_NOTICE_TWICE) {
        return notifications_find(&n->notifications, followed, ret);
    }
    while (*at < n->notifications.count) {
        if (notify_payload_parse(tidings_str(n->notifications.texts[(*at)++]), ret) &&
            (fault == FAULT_NOTICE_TWICE ? ret->from <= followed + 1 : ret->from > followed)) {
            return true;
        }
    }
    return false;
}

/* One batch. false: it cannot be opened. */
static bool node_apply_notice(struct node *n, const struct notify_payload_head *head)
{
    struct world *w = n->world;
    struct sealer sealer;
    struct kept_record row;
    struct buf rows;
    buf_init(&rows, NOTIFY_PAYLOAD_TEXT_MAX);
    notice_open(w, &sealer);
    bool is_open = notify_payload_open(head, &sealer, &n->place, &rows) == 0;
    struct tidings_str rest = buf_str(&rows);
    for (uint64_t at = head->from; is_open && notify_payload_next(&rest, at, &row); at++) {
        const struct record r = heard_record(&row);
        node_take(n, &r);
        w->counts->notifications++;
    }
    uint64_t followed = incarnations_followed(n->incarnations);
    n->known = n->known < followed ? followed : n->known;
    sealer_deinit(&sealer);
    buf_deinit(&rows);
    return is_open;
}

/* true: there is nothing to ask for. */
bool node_follow_heard(struct node *n)
{
    struct notify_payload_head head;
    unsigned at = 0;
    bool is_good =
        n->notifications.count > 0 && n->known_floor <= incarnations_followed(n->incarnations);
    while (is_good && node_next_notice(n, &at, &head)) {
        is_good = node_apply_notice(n, &head);
    }
    bool is_all = is_good && incarnations_followed(n->incarnations) >= n->notifications.notified;
    n->notified = is_all ? 0 : n->notifications.notified;
    notifications_clear(&n->notifications);
    return is_all;
}
