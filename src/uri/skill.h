/* SPDX-License-Identifier: MIT
 *
 * Agent Skills over MCP (SEP-2640): what the URI of a skill says, and what its entry must be, for
 * servers that make one and clients that are given one.
 *
 * A skill is a directory with a SKILL.md; its URI is that of the SKILL.md, its name the segment
 * before it. Its entry has the front matter of that file, and all files with digest and size. Pure.
 */
#ifndef URI_SKILL_H
#define URI_SKILL_H

#include "json/json.h"

#define SKILL_EXTENSION "io.modelcontextprotocol/skills"
#define SKILL_SCHEME "skill"
#define SKILL_FILE "SKILL.md"
#define SKILL_DYNAMIC "dynamic" /* instead of the files: they are made when they are read */
#define SKILL_MAX_FILES 512u
#define SKILL_MAX_BYTES (16u << 20) /* of all files together */
#define SKILL_DIGEST_SIZE 72u       /* "sha256:", 64 digits, NUL */

/* "sha256:…" of bytes, or of the 32 bytes of a hash that was computed already. */
void skill_digest(struct tidings_str bytes, char out[SKILL_DIGEST_SIZE]);
void skill_digest_of_hash(const unsigned char *hash, char out[SKILL_DIGEST_SIZE]);

/* The beginning of the URIs of all files of the skill at `uri`, with the '/' at its end; empty when
 * `uri` does not end in "/SKILL.md", or has nothing before it. */
struct tidings_str skill_root(struct tidings_str uri);
/* The last segment before it. */
struct tidings_str skill_name(struct tidings_str uri);
/* 1 to 64 lower-case letters, digits and single hyphens that are neither first nor last. */
bool skill_name_is_valid(struct tidings_str name);

/* Is it canonical (uri/uri.h), without a query? */
bool skill_is_canonical(struct tidings_str uri);
/* Does `uri`, in whichever spelling, name a file below `root` (skill_root)? */
bool skill_holds(struct tidings_str root, struct tidings_str uri);

/* Is that the front matter of the skill at `uri`: a name, which is the one in the URI, and a
 * description? TIDINGS_E_PARSE. */
int skill_check_front_matter(const struct json *front, struct tidings_str uri,
                             struct tidings_error *err);
/* Is that an entry to load a skill from? TIDINGS_E_PARSE: not as the specification has it, or it
 * names files outside of the skill; TIDINGS_E_LIMIT: more files, or bytes, than a skill may have.
 */
int skill_check_entry(const struct json *entry, struct tidings_error *err);
/* The element of `resources` of a checked entry for the file `uri`, in whichever spelling; NULL: it
 * is not listed. */
const struct json *skill_find_file(const struct json *entry, struct tidings_str uri);

#endif
