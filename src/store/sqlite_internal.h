/* SPDX-License-Identifier: MIT
 *
 * What the parts of the SQLite store of entities share: appending and reading
 * (store/sqlite_store.c), bringing the tables up to date behind it (store/sqlite_store.c), and
 * the SQL (store/sqlite_schema.c).
 */
#ifndef STORE_SQLITE_INTERNAL_H
#define STORE_SQLITE_INTERNAL_H

#include "store/entity_cache.h"
#include "store/sqlite.h"
#include "store/store.h"

/* Rows of the log that `versions` may be behind by; about 200 bytes each in memory. */
#define SQLITE_MAX_FRESH 8192u

enum statement {
    BEGIN,
    COMMIT,
    APPEND,
    ADD_MOVED,
    ADD_FRESH,
    REMOVE_FRESH,
    ADD_GONE,
    FRESH_AT,
    FRESH_COUNT,
    FRESH_NTH,
    KNOWN_NTH,
    FRESH_AFTER,
    KNOWN_AT,
    KNOWN_AFTER,
    ROW,
    LIST_ALL, /* the next six: this order is used */
    LIST_TYPE,
    LIST_VERSION,
    LIST_PARENT,
    LIST_TYPE_PARENT,
    LIST_VERSION_PARENT,
    PUT_TYPE,
    TYPES,
    COUNT_KEY,
    PUT_KEY,
    FIND_KEY,
    DROP_AGED_KEYS,
    DROP_OLDER_KEYS,
    KEY_COUNT,
    MOST_KEYS,
    PUBLISH,
    OLD_REMOVED,
    FORGET_REMOVED,
    RAISE_FLOOR,
    TASK_HAS_ENDED,
    PUT_TASK,
    SWEEP_TASKS,
    FILE_MOUNT,
    ADD_FILE_MOUNT,
    DROP_FILE_MOUNT,
    DROP_FILE_ROOT,
    PUT_FILE_ROOT,
    PUT_FILE_DIRECTORY,
    DROP_FILE_DIRECTORY,
    DROP_FILE_DIRECTORIES,
    PUT_FILE_SCOPE,
    DROP_FILE_SCOPES,
    PUT_FILE_TOLD,
    DROP_FILE_TOLD,
    DROP_OLD_FILE_TOLD,
    PUT_FILE_CHANGE,
    OLD_FILE_CHANGE,
    DROP_FILE_CHANGES,
    TRANSFER_ADD_VERSION,
    TRANSFER_SET_CURRENT,
    TRANSFER_SET_APPLIED,
    TRANSFER_PUT_RUN,
    TRANSFER_SET_MARK,
    TRANSFER_SET_STATE,
    STATEMENTS,
};

struct sqlite_store {
    struct store base;
    struct sqlite *db;
    struct sqlite3_stmt *statements[STATEMENTS]; /* NULL until used */
    struct sqlite3_stmt *handed_out;             /* has slices out, or NULL */
    int64_t last_seq, seq_before;                /* of the log; before the batch */
    size_t n_fresh, fresh_before;                /* rows of the log above `applied` */
    int64_t now_ms;                              /* when the batch began */
    struct latest_versions latest;               /* newest versions, written ones too */
    size_t max_keys;                             /* not more than these, unless 0: not known */
    size_t n_removed;                            /* published, since the oldest were forgotten */
    bool is_uncertain; /* a commit failed that may be in the file all the same */
};

/* One row of the log, of which the tables of versions know. */
struct sqlite_log_row {
    struct tidings_str id;
    int64_t from, seq;
    int64_t replaces; /* TIMELINE_NEVER: none */
    int64_t forget;   /* the version to be forgotten; TIMELINE_NEVER: this row is a version */
};

struct sqlite_store *sqlite_store_of(struct store *store);
extern const struct sqlite_layout sqlite_store_layout;
/* store/sqlite_schema.c: the tables, made or brought up to date; its statements. */
int sqlite_store_lay_out(struct sqlite_store *s, struct tidings_error *err);
int sqlite_statement(struct sqlite_store *s, enum statement which, struct sqlite3_stmt **ret,
                     struct tidings_error *err);
/* One without parameters and results. */
int sqlite_statement_run(struct sqlite_store *s, enum statement which, struct tidings_error *err);
/* Reset the statement whose row was handed out last, before anything else is asked. */
void sqlite_store_release(struct sqlite_store *s);

/* A row of the log: a version, or (`forget`) that one is to be forgotten. */
int sqlite_store_append(struct sqlite_store *s, const struct entity_version *v, int64_t replaces,
                        int64_t forget, struct tidings_error *err);
/* Its URI is another one from now on: remember that which it had, at a position of its own. */
int sqlite_store_leave(struct sqlite_store *s, const struct entity_version *v,
                       struct tidings_error *err);
/* store/sqlite_store.c: `content` NULL: removed. */
struct published_row;
int sqlite_published_write(struct sqlite_store *s, const struct published_row *row,
                           const struct tidings_str *content, struct tidings_error *err);

/* Bring `versions` and `current` up to the end of the log, in one transaction; outside of others.
 */
int sqlite_apply(struct sqlite_store *s, struct tidings_error *err);
/* The first column of the only row of a statement without parameters; 0 when there is none. */
int sqlite_store_number(struct sqlite_store *s, const char *sql, int64_t *ret,
                        struct tidings_error *err);
/* The newest position that the tables know. */
int sqlite_store_newest(struct sqlite_store *s, int64_t *ret, struct tidings_error *err);

/* store/sqlite.c: operations of struct store_ops. */
int sqlite_store_begin(struct store *store, struct tidings_error *err);
int sqlite_store_commit(struct store *store, struct tidings_error *err);
void sqlite_store_rollback(struct store *store);

/* store/sqlite_store.c: operations of struct store_ops. */
int sqlite_store_put_type(struct store *store, const struct entity_type_row *row,
                          struct tidings_error *err);

#endif
