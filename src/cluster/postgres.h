/* SPDX-License-Identifier: MIT
 *
 * A connection to PostgreSQL (or a compatible engine) through libpq. libpq is loaded with the first
 * connection, so servers without PostgreSQL do not pay for it.
 *
 * Statements are prepared once per connection, at first use, and sent in a pipeline. Only functions
 * that return answers wait for them. Nothing blocks for longer than POSTGRES_DEADLINE_MS without a
 * transferred byte; such a failure loses the connection, and with it the transaction.
 * postgres_ready reconnects, at most once per POSTGRES_RETRY_MS.
 *
 * The URL may hold a password, which no message shows: postgres_redacted_url omits it.
 *
 * One thread. Parameters are borrowed until postgres_send returns.
 */
#ifndef CLUSTER_POSTGRES_H
#define CLUSTER_POSTGRES_H

#include "base/str.h"

#define POSTGRES_DEADLINE_MS 5000
#define POSTGRES_RETRY_MS 500
#define POSTGRES_MAX_VALUES 24
#define POSTGRES_MAX_STATEMENTS 128

struct postgres;
struct pg_result;

/* Parameters of one statement, in order. The SQL declares their types ($1::int8). */
struct postgres_values {
    int count;
    const char *at[POSTGRES_MAX_VALUES];
    int lengths[POSTGRES_MAX_VALUES];
    int formats[POSTGRES_MAX_VALUES];
    unsigned char numbers[POSTGRES_MAX_VALUES][8];
};
void postgres_put_int(struct postgres_values *v, int64_t n);          /* int8 */
void postgres_put_str(struct postgres_values *v, struct tidings_str); /* text, bytea */
void postgres_put_null(struct postgres_values *v);

/* A parameter that grows by one element at a time: one statement for many rows. */
/* Values of the protocol. */
enum postgres_element { POSTGRES_BYTEA = 17, POSTGRES_INT8 = 20, POSTGRES_TEXT = 25 };
struct postgres_array {
    struct buf bytes; /* an array of the protocol; empty: no element */
    uint32_t count;
};
void postgres_array_init(struct postgres_array *a, size_t max_bytes);
void postgres_array_deinit(struct postgres_array *a);
void postgres_array_clear(struct postgres_array *a); /* keeps the memory */
/* Adds a parameter of another statement as an element. Returns 0, TIDINGS_E_NOMEM or
 * TIDINGS_E_LIMIT. */
int postgres_array_add(struct postgres_array *a, enum postgres_element kind,
                       const struct postgres_values *v, int index);
/* Gets the element after *at, which starts as 0. Returns false after the last one. */
bool postgres_array_next(const struct postgres_array *a, size_t *at, struct tidings_str *ret);
/* The array has an element. Adds the first one, or the whole array, as a parameter. The array is
 * borrowed like text. */
void postgres_put_first(struct postgres_values *v, const struct postgres_array *a);
void postgres_put_array(struct postgres_values *v, struct postgres_array *a);

/* `statements`: the SQL of each, at most POSTGRES_MAX_STATEMENTS; both must outlive the connection.
 * Does not connect. TIDINGS_E_UNSUPPORTED: libpq is missing. TIDINGS_E_INVALID: not a PostgreSQL
 * URL. */
int postgres_create(const char *url, const char *const *statements, struct postgres **ret,
                    struct tidings_error *err);
void postgres_destroy(struct postgres *c); /* NULL is fine */
/* Returns the URL without secrets. For the log. */
const char *postgres_redacted_url(const struct postgres *c);

/* Only operators may see the location of the database and its messages. After postgres_conceal,
 * when the server accepts clients, error messages hold only what a client may see, and
 * postgres_explain returns the details for operators. */
void postgres_conceal(struct postgres *c);
/* Returns the prefix of messages: the database with its URL, or without. */
const char *postgres_name(const struct postgres *c);
/* Completes `err`, which describes a fault of the database itself. Returns its code, or
 * TIDINGS_E_BUSY if faults are concealed: the client's request is not at fault. */
int postgres_refuse(struct postgres *c, int code, struct tidings_error *err);
/* Returns the text of `err`, or all details if it describes the newest concealed failure. */
const char *postgres_explain(const struct postgres *c, const struct tidings_error *err);

/* 0: connected; 1: reconnected, so all session state is lost. Waits for at most `wait_ms`.
 * TIDINGS_E_BUSY: not now, with the reason. TIDINGS_E_DENIED, TIDINGS_E_NOTFOUND: retrying does not
 * help. */
int postgres_ready(struct postgres *c, int wait_ms, struct tidings_error *err);
bool postgres_is_connected(const struct postgres *c);
/* Closes the connection; uncommitted changes are lost. */
void postgres_drop(struct postgres *c);
/* The same for an unusable connection, and delays the next attempt for that reason. */
void postgres_put_off(struct postgres *c, const struct tidings_error *why);
/* Returns the SQLSTATE of the newest failure; empty if the server did not report it. */
const char *postgres_state(const struct postgres *c);
/* Returns a parameter that the server reports: "server_version", "server_encoding"; "" if it does
 * not.
 */
const char *postgres_parameter(const struct postgres *c, const char *name);

/* Executes several statements without parameters and results, and waits. */
int postgres_exec(struct postgres *c, const char *sql, struct tidings_error *err);

/* Puts a statement into the pipeline. postgres_finish reports failures of the server. */
int postgres_send(struct postgres *c, int statement, const struct postgres_values *values,
                  struct tidings_error *err);
/* Ends a part: its statements succeed or fail together. After a failure the rest is skipped. */
int postgres_end(struct postgres *c, struct tidings_error *err);
/* Waits for all ends but the newest `leave`. Returns, in order, the rows of the statements between
 * the last two awaited ends: free each with postgres_free. Ignores earlier failures. With fewer
 * than `count` results, the rest is NULL. */
int postgres_finish(struct postgres *c, unsigned leave, struct pg_result **results, size_t count,
                    struct tidings_error *err);
/* Returns the command tag of the newest awaited statement: "COMMIT". */
const char *postgres_tag(const struct postgres *c);
/* Sends, ends and finishes one statement; returns its rows. */
int postgres_ask(struct postgres *c, int statement, const struct postgres_values *values,
                 struct pg_result **ret, struct tidings_error *err);
/* The same for large results: one row in memory at a time. `fn` must not use the connection. Its
 * negative code is returned after the rest was read. Outside of pipelines. */
typedef int (*postgres_row_fn)(void *user, struct pg_result *row, struct tidings_error *err);
int postgres_each(struct postgres *c, int statement, const struct postgres_values *values,
                  postgres_row_fn fn, void *user, struct tidings_error *err);

void postgres_free(struct pg_result *r); /* NULL is fine */
int postgres_rows(struct pg_result *r);  /* NULL: 0 */
/* NULL is 0, and empty. */
int64_t postgres_int(struct pg_result *r, int row, int column);
struct tidings_str postgres_str(struct pg_result *r, int row, int column);

/* Returns the descriptor of the connection, or -1 if there is none. */
int postgres_descriptor(const struct postgres *c);
/* Processes received data without waiting. `fn` gets each new notification in order, except those
 * that this connection sent; it must not use the connection. Also discards results of ends that no
 * caller awaits. TIDINGS_E_BUSY: the connection is lost.
 */
typedef void (*postgres_notified_fn)(void *user, struct tidings_str payload);
int postgres_notified(struct postgres *c, postgres_notified_fn fn, void *user);

#endif
