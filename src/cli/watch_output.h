/* SPDX-License-Identifier: MIT
 *
 * Prints a change that `tidings watch` was told of, as a line for people or as JSON.
 */
#ifndef CLI_WATCH_OUTPUT_H
#define CLI_WATCH_OUTPUT_H

#include <stdio.h>

#include <tidings/client.h>
#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The content of a resource that changed, for `tidings watch`: its contents now, and what differs
 * from those seen before. What was seen is kept up to CONTENT_CACHE_MAX bytes and CONTENT_COUNT_MAX
 * resources, those told of last; of a content that is no text, or is larger than CONTENT_TEXT_MAX,
 * its size alone.
 */

#define CONTENT_TEXT_MAX (4u << 20)
#define CONTENT_CACHE_MAX (64u << 20)
#define CONTENT_COUNT_MAX 10000u

struct content_cache;

struct content {
    char *contents;   /* JSON array; NULL: it was not, or could not be read */
    char *difference; /* a diff, see below; NULL: none */
    bool has_before, has_after;
    uint64_t before, after;   /* bytes */
    struct tidings_error err; /* why it could not be read; code 0: it could */
};

/* NULL: no memory. */
struct content_cache *content_create(void);
void content_destroy(struct content_cache *cache);

/* Keep what the resource holds now, so that its first change can be told; for a container, what
 * those hold whose contents come with it. */
void content_begin(struct content_cache *cache, struct tidings_client *client, const char *uri);

/* Read it and compare it with what was kept (NULL: read it only), then keep this. For a resource
 * that was deleted nothing is asked, and what was kept of it is forgotten. */
void content_read(struct content_cache *k, struct tidings_client *client,
                  const struct tidings_update *u, struct content *c);
void content_release(struct content *c);

struct cli;

/* `updated`, `created`, `deleted`; `initial` for a state when it was subscribed. */
const char *change_word(const struct tidings_update *u);

/* One JSON object on one line: time, change, uri; subscribedUri, version, cursor where they are
 * known; synthetic, truncated where they are true; params; and of `c` what it has:
 * before, after, diff, contents, error. */
void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c);

/* What people see of a change besides its line. */
struct change_view {
    bool cursor;
    bool contents;    /* all of them, on lines of their own */
    unsigned include; /* enum include: metadata, value or patch on one line, cut when it is long */
};
#define CHANGE_CUT 240u /* bytes of such a line */

/* For people, on standard output: a line, and what there is besides on indented ones. */
void change_put_lines(const struct cli *cli, const struct change_view *view,
                      const struct tidings_update *u, const struct content *c);

/* -------------------------------------------------------------------------------------------------
 * What differs between two texts, line by line, in the form of `diff -u` without the names: hunks
 * with three lines of context.
 */

/* Beyond these a difference is not told line by line: it would take too long, and be read by
 * nobody. */
#define DIFF_LINES_MAX 200000u /* of either text */
#define DIFF_EDITS_MAX 1000    /* lines taken away and put in, together */

/* 1: it is written; 0: the texts are the same; TIDINGS_E_LIMIT: beyond the limits;
 * TIDINGS_E_NOMEM. */
int diff_write(FILE *out, struct tidings_str before, struct tidings_str after);

#endif
