/* SPDX-License-Identifier: MIT
 *
 * URIs (RFC 3986) in one canonical spelling, so that equality is equality of bytes.
 *
 * Canonical: scheme and host lower-cased; percent-encoding normalised (unreserved characters are
 * decoded, in paths also the delimiters in file names, `!$&'()+,;=:@`, because encoders differ in
 * them; hex digits upper-case, bytes that must not be unencoded are encoded); everything else as
 * sent. Rejected: no scheme, empty after the scheme, longer than URI_MAX, control characters and
 * blanks, bad percent-encodings, %00, dot segments (raw or encoded), encoded slashes in a path
 * (`%2F`), raw backslashes, fragments, user information (`user@host`), ports that are not numbers,
 * malformed IPv6 addresses, invalid UTF-8. Non-ASCII UTF-8 is percent-encoded. `scheme://`,
 * `scheme:///path`, `file://data/x` (host "data") and `urn:x:y` are all legal.
 */
#ifndef FORMATS_URI_H
#define FORMATS_URI_H

#include "base/str.h"
#include "formats/json.h"

#define URI_MAX 4096u

struct uri_parts {
    struct tidings_str scheme;    /* without ':' */
    struct tidings_str authority; /* ptr NULL without "//" */
    struct tidings_str path;
    struct tidings_str query; /* ptr NULL without an unencoded '?' */
};

/* Appends the canonical form of `in` to `out`. TIDINGS_E_INVALID with the reason and the position.
 */
int uri_canonical(struct tidings_str in, struct buf *out, struct tidings_error *err);
/* The same for a pattern: `{ } * [ ]` are not encoded, dots and slashes keep their rules. Text
 * between braces is unchanged: one RFC 6570 operator, then letters, digits and `_ . , : * %`. */
int uri_canonical_pattern(struct tidings_str in, struct buf *out, struct tidings_error *err);
/* Splits a canonical URI (cannot fail). */
void uri_split(struct tidings_str canonical, struct uri_parts *parts);

/* Encodes arbitrary bytes (a file name) as one path segment: unreserved characters and harmless
 * sub-delims stay, everything else is %XX. Round-trips for every byte except NUL and '/'. */
int uri_encode_segment(struct buf *out, struct tidings_str bytes);
/* Encodes a relative path: like the above, but keeps '/'. */
int uri_encode_path(struct buf *out, struct tidings_str path);
/* Decodes percent-encodings of a canonical path. TIDINGS_E_INVALID for %00. */
int uri_decode(struct buf *out, struct tidings_str encoded, struct tidings_error *err);

/* The same for trusted text, into memory of at least `encoded.len` bytes; returns the length. An
 * invalid encoding is copied unchanged. */
size_t uri_decode_into(char *out, struct tidings_str encoded);

/* Returns true if `uri` equals `prefix` or is below it, at a segment boundary. `prefix` can end in
 * '/', which makes no difference except for a root: "x:///" contains "x:///a" and not "x://a". A
 * '?' ends a segment too. */
bool uri_is_within(struct tidings_str uri, struct tidings_str prefix);

/* -------------------------------------------------------------------------------------------------
 * Aliases: other spellings of URIs below a prefix. A client can write `/entity/User@1/ann` or
 * `https://example.org/u1/entity/User@1/ann` for `entity:///User@1/ann`. They are resolved only
 * here, where a URI is made canonical: all later comparisons and matches use one spelling.
 */

/* `from` ends in '/': a path, compared as written, or a canonical URI, compared with the canonical
 * form of the input. `to` is a canonical prefix. */
struct uri_alias {
    struct tidings_str from, to;
};

/* The alias that is a prefix of `in`, byte by byte; NULL: none. */
const struct uri_alias *uri_alias_find(const struct uri_alias *aliases, size_t count,
                                       struct tidings_str in);

/* Appends the canonical form of `in` (uri_canonical, or uri_canonical_pattern), with the prefix of
 * its alias. `find` calls uri_alias_find on the caller's aliases. *ret_alias (may be NULL): the
 * alias used; NULL: none. */
typedef const struct uri_alias *(*uri_alias_fn)(const void *user, struct tidings_str in);
int uri_alias_canonical(struct tidings_str in, bool is_pattern, uri_alias_fn find, const void *user,
                        struct buf *out, const struct uri_alias **ret_alias,
                        struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Agent Skills over MCP (SEP-2640): the structure of a skill's URI and entry, for servers that
 * create entries and clients that receive them.
 *
 * A skill is a directory with a SKILL.md; its URI is that of the SKILL.md, its name the segment
 * before it. Its entry has the front matter of that file, and all files with digest and size. Pure.
 */

#define SKILL_EXTENSION "io.modelcontextprotocol/skills"
#define SKILL_SCHEME "skill"
#define SKILL_FILE "SKILL.md"
#define SKILL_DYNAMIC "dynamic" /* in place of the files: they are generated on each read */
#define SKILL_MAX_FILES 512u
#define SKILL_MAX_BYTES (16u << 20) /* total of all files */
#define SKILL_DIGEST_SIZE 72u       /* "sha256:", 64 digits, NUL */

/* "sha256:…" of bytes, or of the 32 bytes of an already computed hash. */
void skill_digest(struct tidings_str bytes, char out[SKILL_DIGEST_SIZE]);
void skill_digest_of_hash(const unsigned char *hash, char out[SKILL_DIGEST_SIZE]);

/* The common prefix of the URIs of all files of the skill at `uri`, including the '/' at its end;
 * empty if `uri` does not end in "/SKILL.md", or has nothing before it. */
struct tidings_str skill_root(struct tidings_str uri);
/* The segment before "/SKILL.md". */
struct tidings_str skill_name(struct tidings_str uri);
/* Returns true for 1 to 64 lower-case letters, digits and single hyphens that are neither first nor
 * last. */
bool skill_name_is_valid(struct tidings_str name);

/* Returns true if it is canonical (formats/uri.h), without a query. */
bool skill_is_canonical(struct tidings_str uri);
/* Returns true if `uri`, in any spelling, names a file below `root` (skill_root). */
bool skill_holds(struct tidings_str root, struct tidings_str uri);

/* Checks the front matter of the skill at `uri`: a name, equal to the one in the URI, and a
 * description. TIDINGS_E_PARSE. */
int skill_check_front_matter(const struct json *front, struct tidings_str uri,
                             struct tidings_error *err);
/* Checks an entry before a skill is loaded. TIDINGS_E_PARSE: it violates the specification, or
 * names files outside of the skill; TIDINGS_E_LIMIT: more files, or bytes, than allowed. */
int skill_check_entry(const struct json *entry, struct tidings_error *err);
/* The element of `resources` of a checked entry for the file `uri`, in any spelling; NULL: not
 * listed. */
const struct json *skill_find_file(const struct json *entry, struct tidings_str uri);

#endif
