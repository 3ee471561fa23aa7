/* SPDX-License-Identifier: MIT
 *
 * One change as bytes: in the tables, and in payloads. A *notice* has the changes of one batch, as
 * a text that travels with a notification to the other nodes of a cluster, which then need not ask
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
 *   4. Positions never mean two things (cluster/history.h), and a payload is bound to its own. It
 *      is also bound to its place: the cluster, the server and its timeline, when that server was
 *      started, the database and the table (struct notify_payload_scope). So what was recorded
 *      before a failover, in a copy of the database, or in another schema of it, opens nowhere
 *      else, even where the secret is the same.
 *   5. What cannot be opened, or says something else than its rows do, is no data: it counts as
 *      "look", and the database is asked.
 *
 * Keys and nonces (security/seal.h): the key is HMAC-SHA-256 of a fixed text under the secret that
 * all nodes have from the table `tidings_cluster`, so it is no other seal's. Each node draws a salt
 * of 64 bits when it begins, from which the key that encrypts is derived, and another one after
 * 2^32 payloads; nonces are random, 96 bits. Two payloads with the same key and nonce have a
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

#define NOTIFY_PAYLOAD_TEXT_MAX 7999u /* what PostgreSQL takes */
#define NOTIFY_PAYLOAD_MAX 5900u      /* bytes of rows, so that the text fits */
#define NOTIFY_PAYLOAD_SCOPE 32u

/* ---- one change ------------------------------------------------------------------------------ */

/* The change at a position. The same bytes are in the tables and in payloads:
 *
 *   kind (one byte), flags, time, then the numbers and the texts of the kind, in a fixed order.
 *
 * Numbers have seven bits in a byte, the lowest first, with the sign in the lowest; texts follow
 * their length. The position is not in them, nor the value of a version and its patch: tables have
 * columns for these, and payloads append them. */
struct kept_record {
    enum log_entry_kind kind;
    uint64_t position;
    int64_t at_ms;
    /* LOG_ENTRY_ENTITY, LOG_ENTRY_MOVED: … */
    struct entity_version version;
    int64_t version_checksum; /* … entity_version_checksum */
    /* All other kinds. Its `kind` says of LOG_ENTRY_PUBLISHED whether it was created or removed.
     * `size` below 0: not known. LOG_ENTRY_INCARNATION: `modified_ms` is the epoch, `size` its last
     * position (below 0: it lives). LOG_ENTRY_DATA_LOSS: `modified_ms` is `kept`, `size` not 0: it
     * is lossy. */
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
void kept_record_change(const struct kept_record *r, struct log_entry *ret);

/* ---- what nodes share ------------------------------------------------------------------------ */

/* Where it is good: a digest of everything that rule 4 names. */
struct notify_payload_scope {
    unsigned char digest[NOTIFY_PAYLOAD_SCOPE];
};

/* The key of payloads, from the secret of the cluster. */
void notify_payload_key(const unsigned char secret[32], struct seal_key *ret);

/* ---- writing --------------------------------------------------------------------------------- */

/* Rows of a batch that has not been committed yet. */
struct notify_payload {
    struct buf rows;
    uint64_t count;
    bool is_partial; /* something is missing: nothing is sent of it */
};

void notify_payload_init(struct notify_payload *n);
void notify_payload_deinit(struct notify_payload *n);
void notify_payload_clear(struct notify_payload *n);
/* Adds the next row. If it does not fit, the payload is not sent. If only the value of a version
 * does not fit, the row has no value, so its sum does not match, and nodes read the value when they
 * need it. */
void notify_payload_add(struct notify_payload *n, const struct kept_record *r);
/* Is there a row for each of the positions after `before` up to `last`? */
bool notify_payload_is_whole(const struct notify_payload *n, uint64_t before, uint64_t last);
/* Append the text. TIDINGS_E_LIMIT: it is too large. Fails like seal_put. */
int notify_payload_put(const struct notify_payload *n, struct sealer *sealer,
                       const struct notify_payload_scope *scope, uint64_t from, struct buf *out);

/* ---- reading --------------------------------------------------------------------------------- */

struct notify_payload_head {
    uint64_t from, to;
    struct tidings_str sealed;
};

/* Of any text. false: it is no payload. What it says is not proved yet. */
bool notify_payload_parse(struct tidings_str text, struct notify_payload_head *ret);
/* Append its rows, which are whole: of known kinds, one for each position, nothing after them.
 * TIDINGS_E_INVALID: not one of ours, changed, or of another place. TIDINGS_E_UNSUPPORTED: one of
 * ours that is not understood here. */
int notify_payload_open(const struct notify_payload_head *head, struct sealer *sealer,
                        const struct notify_payload_scope *scope, struct buf *out);
/* The first of the rows at *rows, which then begins after it. Slices point into it. false: that is
 * no row, or there is none. */
bool notify_payload_next(struct tidings_str *rows, uint64_t position, struct kept_record *ret);

#endif
