/* SPDX-License-Identifier: MIT
 *
 * Canonical URIs, computed in one pass: runs of canonical bytes (most input) are found with one
 * table lookup per byte and copied as a whole; only the rest is processed byte by byte.
 *
 * Invariant: the output is a fixed point, canonical(canonical(x)) == canonical(x); on failure `out`
 * is unchanged. Deliberately not done: resolution of references, default ports, IDNA,
 * scheme-specific rules.
 */
#include "formats/uri.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

/* ---------------------------------------------------------------------------------------------- */

enum {
    IN_SCHEME = 1,   /* after the first letter */
    UNRESERVED = 2,  /* RFC 3986 2.3: never percent-encoded */
    IN_HOST = 4,     /* unencoded in a canonical authority */
    IN_PATH = 8,     /* unencoded in a canonical path segment */
    IN_QUERY = 16,   /* unencoded in a canonical query */
    IN_NAME = 32,    /* not encoded in a segment made from a file name */
    IN_BRACES = 64,  /* valid inside the braces of a pattern */
    IN_PATTERN = 128 /* not encoded in patterns */
};

#define DIGIT (IN_SCHEME | UNRESERVED | IN_HOST | IN_PATH | IN_QUERY | IN_NAME | IN_BRACES)
#define LOWER DIGIT
#define UPPER (DIGIT & ~IN_HOST)
#define MARK (UNRESERVED | IN_HOST | IN_PATH | IN_QUERY | IN_NAME)
#define DELIM (IN_HOST | IN_PATH | IN_QUERY | IN_NAME)

static const unsigned char classes[256] = {
    ['0'] = DIGIT,
    ['1'] = DIGIT,
    ['2'] = DIGIT,
    ['3'] = DIGIT,
    ['4'] = DIGIT,
    ['5'] = DIGIT,
    ['6'] = DIGIT,
    ['7'] = DIGIT,
    ['8'] = DIGIT,
    ['9'] = DIGIT,
#define LETTER(lower, upper) [lower] = LOWER, [upper] = UPPER
    LETTER('a', 'A'),
    LETTER('b', 'B'),
    LETTER('c', 'C'),
    LETTER('d', 'D'),
    LETTER('e', 'E'),
    LETTER('f', 'F'),
    LETTER('g', 'G'),
    LETTER('h', 'H'),
    LETTER('i', 'I'),
    LETTER('j', 'J'),
    LETTER('k', 'K'),
    LETTER('l', 'L'),
    LETTER('m', 'M'),
    LETTER('n', 'N'),
    LETTER('o', 'O'),
    LETTER('p', 'P'),
    LETTER('q', 'Q'),
    LETTER('r', 'R'),
    LETTER('s', 'S'),
    LETTER('t', 'T'),
    LETTER('u', 'U'),
    LETTER('v', 'V'),
    LETTER('w', 'W'),
    LETTER('x', 'X'),
    LETTER('y', 'Y'),
    LETTER('z', 'Z'),
#undef LETTER
    ['-'] = MARK | IN_SCHEME,
    ['.'] = MARK | IN_SCHEME | IN_BRACES,
    ['_'] = MARK | IN_BRACES,
    ['~'] = MARK,
    ['!'] = DELIM,
    ['$'] = DELIM,
    ['&'] = DELIM,
    ['\''] = DELIM,
    ['('] = DELIM,
    [')'] = DELIM,
    ['+'] = DELIM | IN_SCHEME,
    [','] = DELIM | IN_BRACES,
    [';'] = DELIM,
    ['='] = DELIM,
    [':'] = DELIM | IN_BRACES,
    ['*'] = (DELIM & ~IN_NAME) | IN_BRACES | IN_PATTERN, /* a file called "*" is not a pattern */
    ['@'] = DELIM & ~IN_HOST,
    ['/'] = IN_QUERY,
    ['?'] = IN_QUERY,
    ['['] = IN_PATTERN,
    [']'] = IN_PATTERN,
    ['{'] = IN_PATTERN,
    ['}'] = IN_PATTERN,
    ['%'] = IN_BRACES,
};

static inline bool is_in(char c, int set)
{
    return (classes[(unsigned char)c] & set) != 0;
}

static inline char to_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

static int uri_hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = to_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of the triplet at `at`, or -1. */
static int triplet(struct tidings_str s, size_t at)
{
    if (s.len - at < 3 || uri_hex_value(s.ptr[at + 1]) < 0 || uri_hex_value(s.ptr[at + 2]) < 0) {
        return -1;
    }
    return uri_hex_value(s.ptr[at + 1]) * 16 + uri_hex_value(s.ptr[at + 2]);
}

static int uri_put_encoded(struct buf *out, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    char text[3] = {'%', digits[byte >> 4], digits[byte & 15]};
    return buf_put(out, text, sizeof(text));
}

/* Removes everything appended since `mark`. */
static void rewind_to(struct buf *out, size_t mark)
{
    if (out->len > mark) {
        out->len = mark;
        out->ptr[mark] = '\0';
    }
}

/* ---- canonical form ------------------------------------------------------------------------ */

enum component { AUTHORITY, PATH, QUERY };

struct canon {
    struct tidings_str in;
    size_t pos;
    struct buf *out;
    bool pattern;
    bool utf8_checked;
    struct tidings_error *err;
};

static int uri_refuse(struct canon *c, size_t at, const char *what)
{
    return tidings_fail(c->err, TIDINGS_E_INVALID, "URI refused: %s at byte %zu", what, at + 1);
}

static int put_scheme(struct canon *c)
{
    struct tidings_str in = c->in;
    size_t end = 0;
    while (end < in.len && is_in(in.ptr[end], IN_SCHEME)) {
        end++;
    }
    char first = to_lower(in.ptr[0]);
    if (end == in.len || in.ptr[end] != ':' || first < 'a' || first > 'z') {
        return tidings_fail(c->err, TIDINGS_E_INVALID,
                            "URI refused: no scheme (expected 'scheme:…', as in 'file:///a')");
    }
    if (end + 1 == in.len) {
        return uri_refuse(c, end, "nothing after the scheme");
    }
    for (size_t i = 0; i <= end; i++) {
        buf_putc(c->out, to_lower(in.ptr[i]));
    }
    c->pos = end + 1;
    return 0;
}

static int put_triplet(struct canon *c, enum component where)
{
    int byte = triplet(c->in, c->pos);
    if (byte < 0) {
        return uri_refuse(c, c->pos, "'%' not followed by two hexadecimal digits");
    }
    if (byte == 0) {
        return uri_refuse(c, c->pos, "encoded NUL ('%00')");
    }
    if (byte == '/' && where != QUERY) {
        return uri_refuse(c, c->pos, "encoded slash ('%2F')");
    }
    c->pos += 3;
    char ch = (char)byte;
    if (is_in(ch, UNRESERVED) || (where == PATH && is_in(ch, IN_NAME))) {
        if (where == AUTHORITY) {
            ch = to_lower(ch);
        }
        return buf_putc(c->out, ch);
    }
    return uri_put_encoded(c->out, (unsigned char)byte);
}

/* Copies `{…}` of a pattern unchanged: names of variables are compared by bytes. An operator is
 * valid only in the first position, so no slash can hide in here. */
static int put_braces(struct canon *c)
{
    size_t end = c->pos + 1;
    if (end < c->in.len && c->in.ptr[end] && strchr("+#./;?&", c->in.ptr[end])) {
        end++;
    }
    while (end < c->in.len && is_in(c->in.ptr[end], IN_BRACES)) {
        end++;
    }
    if (end == c->in.len) {
        return uri_refuse(c, c->pos, "'{' that is never closed");
    }
    if (c->in.ptr[end] != '}') {
        return uri_refuse(c, end, "character not allowed between braces");
    }
    buf_put(c->out, c->in.ptr + c->pos, end + 1 - c->pos);
    c->pos = end + 1;
    return 0;
}

/* Handles a byte that is not canonical. */
static int put_odd(struct canon *c, enum component where)
{
    char ch = c->in.ptr[c->pos];
    if (ch == '%') {
        return put_triplet(c, where);
    }
    if (c->pattern && ch == '{') {
        return put_braces(c);
    }
    if (ch == '#') {
        return uri_refuse(c, c->pos, "fragment ('#'; encode it as '%23')");
    }
    if (ch == '\\') {
        return uri_refuse(c, c->pos, "backslash (encode it as '%5C')");
    }
    if (ch == ' ') {
        return uri_refuse(c, c->pos, "blank (encode it as '%20')");
    }
    if ((unsigned char)ch < ' ' || ch == 0x7f) {
        return uri_refuse(c, c->pos, "control character");
    }
    if (where == AUTHORITY && ch == '@') {
        return uri_refuse(c, c->pos, "user information ('user@host')");
    }
    if ((unsigned char)ch >= 0x80 && !c->utf8_checked) {
        if (!str_is_utf8(c->in)) {
            return tidings_fail(c->err, TIDINGS_E_INVALID, "URI refused: not valid UTF-8");
        }
        c->utf8_checked = true;
    }
    c->pos++;
    bool bracket = ch == '[' || ch == ']';
    if ((c->pattern && is_in(ch, IN_PATTERN)) || (where == AUTHORITY && bracket)) {
        return buf_putc(c->out, ch); /* the authority is checked as a whole */
    }
    if (where == AUTHORITY && is_in(ch, UNRESERVED)) {
        return buf_putc(c->out, to_lower(ch));
    }
    return uri_put_encoded(c->out, (unsigned char)ch);
}

/* Copies a run of canonical bytes; false at the end of the input. */
static bool put_run(struct canon *c, int set)
{
    size_t start = c->pos;
    while (c->pos < c->in.len && is_in(c->in.ptr[c->pos], set)) {
        c->pos++;
    }
    if (c->pos > start) {
        buf_put(c->out, c->in.ptr + start, c->pos - start);
    }
    return c->pos < c->in.len;
}

static int check_port(struct canon *c, struct tidings_str port, size_t at)
{
    uint64_t number = 0;
    bool digits = port.len <= 5;
    for (size_t i = 0; digits && i < port.len; i++) {
        digits = port.ptr[i] >= '0' && port.ptr[i] <= '9';
        number = number * 10 + (uint64_t)(port.ptr[i] - '0');
    }
    return digits && number <= 65535 ? 0
                                     : uri_refuse(c, at, "port that is not a number up to 65535");
}

/* `text` is the canonical authority, which starts at byte `at` of the input. */
static int check_authority(struct canon *c, struct tidings_str text, size_t at)
{
    if (str_eq(text, STR(".")) || str_eq(text, STR(".."))) {
        return uri_refuse(c, at, "dot segment ('.' or '..')");
    }
    if (c->pattern) {
        return 0;
    }
    if (text.len > 0 && text.ptr[0] == '[') {
        char address[INET6_ADDRSTRLEN + 1];
        struct in6_addr ignored;
        ptrdiff_t close = str_find(text, ']');
        if (close < 1 || (size_t)close > sizeof(address)) {
            return uri_refuse(c, at, "malformed IPv6 address");
        }
        memcpy(address, text.ptr + 1, (size_t)close - 1);
        address[close - 1] = '\0';
        if (inet_pton(AF_INET6, address, &ignored) != 1) {
            return uri_refuse(c, at, "malformed IPv6 address");
        }
        text = str_skip(text, (size_t)close + 1);
        if (text.len > 0 && text.ptr[0] != ':') {
            return uri_refuse(c, at, "text after an IPv6 address");
        }
    }
    if (str_find(text, '[') >= 0 || str_find(text, ']') >= 0) {
        return uri_refuse(c, at, "bracket in a host that is not an IPv6 address");
    }
    struct tidings_str port;
    str_cut(text, ':', &port, NULL);
    return check_port(c, port, at);
}

static int put_authority(struct canon *c)
{
    if (c->in.len - c->pos < 2 || memcmp(c->in.ptr + c->pos, "//", 2) != 0) {
        return 0;
    }
    buf_put(c->out, "//", 2);
    c->pos += 2;
    size_t at = c->pos, start = c->out->len;
    while (put_run(c, IN_HOST)) {
        const char *p = c->in.ptr + c->pos;
        if (*p == '/' || *p == '?') {
            break;
        }
        if (c->pattern && *p == '{' && c->in.len - c->pos > 1 && p[1] && strchr("/?#", p[1])) {
            break; /* the expansion is the start of the path, the query or the fragment */
        }
        int rc = put_odd(c, AUTHORITY);
        if (rc < 0) {
            return rc;
        }
    }
    return check_authority(c, str_skip(buf_str(c->out), start), at);
}

static bool is_dot_segment(const struct buf *out, size_t start)
{
    size_t len = out->len - start;
    return (len == 1 || len == 2) && out->ptr[start] == '.' && out->ptr[start + len - 1] == '.';
}

static int uri_put_path(struct canon *c)
{
    size_t segment = c->out->len;
    while (put_run(c, IN_PATH)) {
        char ch = c->in.ptr[c->pos];
        if (ch == '?') {
            break;
        }
        if (ch != '/') {
            int rc = put_odd(c, PATH);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        if (is_dot_segment(c->out, segment)) {
            break;
        }
        buf_putc(c->out, '/');
        c->pos++;
        segment = c->out->len;
    }
    return is_dot_segment(c->out, segment) ? uri_refuse(c, c->pos - 1, "dot segment ('.' or '..')")
                                           : 0;
}

static int uri_put_canonical_query(struct canon *c)
{
    while (put_run(c, IN_QUERY)) {
        int rc = put_odd(c, QUERY);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int put_parts(struct canon *c)
{
    int rc = put_scheme(c);
    if (rc == 0) {
        rc = put_authority(c);
    }
    if (rc == 0) {
        rc = uri_put_path(c);
    }
    return rc == 0 ? uri_put_canonical_query(c) : rc;
}

static int put_canonical(struct tidings_str in, struct buf *out, bool pattern,
                         struct tidings_error *err)
{
    if (in.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "URI refused: empty");
    }
    if (in.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "URI refused: %zu bytes, at most %u accepted",
                            in.len, URI_MAX);
    }
    /* Reserve room first: from here on an append can only fail when an unencoded byte is encoded.
     */
    size_t mark = out->len;
    struct canon c = {.in = in, .out = out, .pattern = pattern, .err = err};
    int rc = buf_reserve(out, in.len);
    if (rc == 0) {
        rc = put_parts(&c);
    }
    if (out->failed) {
        rc = tidings_fail(err, out->failed, "URI: %s", tidings_code_text(out->failed));
    } else if (rc == 0 && out->len - mark > URI_MAX) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "URI refused: %zu bytes once encoded, at most %u accepted",
                          out->len - mark, URI_MAX);
    }
    if (rc < 0) {
        rewind_to(out, mark);
    }
    return rc;
}

int uri_canonical(struct tidings_str in, struct buf *out, struct tidings_error *err)
{
    return put_canonical(in, out, false, err);
}

int uri_canonical_pattern(struct tidings_str in, struct buf *out, struct tidings_error *err)
{
    return put_canonical(in, out, true, err);
}

void uri_split(struct tidings_str canonical, struct uri_parts *parts)
{
    struct tidings_str rest;
    bool found;
    memset(parts, 0, sizeof(*parts));
    parts->scheme = str_cut(canonical, ':', &rest, NULL);
    rest = str_cut(rest, '?', &parts->query, &found);
    if (!found) {
        parts->query = (struct tidings_str){NULL, 0};
    }
    if (str_starts(rest, STR("//"))) {
        rest = str_skip(rest, 2);
        ptrdiff_t slash = str_find(rest, '/');
        parts->authority = tidings_strn(rest.ptr, slash < 0 ? rest.len : (size_t)slash);
        rest = str_skip(rest, parts->authority.len);
    }
    parts->path = rest;
}

/* ---- names and paths ----------------------------------------------------------------------- */

static int uri_put_escaped(struct buf *out, struct tidings_str bytes, bool keep_slash)
{
    size_t mark = out->len;
    for (size_t i = 0; i < bytes.len;) {
        size_t start = i;
        while (i < bytes.len &&
               (is_in(bytes.ptr[i], IN_NAME) || (keep_slash && bytes.ptr[i] == '/'))) {
            i++;
        }
        if (i > start) {
            buf_put(out, bytes.ptr + start, i - start);
        } else {
            uri_put_encoded(out, (unsigned char)bytes.ptr[i++]);
        }
    }
    if (out->failed) {
        rewind_to(out, mark);
    }
    return out->failed;
}

int uri_encode_segment(struct buf *out, struct tidings_str bytes)
{
    return uri_put_escaped(out, bytes, false);
}

int uri_encode_path(struct buf *out, struct tidings_str path)
{
    return uri_put_escaped(out, path, true);
}

int uri_decode(struct buf *out, struct tidings_str encoded, struct tidings_error *err)
{
    size_t mark = out->len;
    int rc = 0;
    for (size_t i = 0; i < encoded.len && rc == 0;) {
        const char *percent = memchr(encoded.ptr + i, '%', encoded.len - i);
        size_t run = percent ? (size_t)(percent - encoded.ptr) - i : encoded.len - i;
        buf_put(out, encoded.ptr + i, run);
        i += run;
        if (percent) {
            int byte = triplet(encoded, i);
            if (byte <= 0) {
                rc = tidings_fail(err, TIDINGS_E_INVALID, "%s at byte %zu of '%.*s'",
                                  byte < 0 ? "malformed percent-encoding" : "encoded NUL ('%00')",
                                  i + 1, STR_ARG(encoded));
            }
            buf_putc(out, (char)byte);
            i += 3;
        }
    }
    if (out->failed) {
        rc = tidings_fail(err, out->failed, "decoding a URI: %s", tidings_code_text(out->failed));
    }
    if (rc < 0) {
        rewind_to(out, mark);
    }
    return rc;
}

size_t uri_decode_into(char *out, struct tidings_str encoded)
{
    size_t len = 0;
    for (size_t i = 0; i < encoded.len; len++) {
        int byte = encoded.ptr[i] == '%' ? triplet(encoded, i) : -1;
        if (byte < 0) {
            out[len] = encoded.ptr[i++];
        } else {
            out[len] = (char)byte;
            i += 3;
        }
    }
    return len;
}

bool uri_is_within(struct tidings_str uri, struct tidings_str prefix)
{
    if (prefix.len == 0) {
        return false;
    }
    if (prefix.ptr[prefix.len - 1] == '/') {
        if (str_starts(uri, prefix)) {
            return true;
        }
        /* "x:///docs" is the container "x:///docs/"; "x://" is not the root "x:///" */
        prefix.len--;
        if (prefix.len == 0 || strchr("/:", prefix.ptr[prefix.len - 1]) ||
            (uri.len > prefix.len && uri.ptr[prefix.len] == '/')) {
            return false;
        }
    }
    return str_starts(uri, prefix) &&
           (uri.len == prefix.len || uri.ptr[prefix.len] == '/' || uri.ptr[prefix.len] == '?');
}

/* -------------------------------------------------------------------------------------------------
 * Canonicalizes a URI that uses an alias, with the prefix of the alias.
 */

const struct uri_alias *uri_alias_find(const struct uri_alias *aliases, size_t count,
                                       struct tidings_str in)
{
    for (size_t i = 0; i < count; i++) {
        if (str_starts(in, aliases[i].from)) {
            return &aliases[i];
        }
    }
    return NULL;
}

static int put_canonical_form(struct tidings_str in, bool is_pattern, struct buf *out,
                              struct tidings_error *err)
{
    return is_pattern ? uri_canonical_pattern(in, out, err) : uri_canonical(in, out, err);
}

static int alias_fail(int code, struct tidings_error *err)
{
    return tidings_fail(err, code,
                        code == TIDINGS_E_NOMEM ? "out of memory"
                                                : "the URI is too long once its alias is resolved");
}

int uri_alias_canonical(struct tidings_str in, bool is_pattern, uri_alias_fn find, const void *user,
                        struct buf *out, const struct uri_alias **ret_alias,
                        struct tidings_error *err)
{
    struct buf canonical, whole;
    buf_init(&canonical, URI_MAX * 3);
    buf_init(&whole, URI_MAX * 4);
    int rc = 0;
    const struct uri_alias *alias = NULL;
    if (in.len > 0 && in.ptr[0] == '/') {
        alias = find(user, in);
    } else {
        rc = put_canonical_form(in, is_pattern, &canonical, err);
        in = buf_str(&canonical);
        alias = rc == 0 ? find(user, in) : NULL;
    }
    if (rc == 0 && alias) {
        buf_puts(&whole, alias->to);
        buf_puts(&whole, str_skip(in, alias->from.len));
        in = buf_str(&whole);
        rc = whole.failed ? alias_fail(whole.failed, err) : 0;
    }
    if (rc == 0 && canonical.len > 0 && !alias) { /* unchanged */
        rc = buf_puts(out, in) < 0 ? alias_fail(out->failed, err) : 0;
    } else if (rc == 0) {
        rc = put_canonical_form(in, is_pattern, out, err);
    }
    if (ret_alias) {
        *ret_alias = alias;
    }
    buf_deinit(&whole);
    buf_deinit(&canonical);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * The rules of skills. An entry is untrusted: its URIs must name files in the skill in every
 * spelling.
 */

#define SHOWN 80u /* bytes of a name in an error message */

void skill_digest_of_hash(const unsigned char *hash, char out[SKILL_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(out, "sha256:", 7);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[7 + 2 * i] = digits[hash[i] >> 4];
        out[8 + 2 * i] = digits[hash[i] & 15];
    }
    out[SKILL_DIGEST_SIZE - 1] = '\0';
}

void skill_digest(struct tidings_str bytes, char out[SKILL_DIGEST_SIZE])
{
    struct sha256 state;
    unsigned char hash[SHA256_BYTES];
    sha256_init(&state);
    sha256_put(&state, bytes.ptr, bytes.len);
    sha256_end(&state, hash);
    skill_digest_of_hash(hash, out);
}

struct tidings_str skill_root(struct tidings_str uri)
{
    struct tidings_str root = uri;
    if (!str_ends(uri, STR("/" SKILL_FILE))) {
        return STR_EMPTY;
    }
    root.len -= sizeof(SKILL_FILE) - 1;
    return skill_name(uri).len > 0 ? root : STR_EMPTY;
}

struct tidings_str skill_name(struct tidings_str uri)
{
    if (!str_ends(uri, STR("/" SKILL_FILE))) {
        return STR_EMPTY;
    }
    uri.len -= sizeof(SKILL_FILE);
    const char *slash = memrchr(uri.ptr, '/', uri.len);
    return slash ? str_skip(uri, (size_t)(slash - uri.ptr) + 1) : STR_EMPTY;
}

bool skill_name_is_valid(struct tidings_str name)
{
    bool ok =
        name.len >= 1 && name.len <= 64 && name.ptr[0] != '-' && name.ptr[name.len - 1] != '-';
    for (size_t i = 0; ok && i < name.len; i++) {
        char c = name.ptr[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             (c == '-' && name.ptr[i - 1] != '-');
    }
    return ok;
}

int skill_check_front_matter(const struct json *front, struct tidings_str uri,
                             struct tidings_error *err)
{
    struct tidings_str name = jv_str(jv_get(front, "name")), segment = skill_name(uri);
    if (!skill_name_is_valid(name)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "'name' must be 1 to 64 lower-case letters, digits and single hyphens");
    }
    if (!str_eq(name, segment)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'name' is '%.*s' and its directory '%.*s'",
                            STR_ARG(name), STR_ARG_MAX(segment, SHOWN));
    }
    return jv_str(jv_get(front, "description")).len > 0
               ? 0
               : tidings_fail(err, TIDINGS_E_PARSE, "'description' must be a string");
}

/* ---- entries --------------------------------------------------------------------------------- */

bool skill_is_canonical(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3u);
    bool ok = uri.len <= URI_MAX && uri_canonical(uri, &canonical, NULL) == 0 &&
              str_eq(buf_str(&canonical), uri) && str_find(uri, '?') < 0;
    buf_deinit(&canonical);
    return ok;
}

static bool skill_is_digest(struct tidings_str digest)
{
    bool ok = digest.len == SKILL_DIGEST_SIZE - 1 && str_starts(digest, STR("sha256:"));
    for (size_t i = 7; ok && i < digest.len; i++) {
        char c = digest.ptr[i];
        ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    return ok;
}

/* The canonical form of a URI in a skill, NUL-terminated; NULL: invalid. Different spellings of one
 * file become equal, and a URI outside of the skill is detected. */
static char *skill_canonical(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3u);
    bool ok = uri.len <= URI_MAX && uri_canonical(uri, &canonical, NULL) == 0 &&
              str_find(buf_str(&canonical), '?') < 0;
    char *text = ok ? buf_detach(&canonical, NULL) : NULL;
    buf_deinit(&canonical);
    return text;
}

bool skill_holds(struct tidings_str root, struct tidings_str uri)
{
    char *below = skill_canonical(uri), *above = skill_canonical(root);
    struct tidings_str file = tidings_str(below);
    bool ok = below && above && str_starts(file, tidings_str(above)) && file.len > strlen(above) &&
              file.ptr[file.len - 1] != '/';
    mem_free(below);
    mem_free(above);
    return ok;
}

static int skill_check_file(const struct json *file, struct tidings_str root, int64_t *total,
                            struct tidings_error *err)
{
    struct tidings_str uri = jv_str(jv_get(file, "uri"));
    struct json *size = jv_get(file, "size");
    if (!skill_holds(root, uri)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "it names '%.*s', which is not a file of the skill",
                            STR_ARG_MAX(uri, SHOWN));
    }
    if (!skill_is_digest(jv_str(jv_get(file, "digest")))) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' has no digest 'sha256:…'",
                            STR_ARG_MAX(uri, SHOWN));
    }
    if (!jv_is(size, JV_INT) || jv_int(size) < 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' has no size", STR_ARG_MAX(uri, SHOWN));
    }
    if (jv_int(size) > (int64_t)SKILL_MAX_BYTES - *total) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "its files have more than %u MiB",
                            SKILL_MAX_BYTES >> 20);
    }
    *total += jv_int(size);
    return 0;
}

/* Records that a file was named. */
static int skill_see(struct map *seen, struct tidings_str uri, struct tidings_error *err)
{
    char *key = skill_canonical(uri);
    void *before = key ? map_find(seen, tidings_str(key)) : NULL;
    if (!before && key && map_put(seen, tidings_str(key), key, NULL) == 0) {
        return 0;
    }
    mem_free(key);
    return before ? tidings_fail(err, TIDINGS_E_PARSE, "it names a file twice")
                  : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static int skill_check_files(const struct json *files, struct tidings_str uri,
                             struct tidings_error *err)
{
    struct map seen;
    int64_t total = 0;
    bool has_main = false;
    int rc = 0;
    if (jv_count(files) > SKILL_MAX_FILES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "it has more than %u files", SKILL_MAX_FILES);
    }
    map_init(&seen);
    for (size_t i = 0; rc == 0 && i < jv_count(files); i++) {
        struct json *file = jv_at(files, i);
        struct tidings_str name = jv_str(jv_get(file, "uri"));
        rc = skill_check_file(file, skill_root(uri), &total, err);
        rc = rc < 0 ? rc : skill_see(&seen, name, err);
        has_main = has_main || str_eq(name, uri);
    }
    if (rc == 0 && !has_main) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "its files lack " SKILL_FILE);
    }
    size_t at = 0;
    for (char *key; (key = map_next(&seen, &at)) != NULL;) {
        mem_free(key);
    }
    map_deinit(&seen);
    return rc;
}

int skill_check_entry(const struct json *entry, struct tidings_error *err)
{
    struct tidings_str uri = jv_str(jv_get(entry, "uri"));
    struct json *files = jv_get(entry, "resources"), *front = jv_get(entry, "frontmatter");
    struct tidings_error why = {0};
    if (skill_root(uri).len == 0 || !skill_holds(skill_root(uri), uri)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' is not the URI of a " SKILL_FILE,
                            STR_ARG_MAX(uri, SHOWN));
    }
    int rc = skill_check_front_matter(front, uri, &why);
    if (rc == 0 && jv_is(files, JV_ARRAY)) {
        rc = skill_check_files(files, uri, &why);
    } else if (rc == 0 && !str_eq(jv_str(files), STR(SKILL_DYNAMIC))) {
        rc = tidings_fail(&why, TIDINGS_E_PARSE, "it has no list of files");
    }
    return rc < 0 ? tidings_fail(err, rc, "skill '%.*s': %s", STR_ARG_MAX(uri, SHOWN), why.text)
                  : 0;
}

const struct json *skill_find_file(const struct json *entry, struct tidings_str uri)
{
    struct json *files = jv_get(entry, "resources");
    const struct json *found = NULL;
    char *wanted = skill_canonical(uri);
    for (size_t i = 0; wanted && !found && i < jv_count(files); i++) {
        char *is = skill_canonical(jv_str(jv_get(jv_at(files, i), "uri")));
        found = is && strcmp(is, wanted) == 0 ? jv_at(files, i) : NULL;
        mem_free(is);
    }
    mem_free(wanted);
    return found;
}
