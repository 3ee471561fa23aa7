/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of support/shared_memory.h: the database, a node's object, and its log
 * (shared_memory_log.c).
 */
#ifndef SUPPORT_SHARED_MEMORY_PRIVATE_H
#define SUPPORT_SHARED_MEMORY_PRIVATE_H

#include <pthread.h>

#include "base/list.h"
#include "base/mem.h"
#include "support/shared_memory.h"

#define NODES_MAX 16u

/* A committed change, or one of the open batch. */
struct entry {
    struct list link;
    struct log_entry change;
    struct published_row row;
    struct tidings_change announced;
    struct node *by; /* NULL: all nodes follow it */
    uint64_t epoch;  /* LOG_ENTRY_INCARNATION */
    struct arena arena;
};

struct mark {
    uint64_t position, number;
};

struct run {
    uint64_t epoch, first;
};

struct shared_memory {
    pthread_mutex_t lock;
    struct store *entities;
    struct list log, undone; /* struct entry: committed; of the open batch */
    struct list published;   /* struct entry with `row` */
    struct node *all[NODES_MAX];
    size_t count;
    uint64_t last, broken_at;
    struct run runs[64];
    size_t run_count;
    int64_t now;
    bool is_quiet;
};

struct node {
    struct store base;
    struct shared_memory *db;
    int wake;
    bool is_wake_new; /* another descriptor than before, which may have the same number */
    bool in_batch, is_unreachable, loses, loses_committed;
    bool is_to_be_overtaken, is_in_doubt; /* the next batch */
    bool is_unlocked, must_run_again;     /* this one */
    uint64_t followed, before;            /* `before`: db->last when the batch began */
    unsigned asked;
    struct arena arena; /* the result of the last call */
};

struct node *shared_memory_node(struct store *store);
/* Outside of batches each call has the lock for itself; in one it is held. TIDINGS_E_BUSY: away. */
int shared_memory_enter(struct node *n, struct tidings_error *err);
int shared_memory_leave(struct node *n, int rc); /* gives rc */
struct tidings_str shared_memory_text(struct arena *arena, struct tidings_str s);
void shared_memory_keep_version(struct arena *arena, struct entity_version *v);

bool shared_memory_begin_unlocked(struct store *store);
bool shared_memory_must_run_again(struct store *store);

/* shared_memory_log.c */
struct entry *shared_memory_entry(const struct log_entry *change);
void shared_memory_free_entry(struct entry *e);
void shared_memory_free_entries(struct list *entries);
/* The next position. */
uint64_t shared_memory_add(struct node *n, struct log_entry change);
void shared_memory_wake_others(struct node *n);
int shared_memory_publish(struct store *store, const struct published_row *row,
                          uint64_t *ret_position, struct tidings_error *err);
int shared_memory_unpublish(struct store *store, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err);
int shared_memory_each_published(struct store *store, published_row_fn fn, void *user,
                                 struct tidings_error *err);
int shared_memory_each_change(struct store *store, size_t max, uint64_t *ret_floor, log_entry_fn fn,
                              void *user, struct tidings_error *err);
int shared_memory_create_changelog(struct store *store, const struct changelog_limits *limits,
                                   struct changelog **ret, struct tidings_error *err);
int shared_memory_follow(struct store *store, log_entry_fn fn, void *user,
                         struct tidings_error *err);
uint64_t shared_memory_followed(struct store *store);
int shared_memory_announce(struct store *store, enum log_entry_kind kind,
                           const struct tidings_change *change, uint64_t *ret_position,
                           struct tidings_error *err);

int shared_memory_newest(struct store *store, uint64_t *ret, struct tidings_error *err);
int shared_memory_descriptor(struct store *store);
int shared_memory_woken(struct store *store);
int shared_memory_secret(struct store *store, unsigned char out[32], struct tidings_error *err);

#endif
