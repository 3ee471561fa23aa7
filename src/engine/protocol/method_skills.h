/* SPDX-License-Identifier: MIT
 *
 * The skill cache of a worker: digest, size and front matter of skill files, with the etag they
 * had. The worker does not read a file again while its etag is the same. Only the worker's thread
 * uses it; beyond SKILL_CACHE_FILES or SKILL_CACHE_BYTES it is cleared.
 */
#ifndef ENGINE_PROTOCOL_METHOD_SKILLS_H
#define ENGINE_PROTOCOL_METHOD_SKILLS_H

#include "formats/uri.h"

struct worker;

#define SKILL_CACHE_FILES 4096u
#define SKILL_CACHE_BYTES (4u << 20) /* bytes of names and front matter */

/* One file. */
struct skill_fact {
    struct tidings_str uri, etag; /* etags that begin with "W/" are not kept */
    struct tidings_str front;     /* of a SKILL.md: its front matter as JSON text, checked */
    uint64_t size;
    char digest[SKILL_DIGEST_SIZE];
};

/* Returns NULL if the cache has no entry with that etag. Valid until the next skill_cache_put. */
const struct skill_fact *skill_cache_find(struct worker *worker, struct tidings_str uri,
                                          struct tidings_str etag);
/* Copies the strings. Without memory the file is not cached. */
void skill_cache_put(struct worker *worker, const struct skill_fact *fact);
/* Returns true if the reason that `uri` has no skill was logged before. Notes it, so that it is
 * logged once. */
bool skill_cache_said(struct worker *worker, struct tidings_str uri, struct tidings_str why);
void skill_cache_deinit(struct worker *worker);

#endif
