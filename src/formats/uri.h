/* SPDX-License-Identifier: MIT
 *
 * URIs (RFC 3986) in one canonical spelling, so that equality is equality of bytes.
 *
 * Canonical: scheme and host lower-cased; percent-encoding normalised (unreserved characters are
 * decoded, in paths also the delimiters a file name may hold, `!$&'()+,;=:@`, since many encoders
 * write them either way; hex digits upper-case, bytes that may not stand raw are encoded);
 * everything else as sent. Refused: no scheme, empty after the scheme, longer than URI_MAX, control
 * characters and blanks, bad percent-encodings, %00, dot segments (raw or encoded), encoded slashes
 * in a path (`%2F`), raw backslashes, fragments, user information (`user@host`), ports that are no
 * number, malformed IPv6 addresses, invalid UTF-8. Non-ASCII UTF-8 is percent-encoded.
 * `scheme://`, `scheme:///path`, `file://data/x` (host "data") and `urn:x:y` are all legal.
 */
#ifndef FORMATS_URI_H
#define FORMATS_URI_H

#include "base/str.h"
#include "formats/json.h"

#define URI_MAX 4096u

struct uri_parts {
    struct tidings_str scheme;    /* without ':' */
    struct tidings_str authority; /* ptr NULL when there is no "//" */
    struct tidings_str path;
    struct tidings_str query; /* ptr NULL when there is no raw '?' */
};

/* Append the canonical form of `in` to `out`. TIDINGS_E_INVALID with what is wrong and where. */
int uri_canonical(struct tidings_str in, struct buf *out, struct tidings_error *err);
/* The same for a pattern: `{ } * [ ]` are kept raw, dots and slashes keep their rules. What stands
 * between braces is kept as it is: one RFC 6570 operator, then letters, digits and `_ . , : * %`.
 */
int uri_canonical_pattern(struct tidings_str in, struct buf *out, struct tidings_error *err);
/* Split a canonical URI (cannot fail on one). */
void uri_split(struct tidings_str canonical, struct uri_parts *parts);

/* Encode arbitrary bytes (a file name) as one path segment: unreserved and sub-delims that are
 * harmless stay, all else is %XX. Round-trips for every byte but NUL and '/'. */
int uri_encode_segment(struct buf *out, struct tidings_str bytes);
/* Encode a relative path: like the above, '/' kept. */
int uri_encode_path(struct buf *out, struct tidings_str path);
/* Decode percent-encodings of a canonical path. TIDINGS_E_INVALID for %00. */
int uri_decode(struct buf *out, struct tidings_str encoded, struct tidings_error *err);

/* The same for trusted text, into memory of at least `encoded.len` bytes; returns the length. What
 * is no proper encoding is copied as it stands. */
size_t uri_decode_into(char *out, struct tidings_str encoded);

/* Is `uri` equal to or below `prefix` on a segment boundary? `prefix` may end in '/', which makes
 * no difference but for a root: "x:///" holds "x:///a" and not "x://a". A '?' ends a segment too.
 */
bool uri_is_within(struct tidings_str uri, struct tidings_str prefix);

/* -------------------------------------------------------------------------------------------------
 * Aliases: other spellings of what lies below a prefix. A client may write `/entity/User@1/ann` or
 * `https://example.org/u1/entity/User@1/ann` for `entity:///User@1/ann`. They are resolved here and
 * nowhere else, where a URI is made canonical: whatever compares, matches or judges URIs afterwards
 * knows one spelling.
 */

/* `from` ends in '/': a path, compared as it is written, or a canonical URI, compared with the
 * canonical form of what is written. `to` is a canonical prefix. */
struct uri_alias {
    struct tidings_str from, to;
};

/* The alias that `in` begins with, byte by byte; NULL: none. */
const struct uri_alias *uri_alias_find(const struct uri_alias *aliases, size_t count,
                                       struct tidings_str in);

/* Append the canonical form of `in` (uri_canonical, or uri_canonical_pattern), with the prefix that
 * its alias stands for. `find` is uri_alias_find, wherever the aliases are. *ret_alias (may be
 * NULL): the alias it was written with; NULL: none. */
typedef const struct uri_alias *(*uri_alias_fn)(const void *user, struct tidings_str in);
int uri_alias_canonical(struct tidings_str in, bool is_pattern, uri_alias_fn find, const void *user,
                        struct buf *out, const struct uri_alias **ret_alias,
                        struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Agent Skills over MCP (SEP-2640): what the URI of a skill says, and what its entry must be, for
 * servers that make one and clients that are given one.
 *
 * A skill is a directory with a SKILL.md; its URI is that of the SKILL.md, its name the segment
 * before it. Its entry has the front matter of that file, and all files with digest and size. Pure.
 */

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

/* Is it canonical (formats/uri.h), without a query? */
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
