/* SPDX-License-Identifier: MIT
 *
 * Reads a part of a resource. A tidings server returns only the requested bytes or lines
 * (dev.tidings/range); any other server returns the whole resource, and the caller extracts its
 * part.
 */
#ifndef CLI_RANGE_H
#define CLI_RANGE_H

#include <tidings/client.h>
#include <tidings/types.h>

#define RANGE_BYTES                                                                                \
    (1 << 20) /* at once: even six times as much, each byte escaped, fits into a message */
#define RANGE_OVERLAP_MAX 3 /* a range of text starts at the start of a character */

/* Where a content names its range. */
#define RANGE_MEMBER "/_meta/dev.tidings~1range"

/* The range: from `from` to before `to` (-1: to the end), counted from 0; or the last `last`
 * ones. */
struct range_spec {
    bool is_lines; /* not bytes */
    int64_t from, to;
    int64_t last; /* 0: not requested */
};

/* The command-line form: "A-B", both included, "A-" to the end, "-N" the last N, "A" only that one.
 * Bytes count from 0, as in HTTP, lines from 1. */
bool range_spec_parse(const char *text, bool is_lines, struct range_spec *ret);

/* The received part. */
struct range {
    int64_t from, to, total; /* in bytes, for line ranges too */
    bool is_range;      /* false: the whole resource, because the server does not support ranges */
    bool is_blob;       /* binary, according to the server */
    char *etag, *bytes; /* etag: NULL: none received */
    size_t len;
};

/* The answer to resources/read, JSON text to be released with tidings_free. NULL with `err`.
 * `range` NULL: everything. `at_least` (a cursor; or NULL): the read includes all changes up to
 * it. */
char *range_ask(struct tidings_client *client, const char *uri, const struct range_spec *range,
                const char *at_least, struct tidings_error *err);
/* Parse a content of such an answer; range_release in any case. TIDINGS_E_PARSE: it has none, or
 * invalid range data. */
int range_parse(struct range *p, struct tidings_str content, struct tidings_error *err);
/* Both, for its first content: `*bytes` of it from `from` on, or the last of it (`from` is -1). If
 * the server rejects that size, the range is halved and `*bytes` updated. TIDINGS_E_INVALID: the
 * resource is shorter. */
int range_get(struct tidings_client *client, const char *uri, int64_t from, int64_t *bytes,
              struct range *ret, struct tidings_error *err);
void range_release(struct range *p);
/* Cut the whole resource (not `is_range`) to the range, like a tidings server: text is not cut
 * within a character, both ends move back. TIDINGS_E_INVALID: the resource ends before the range
 * starts. */
int range_cut(struct range *p, const struct range_spec *range, struct tidings_error *err);

/* The last lines start after this number of line feeds, counted from the end of `bytes`: a final
 * line feed starts no line. */
int64_t range_feeds_of(struct tidings_str bytes, int64_t lines);
/* The position after the `*feeds`-th line feed from the end, with `*feeds` set to 0; or 0, with
 * `*feeds` set to the number of missing ones. */
size_t range_behind_feed(struct tidings_str bytes, int64_t *feeds);

/* Returns true if the server declares support for ranges. */
bool range_is_offered(const struct tidings_client *client);

/* -------------------------------------------------------------------------------------------------
 * Bounds on a paged tool result, because a server may never end it: the number of pages, the total
 * wait, and repeated cursors. The bounds are those of lists in client/calls.h.
 */

/* Zero it first. */
struct pages {
    unsigned count;
    uint64_t waited_ms; /* for the server, added up by the caller */
    char *mark;         /* a used cursor: after 1, 2, 4, 8 … pages the newest */
};

/* A page arrived and names the next: 0, or the reason not to request it. TIDINGS_E_PARSE: a
 * repeated cursor; TIDINGS_E_LIMIT: too many pages; TIDINGS_E_TIMEOUT: all pages together took ten
 * times as long as one may, `answer_ms` (0: the client's default, 30 s). */
int pages_next(struct pages *p, const char *cursor, uint64_t answer_ms, struct tidings_error *err);
void pages_deinit(struct pages *p);

#endif
