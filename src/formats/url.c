/* SPDX-License-Identifier: MIT
 *
 * URLs: splits them into parts, byte by byte: nothing is decoded, so nothing is ambiguous.
 */
#include "formats/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------
 * Percent-encoding and decoding.
 */

void encoded_form_put_value(struct buf *out, struct tidings_str value)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '~';
        if (is_plain) {
            buf_putc(out, (char)c);
        } else {
            const char code[] = {'%', digits[c >> 4], digits[c & 15]};
            buf_put(out, code, sizeof(code));
        }
    }
}

void encoded_form_put(struct buf *out, const char *name, const char *value)
{
    if (!value) {
        return;
    }
    if (out->len > 0 && out->ptr[out->len - 1] != '?') {
        buf_putc(out, '&');
    }
    buf_puts(out, tidings_str(name));
    buf_putc(out, '=');
    encoded_form_put_value(out, tidings_str(value));
}

static int encoded_form_digit(char c)
{
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

static int encoded_form_decode(struct tidings_str value, struct buf *out)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i] == '+' ? ' ' : value.ptr[i];
        if (c == '%') {
            int high = i + 2 < value.len ? encoded_form_digit(value.ptr[i + 1]) : -1;
            int low = i + 2 < value.len ? encoded_form_digit(value.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return TIDINGS_E_PARSE;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            return TIDINGS_E_PARSE;
        }
        buf_putc(out, c);
    }
    return out->failed;
}

int encoded_form_find(struct tidings_str form, const char *name, struct buf *out)
{
    struct tidings_str found = STR_EMPTY;
    unsigned count = 0;
    while (form.len > 0) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(form, '&', &form, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), tidings_str(name))) {
            found = value;
            count++;
        }
    }
    if (count != 1) {
        return count == 0 ? 0 : TIDINGS_E_PARSE;
    }
    int rc = encoded_form_decode(found, out);
    return rc < 0 ? rc : 1;
}

/* -------------------------------------------------------------------------------------------------
 * Text between the first ':' after "://" and the last '@' counts as a password, wherever the host
 * starts; parameters count by their names, which libpq also accepts percent-encoded.
 */

#define HIDDEN STR("***")

/* The position of `what` in `text`, case-insensitive; -1: not found. */
static ptrdiff_t url_find_word(struct tidings_str text, struct tidings_str what)
{
    for (size_t i = 0; i + what.len <= text.len; i++) {
        if (str_eq_nocase(tidings_strn(text.ptr + i, what.len), what)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

/* Returns true if the value of "name=value" must be hidden. */
static bool url_is_secret(struct tidings_str parameter)
{
    ptrdiff_t equals = str_find(parameter, '=');
    struct tidings_str name = tidings_strn(parameter.ptr, equals < 0 ? 0 : (size_t)equals);
    return url_find_word(name, STR("password")) >= 0 || str_find(name, '%') >= 0;
}

/* Writes parameters, each ended by '&' or a blank. */
static void url_put_parameters(struct buf *out, struct tidings_str rest)
{
    while (rest.len > 0) {
        size_t len = 0;
        while (len < rest.len && rest.ptr[len] != '&' && rest.ptr[len] != ' ') {
            len++;
        }
        struct tidings_str one = tidings_strn(rest.ptr, len);
        if (url_is_secret(one)) {
            buf_puts(out, tidings_strn(one.ptr, (size_t)str_find(one, '=') + 1));
            buf_puts(out, HIDDEN);
        } else {
            buf_puts(out, one);
        }
        size_t used = len < rest.len ? len + 1 : len;
        buf_puts(out, tidings_strn(rest.ptr + len, used - len));
        rest = str_skip(rest, used);
    }
}

int url_put_redacted(struct buf *out, struct tidings_str text)
{
    ptrdiff_t scheme = url_find_word(text, STR("://"));
    size_t from = scheme < 0 ? text.len : (size_t)scheme + 3;
    const char *at = text.len > from ? memrchr(text.ptr + from, '@', text.len - from) : NULL;
    const char *colon = at ? memchr(text.ptr + from, ':', (size_t)(at - text.ptr) - from) : NULL;
    if (colon) {
        buf_puts(out, tidings_strn(text.ptr, (size_t)(colon - text.ptr) + 1));
        buf_puts(out, HIDDEN);
        text = str_skip(text, (size_t)(at - text.ptr));
    }
    ptrdiff_t question = str_find(text, '?');
    if (question >= 0) {
        buf_puts(out, tidings_strn(text.ptr, (size_t)question + 1));
        text = str_skip(text, (size_t)question + 1);
    } else if (colon || scheme >= 0) {
        return buf_puts(out, text);
    }
    url_put_parameters(out, text);
    return out->failed;
}

const char *url_redact(const char *text, char out[URL_REDACTED_MAX])
{
    struct buf b;
    buf_init(&b, 2 * strlen(text) + 64);
    (void)url_put_redacted(&b, tidings_str(text));
    (void)snprintf(out, URL_REDACTED_MAX, "%s", b.failed ? "***" : b.ptr ? b.ptr : "");
    buf_deinit(&b);
    return out;
}

/* ---------------------------------------------------------------------------------------------- */

static bool url_is_host(struct tidings_str host)
{
    bool is_address = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    for (size_t i = is_address; i + is_address < host.len; i++) {
        char c = host.ptr[i];
        bool is_hex = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
        bool is_name =
            is_hex || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '.' || c == '_';
        if (is_address ? !is_hex && c != ':' && c != '.' : !is_name) {
            return false;
        }
    }
    return host.len > 0;
}

/* "host", "host:8080", "[::1]:8080" */
static bool url_read_authority(struct tidings_str authority, struct url *u)
{
    size_t end = 0;
    uint64_t port = u->is_https ? 443 : 80;
    if (authority.len > 0 && authority.ptr[0] == '[') {
        ptrdiff_t close = str_find(authority, ']');
        end = close < 0 ? 0 : (size_t)close + 1;
    } else {
        ptrdiff_t colon = str_find(authority, ':');
        end = colon < 0 ? authority.len : (size_t)colon;
    }
    u->host = tidings_strn(authority.ptr, end);
    struct tidings_str rest = str_skip(authority, end);
    if (rest.len > 0 && (rest.ptr[0] != ':' || rest.len > 6 ||
                         !str_to_u64(str_skip(rest, 1), &port) || port == 0 || port > 65535)) {
        return false;
    }
    u->port = (uint16_t)port;
    return url_is_host(u->host);
}

/* "." and "..", in every encoding: resolving them would lead to another path than the one compared.
 */
static bool url_has_dots(struct tidings_str path)
{
    while (path.len > 0) {
        struct tidings_str segment = str_cut(path, '/', &path, NULL);
        size_t dots = 0;
        while (segment.len > 0 && dots < 3) {
            size_t n = segment.ptr[0] == '.' ? 1
                       : str_eq_nocase(tidings_strn(segment.ptr, segment.len < 3 ? segment.len : 3),
                                       STR("%2e"))
                           ? 3
                           : 0;
            if (n == 0) {
                break;
            }
            dots++;
            segment = str_skip(segment, n);
        }
        if (segment.len == 0 && (dots == 1 || dots == 2)) {
            return true;
        }
    }
    return false;
}

bool url_read(struct tidings_str text, struct url *ret)
{
    struct url u = {.text = text};
    size_t scheme = str_starts(text, STR("https://"))  ? 8
                    : str_starts(text, STR("http://")) ? 7
                                                       : 0;
    if (scheme == 0 || text.len > URL_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c <= ' ' || c > '~' || c == '#' || c == '"' || c == '<' || c == '>' || c == '\\' ||
            c == '`' || c == '^' || c == '{' || c == '|' || c == '}') {
            return false;
        }
    }
    u.is_https = scheme == 8;
    size_t end = scheme;
    while (end < text.len && text.ptr[end] != '/' && text.ptr[end] != '?') {
        end++;
    }
    u.origin = tidings_strn(text.ptr, end);
    u.path = str_cut(str_skip(text, end), '?', &u.query, NULL);
    if (!url_read_authority(str_skip(u.origin, scheme), &u) || url_has_dots(u.path)) {
        return false;
    }
    *ret = u;
    return true;
}

/* "127.0.0.1" and no other spelling: 127.evil.example is a name, and some programs accept 127.1. */
static bool url_read_quad(struct tidings_str host, unsigned char quad[4])
{
    char text[INET_ADDRSTRLEN];
    if (host.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, quad) == 1;
}

static bool url_is_loopback(const struct url *u)
{
    unsigned char quad[4];
    return str_eq_nocase(u->host, STR("localhost")) || str_eq(u->host, STR("[::1]")) ||
           (url_read_quad(u->host, quad) && quad[0] == 127);
}

static bool url_is_local_six(struct tidings_str host)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct in6_addr six;
    char text[INET6_ADDRSTRLEN];
    struct tidings_str inner = tidings_strn(host.ptr + 1, host.len - 2);
    if (inner.len >= sizeof(text)) {
        return true;
    }
    memcpy(text, inner.ptr, inner.len);
    text[inner.len] = '\0';
    return inet_pton(AF_INET6, text, &six) != 1 || IN6_IS_ADDR_LOOPBACK(&six) ||
           IN6_IS_ADDR_UNSPECIFIED(&six) || memcmp(&six, mapped, sizeof(mapped)) == 0;
}

/* Returns true if some program could interpret the host as this machine, in any spelling:
 * [::ffff:127.0.0.1], 2130706433, 0x7f.1, 0, x.localhost. */
static bool url_may_be_here(const struct url *u)
{
    struct tidings_str host = u->host;
    unsigned char quad[4];
    if (host.ptr[0] == '[') {
        return url_is_local_six(host);
    }
    if (url_read_quad(host, quad)) {
        return quad[0] == 127 || quad[0] == 0;
    }
    while (host.len > 0 && host.ptr[host.len - 1] == '.') {
        host.len--;
    }
    size_t last = host.len;
    while (last > 0 && host.ptr[last - 1] != '.') {
        last--;
    }
    struct tidings_str label = str_skip(host, last);
    /* No domain is a number, so its last label does not start with a digit. */
    return label.len == 0 || (label.ptr[0] >= '0' && label.ptr[0] <= '9') ||
           str_eq_nocase(label, STR("localhost"));
}

bool url_is_safe(const struct url *u)
{
    return u->is_https || url_is_loopback(u);
}

bool url_may_lead(const struct url *server, const struct url *next)
{
    return url_is_loopback(server) ? url_is_safe(next) : next->is_https && !url_may_be_here(next);
}

bool url_is_same_origin(const struct url *a, const struct url *b)
{
    return a->is_https == b->is_https && a->port == b->port && str_eq_nocase(a->host, b->host);
}

/* The path without trailing slashes. */
static struct tidings_str url_path_of(const struct url *u)
{
    struct tidings_str path = u->path;
    while (path.len > 0 && path.ptr[path.len - 1] == '/') {
        path.len--;
    }
    return path;
}

bool url_covers(const struct url *resource, const struct url *server)
{
    struct tidings_str above = url_path_of(resource), path = url_path_of(server);
    bool is_below =
        str_starts(path, above) && (path.len == above.len || path.ptr[above.len] == '/');
    return url_is_same_origin(resource, server) && is_below &&
           (resource->query.len == 0 || str_eq(resource->query, server->query));
}

int url_put_well_known(struct buf *out, const struct url *u, const char *name, bool is_behind)
{
    buf_puts(out, u->origin);
    if (is_behind) {
        buf_puts(out, url_path_of(u));
    }
    buf_puts(out, STR("/.well-known/"));
    buf_puts(out, tidings_str(name));
    if (!is_behind) {
        buf_puts(out, url_path_of(u));
    }
    if (u->query.len > 0) {
        buf_putc(out, '?');
        buf_puts(out, u->query);
    }
    return out->failed;
}
