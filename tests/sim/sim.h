/* SPDX-License-Identifier: MIT
 *
 * A cluster in one thread: nodes, the store they share, clients and writers, with clocks and random
 * choices from a seed. The decisions are the program's own code (cluster/history.c,
 * cluster/follow.c, cluster/follow.c, cluster/log_record.c, cluster/owned_mounts.c, the change log
 * in memory, entities, the marks of engine/protocol/cursor.c); its environment is simulated, and
 * fails in every possible way. docs/design/cluster.md lists the checks.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <setjmp.h>

#include "base/mem.h"
#include "cluster/follow.h"
#include "cluster/history.h"
#include "cluster/owned_mounts.h"
#include "engine/protocol/cursor.h"
#include "store/change_log.h"
#include "store/entities.h"
#include "store/entity_cache.h"
#include "store/store.h"

#define NODES 4u
#define CLIENTS 6u
#define WRITERS 4u
#define ENTITIES 6u
#define ANNOUNCED 3u
#define JOBS 8u        /* that wait at a node */
#define JOB_WRITES 2u  /* of a transaction */
#define CLUSTER_ID 77u /* of the store */
#define POLL_MS 1000u
#define LIVES_MS 3000
#define PAGE_ROWS 4u
#define INBOX 32u /* notifications on their way to a node: more are lost */
#define SAID 64u  /* that are remembered */

/* Planted mistakes, to see that they are caught. */
enum fault {
    FAULT_NONE,
    FAULT_NO_LOCK,        /* positions are taken without the lock */
    FAULT_NO_FOLLOW,      /* a batch begins without following */
    FAULT_EARLY,          /* writes are delivered before the commit */
    FAULT_UNKNOWN,        /* a commit without an answer counts as none, and its rows as followed */
    FAULT_TWO_READS,      /* durable rows and announcements are read by two statements */
    FAULT_NO_POLL,        /* only notifications wake a node */
    FAULT_NO_JUDGE,       /* the state of the store is not looked at */
    FAULT_NO_JUMP,        /* after a break the counter continues at its old value */
    FAULT_NO_TRUNCATED,   /* a node that survives a break reports it to no client */
    FAULT_BREAK_NO_PLACE, /* … tells it without a position */
    FAULT_MISS_NO_PLACE,  /* that announcements were missed has no position */
    FAULT_NO_READ_AGAIN,  /* after a loss runs are known as before */
    FAULT_ONE_EPOCH,      /* cursors of other nodes count as numbers of this one */
    FAULT_ASYNC,          /* durable commits do not wait for the disk */
    FAULT_LEASE_WALL,     /* the holder of a lease counts by the clock on the wall */
    FAULT_LEASE_ANSWER,   /* … or from the answer on */
    FAULT_NO_TURN,        /* a session is written by any earlier holder */
    FAULT_TURN_ALONE,     /* … or any holder of the same turn */
    FAULT_SESSION_BELIEVED,  /* a node does not ask whether a session is still its own */
    FAULT_STREAM_BELIEVED,   /* events written to a session's stream count as received */
    FAULT_CRASH_FORGOTTEN,   /* a node that begins after a crash takes its log for whole */
    FAULT_NO_REOPEN,         /* a node counted as dead does not report that it lives */
    FAULT_NO_KEY,            /* queried keys are not looked up */
    FAULT_OWNER_SILENT,      /* a new watcher does not truncate the subscriptions */
    FAULT_OWNER_EARLY,       /* … truncates them before it watches */
    FAULT_OWNER_LATE,        /* … announces changes as an owner after it lost ownership */
    FAULT_OWNER_GOES_ON,     /* … continues at its old position after its lease expired */
    FAULT_OWNER_UNHEARD,     /* … is delivered only on its own node */
    FAULT_NOTIFIED_BELIEVED, /* a claimed position of the store counts as followed */
    FAULT_PAGE_KEPT,         /* the page of one batch is used in the next */
    FAULT_NO_CONDITION,      /* a batch without the lock is committed wherever the store is */
    FAULT_NOT_AGAIN,         /* … if others were first, at other positions, as it was decided */
    FAULT_REFUSED_EARLY,     /* … and a rejected one is answered at once */
    FAULT_DOUBT_IGNORED,     /* … and run again though it may have been committed */
    FAULT_DOUBT_FORGOTTEN,   /* … and when that fails it counts as not committed */
    FAULT_HEADS_KEPT,        /* followed changes do not renew the cached entity */
    FAULT_HEADS_BACK,        /* … or by what is older than it */
    FAULT_NOTICE_GAP,        /* the rows of a notification are followed wherever they begin */
    FAULT_NOTICE_TWICE,      /* … and again */
    FAULT_NOTICE_PLACE,      /* … and those recorded on an earlier server */
    FAULT_NOTICE_FORGED,     /* … and those of any writer */
    FAULT_NOTICE_EARLY,      /* … and are sent before the commit */
    FAULT_COUNT
};

struct world;

/* ---- the store ------------------------------------------------------------------------------- */

enum record_kind {
    RECORD_ENTITY,
    RECORD_ANNOUNCED,
    RECORD_OWNED, /* by the owner of the mount: it changed, or (`is_missed`) a truncation */
    RECORD_RUN,
    RECORD_BREAK,
    RECORD_SESSION, /* taken by another node */
    RECORD_SKIPPED, /* an unused position */
    RECORD_KEY,     /* this and the rest have no position */
    RECORD_LEASE,
    RECORD_SESSION_STATE,
};

struct cursor {
    uint64_t epoch, seq, position;
    bool is_set;
    bool is_lost;     /* there are more changes, which were not sent with it */
    size_t losses;    /* of which its node knew */
    uint64_t horizon; /* how far its node had followed */
};

struct session_state {
    unsigned node;
    uint64_t turn, options;
    struct cursor cursor;
};

struct record {
    enum record_kind kind;
    uint64_t position, commit;
    unsigned index; /* of the entity, the announced resource, the session; a node */
    bool is_gone;   /* an announcement, after a crash */
    bool is_missed;
    /* an entity */
    int64_t from, since, baseline;
    uint64_t read_position; /* of the version the writer had read; 0: it did not say */
    uint64_t tag;           /* of the transaction, which has this number of writes */
    unsigned writes;
    size_t losses; /* that had happened when the writer read, or when the break was recorded */
    bool created, instead;
    char value[64], previous[64];
    char key[24], digest[ENTITY_DIGEST_TEXT], text[96];
    /* a run, a break, a lease, a session */
    uint64_t epoch, last, server;
    struct data_loss broken;
    int64_t at_ms;
    struct session_state session;
};

struct transaction {
    struct record *records;
    size_t count, room;
    unsigned node;
    bool is_open, is_sent; /* its node does not know, or has gone */
};

/* For a batch without the lock, whose waiter is gone. */
#define ORPHANS 8u
struct statement {
    struct record records[2 * JOBS + 2];
    size_t count;
    uint64_t base;
    unsigned node;
};

struct engine {
    struct world *world;
    struct record *log;
    size_t count, room;
    size_t flushed, replicated;
    uint64_t commits, server, servers;
    unsigned boots;
    bool is_down, is_synchronous, has_crash_mark;
    unsigned lag;     /* of the standby */
    int64_t clock_ms; /* ahead of the world's */
    uint64_t up_at_ms;
    struct transaction open; /* who has the lock */
    uint64_t open_at_ms;
    struct statement orphans[ORPHANS];
    size_t orphan_count;
    char *said[SAID]; /* notifications, as strings */
    uint64_t said_count;
    struct record late; /* FAULT_NO_LOCK */
    bool has_late;
    struct store *committed, *working;
    int64_t lives_until[NODES];
    uint64_t announced_floor, announced_max;
    /* the state according to the log */
    uint64_t counter, recorded;
    uint64_t entity_position[ENTITIES];
    struct data_loss data_losses[INCARNATIONS_LOSSES_MAX];
    int64_t lossy_ms; /* when the newest lossy break was written */
    size_t data_loss_count;
    unsigned lease_holder;
    int64_t lease_until;
    struct session_state sessions[CLIENTS];
};

void engine_init(struct engine *e, struct world *w);
void engine_deinit(struct engine *e);
int64_t engine_now(const struct engine *e);
struct record *engine_add(struct engine *e, const struct record *r);
uint64_t engine_next(const struct engine *e);
void engine_commit(struct engine *e, bool is_synced);
void engine_rollback(struct engine *e);
bool engine_lock(struct engine *e, unsigned node); /* false: another has it */
/* If the store is where it was decided; the lock is free. */
bool engine_execute(struct engine *e, const struct statement *s);
/* Later, or never: no caller waits for it. */
void engine_leave(struct engine *e, const struct statement *s);
/* Its own commit that waits for the disk, for data without a position. */
void engine_write(struct engine *e, const struct record *r);
void engine_late(struct engine *e, const struct record *r);
void engine_crash(struct engine *e);
void engine_fail_over(struct engine *e);
void engine_put_back(struct engine *e);
void engine_step(struct engine *e);
size_t engine_find(const struct engine *e, uint64_t position);
void engine_state(const struct engine *e, struct store_state *ret);
int engine_apply(struct engine *e, struct store *store, const struct record *r);
const char *entity_name(unsigned index);
struct entity_version record_version(const struct record *r);

/* ---- nodes ----------------------------------------------------------------------------------- */

struct job {
    unsigned writer;
    unsigned count;
    unsigned index[JOB_WRITES];
    int64_t baseline[JOB_WRITES];
    uint64_t read_position[JOB_WRITES];
    bool is_announcement;
    size_t losses;
    uint64_t tag, key; /* key 0: none */
    int code;          /* in a batch: its outcome */
};

/* As it was read. */
struct page_rows {
    struct record at[PAGE_ROWS];
    size_t count;
};

/* The received ones at that time, of those sent. */
struct notification {
    uint64_t at_ms, serial;
};

enum ask_stage { ASK_IDLE, ASK_ASKED, ASK_ANSWERED };

struct node {
    struct world *world;
    unsigned index;
    bool is_up, is_stopped, is_cut, is_connected;
    unsigned boot; /* of the store, when it connected */
    uint64_t connect_at_ms, poll_at_ms, lives_at_ms;
    /* its own clocks: the second is never set */
    int64_t wall_ms;
    double rate;
    uint64_t begun_ms;
    struct store *rows;
    struct entities *entities;
    struct changelog *log;
    struct incarnations *incarnations;
    struct position_map marks;
    uint64_t epoch;
    size_t losses; /* of which it knows, since that number */
    uint64_t losses_seq;
    struct job jobs[JOBS];
    size_t job_count, in_batch;
    bool has_batch;
    const struct job *current;
    struct record *own; /* of the batch that was committed */
    size_t own_count, own_room;
    bool must_reopen;
    /* a batch without the lock, at position `base` */
    struct record *pending;
    size_t pending_count, pending_room;
    uint64_t base, doubted, again_until_ms;
    size_t again;      /* jobs that have to be run again, with the lock */
    bool is_unlocked;  /* nothing was sent */
    bool is_settled;   /* this connection has had the lock once */
    bool is_overtaken; /* other nodes committed since */
    bool is_in_doubt;  /* it may have been committed, unless the store is still at `doubted` */
    bool must_lock;
    struct latest_versions heads; /* newest versions, as far as followed */
    /* following */
    struct notification inbox[INBOX];
    size_t inbox_count;
    bool is_woken;
    struct notifications notifications; /* has arrived */
    struct notify_payload_scope place;  /* where it is connected */
    uint64_t notified;                  /* the claimed positions of other nodes */
    uint64_t known, known_floor;        /* where the store was when it was asked */
    struct page_rows next;              /* came with the lock … */
    uint64_t next_after;                /* … after this position */
    bool has_next, reads_ahead;
    uint64_t missed; /* FAULT_MISS_NO_PLACE: that it was reported */
    /* the mount that one of them owns */
    struct owner owner;
    enum ask_stage ask;
    uint64_t asked_ms, ask_at_ms, own_at_ms;
    bool is_given;
    int64_t left_ms;
    bool is_watching, has_seen; /* the outside world; it changed */
    uint64_t watch_term, watch_at_ms;
    bool in_batch_enters, in_batch_seen;
    uint64_t batch_term;
    /* the last read there, after that number of losses */
    int64_t read_from[ENTITIES];
    size_t read_losses;
    /* sessions it has */
    struct session_state sessions[CLIENTS];
    bool has_session[CLIENTS];
};

void node_init(struct node *n, struct world *w, unsigned index);
void node_kill(struct node *n);
void node_lose_connection(struct node *n);
void node_step(struct node *n);
bool node_submit(struct node *n, const struct job *job);
bool node_is_well(const struct node *n); /* up, running and connected */
/* node_batch.c */
void node_batch(struct node *n);
void node_batch_disconnected(struct node *n);
/* In a batch, at the next position. NULL: it is lost, or overtaken. */
struct record *node_add(struct node *n, const struct record *r);
bool node_take_lock(struct node *n);
bool node_keeps_back(const struct node *n, unsigned entity);
/* node_follow.c */
bool node_follow(struct node *n);
void node_read_page(struct node *n, struct page_rows *ret);
void node_read_state(struct node *n);
void node_take(struct node *n, const struct record *r);
/* payload.c: a notification is in transit to it; the arrived ones; whether those are all there is
 * to follow */
void node_notify(struct node *n, const struct notification *said);
void node_hear(struct node *n);
bool node_follow_heard(struct node *n);
struct notify_payload_scope engine_place(const struct engine *e);
void engine_notify(struct engine *e, const struct record *records, size_t count);
/* Another client resends the last notification to it. */
void engine_replay(struct engine *e, struct node *n);
void node_tell_local(struct node *n);
bool record_is_durable(const struct record *r);
uint64_t node_clock(const struct node *n); /* monotonic */
uint64_t node_lease_clock(const struct node *n);
/* node_owner.c: the lease, and what follows from it. */
void node_own(struct node *n);
/* Returns true if it needs a batch for that. In it, and its outcome. */
bool node_wants_batch(const struct node *n);
void node_run_owned(struct node *n);
void node_owned_done(struct node *n, bool is_committed);
/* The outside world has changed. */
void node_outside(struct node *n);
struct store *sim_rows_create(struct node *n);
bool node_has_lock(const struct node *n);
struct engine *node_store(const struct node *n);
/* Under the lock; it is held afterwards too. */
void node_judge(struct node *n);
void node_connect(struct node *n);
/* In a batch: its run has not ended. */
void node_reopen(struct node *n);
/* All rows of runs and breaks. */
void node_read_runs(struct node *n);
void record_uri(const struct record *r, char out[8]);
struct change *record_change(const struct record *r, uint64_t epoch, uint64_t seq);
void node_tell(struct node *n, const struct record *r);
/* false: not now. */
bool node_session_open(struct node *n, unsigned session);
/* 0; TIDINGS_E_CONFLICT: it was taken by another; TIDINGS_E_BUSY. */
int node_session_write(struct node *n, unsigned session, uint64_t options);

/* ---- clients --------------------------------------------------------------------------------- */

enum { DURABLE, UNLOGGED, OWNED, KINDS };

#define FLIGHT 8u

/* An event that a node wrote to the stream of a session, and that need not arrive. */
struct flight {
    unsigned kind, index;
    bool is_look; /* a truncation; otherwise the changes */
    uint64_t position;
    struct cursor id;
};

/* For one kind of resource. */
struct belief {
    uint64_t told_to; /* the number at the node */
    uint64_t told_position;
    bool must_look;
    bool may_repeat; /* the node was behind when the client came, or the cursor worth nothing */
    uint64_t known[ENTITIES];
};

struct client {
    struct world *world;
    unsigned index;
    bool is_session;                 /* of the legacy era: the node keeps its cursor */
    int node;                        /* its stream, or -1 */
    uint64_t run;                    /* of the node then */
    struct cursor cursor, came_with; /* of a session: the id of the last event that arrived */
    struct belief beliefs[KINDS];
    struct flight flight[FLIGHT]; /* of a session: oldest first */
    size_t flight_count;
    uint64_t away_until_ms;
    uint64_t options, acknowledged; /* of the session */
    size_t losses;
};

void client_init(struct client *c, struct world *w, unsigned index);
void client_step(struct client *c);
bool client_come_to_rest(struct client *c); /* false: there is more to do */

struct writer {
    struct world *world;
    unsigned index;
    bool is_waiting, repeats;
    struct job job;
};

void writer_step(struct writer *w, bool is_ending);
/* The outcome of a job: 0, or a code. */
void writer_answer(struct writer *w, const struct job *job, int code, const uint64_t *positions);

/* ---- what happened in truth ------------------------------------------------------------------ */

enum loss_kind {
    LOSS_CRASH,    /* of announcements */
    LOSS_FAILOVER, /* and of durable changes */
    LOSS_BRANCH,   /* of nothing: a node had followed what was lost before */
    LOSS_COPY,     /* an older copy of a store that ran was put in its place, and no node ran */
    LOSS_COLD_COPY /* … of one that had been stopped */
};
struct loss {
    uint64_t highest, kept; /* the counter before and after */
    enum loss_kind kind;
};

/* A durable write that was acknowledged. */
struct acknowledged {
    uint64_t position, tag;
    unsigned index;
};

/* Which change a position was given to. */
struct given {
    uint64_t position, tag;
    unsigned kind, index;
};

struct oracle {
    bool *denied; /* by tag: reported as not done */
    size_t denied_room;
    struct given *given; /* by hash */
    size_t given_count, given_room;
    struct loss *losses;
    size_t loss_count, loss_room, losses_seen;
    struct acknowledged *acknowledged;
    size_t acknowledged_count, acknowledged_room;
    uint64_t highest;                   /* position that was ever committed */
    uint64_t announced[ANNOUNCED];      /* the newest that was acknowledged */
    uint64_t announced_ever[ANNOUNCED]; /* … or committed */
    unsigned owner;                     /* the last node that truncated all subscriptions … */
    uint64_t owner_run, owner_term;     /* … in which run and term */
};

void oracle_deinit(struct oracle *o);
void oracle_lose(struct world *w, uint64_t kept, enum loss_kind kind);
void oracle_commit(struct world *w, const struct record *r);
void oracle_broke(struct world *w, enum store_verdict verdict);
void oracle_acknowledge(struct world *w, unsigned index, uint64_t position, uint64_t tag);
/* A reader at one node never goes back. */
void oracle_read(struct node *n, unsigned index, int64_t from);
/* It was reported as not done, and there is no retry. */
void oracle_deny(struct world *w, uint64_t tag);
/* Before its answer: another node had written the same entity. */
void oracle_check_refusal(const struct node *n, const struct job *job);
void oracle_refused(struct world *w, const struct cursor *c, unsigned kind);
void oracle_told(struct world *w, unsigned kind, unsigned index, uint64_t position);
void oracle_leases(struct world *w);
void oracle_looked(struct world *w, const struct node *n);
void oracle_end(struct world *w);

/* ---- the world ------------------------------------------------------------------------------- */

struct counts {
    uint64_t steps, commits, crashes, failovers, copies, data_losses, kills, stops, cuts, unknown,
        conflicts, resumed, ahead, refused, truncated, told, looks, acts, taken, repeated, owned,
        entered, dropped, unheard, unlocked, overtaken, orphans, notifications;
};

struct world {
    uint64_t seed, random, step;
    uint64_t now_ms;
    enum fault fault;
    bool is_calm; /* no more faults */
    bool is_verbose;
    unsigned trouble, disaster; /* of a node, of the store: one in so many steps */
    unsigned announcing;        /* of ten writes so many */
    bool is_deaf;               /* the store knows no notifications: nodes ask every so often */
    unsigned restless;          /* of the outside world: one change in so many steps */
    uint64_t tags;
    struct seal_key payload_key;
    uint64_t outside; /* the version of what the mount shows */
    struct engine engine;
    struct node nodes[NODES];
    struct client clients[CLIENTS];
    struct writer writers[WRITERS];
    struct oracle oracle;
    struct counts *counts;
    struct arena arena;
    jmp_buf failed;
    char *trace; /* when `is_verbose` */
    size_t trace_len, trace_room;
    char why[512];
};

uint64_t world_random(struct world *w, uint64_t below);
bool world_chance(struct world *w, unsigned one_in); /* never when `is_calm` */
void world_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A promise was broken: the trace is printed and the program ends. */
_Noreturn void world_fail(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *world_grow(void *array, size_t count, size_t *room, size_t size);

#endif
