/* SPDX-License-Identifier: MIT
 *
 * Internal interface of the SQLite store: appending and reading (store/sqlite_store.c), applying
 * the log to the tables of versions (store/sqlite_store.c), and the SQL (store/sqlite_schema.c).
 */
#ifndef STORE_SQLITE_INTERNAL_H
#define STORE_SQLITE_INTERNAL_H

#include "store/entity_cache.h"
#include "store/sqlite.h"
#include "store/store.h"

/* Maximum rows of the log that are not yet in `versions`; about 200 bytes each in memory. */
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
    LIST_ALL, /* the order of these six is used */
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
    struct sqlite3_stmt *handed_out;             /* its row is in use by the caller, or NULL */
    int64_t last_seq, seq_before;                /* of the log; before the batch */
    size_t n_fresh, fresh_before;                /* rows of the log above `applied` */
    int64_t now_ms;                              /* start time of the batch */
    struct latest_versions latest;               /* newest versions, including uncommitted ones */
    size_t max_keys;                             /* upper bound; 0: unknown */
    /* removals since old removed URIs were last dropped */
    size_t n_removed;
    bool is_uncertain; /* a failed commit may be in the file */
};

/* One row of the log, for the tables of versions. */
struct sqlite_log_row {
    struct tidings_str id;
    int64_t from, seq;
    int64_t replaces; /* TIMELINE_NEVER: none */
    int64_t forget;   /* the removed version; TIMELINE_NEVER: this row is a version */
};

struct sqlite_store *sqlite_store_of(struct store *store);
extern const struct sqlite_layout sqlite_store_layout;
/* store/sqlite_schema.c: creates or migrates the tables; prepares statements. */
int sqlite_store_lay_out(struct sqlite_store *s, struct tidings_error *err);
int sqlite_statement(struct sqlite_store *s, enum statement which, struct sqlite3_stmt **ret,
                     struct tidings_error *err);
/* Runs a statement without parameters and results. */
int sqlite_statement_run(struct sqlite_store *s, enum statement which, struct tidings_error *err);
/* Resets the statement whose row was returned last; call it before any other query. */
void sqlite_store_release(struct sqlite_store *s);

/* Appends a row to the log: a version, or the removal (`forget`) of one. */
int sqlite_store_append(struct sqlite_store *s, const struct entity_version *v, int64_t replaces,
                        int64_t forget, struct tidings_error *err);
/* Records that the entity leaves its URI, at a separate position. */
int sqlite_store_leave(struct sqlite_store *s, const struct entity_version *v,
                       struct tidings_error *err);
/* store/sqlite_store.c: `content` NULL: removed. */
struct published_row;
int sqlite_published_write(struct sqlite_store *s, const struct published_row *row,
                           const struct tidings_str *content, struct tidings_error *err);

/* Brings `versions` and `current` up to the end of the log, in its own transaction. */
int sqlite_apply(struct sqlite_store *s, struct tidings_error *err);
/* The first column of the only row of a statement without parameters; 0 if there is no row. */
int sqlite_store_number(struct sqlite_store *s, const char *sql, int64_t *ret,
                        struct tidings_error *err);
/* The newest position in the tables. */
int sqlite_store_newest(struct sqlite_store *s, int64_t *ret, struct tidings_error *err);

/* store/sqlite.c: operations of struct store_ops. */
int sqlite_store_begin(struct store *store, struct tidings_error *err);
int sqlite_store_commit(struct store *store, struct tidings_error *err);
void sqlite_store_rollback(struct store *store);

/* store/sqlite_store.c: operations of struct store_ops. */
int sqlite_store_put_type(struct store *store, const struct entity_type_row *row,
                          struct tidings_error *err);

#endif
