/* SPDX-License-Identifier: MIT
 *
 * A connection to PostgreSQL (or an engine that speaks its protocol) through libpq, which is loaded
 * when the first one is opened: who keeps nothing there does not pay for it.
 *
 * Statements are prepared once per connection, when first used, and sent in a pipeline: nobody
 * waits for an answer but where one is asked for. Nothing blocks for longer than
 * POSTGRES_DEADLINE_MS without a byte coming or going; whatever fails then loses the connection,
 * and with it the transaction. Connecting again is tried by postgres_ready, not more often than
 * POSTGRES_RETRY_MS.
 *
 * The URL may hold a password, which no message shows: postgres_redacted_url has none.
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

/* Parameters of one statement, in order. Their types are said in the SQL ($1::int8). */
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
/* As the protocol numbers them. */
enum postgres_element { POSTGRES_BYTEA = 17, POSTGRES_INT8 = 20, POSTGRES_TEXT = 25 };
struct postgres_array {
    struct buf bytes; /* as the protocol has arrays; empty: no element */
    uint32_t count;
};
void postgres_array_init(struct postgres_array *a, size_t max_bytes);
void postgres_array_deinit(struct postgres_array *a);
void postgres_array_clear(struct postgres_array *a); /* keeps the memory */
/* A parameter of another statement as an element. 0, TIDINGS_E_NOMEM, TIDINGS_E_LIMIT. */
int postgres_array_add(struct postgres_array *a, enum postgres_element kind,
                       const struct postgres_values *v, int index);
/* The element after *at, which begins at 0. false: that was the last. */
bool postgres_array_next(const struct postgres_array *a, size_t *at, struct tidings_str *ret);
/* It has an element: the first as a parameter, or all of it. The array is borrowed like text. */
void postgres_put_first(struct postgres_values *v, const struct postgres_array *a);
void postgres_put_array(struct postgres_values *v, struct postgres_array *a);

/* `statements`: the SQL of each, at most POSTGRES_MAX_STATEMENTS; both live as long as this. Does
 * not connect. TIDINGS_E_UNSUPPORTED: libpq is missing. TIDINGS_E_INVALID: no URL of PostgreSQL. */
int postgres_create(const char *url, const char *const *statements, struct postgres **ret,
                    struct tidings_error *err);
void postgres_destroy(struct postgres *c); /* NULL is fine */
/* The URL without what is secret. For the log. */
const char *postgres_redacted_url(const struct postgres *c);

/* Where the database is, and what it or libpq says, is for those who run the server. From
 * postgres_conceal on, when clients are served, the text of an error says what a client may know,
 * and postgres_explain what an operator needs. */
void postgres_conceal(struct postgres *c);
/* How messages begin: the database with its URL, or without. */
const char *postgres_name(const struct postgres *c);
/* `err` says what is wrong with the database itself: complete it. Returns its code, which is
 * TIDINGS_E_BUSY where it is concealed: nothing is wrong with what a client asked for. */
int postgres_refuse(struct postgres *c, int code, struct tidings_error *err);
/* The text of `err`, or all that is known if it is of the newest failure and was concealed. */
const char *postgres_explain(const struct postgres *c, const struct tidings_error *err);

/* 0: connected; 1: connected anew, nothing of before holds. Waits for at most `wait_ms`.
 * TIDINGS_E_BUSY: not now, with the reason. TIDINGS_E_DENIED, TIDINGS_E_NOTFOUND: nor ever as
 * things are. */
int postgres_ready(struct postgres *c, int wait_ms, struct tidings_error *err);
bool postgres_is_connected(const struct postgres *c);
/* Let go of the connection; what was not committed is gone. */
void postgres_drop(struct postgres *c);
/* The same, and for that reason none is made for a while: it is of no use. */
void postgres_put_off(struct postgres *c, const struct tidings_error *why);
/* SQLSTATE of the newest failure; empty: it was none of the server's. */
const char *postgres_state(const struct postgres *c);
/* What the server is, as it says itself: "server_version", "server_encoding"; "" when it does not.
 */
const char *postgres_parameter(const struct postgres *c, const char *name);

/* Several statements without parameters and results, waited for. */
int postgres_exec(struct postgres *c, const char *sql, struct tidings_error *err);

/* Put a statement into the pipeline. A failure of the server's comes with postgres_finish. */
int postgres_send(struct postgres *c, int statement, const struct postgres_values *values,
                  struct tidings_error *err);
/* What was sent up to here succeeds or fails together: after a failure the rest is skipped. */
int postgres_end(struct postgres *c, struct tidings_error *err);
/* Wait for all ends but the newest `leave`. The rows that statements between the last two of those
 * waited for gave, in order: free each with postgres_free. What failed before them was nobody's.
 * Fewer than `count` results: the rest is NULL. */
int postgres_finish(struct postgres *c, unsigned leave, struct pg_result **results, size_t count,
                    struct tidings_error *err);
/* The tag of the newest statement that was waited for: "COMMIT". */
const char *postgres_tag(const struct postgres *c);
/* Send, end, finish: the rows of this one. */
int postgres_ask(struct postgres *c, int statement, const struct postgres_values *values,
                 struct pg_result **ret, struct tidings_error *err);
/* The same for what may be large: one row in memory at a time. `fn` must not use the connection; a
 * negative code of it is returned, after the rest was read. Outside of pipelines. */
typedef int (*postgres_row_fn)(void *user, struct pg_result *row, struct tidings_error *err);
int postgres_each(struct postgres *c, int statement, const struct postgres_values *values,
                  postgres_row_fn fn, void *user, struct tidings_error *err);

void postgres_free(struct pg_result *r); /* NULL is fine */
int postgres_rows(struct pg_result *r);  /* NULL: 0 */
/* NULL is 0, and empty. */
int64_t postgres_int(struct pg_result *r, int row, int column);
struct tidings_str postgres_str(struct pg_result *r, int row, int column);

/* The descriptor of the connection; -1: there is none. */
int postgres_descriptor(const struct postgres *c);
/* Take what has arrived, without waiting, or came with what was waited for: `fn` is given each
 * notification since, in order, but those that were sent by this connection itself; it must not use
 * the connection. Ends that nobody waits for are taken, too. TIDINGS_E_BUSY: the connection is
 * lost.
 */
typedef void (*postgres_notified_fn)(void *user, struct tidings_str payload);
int postgres_notified(struct postgres *c, postgres_notified_fn fn, void *user);

#endif
