/* SPDX-License-Identifier: MIT
 *
 * Prints a change that `tidings watch` received, as a line for people or as JSON.
 */
#ifndef CLI_WATCH_OUTPUT_H
#define CLI_WATCH_OUTPUT_H

#include <stdio.h>

#include <tidings/client.h>
#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The content of a changed resource, for `tidings watch`: its current contents, and the difference
 * from those seen before. The cache keeps up to CONTENT_CACHE_MAX bytes and CONTENT_COUNT_MAX
 * resources, the most recently changed ones. For binary content and content larger than
 * CONTENT_TEXT_MAX it keeps only the size.
 */

#define CONTENT_TEXT_MAX (4u << 20)
#define CONTENT_CACHE_MAX (64u << 20)
#define CONTENT_COUNT_MAX 10000u

struct content_cache;

struct content {
    char *contents;   /* JSON array; NULL: not read, or unreadable */
    char *difference; /* a diff, see below; NULL: none */
    bool has_before, has_after;
    uint64_t before, after;   /* bytes */
    struct tidings_error err; /* why the read failed; code 0: it succeeded */
};

/* NULL: no memory. */
struct content_cache *content_create(void);
void content_destroy(struct content_cache *cache);

/* Store the current content of the resource, so that its first change can be compared; for a
 * container, the content of each member that arrives with it. */
void content_begin(struct content_cache *cache, struct tidings_client *client, const char *uri);

/* Read the resource, compare it with the stored content (NULL: read only), then store the new
 * content. A deleted resource is not read, and its stored content is dropped. */
void content_read(struct content_cache *k, struct tidings_client *client,
                  const struct tidings_update *u, struct content *c);
void content_release(struct content *c);

struct cli;

/* `updated`, `created`, `deleted`; `initial` for the state at the time of the subscription. */
const char *change_word(const struct tidings_update *u);

/* One JSON object on one line: time, change, uri; subscribedUri, version, cursor if known;
 * synthetic, truncated if true; params; and the members of `c` that are set: before, after, diff,
 * contents, error. */
void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c);

/* The details that the output shows besides the line of the change. */
struct change_view {
    bool cursor;
    bool contents;    /* all contents, each on its own lines */
    unsigned include; /* enum include: metadata, value or patch on one line, truncated if long */
};
#define CHANGE_CUT 240u /* bytes of such a line */

/* For people, on standard output: one line, and details on indented lines. */
void change_put_lines(const struct cli *cli, const struct change_view *view,
                      const struct tidings_update *u, const struct content *c);

/* -------------------------------------------------------------------------------------------------
 * Compares two strings line by line and prints the difference like `diff -u`, without file names:
 * hunks with three lines of context.
 */

/* Beyond these limits no diff is printed: it would take too long, and would be too large to
 * read. */
#define DIFF_LINES_MAX 200000u /* of either string */
#define DIFF_EDITS_MAX 1000    /* deleted and inserted lines together */

/* 1: a diff was written; 0: the strings are equal; TIDINGS_E_LIMIT: beyond the limits;
 * TIDINGS_E_NOMEM. */
int diff_write(FILE *out, struct tidings_str before, struct tidings_str after);

#endif
