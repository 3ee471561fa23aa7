/* SPDX-License-Identifier: MIT
 *
 * Encoding of a change as bytes, in the tables and in payloads. A *payload* has the changes of one
 * batch as a string that a notification carries to the other nodes of a cluster, so that they need
 * not query the database. It is encrypted and authenticated, because all users who may connect to
 * the database can listen and notify there, without any right on the tables.
 *
 * The rules, which cluster/follow.c implements:
 *
 *   1. A payload covers the positions FROM to TO of one batch completely, with one row for each, in
 *      order. For a batch that is too large, or has rows other than entities, announcements and
 *      migrated sessions, only the last position is notified.
 *   2. It is sent after the commit, and only if that succeeded. The database decides that (the
 *      notifying statement checks for a mark that the commit leaves), because the sender issues
 *      both before it knows the result.
 *   3. A node that has followed exactly up to FROM-1 applies it, with the same function per row as
 *      for a queried page. A node that has followed less, or has not received the position of the
 *      store since it was unreachable, queries the database, as for a mere position. A node that
 *      has followed TO or more ignores it. So no change is duplicated, lost or reordered.
 *   4. Positions never mean two things (cluster/history.h), and a payload is bound to its own. It
 *      is also bound to its place: the cluster, the server and its timeline, the start time of the
 *      server, the database and the table (struct notify_payload_scope). So payloads recorded
 *      before a failover, in a copy of the database, or in another schema of it, cannot be opened
 *      anywhere else, even with the same secret.
 *   5. A payload that cannot be opened, or whose header does not match its rows, is not used: it
 *      only causes a query.
 *
 * Keys and nonces (security/seal.h): the key is HMAC-SHA-256 of a fixed string under the secret
 * that all nodes read from the table `tidings_cluster`, so no other seal has it. At its start, and
 * after 2^32 payloads, a node draws a salt of 64 bits, from which the encryption key is derived.
 * Nonces are random, 96 bits. The probability that two payloads have the same key and nonce is
 * below 2^-32 for each salt. A counter would be no better, because nodes that share the secret
 * would have to share it.
 *
 * An untrusted listener sees the positions, and the time and size of each payload.
 *
 * As text: FROM " " TO " " SEALED, decimal numbers and base64url. Pure; not thread-safe.
 */
#ifndef CLUSTER_LOG_RECORD_H
#define CLUSTER_LOG_RECORD_H

#include "base/str.h"
#include "security/seal.h"
#include "store/store.h"

#define NOTIFY_PAYLOAD_TEXT_MAX 7999u /* PostgreSQL's limit */
#define NOTIFY_PAYLOAD_MAX 5900u      /* bytes of rows, so that the text fits */
#define NOTIFY_PAYLOAD_SCOPE 32u

/* ---- one change ------------------------------------------------------------------------------ */

/* The change at a position. The tables and payloads have the same bytes:
 *
 *   kind (one byte), flags, time, then the numbers and strings of the kind, in a fixed order.
 *
 * Numbers have seven bits per byte, least significant first, with the sign in the lowest bit.
 * Strings are length-prefixed. The bytes include neither the position nor the value and patch of a
 * version: tables have columns for these, and payloads append them. */
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
#define KEPT_RECORD_MAX (2u << 20) /* bytes; nodes never write longer ones */

/* Appends its bytes. Sets `out->failed` on failure. */
void kept_record_put(const struct kept_record *r, struct buf *out);
/* Takes the first record from *at. Slices point into it. Returns false if there is none, or it is
 * malformed. Does not set position, value and patch. */
bool kept_record_take(struct tidings_str *at, struct kept_record *ret);
/* Converts it to the form that readers of the store get; versions lose their value. Points into
 * `r`. */
void kept_record_change(const struct kept_record *r, struct log_entry *ret);

/* ---- what nodes share ------------------------------------------------------------------------ */

/* Where a payload is valid: a digest of everything that rule 4 names. */
struct notify_payload_scope {
    unsigned char digest[NOTIFY_PAYLOAD_SCOPE];
};

/* Derives the key of payloads from the secret of the cluster. */
void notify_payload_key(const unsigned char secret[32], struct seal_key *ret);

/* ---- writing --------------------------------------------------------------------------------- */

/* Rows of a batch that has not been committed yet. */
struct notify_payload {
    struct buf rows;
    uint64_t count;
    bool is_partial; /* a row is missing: the payload is not sent */
};

void notify_payload_init(struct notify_payload *n);
void notify_payload_deinit(struct notify_payload *n);
void notify_payload_clear(struct notify_payload *n);
/* Adds the next row. If it does not fit, the payload is not sent. If only the value of a version
 * does not fit, the row has no value, so its sum does not match, and nodes read the value when they
 * need it. */
void notify_payload_add(struct notify_payload *n, const struct kept_record *r);
/* Returns true if there is a row for each position after `before` up to `last`. */
bool notify_payload_is_whole(const struct notify_payload *n, uint64_t before, uint64_t last);
/* Appends the text. TIDINGS_E_LIMIT: it is too large. Fails like seal_put. */
int notify_payload_put(const struct notify_payload *n, struct sealer *sealer,
                       const struct notify_payload_scope *scope, uint64_t from, struct buf *out);

/* ---- reading --------------------------------------------------------------------------------- */

struct notify_payload_head {
    uint64_t from, to;
    struct tidings_str sealed;
};

/* Parses any string. Returns false if it is not a payload. The header is not verified yet. */
bool notify_payload_parse(struct tidings_str text, struct notify_payload_head *ret);
/* Appends its rows, which are whole: known kinds, one per position, no trailing bytes.
 * TIDINGS_E_INVALID: no node's payload, modified, or from another place. TIDINGS_E_UNSUPPORTED: a
 * node's payload in an unknown format. */
int notify_payload_open(const struct notify_payload_head *head, struct sealer *sealer,
                        const struct notify_payload_scope *scope, struct buf *out);
/* Takes the first row from *rows. Slices point into it. Returns false if there is none, or it is
 * malformed. */
bool notify_payload_next(struct tidings_str *rows, uint64_t position, struct kept_record *ret);

#endif
