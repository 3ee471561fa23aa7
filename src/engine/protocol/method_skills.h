/* SPDX-License-Identifier: MIT
 *
 * What a worker knows of files of skills from the last time it read them: digest, size and front
 * matter under the etag they had. A file whose etag is the same is not read again. Belongs to the
 * worker's thread; at most SKILL_CACHE_FILES and SKILL_CACHE_BYTES, beyond which all is forgotten.
 */
#ifndef ENGINE_PROTOCOL_METHOD_SKILLS_H
#define ENGINE_PROTOCOL_METHOD_SKILLS_H

#include "formats/uri.h"

struct worker;

#define SKILL_CACHE_FILES 4096u
#define SKILL_CACHE_BYTES (4u << 20) /* of names and front matter */

/* One file. */
struct skill_fact {
    struct tidings_str uri, etag; /* one whose etag begins with "W/" is not kept */
    struct tidings_str front;     /* of a SKILL.md: its front matter as JSON text, checked */
    uint64_t size;
    char digest[SKILL_DIGEST_SIZE];
};

/* NULL: nothing is known of it with that etag. Valid until the next skill_cache_put. */
const struct skill_fact *skill_cache_find(struct worker *worker, struct tidings_str uri,
                                          struct tidings_str etag);
/* Copies the texts. Without memory it is not remembered. */
void skill_cache_put(struct worker *worker, const struct skill_fact *fact);
/* Has it been said why no skill is at `uri`? It is noted, so that it is said once. */
bool skill_cache_said(struct worker *worker, struct tidings_str uri, struct tidings_str why);
void skill_cache_deinit(struct worker *worker);

#endif
