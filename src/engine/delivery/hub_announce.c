/* SPDX-License-Identifier: MIT
 *
 * Announcements: the path of a change through the hub. It is announced on any thread, numbered and
 * logged here, and sent to the workers.
 *
 * While many changes wait for their number, equal ones merge (hub_merge). While a worker is behind,
 * changes wait before they are numbered, because they cannot merge afterwards; the hub does not
 * wait for a worker that makes no progress at all.
 *
 * Both stages are bounded in bytes. An announcement beyond the limit fails, and a message that
 * needs no memory makes every subscription send one `truncated` update once the hub has caught up:
 * `has_overflowed` is cleared before that message is numbered, so a later failure sends it again. A
 * worker that is behind by the limit gets no more changes, but a similar message
 * (delivery_overflow).
 */
#include "engine/delivery/hub_announce.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub_internal.h"
#include "formats/http_fields.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * The table that finds equal announcements: their fingerprints, without locks. Each step is one
 * atomic operation on one word. Merging rewrites the word, so that everything its thread did before
 * happens before the hub ends the mark and the change is delivered.
 *
 * An older announcement with equal content may end a mark; fewer announcements then merge into the
 * newer one. A mark never outlives its announcement.
 */

int hub_merge_init(struct hub_merge *m)
{
    m->slots = mem_zalloc(HUB_MERGE_SLOTS * sizeof(*m->slots));
    return m->slots ? random_bytes(&m->seed, sizeof(m->seed)) : TIDINGS_E_NOMEM;
}

void hub_merge_deinit(struct hub_merge *m)
{
    mem_free(m->slots);
    m->slots = NULL;
}

static uint64_t *slot_at(struct hub_merge *m, uint64_t hash)
{
    return &m->slots[hash & (HUB_MERGE_SLOTS - 1)];
}

struct hub_merge_key hub_merge_key(struct hub_merge *m, const struct tidings_change *change)
{
    uint64_t hash = str_hash(change->uri, m->seed);
    struct hub_merge_key key = {.slot = slot_at(m, hash)};
    if (change->kind != TIDINGS_CHANGE_UPDATED) {
        return key;
    }
    const struct tidings_str texts[] = {change->metadata, change->etag,   change->checksum,
                                        change->origin,   change->target, change->from};
    const int64_t numbers[] = {change->modified_ms, change->size,
                               change->has_size + 2 * change->not_subscribable};
    for (uint64_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hash = texts[i].len > 0 ? str_hash(texts[i], hash + i + 1) : hash;
    }
    if (numbers[0] != 0 || numbers[1] != 0 || numbers[2] != 0) {
        hash = str_hash(tidings_strn((const char *)numbers, sizeof(numbers)), hash);
    }
    key.print = hash != 0 ? hash : 1;
    return key;
}

bool hub_merge_find(const struct hub_merge_key *key)
{
    uint64_t is = key->print;
    return is != 0 && __atomic_load_n(key->slot, __ATOMIC_RELAXED) == is &&
           __atomic_compare_exchange_n(key->slot, &is, is, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

bool hub_merge_begin(struct hub_merge *m, const struct hub_merge_key *key,
                     const struct tidings_change *change)
{
    if (key->print == 0) {
        __atomic_store_n(key->slot, 0, __ATOMIC_RELEASE);
        if (change->from.len > 0) { /* a move is a change of both */
            __atomic_store_n(slot_at(m, str_hash(change->from, m->seed)), 0, __ATOMIC_RELEASE);
        }
        return true;
    }
    return __atomic_exchange_n(key->slot, key->print, __ATOMIC_ACQ_REL) != key->print;
}

void hub_merge_end(const struct hub_merge_key *key)
{
    uint64_t is = key->print;
    if (is != 0) {
        (void)__atomic_compare_exchange_n(key->slot, &is, 0, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define MERGE_SHARE 512u /* of max_announced: beyond this share, announcements merge */
#define AHEAD_SHARE 8u   /* of max_announced: how far workers may be behind before changes wait */
#define DEFERRED_LOOK_MS 1u
#define DEFERRED_MAX_MS 50u /* for a worker that makes no progress */

struct hub_announcing {
    size_t max; /* atomic: limit in bytes of pending changes */
    struct hub_merge merge;
    struct list deferred; /* announcements that wait until the workers have caught up … */
    struct loop_timer *timer;
    uint64_t deferred_ms;           /* … and when that began or one was last numbered */
    bool has_stuck_worker;          /* a worker does not catch up: the hub stopped waiting for it */
    struct thread_message overflow; /* pending while has_overflowed */
    bool has_overflowed;    /* atomic: a change was lost since the last `truncated` to all … */
    uint64_t overflow_upto; /* atomic: … the highest of its store positions; 0: none */
    hub_shared_fn share;    /* atomic; NULL: no other nodes */
    void *share_user;
    hub_mute_fn mute;
    void *mute_user;
    hub_owned_fn owned; /* NULL: no other nodes */
    void *owned_user;
};

/* ---- to the workers -------------------------------------------------------------------------- */

struct change_message {
    struct thread_message message;
    struct worker *worker;
    const struct change *change;
};

static void change_drop(struct thread_message *message)
{
    struct change_message *l = list_entry(message, struct change_message, message);
    __atomic_sub_fetch(&l->worker->delivery->announced, change_bytes(l->change), __ATOMIC_RELAXED);
    change_unref(l->change);
    mem_free(l);
}

static void change_deliver(struct thread_message *message, void *owner)
{
    struct change_message *l = list_entry(message, struct change_message, message);
    delivery_on_change(owner, l->change);
    change_drop(message);
}

static void hub_announce_send(struct hub *hub, struct worker *worker, const struct change *change)
{
    size_t bytes = change_bytes(change);
    size_t before = __atomic_fetch_add(&worker->delivery->announced, bytes, __ATOMIC_RELAXED);
    bool fits = before == 0 || before + bytes <= hub->announcing->max;
    struct change_message *l = fits ? mem_zalloc(sizeof(*l)) : NULL;
    if (!l) {
        __atomic_sub_fetch(&worker->delivery->announced, bytes, __ATOMIC_RELAXED);
        delivery_overflow(worker);
        return;
    }
    l->message.deliver = change_deliver;
    l->message.drop = change_drop;
    l->worker = worker;
    l->change = change_ref(change);
    mailbox_send(worker->mailbox, &l->message);
}

/* Logs a numbered change and sends it to the workers. `c` NULL: out of memory. `position`: in the
 * store. */
static void publish_made(struct hub *hub, struct change *c, uint64_t seq, uint64_t position,
                         struct tidings_str uri)
{
    struct changelog *log = hub->log;
    if (c) {
        c->position = position;
    }
    if (!c) {
        log->ops->note_gap(log, seq);
        log_error(LOG_DELIVERY, "change lost", KV("reason", "out of memory"), KV("uri", uri));
    } else if (log->ops->append(log, c) < 0) {
        log_warn(LOG_DELIVERY, "history cut", KV("reason", "out of memory"), KV("seq", c->seq));
    }
    for (size_t i = 0; i < hub->worker_count; i++) {
        if (c) {
            hub_announce_send(hub, hub->workers[i], c);
        } else {
            delivery_overflow(hub->workers[i]);
        }
    }
    change_unref(c);
}

void hub_publish(struct hub *hub, enum list_event event)
{
    uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
    publish_made(hub, change_create_list_event(event, epoch, seq), seq, 0, STR_EMPTY);
}

/* ---- announcements --------------------------------------------------------------------------- */

struct announce_message {
    struct thread_message message;
    struct hub_merge_key key;
    struct hub *hub;
    size_t bytes;
    struct client_account *account; /* pays for LIMIT_ANNOUNCED; NULL: not counted */
    uint64_t position;
    unsigned start;                       /* `undone` of the hub when it was sent */
    const struct tidings_provider *owned; /* for a change of an owned mount; else NULL */
    bool is_durable;                      /* announced by the store */
    bool is_reached;              /* not a change: everything up to `position` was announced … */
    bool is_broken;               /* … and earlier notifications may no longer be true */
    struct tidings_change change; /* slices of the memory that follows */
};

static void announce_drop(struct thread_message *message)
{
    struct announce_message *l = list_entry(message, struct announce_message, message);
    share_give(&l->hub->shared->limits, LIMIT_ANNOUNCED, l->bytes, l->account);
    mem_free(l);
}

void hub_on_mute(struct hub *hub, hub_mute_fn fn, void *user)
{
    hub->announcing->mute_user = user;
    hub->announcing->mute = fn;
}

/* A stored resource changes its URI only when it is migrated to a new version of its type;
 * subscribers of the old URI are sent the new one. Files and other resources that move are deleted
 * at the old URI, where another resource may appear. */
static void publish_move(struct hub *hub, const struct announce_message *l)
{
    bool is_mute = l->change.not_subscribable;
    struct tidings_change half = {
        .uri = l->change.from,
        .kind = TIDINGS_CHANGE_DELETED,
        .metadata = l->change.metadata,
        .origin = l->change.origin,
        .traceparent = l->change.traceparent,
        .not_subscribable = is_mute || catalog_is_mute(hub_current_catalog(hub), l->change.from),
    };
    uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
    struct change *c = l->is_durable ? change_create_departure(&l->change, epoch, seq)
                                     : change_create(&half, epoch, seq);
    publish_made(hub, c, seq, l->position > 0 ? l->position - 1 : 0, l->change.from);
    half = l->change;
    half.kind = TIDINGS_CHANGE_CREATED;
    half.not_subscribable = is_mute || catalog_is_mute(hub_current_catalog(hub), half.uri);
    seq = hub->log->ops->next(hub->log);
    c = change_create(&half, epoch, seq);
    if (c) {
        c->is_arrival = l->is_durable;
    }
    publish_made(hub, c, seq, l->position, half.uri);
}

/* It gets its number. */
static void announce_number(struct hub *hub, struct announce_message *l)
{
    if (l->is_broken) {
        uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
        publish_made(hub, change_create_list_event(CHANGE_EVERYTHING, epoch, seq), seq, l->position,
                     STR_EMPTY);
    }
    if (l->is_reached) {
        __atomic_store_n(&hub->applied, l->position, __ATOMIC_RELEASE);
        announce_drop(&l->message);
        hub_watch_applied(hub);
        return;
    }
    if (!l->is_durable) {
        hub_merge_end(&l->key);
    }
    bool is_missed = l->is_durable && change_is_missed_uri(l->change.uri);
    if (l->change.kind == TIDINGS_CHANGE_MOVED) {
        publish_move(hub, l);
    } else if (is_missed) {
        uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
        struct tidings_str prefix = str_skip(l->change.uri, 1);
        publish_made(hub, change_create_missed(prefix, epoch, seq), seq, l->position, prefix);
    } else {
        uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
        l->change.not_subscribable =
            l->change.not_subscribable || catalog_is_mute(hub_current_catalog(hub), l->change.uri);
        publish_made(hub, change_create(&l->change, epoch, seq), seq, l->position, l->change.uri);
    }
    if (l->change.kind != TIDINGS_CHANGE_UPDATED || is_missed) {
        hub_list_changed(hub, CHANGE_LIST);
    }
    announce_drop(&l->message);
}

/* Returns true if a worker is so far behind that more numbered changes would only fill its
 * mailbox. */
static bool is_ahead(struct hub *hub)
{
    size_t most = hub->announcing->max / AHEAD_SHARE, waiting = 0;
    for (size_t i = 0; i < hub->worker_count; i++) {
        size_t one = __atomic_load_n(&hub->workers[i]->delivery->announced, __ATOMIC_RELAXED);
        waiting = one > waiting ? one : waiting;
    }
    hub->announcing->has_stuck_worker = hub->announcing->has_stuck_worker && waiting > most;
    return waiting > most && !hub->announcing->has_stuck_worker;
}

void hub_announce_resume(struct hub *hub, bool all)
{
    while (!list_empty(&hub->announcing->deferred) && (all || !is_ahead(hub))) {
        struct thread_message *message =
            list_entry(hub->announcing->deferred.next, struct thread_message, link);
        list_remove(&message->link);
        hub->announcing->deferred_ms = loop_now_ms(hub->loop);
        announce_number(hub, list_entry(message, struct announce_message, message));
    }
    if (list_empty(&hub->announcing->deferred)) {
        loop_timer_stop(hub->announcing->timer);
    }
}

static void hub_announce_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct hub *hub = user;
    hub->announcing->has_stuck_worker =
        loop_now_ms(hub->loop) - hub->announcing->deferred_ms >= DEFERRED_MAX_MS;
    hub_announce_resume(hub, false);
}

int hub_announcing_open(struct hub *hub, struct tidings_error *err)
{
    struct hub_announcing *announcing = mem_zalloc(sizeof(*announcing));
    if (!announcing) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    hub->announcing = announcing;
    announcing->max = HUB_MAX_ANNOUNCED;
    list_init(&announcing->deferred);
    announcing->timer = loop_timer_open(hub->loop, hub_announce_timer, hub);
    return hub_merge_init(&announcing->merge) == 0 && announcing->timer
               ? 0
               : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void hub_announcing_set_max(struct hub *hub, size_t max)
{
    __atomic_store_n(&hub->announcing->max, max, __ATOMIC_RELAXED);
}

void hub_announcing_forget_lost(struct hub *hub)
{
    __atomic_store_n(&hub->announcing->overflow_upto, 0, __ATOMIC_SEQ_CST);
}

void hub_announcing_close(struct hub *hub)
{
    struct hub_announcing *announcing = hub->announcing;
    if (!announcing) {
        return;
    }
    while (!list_empty(&announcing->deferred)) {
        struct thread_message *message =
            list_entry(announcing->deferred.next, struct thread_message, link);
        list_remove(&message->link);
        message->drop(message);
    }
    hub_merge_deinit(&announcing->merge);
    loop_timer_close(announcing->timer);
    mem_free(announcing);
}

/* The change must not be numbered before the other nodes know of it: the owner's handler announces
 * it. */
static void announce_hand_on(struct hub *hub, struct announce_message *l)
{
    hub_merge_end(&l->key);
    if (hub->announcing->owned) {
        (void)hub->announcing->owned(hub->announcing->owned_user, l->owned, &l->change, NULL);
    }
    announce_drop(&l->message);
}

/* Returns true if it is from the store or the mount of a failed start: the log created since then
 * contains it, or it is no longer true. */
static bool announce_is_undone(const struct hub *hub, const struct announce_message *l)
{
    return (l->is_durable || l->is_reached || l->owned) &&
           l->start != __atomic_load_n(&hub->undone, __ATOMIC_RELAXED);
}

static void announce_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct announce_message *l = list_entry(message, struct announce_message, message);
    if (announce_is_undone(hub, l)) {
        hub_merge_end(&l->key);
        announce_drop(message);
        return;
    }
    if (l->owned) {
        announce_hand_on(hub, l);
        return;
    }
    if (list_empty(&hub->announcing->deferred) && !is_ahead(hub)) {
        announce_number(hub, l);
        return;
    }
    if (list_empty(&hub->announcing->deferred)) {
        hub->announcing->deferred_ms = loop_now_ms(hub->loop);
        loop_timer_start(hub->announcing->timer, DEFERRED_LOOK_MS, DEFERRED_LOOK_MS);
    }
    list_append(&hub->announcing->deferred, &message->link);
}

static void hub_announce_overflow_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    (void)message;
    __atomic_store_n(&hub->announcing->has_overflowed, false, __ATOMIC_SEQ_CST);
    /* Has its place among the store positions, for clients that come from another node. Changes
     * with a lower position that are not numbered yet are then delivered twice rather than
     * never. */
    uint64_t position = __atomic_exchange_n(&hub->announcing->overflow_upto, 0, __ATOMIC_SEQ_CST);
    log_warn(LOG_DELIVERY, "changes refused", KV("reason", "change queue is full"));
    uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
    publish_made(hub, change_create_list_event(CHANGE_EVERYTHING, epoch, seq), seq, position,
                 STR_EMPTY);
}

static void hub_announce_overflow_drop(struct thread_message *message)
{
    (void)message; /* part of the hub */
}

void hub_overflow(struct hub *hub)
{
    if (!__atomic_exchange_n(&hub->announcing->has_overflowed, true, __ATOMIC_SEQ_CST)) {
        hub->announcing->overflow.deliver = hub_announce_overflow_deliver;
        hub->announcing->overflow.drop = hub_announce_overflow_drop;
        mailbox_send(hub->mailbox, &hub->announcing->overflow);
    }
}

/* The same for a change with that position. Only one thread at a time may call it: the one that
 * follows the store. */
static void hub_overflow_at(struct hub *hub, uint64_t position)
{
    if (position > __atomic_load_n(&hub->announcing->overflow_upto, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&hub->announcing->overflow_upto, position, __ATOMIC_SEQ_CST);
    }
    hub_overflow(hub);
}

static int announce_check_kind(const struct tidings_change *change, struct tidings_error *err)
{
    bool is_good = (unsigned)change->kind <= TIDINGS_CHANGE_MOVED &&
                   (change->kind != TIDINGS_CHANGE_MOVED || change->from.len > 0);
    return is_good ? 0
                   : tidings_fail(err, TIDINGS_E_INVALID,
                                  "a change is UPDATED, CREATED, DELETED, or MOVED with 'from'");
}

/* Where a change comes from. */
struct announce_origin {
    bool is_durable;
    uint64_t position;
    const struct tidings_provider *owned;
    const struct share_taker *who; /* NULL: the program */
    struct refusal *why;           /* if `who` is set */
};

/* Reserves room for a change and creates its message. Without room every subscription gets a
 * `truncated` update, except if only its client has too many pending; then the client gets an
 * error. */
static struct announce_message *hub_announce_begin(struct hub *hub, size_t bytes, size_t max,
                                                   const struct announce_origin *from,
                                                   struct tidings_error *err)
{
    const struct share_taker program = {.is_operator = true};
    const struct share_taker *who = from->who ? from->who : &program;
    struct refusal why = {0};
    bool fits = share_take(&hub->shared->limits, LIMIT_ANNOUNCED, max, bytes, who, &why);
    struct announce_message *l = fits ? mem_alloc(bytes) : NULL;
    if (l) {
        return l;
    }
    if (fits) {
        share_give(&hub->shared->limits, LIMIT_ANNOUNCED, bytes, who->account);
    }
    if (!why.is_own) {
        hub_overflow_at(hub, from->position);
    }
    if (!fits && from->why) {
        *from->why = why;
    }
    tidings_fail(err, fits ? TIDINGS_E_NOMEM : TIDINGS_E_BUSY,
                 fits ? "out of memory"
                      : "change queue is full: %zu bytes pending; try again later",
                 limit_in_use(&hub->shared->limits, LIMIT_ANNOUNCED));
    return NULL;
}

static int hub_announce_change(struct hub *hub, const struct tidings_change *change,
                               const struct announce_origin *from, struct tidings_error *err)
{
    bool is_durable = from->is_durable;
    int rc = announce_check_kind(change, err);
    if (rc < 0) {
        return rc;
    }
    struct trace trace;
    (void)trace_read(change->traceparent, STR_EMPTY, &trace); /* empty: none, or invalid */
    /* While few wait, each is delivered separately. Stored changes have their own positions and
     * never merge. */
    size_t max = __atomic_load_n(&hub->announcing->max, __ATOMIC_RELAXED);
    bool merges =
        !is_durable && limit_in_use(&hub->shared->limits, LIMIT_ANNOUNCED) > max / MERGE_SHARE;
    struct hub_merge_key key = {0};
    if (!is_durable) {
        key = hub_merge_key(&hub->announcing->merge, change);
    }
    if (merges && hub_merge_find(&key)) {
        return 0;
    }
    struct tidings_change packed = *change;
    packed.traceparent = tidings_str(trace.parent);
    size_t bytes = sizeof(struct announce_message) + change_texts_len(&packed);
    struct announce_message *l = hub_announce_begin(hub, bytes, max, from, err);
    if (!l) {
        return err ? err->code : TIDINGS_E_BUSY;
    }
    *l = (struct announce_message){
        .message = {.deliver = announce_deliver, .drop = announce_drop},
        .hub = hub,
        .bytes = bytes,
        .account = from->who ? from->who->account : NULL,
        .position = from->position,
        .start = __atomic_load_n(&hub->undone, __ATOMIC_RELAXED),
        .is_durable = is_durable,
        .owned = from->owned,
        .change = packed,
        .key = key,
    };
    change_pack(&l->change, (char *)(l + 1));
    if (is_durable || hub_merge_begin(&hub->announcing->merge, &key, change) || !merges) {
        mailbox_send(hub->mailbox, &l->message);
    } else {
        announce_drop(&l->message);
    }
    return 0;
}

int hub_announce(struct hub *hub, const struct tidings_change *change, struct tidings_error *err)
{
    return hub_announce_change(hub, change, &(struct announce_origin){0}, err);
}

void hub_on_shared(struct hub *hub, hub_shared_fn fn, void *user)
{
    if (fn) { /* a program announces at any time: `user` stays set with a function that is removed
               */
        hub->announcing->share_user = user;
    }
    __atomic_store_n(&hub->announcing->share, fn, __ATOMIC_RELEASE);
}

void hub_on_owned(struct hub *hub, hub_owned_fn fn, void *user)
{
    hub->announcing->owned_user = user;
    hub->announcing->owned = fn;
}

int hub_announce_owned(struct hub *hub, const struct tidings_provider *p,
                       const struct tidings_change *change, struct tidings_error *err)
{
    const struct announce_origin from = {.owned = p};
    int rc = change ? hub_announce_change(hub, change, &from, err) : TIDINGS_E_BUSY;
    if (rc < 0 && rc != TIDINGS_E_INVALID && hub->announcing->owned) {
        (void)hub->announcing->owned(hub->announcing->owned_user, p, NULL, NULL);
    }
    return rc;
}

/* If its resource is not subscribable, records that in the change now: the resource may be gone
 * when the change gets its number.
 */
static struct tidings_change announce_checked(const struct hub *hub,
                                              const struct tidings_change *change)
{
    struct tidings_change marked = *change;
    if (hub->announcing->mute && hub->announcing->mute(hub->announcing->mute_user, change->uri)) {
        marked.not_subscribable = true;
    }
    return marked;
}

int hub_announce_here(struct hub *hub, const struct tidings_change *change,
                      const struct share_taker *who, struct refusal *why, struct tidings_error *err)
{
    const struct announce_origin from = {.who = who, .why = why};
    return hub_announce_change(hub, change, &from, err);
}

int hub_announce_by(struct hub *hub, const struct tidings_change *change,
                    const struct share_taker *who, struct hub_receipt *receipt, struct refusal *why,
                    struct tidings_error *err)
{
    hub_shared_fn shared = __atomic_load_n(&hub->announcing->share, __ATOMIC_ACQUIRE);
    struct tidings_change marked = announce_checked(hub, change);
    int rc = announce_check_kind(change, err);
    return rc < 0   ? rc
           : shared ? shared(hub->announcing->share_user, &marked, who, receipt, why, err)
                    : hub_announce_here(hub, &marked, who, why, err);
}

int hub_announce_shared(struct hub *hub, const struct tidings_change *change,
                        struct tidings_error *err)
{
    return hub_announce_by(hub, change, NULL, NULL, NULL, err);
}

int hub_announce_durable(struct hub *hub, const struct tidings_change *change, uint64_t position,
                         struct tidings_error *err)
{
    const struct announce_origin from = {.is_durable = true, .position = position};
    return hub_announce_change(hub, change, &from, err);
}

static void announce_position(struct hub *hub, uint64_t position, bool is_broken)
{
    struct announce_message *l = mem_zalloc(sizeof(*l));
    if (l) {
        *l = (struct announce_message){
            .message = {.deliver = announce_deliver, .drop = announce_drop},
            .hub = hub,
            .position = position,
            .start = __atomic_load_n(&hub->undone, __ATOMIC_RELAXED),
            .is_reached = true,
            .is_broken = is_broken,
        };
        mailbox_send(hub->mailbox, &l->message);
    } else if (is_broken) {
        hub_overflow(hub);
    } /* otherwise the next failure reports it */
}

void hub_announce_applied(struct hub *hub, uint64_t position)
{
    announce_position(hub, position, false);
}

void hub_announce_data_loss(struct hub *hub, uint64_t position)
{
    announce_position(hub, position, true);
}

struct missed_message {
    struct thread_message message;
    size_t len;
    char prefix[];
};

static void missed_deliver(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct missed_message *l = list_entry(message, struct missed_message, message);
    struct tidings_str prefix = {l->prefix, l->len};
    uint64_t seq = hub->log->ops->next(hub->log), epoch = hub->log->ops->epoch(hub->log);
    publish_made(hub, change_create_missed(prefix, epoch, seq), seq, 0, prefix);
    hub_list_changed(hub, CHANGE_LIST);
    mem_free(l);
}

static void missed_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct missed_message, message));
}

void hub_announce_missed(struct hub *hub, struct tidings_str prefix)
{
    struct missed_message *l = mem_zalloc(sizeof(*l) + prefix.len);
    if (!l) {
        hub_overflow(hub);
        return;
    }
    l->message.deliver = missed_deliver;
    l->message.drop = missed_drop;
    l->len = prefix.len;
    memcpy(l->prefix, prefix.ptr, prefix.len);
    mailbox_send(hub->mailbox, &l->message);
}

static void everything_deliver(struct thread_message *message, void *owner)
{
    hub_publish(owner, CHANGE_EVERYTHING);
    mem_free(message);
}

static void everything_drop(struct thread_message *message)
{
    mem_free(message);
}

int hub_announce_everything(struct hub *hub, struct tidings_error *err)
{
    struct thread_message *l = mem_zalloc(sizeof(*l));
    if (!l) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    l->deliver = everything_deliver;
    l->drop = everything_drop;
    mailbox_send(hub->mailbox, l);
    return 0;
}
