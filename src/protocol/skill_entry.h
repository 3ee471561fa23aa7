/* SPDX-License-Identifier: MIT
 *
 * The entry of one skill (uri/skill.h) for the client of a request: its files are found and read on
 * the client's behalf, one after the other, and told with digest and size. What the client may not
 * list and read is not among them; a SKILL.md that it may not read is no skill to it.
 *
 *     e.request = …; e.uri = …; e.done = …;  // canonical, the URI of a SKILL.md
 *     skill_entry_start(&e);                 // `done` may come before this returns
 *     … in done: look at the outcome, then skill_entry_deinit(&e)
 *
 * A directory counts as a skill when its SKILL.md has a good front matter and it has no more files
 * and bytes than every host accepts. Where files cannot be listed (a template, a provider that
 * lists nothing), the entry says "dynamic".
 */
#ifndef PROTOCOL_SKILL_ENTRY_H
#define PROTOCOL_SKILL_ENTRY_H

#include "base/sha256.h"
#include "catalog/job_read.h"
#include "request/request.h"
#include "uri/skill.h"

struct skill_file;

struct skill_entry {
    /* What is asked: */
    struct request *request;
    struct tidings_str uri; /* must outlive it */
    void (*done)(struct skill_entry *e);
    void *user;
    /* The outcome: */
    int code; /* 0, or what is wrong with it: TIDINGS_E_NOTFOUND, _PARSE, _LIMIT, … */
    struct tidings_error err;
    struct buf json;     /* the entry */
    uint64_t bytes_read; /* of files that had to be read for it */
    /* Private: */
    struct catalog *catalog; /* a reference */
    struct skill_file *files;
    size_t count, mount, at;
    uint64_t announced, total; /* bytes, as listed and as read */
    uint64_t burst;            /* read in this turn */
    bool has_listed, is_dynamic, is_stepping, is_ready;
    union {
        struct tidings_list list;
        struct tidings_read read;
    };
    struct read_options options;
    struct buf front; /* of SKILL.md: JSON text */
    struct sha256 hash;
    uint64_t size;
    bool has_content;
    struct tidings_error content_err; /* of its front matter */
};

void skill_entry_start(struct skill_entry *e);
void skill_entry_deinit(struct skill_entry *e);

#endif
