/* SPDX-License-Identifier: MIT
 *
 * One change as bytes: in the tables, and in notices. A *notice* has the changes of one batch, as a
 * text that travels with a notification to the other nodes of a cluster, which then need not ask
 * the database for them. It is encrypted and authenticated: whoever may connect to the database may
 * listen and notify there, without any right on the tables.
 *
 * The rules; cluster/follow.c does what they say:
 *
 *   1. A notice has the positions FROM to TO of one batch, all of them, and one row for each, in
 *      order. A batch of which a row is of another kind than an entity, an announcement or a
 *      session that moved, or which is too large, is told of by its last position alone.
 *   2. It is sent after the commit, and only if that succeeded: the database itself decides so (the
 *      commit leaves a mark that the statement which notifies asks for), not who sends both
 *      before it knows.
 *   3. Who has followed exactly up to FROM-1 applies it, each row by the same function as a row of
 *      a page that was read. Whoever has followed less, or not been told of where the store is
 *      since it was out of reach, asks the database, as for a position alone; who has followed TO
 *      or more passes it over. So nothing is applied twice, left out, or out of order.
 *   4. Positions never mean two things (cluster/history.h), and a notice is bound to its own. It is
 * also bound to its place: the cluster, the server and its timeline, when that server was started,
 *      the database and the table (struct row_notice_place). So what was recorded before a
 *      failover, in a copy of the database, or in another schema of it, opens nowhere else, even
 *      where the secret is the same.
 *   5. What cannot be opened, or says something else than its rows do, is no data: it counts as
 *      "look", and the database is asked.
 *
 * Keys and nonces (security/seal.h): the key is HMAC-SHA-256 of a fixed text under the secret that
 * all nodes have from the table `tidings_cluster`, so it is no other seal's. Each node draws a salt
 * of 64 bits when it begins, from which the key that encrypts is derived, and another one after
 * 2^32 notices; nonces are random, 96 bits. Two notices with the same key and nonce have a
 * probability below 2^-32 for each salt; a counter would be no better, since nodes that share the
 * secret would have to share it.
 *
 * What a stranger who listens sees: the positions (as before), when and how large.
 *
 * As text: FROM " " TO " " SEALED, decimal numbers and base64url. Pure; not thread-safe.
 */
#ifndef CLUSTER_LOG_RECORD_H
#define CLUSTER_LOG_RECORD_H

#include "base/str.h"
#include "security/seal.h"
#include "store/store.h"

#define ROW_NOTICE_TEXT_MAX 7999u /* what PostgreSQL takes */
#define ROW_NOTICE_MAX 5900u      /* bytes of rows, so that the text fits */
#define ROW_NOTICE_PLACE 32u

/* ---- one change ------------------------------------------------------------------------------ */

/* The change at a position. The same bytes are in the tables and in notices:
 *
 *   kind (one byte), flags, time, then the numbers and the texts of the kind, in a fixed order.
 *
 * Numbers have seven bits in a byte, the lowest first, with the sign in the lowest; texts follow
 * their length. The position is not in them, nor the value of a version and its patch: tables have
 * columns for these, and notices append them. */
struct kept_record {
    enum kept_kind kind;
    uint64_t position;
    int64_t at_ms;
    /* KEPT_ENTITY, KEPT_MOVED: … */
    struct entity_version version;
    int64_t sum; /* … entity_version_sum */
    /* All other kinds. Its `kind` says of KEPT_PUBLISHED whether it was created or removed.
     * `size` below 0: not known. KEPT_RUN: `modified_ms` is the epoch, `size` its last position
     * (below 0: it lives). KEPT_BROKEN: `modified_ms` is `kept`, `size` not 0: it is lossy. */
    struct tidings_change resource;
};
#define KEPT_RECORD_MAX (2u << 20) /* bytes; nodes write no longer ones */

/* Append its bytes. A failure is in `out->failed`. */
void kept_record_put(const struct kept_record *r, struct buf *out);
/* The first record at *at, which then begins after it. Slices point into it. false: there is none,
 * or it is malformed. Position, value and patch are not set. */
bool kept_record_take(struct tidings_str *at, struct kept_record *ret);
/* Converts it to the form that readers of the store get; versions lose their value. Points into
 * `r`. */
void kept_record_change(const struct kept_record *r, struct kept_change *ret);

/* ---- what nodes share ------------------------------------------------------------------------ */

/* Where it is good: a digest of everything that rule 4 names. */
struct row_notice_place {
    unsigned char digest[ROW_NOTICE_PLACE];
};

/* The key of notices, from the secret of the cluster. */
void row_notice_key(const unsigned char secret[32], struct seal_key *ret);

/* ---- writing --------------------------------------------------------------------------------- */

/* Rows of a batch that has not been committed yet. */
struct row_notice {
    struct buf rows;
    uint64_t count;
    bool is_partial; /* something is missing: nothing is sent of it */
};

void row_notice_init(struct row_notice *n);
void row_notice_deinit(struct row_notice *n);
void row_notice_clear(struct row_notice *n);
/* Adds the next row. If it does not fit, the notice is not sent. If only the value of a version
 * does not fit, the row has no value, so its sum does not match, and nodes read the value when they
 * need it. */
void row_notice_add(struct row_notice *n, const struct kept_record *r);
/* Is there a row for each of the positions after `before` up to `last`? */
bool row_notice_is_whole(const struct row_notice *n, uint64_t before, uint64_t last);
/* Append the text. TIDINGS_E_LIMIT: it is too large. Fails like seal_put. */
int row_notice_put(const struct row_notice *n, struct sealer *sealer,
                   const struct row_notice_place *place, uint64_t from, struct buf *out);

/* ---- reading --------------------------------------------------------------------------------- */

struct row_notice_head {
    uint64_t from, to;
    struct tidings_str sealed;
};

/* Of any text. false: it is no notice. What it says is not proved yet. */
bool row_notice_parse(struct tidings_str text, struct row_notice_head *ret);
/* Append its rows, which are whole: of known kinds, one for each position, nothing after them.
 * TIDINGS_E_INVALID: not one of ours, changed, or of another place. TIDINGS_E_UNSUPPORTED: one of
 * ours that is not understood here. */
int row_notice_open(const struct row_notice_head *head, struct sealer *sealer,
                    const struct row_notice_place *place, struct buf *out);
/* The first of the rows at *rows, which then begins after it. Slices point into it. false: that is
 * no row, or there is none. */
bool row_notice_next(struct tidings_str *rows, uint64_t position, struct kept_record *ret);

#endif
