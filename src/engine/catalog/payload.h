/* SPDX-License-Identifier: MIT
 *
 * A payload: long content of a resource, which stays raw in memory or at its origin and is encoded
 * while it is sent. So an answer needs no more memory than the content, or than one piece of it.
 *
 * A payload at its origin is read twice: first to learn its kind and its encoded length, then to
 * send it. A hash of each piece ensures that both readings give the same bytes. The second reading
 * does not block the worker (tidings_pieces.fetch): the answer waits for the piece.
 */
#ifndef ENGINE_CATALOG_PAYLOAD_H
#define ENGINE_CATALOG_PAYLOAD_H

#include <tidings/provider.h>

#include "base/net/sendq.h"
#include "base/str.h"
#include "engine/catalog/job.h"
#include "security/limits.h"

#define PAYLOAD_LONG (256u * 1024u) /* shorter content is encoded at once */
#define PAYLOAD_PIECE 49152u        /* whole groups of base64 */
/* The memory of a payload that is read in pieces: a raw piece, an encoded one, records of TLS. */
#define PAYLOAD_HELD (256u * 1024u)

enum payload_form { PAYLOAD_RAW, PAYLOAD_TEXT, PAYLOAD_BASE64 };

/* A piece that is being fetched. */
struct tidings_piece {
    struct job base;
};

struct payload {
    struct payload *next; /* of the same answer */
    size_t at;            /* its place in the text of the answer */
    size_t size;          /* bytes */
    size_t encoded;       /* … when encoded */
    size_t held;          /* … of memory while it is sent */
    bool is_text;         /* it is UTF-8 */
    /* Private: */
    enum payload_form form;
    size_t escaped; /* bytes as text of JSON */
    char *memory;   /* owned; NULL: it is read in pieces */
    const char *bytes;
    struct tidings_pieces pieces;
    uint64_t *hashes;      /* of each piece */
    char *piece;           /* the current one; NULL at first */
    size_t begin;          /* where it begins */
    size_t done;           /* bytes encoded */
    struct worker *worker; /* that sends it; NULL: it is not sent yet */
    struct tidings_provider *provider;
    struct tidings_piece fetched; /* the job of `piece` */
    bool is_fetching;             /* `piece` belongs to the provider until that is done */
    bool has_fetched;             /* it is done */
    void (*ready)(void *user);    /* … later than at once */
    void *user;
};

/* Takes `memory`, which contains `bytes`, even on failure. NULL: out of memory. */
struct payload *payload_of_memory(char *memory, struct tidings_str bytes, bool is_text);
/* Reports whether the client has gone. */
struct payload_waiter {
    bool (*is_gone)(void *user);
    void *user;
};
/* Takes `pieces->user`, even on failure. Reads everything, again if it changed. Returns NULL with
 * TIDINGS_E_BUSY if it changes all the time. */
struct payload *payload_of_pieces(const struct tidings_pieces *pieces,
                                  const struct payload_waiter *waiter, struct tidings_error *err);
void payload_destroy(struct payload *content); /* NULL is fine */

/* Sets the encoding. */
void payload_set_form(struct payload *content, enum payload_form form);
/* From now on `worker` sends it without waiting for pieces: `ready` reports each fetched piece. */
void payload_send_by(struct payload *content, struct worker *worker, void (*ready)(void *user),
                     void *user);
/* Returns true if a piece is being fetched. Then it must not be destroyed. */
static inline bool payload_is_fetching(const struct payload *content)
{
    return content->is_fetching;
}
/* Encodes as much of the rest as fits. Returns the bytes, 0 if nothing fits, or a negative errno
 * (ESTALE: the content has changed; EAGAIN: its next piece is being fetched). */
ssize_t payload_write(struct payload *content, char *room, size_t len);

/* Returns an answer as a source (base/net/sendq.h): its text, with payloads inserted at their
 * places, sent by `worker`. Takes the text, the payloads and their booking, and frees them when
 * none of their pieces is being fetched. NULL: out of memory, nothing was taken. */
struct sendq_source *payload_source(struct buf *text, struct payload **payloads,
                                    struct output *output, struct worker *worker);
/* Bytes that the payloads of a list add to an answer. */
size_t payloads_encoded_size(const struct payload *first);
void payloads_destroy(struct payload **first); /* all of a list */
/* Moves a list to the end of another one, after the first `base` bytes of that one's text. */
void payloads_append(struct payload **to, struct payload **from, size_t base);

#endif
