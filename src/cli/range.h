/* SPDX-License-Identifier: MIT
 *
 * Reads a part of a resource: of servers of ours, which give the bytes or lines that are asked for
 * (dev.tidings/range), just that; of any other the whole, which the caller takes its part of.
 */
#ifndef CLI_RANGE_H
#define CLI_RANGE_H

#include <tidings/client.h>
#include <tidings/types.h>

#define RANGE_BYTES                                                                                \
    (1 << 20)               /* at once: six times as much, each byte escaped, is still a message   \
                             */
#define RANGE_OVERLAP_MAX 3 /* a part that is text begins where a character does */

/* Where a content says which part it is. */
#define RANGE_MEMBER "/_meta/dev.tidings~1range"

/* Which part: from `from` to before `to` (-1: to the end), counted from 0; or the last so many. */
struct range_spec {
    bool is_lines; /* not bytes */
    int64_t from, to;
    int64_t last; /* 0: not asked for */
};

/* As the command line writes it: "A-B", both included, "A-" to the end, "-N" the last so many, "A"
 * just that one. Bytes count from 0 there, as in HTTP, lines from 1. */
bool range_spec_parse(const char *text, bool is_lines, struct range_spec *ret);

/* What came. */
struct range {
    int64_t from, to, total; /* in bytes, whatever was asked for */
    bool is_range;           /* false: it is the whole, of a server that gives no parts */
    bool is_blob;            /* no text, as the server says */
    char *etag, *bytes;      /* etag: NULL: none was said */
    size_t len;
};

/* The answer to resources/read, JSON text to be released with tidings_free. NULL with `err`.
 * `range` NULL: everything. `at_least` (a cursor; or NULL): what it says was told is there. */
char *range_ask(struct tidings_client *client, const char *uri, const struct range_spec *range,
                const char *at_least, struct tidings_error *err);
/* A content of such an answer taken apart; range_release in any case. TIDINGS_E_PARSE: it has none,
 * or says of it what cannot be. */
int range_parse(struct range *p, struct tidings_str content, struct tidings_error *err);
/* Both, of its first content: `*bytes` of it from `from` on, or the last of it (`from` is -1).
 * Where the server refuses so much, half of it is asked for and `*bytes` becomes that.
 * TIDINGS_E_INVALID: it ends before. */
int range_get(struct tidings_client *client, const char *uri, int64_t from, int64_t *bytes,
              struct range *ret, struct tidings_error *err);
void range_release(struct range *p);
/* Cut the whole (not `is_range`) to the range, as servers of ours would: text is not cut inside a
 * character, both ends move back. TIDINGS_E_INVALID: it ends before the range begins. */
int range_cut(struct range *p, const struct range_spec *range, struct tidings_error *err);

/* The last lines are what is behind so many line feeds, counted from the end of `bytes`, since one
 * at the very end begins no line. */
int64_t range_feeds_of(struct tidings_str bytes, int64_t lines);
/* The place behind the `*feeds`-th line feed from the end, `*feeds` is 0 then; or 0, and how many
 * are missing. */
size_t range_behind_feed(struct tidings_str bytes, int64_t *feeds);

/* Does the server give parts, as far as it says? */
bool range_is_offered(const struct tidings_client *client);

/* -------------------------------------------------------------------------------------------------
 * Bounds on an answer that a tool gives in pages, which a server may never end: how many there
 * were, how long was waited for them, and whether cursors repeat. Bounds as those of lists in
 * client/calls.h and client/calls.h.
 */

/* Zeroed to begin with. */
struct pages {
    unsigned count;
    uint64_t waited_ms; /* for the server, which its user adds up: printing a page takes its time */
    char *mark;         /* a cursor that was given: after 1, 2, 4, 8 … pages the newest */
};

/* A page came and names the next: 0, or why that is not to be asked for.
 * TIDINGS_E_PARSE: it was given before; TIDINGS_E_LIMIT: there were too many; TIDINGS_E_TIMEOUT:
 * all together took ten times as long as one may, `answer_ms` (0: that of clients, 30 s). */
int pages_next(struct pages *p, const char *cursor, uint64_t answer_ms, struct tidings_error *err);
void pages_deinit(struct pages *p);

#endif
