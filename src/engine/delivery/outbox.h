/* SPDX-License-Identifier: MIT
 *
 * What a subscriber still has to be told: a bounded queue of (subscription, change), in the order
 * the changes came. Two changes of one URI for one subscription merge into the place of the first,
 * so that what changes all the time is told all the same; for a strict subscription into that of
 * the newer, so that numbers only rise.
 *
 * Nothing is encoded here and nothing is lost in silence: when the queue is full the
 * subscriber collapses it into "something changed" per subscription.
 */
#ifndef ENGINE_DELIVERY_OUTBOX_H
#define ENGINE_DELIVERY_OUTBOX_H

#include <tidings/provider.h>

struct change;
struct subscription;

struct outbox_item {
    struct subscription *sub;
    const struct change *change; /* the newest; a reference */
    uint64_t first_seq;          /* its place: the oldest merged into it; strict: the newest */
    uint32_t due;           /* since when it waits to be written (engine/delivery/delivery.h) */
    uint32_t merged : 27;   /* changes that became this one, or OUTBOX_MERGED_MAX */
    uint32_t kind : 3;      /* enum tidings_change_kind */
    uint32_t initial : 1;   /* nothing changed: the state when it was subscribed */
    uint32_t caught_up : 1; /* it was told from the log, or what was is merged into it: `merged`
                             * counts that as one, however many there were */
};
#define OUTBOX_MERGED_MAX ((1u << 27) - 1)

/* What a change is to one subscriber. */
struct outbox_as {
    enum tidings_change_kind kind; /* the change's own, or what it means after catching up */
    bool caught_up;
    uint32_t due; /* of what is told from the log; a live change is due since it was numbered */
};

/* One item, the ordinary case, needs no memory of its own. */
struct outbox {
    union {
        struct outbox_item one;
        struct {
            struct outbox_item *items;
            uint32_t head, cap;
        } ring;
    };
    uint32_t count : 31;
    uint32_t has_ring : 1;
    uint32_t resync_due; /* since when its subscriber must be told to look again, if it must */
};

void outbox_init(struct outbox *o);
void outbox_deinit(struct outbox *o);

enum outbox_result {
    OUTBOX_ADDED,
    OUTBOX_MERGED,
    OUTBOX_FULL, /* also when out of memory: nothing changed */
};
/* `max` bounds the queue. */
enum outbox_result outbox_push(struct outbox *o, struct subscription *sub,
                               const struct change *change, struct outbox_as as, size_t max);
enum outbox_result outbox_push_initial(struct outbox *o, struct subscription *sub,
                                       const struct change *change, uint32_t due, size_t max);
/* Everything `from` holds, behind what is here or merged into it, and due then; `from` is empty
 * afterwards. false: it did not fit, and what is left over is dropped. */
bool outbox_take(struct outbox *o, struct outbox *from, uint32_t due, size_t max);
/* The oldest, or NULL; and drop it. Memory is released when the queue empties. */
struct outbox_item *outbox_first(struct outbox *o);
const struct outbox_item *outbox_second(const struct outbox *o); /* NULL: none */
void outbox_pop(struct outbox *o);
/* For how long it has been due, in microseconds. */
uint64_t outbox_waited(const struct outbox_item *item, uint64_t now_us);
/* Forget what `keep` says no to. */
void outbox_filter(struct outbox *o, bool (*keep)(void *user, const struct outbox_item *item),
                   void *user);
/* Forget what concerns `sub` (NULL: everything). */
void outbox_remove(struct outbox *o, struct subscription *sub);

/* created+updated = created, deleted+created = updated, anything+deleted = deleted. */
enum tidings_change_kind outbox_merge_kind(enum tidings_change_kind old,
                                           enum tidings_change_kind next);

/* -------------------------------------------------------------------------------------------------
 * When a subscription is told: at once, and then at most once per period (the longer of its window
 * and its rate). A throttle, not a debounce: a stream that never rests is still told every period,
 * and the last state always. A subscription with `gather_ms` delays the first change, too: that
 * change waits so long for others, and no later change prolongs the wait.
 *
 * What comes inside a period is held here, two changes of one URI becoming one, and handed over
 * when the period ends. One queue of due times serves all subscriptions of a worker.
 */

struct outbox;
struct outbox_as;

/* Embedded in a subscription. Zeroed: no period. */
struct window {
    uint64_t open_ms;        /* until then changes are held; 0: nothing was told yet */
    struct outbox *deferred; /* NULL: nothing */
    uint32_t index;          /* private: place among the due ones, from 1; 0: not there */
    uint32_t period_ms;
};

/* All windows of a worker with something held, by due time. */
struct windows {
    struct window **heap;
    uint32_t count, cap;
};

void windows_init(struct windows *w);
void windows_deinit(struct windows *w);

enum window_result {
    WINDOW_PASS, /* tell now; the period begins */
    WINDOW_DEFERRED,
    WINDOW_FULL, /* no room or memory to hold it */
};
enum window_result window_enqueue(struct windows *all, struct window *w, uint64_t now_ms,
                                  struct subscription *sub, const struct change *change,
                                  struct outbox_as as, size_t max);
/* A new period, also for what is held now. */
void window_set_period(struct windows *all, struct window *w, uint64_t now_ms, uint32_t period_ms);
/* Forget what is held. */
void window_clear(struct windows *all, struct window *w);
/* The window that is due longest, or NULL. Taken out; the caller hands its items over, which begins
 * the next period. */
struct window *windows_due(struct windows *all, uint64_t now_ms);
/* When the next one is due; UINT64_MAX: none. */
uint64_t windows_next(const struct windows *all);
/* The oldest change held; 0: none. */
uint64_t window_first_seq(const struct window *w);

#endif
