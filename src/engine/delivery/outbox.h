/* SPDX-License-Identifier: MIT
 *
 * The outbox: a subscriber's pending updates, a bounded queue of (subscription, change) in the
 * order the changes came. Two changes of one URI for one subscription merge into the place of the
 * first, so that a resource that changes constantly is still delivered. For a strict subscription
 * they merge into the place of the newer one, so that numbers only rise.
 *
 * Nothing is encoded here and nothing is lost without notice: a full queue collapses into
 * "something changed" per subscription.
 */
#ifndef ENGINE_DELIVERY_OUTBOX_H
#define ENGINE_DELIVERY_OUTBOX_H

#include <tidings/provider.h>

struct change;
struct subscription;

struct outbox_item {
    struct subscription *sub;
    const struct change *change; /* the newest; a reference */
    uint64_t first_seq;          /* its place: the oldest merged change; strict: the newest */
    uint32_t due;                /* when it became due (engine/delivery/delivery.h) */
    uint32_t merged : 27;        /* number of merged changes, or OUTBOX_MERGED_MAX */
    uint32_t kind : 3;           /* enum tidings_change_kind */
    uint32_t initial : 1;        /* not a change: the state when it was subscribed to */
    uint32_t caught_up : 1;      /* from the log, or merged with it: `merged` counts that as one */
};
#define OUTBOX_MERGED_MAX ((1u << 27) - 1)

/* How a change appears to one subscriber. */
struct outbox_as {
    enum tidings_change_kind kind; /* the change's own kind, or the net kind after catching up */
    bool caught_up;
    uint32_t due; /* for a change from the log; a live change is due since it was numbered */
};

/* A single item, the usual case, needs no allocation. */
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
    uint32_t resync_due; /* when its `truncated` update became due, if it has one */
};

void outbox_init(struct outbox *o);
void outbox_deinit(struct outbox *o);

enum outbox_result {
    OUTBOX_ADDED,
    OUTBOX_MERGED,
    OUTBOX_FULL, /* or out of memory: nothing changed */
};
/* `max` bounds the queue. */
enum outbox_result outbox_push(struct outbox *o, struct subscription *sub,
                               const struct change *change, struct outbox_as as, size_t max);
enum outbox_result outbox_push_initial(struct outbox *o, struct subscription *sub,
                                       const struct change *change, uint32_t due, size_t max);
/* Moves everything in `from` to the end of `o`, or merges it, due at `due`; `from` is empty
 * afterwards. Returns false if it did not fit; the rest is dropped. */
bool outbox_take(struct outbox *o, struct outbox *from, uint32_t due, size_t max);
/* The oldest item or NULL; and its removal. Memory is freed when the queue empties. */
struct outbox_item *outbox_first(struct outbox *o);
const struct outbox_item *outbox_second(const struct outbox *o); /* NULL: none */
void outbox_pop(struct outbox *o);
/* How long it has been due, in microseconds. */
uint64_t outbox_waited(const struct outbox_item *item, uint64_t now_us);
/* Drops items for which `keep` returns false. */
void outbox_filter(struct outbox *o, bool (*keep)(void *user, const struct outbox_item *item),
                   void *user);
/* Drops items of `sub` (NULL: all). */
void outbox_remove(struct outbox *o, struct subscription *sub);

/* created+updated = created, deleted+created = updated, anything+deleted = deleted. */
enum tidings_change_kind outbox_merge_kind(enum tidings_change_kind old,
                                           enum tidings_change_kind next);

/* -------------------------------------------------------------------------------------------------
 * When to notify a subscription: at once, and then at most once per period (the longer of its
 * window and its rate). This is a throttle, not a debounce: a resource that changes constantly is
 * reported every period, and the last state is always sent. With `gather_ms` the first change is
 * delayed too: it waits that long for others, and later changes do not extend the wait.
 *
 * Changes within a period are held here, merged per URI, and released when the period ends. One
 * queue of due times serves all subscriptions of a worker.
 */

struct outbox;
struct outbox_as;

/* Embedded in a subscription. Zeroed: no period. */
struct window {
    uint64_t open_ms;        /* changes are held until then; 0: nothing sent yet */
    struct outbox *deferred; /* NULL: none */
    uint32_t index;          /* private: place in the heap, from 1; 0: not in it */
    uint32_t period_ms;
};

/* All windows of a worker that hold changes, by due time. */
struct windows {
    struct window **heap;
    uint32_t count, cap;
};

void windows_init(struct windows *w);
void windows_deinit(struct windows *w);

enum window_result {
    WINDOW_PASS, /* send now; the period starts */
    WINDOW_DEFERRED,
    WINDOW_FULL, /* no room or memory to hold it */
};
enum window_result window_enqueue(struct windows *all, struct window *w, uint64_t now_ms,
                                  struct subscription *sub, const struct change *change,
                                  struct outbox_as as, size_t max);
/* Sets a new period, which also applies to held changes. */
void window_set_period(struct windows *all, struct window *w, uint64_t now_ms, uint32_t period_ms);
/* Drops held changes. */
void window_clear(struct windows *all, struct window *w);
/* Removes and returns the window that has been due longest, or NULL. The caller releases its items,
 * which starts the next period. */
struct window *windows_due(struct windows *all, uint64_t now_ms);
/* When the next one is due; UINT64_MAX: none. */
uint64_t windows_next(const struct windows *all);
/* The oldest held change; 0: none. */
uint64_t window_first_seq(const struct window *w);

#endif
