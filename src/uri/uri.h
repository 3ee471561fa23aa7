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
#ifndef URI_URI_H
#define URI_URI_H

#include "base/str.h"

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

#endif
