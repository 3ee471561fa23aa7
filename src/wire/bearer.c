/* SPDX-License-Identifier: MIT
 *
 * Finding bearer tokens in requests and writing challenges. Strictly: one field, one scheme, no
 * guesses. A proxy and a server that disagree on which of two tokens counts are a way in.
 */
#include "wire/bearer.h"

#define BLANK " \t"

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == '+' || c == '/';
}

/* token68 (RFC 9110 §11.2). */
static bool is_token(struct tidings_str s)
{
    size_t i = 0;
    while (i < s.len && is_token_char(s.ptr[i])) {
        i++;
    }
    bool begins = i > 0;
    while (i < s.len && s.ptr[i] == '=') {
        i++;
    }
    return begins && i == s.len;
}

enum bearer_result bearer_parse(struct tidings_str field, struct tidings_str *token,
                                const char **why)
{
    struct tidings_str rest;
    struct tidings_str scheme = str_cut(str_trim(field, BLANK), ' ', &rest, NULL);
    bool is_bound = str_eq_nocase(scheme, STR("DPoP"));
    if (!is_bound && !str_eq_nocase(scheme, STR("Bearer"))) {
        *why = "the Authorization field is empty";
        return scheme.len > 0 ? BEARER_NONE : BEARER_BAD; /* RFC 6750 §3.1: as good as none */
    }
    rest = str_trim(rest, BLANK);
    if (rest.len > BEARER_TOKEN_MAX) {
        *why = "the token is too long";
        return BEARER_BAD;
    }
    if (!is_token(rest)) {
        *why = is_bound ? "Authorization must be 'DPoP' and one token"
                        : "Authorization must be 'Bearer' and one token";
        return BEARER_BAD;
    }
    *token = rest;
    return is_bound ? BEARER_BOUND : BEARER_TOKEN;
}

/* The name as a careless reader would take it: percent-encoded or not. */
static bool is_token_name(struct tidings_str name)
{
    static const struct tidings_str wanted = {"access_token", 12};
    size_t at = 0, i = 0;
    while (i < name.len && at < wanted.len) {
        char c = name.ptr[i];
        if (c == '%' && i + 2 < name.len) {
            static const char digits[] = "0123456789abcdef";
            const char *high = strchr(digits, name.ptr[i + 1] | 0x20);
            const char *low = strchr(digits, name.ptr[i + 2] | 0x20);
            c = high && low ? (char)((high - digits) * 16 + (low - digits)) : c;
            i += 2;
        }
        if (c != wanted.ptr[at]) {
            return false;
        }
        at++;
        i++;
    }
    return at == wanted.len && i == name.len;
}

static bool is_in_query(struct tidings_str query)
{
    while (query.len > 0) {
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (is_token_name(str_cut(pair, '=', &pair, NULL))) {
            return true;
        }
    }
    return false;
}

enum bearer_result bearer_find(const struct http_request *req, struct tidings_str *token,
                               const char **why)
{
    unsigned count = 0;
    struct tidings_str field = http_header(req, "authorization", &count);
    if (is_in_query(req->query)) {
        *why = "a token in the query is not accepted; send it as Authorization: Bearer";
        return BEARER_BAD;
    }
    if (count > 1) {
        *why = "there must be one Authorization field";
        return BEARER_BAD;
    }
    return count == 0 ? BEARER_NONE : bearer_parse(field, token, why);
}

/* ---- challenges ------------------------------------------------------------------------------ */

static void bearer_put_quoted(struct buf *out, const char *name, struct tidings_str value,
                              bool *first)
{
    if (value.len == 0) {
        return;
    }
    buf_puts(out, *first ? STR(" ") : STR(", "));
    *first = false;
    buf_puts(out, tidings_str(name));
    buf_puts(out, STR("=\""));
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '"' || c == '\\') {
            buf_putc(out, '\\');
        }
        buf_putc(out, c < ' ' || c > '~' ? '?' : c);
    }
    buf_putc(out, '"');
}

int bearer_put_challenge(struct buf *out, const struct bearer_challenge *c)
{
    bool first = true;
    buf_puts(out, STR("WWW-Authenticate: "));
    buf_puts(out, c->scheme.len > 0 ? c->scheme : STR("Bearer"));
    bearer_put_quoted(out, "error", c->error, &first);
    bearer_put_quoted(out, "error_description", c->description, &first);
    bearer_put_quoted(out, "scope", c->scope, &first);
    bearer_put_quoted(out, "resource_metadata", c->metadata, &first);
    bearer_put_quoted(out, "algs", c->algs, &first);
    buf_puts(out, STR("\r\n"));
    return out->failed;
}

static void bearer_skip_blanks(struct tidings_str *rest)
{
    while (rest->len > 0 && (rest->ptr[0] == ' ' || rest->ptr[0] == '\t')) {
        *rest = str_skip(*rest, 1);
    }
}

/* The characters of a token that `rest` begins with, and the blanks around them, are cut off. */
static struct tidings_str cut_word(struct tidings_str *rest)
{
    size_t n = 0;
    bearer_skip_blanks(rest);
    while (n < rest->len && is_token_char(rest->ptr[n])) {
        n++;
    }
    struct tidings_str word = tidings_strn(rest->ptr, n);
    *rest = str_skip(*rest, n);
    bearer_skip_blanks(rest);
    return word;
}

/* The same for a value, quoted or not. */
static struct tidings_str cut_value(struct tidings_str *rest)
{
    size_t n = 1;
    bearer_skip_blanks(rest);
    if (rest->len == 0 || rest->ptr[0] != '"') {
        return cut_word(rest);
    }
    while (n < rest->len && rest->ptr[n] != '"') {
        n += rest->ptr[n] == '\\' && n + 1 < rest->len ? 2 : 1;
    }
    struct tidings_str value = tidings_strn(rest->ptr + 1, n - 1);
    *rest = str_skip(*rest, n + 1);
    return value;
}

static void keep_parameter(struct bearer_challenge *c, struct tidings_str name,
                           struct tidings_str value)
{
    struct tidings_str *at = str_eq_nocase(name, STR("error"))               ? &c->error
                             : str_eq_nocase(name, STR("error_description")) ? &c->description
                             : str_eq_nocase(name, STR("scope"))             ? &c->scope
                             : str_eq_nocase(name, STR("resource_metadata")) ? &c->metadata
                                                                             : NULL;
    if (at && at->len == 0) {
        *at = value;
    }
}

bool bearer_read_challenge(struct tidings_str field, struct bearer_challenge *ret)
{
    return bearer_read_scheme(field, STR("Bearer"), ret);
}

bool bearer_read_scheme(struct tidings_str field, struct tidings_str scheme,
                        struct bearer_challenge *ret)
{
    struct tidings_str rest = field;
    bool is_wanted = false;
    *ret = (struct bearer_challenge){0};
    while (rest.len > 0) {
        struct tidings_str word = cut_word(&rest);
        if (word.len == 0) {
            rest = str_skip(rest, 1); /* a comma, or what nobody knows */
        } else if (rest.len > 0 && rest.ptr[0] == '=') {
            rest = str_skip(rest, 1);
            struct tidings_str value = cut_value(&rest);
            if (is_wanted) {
                keep_parameter(ret, word, value);
            }
        } else if (is_wanted) {
            return true; /* the next scheme */
        } else {
            is_wanted = str_eq_nocase(word, scheme);
        }
    }
    return is_wanted;
}

/* `quoted` without its backslashes, behind `before`; at most `max` bytes of it. */
static void put_plain(struct buf *out, const char *before, struct tidings_str quoted, size_t max)
{
    if (quoted.len > 0) {
        buf_puts(out, tidings_str(before));
    }
    for (size_t i = 0, n = 0; i < quoted.len && n < max; i++, n++) {
        i += quoted.ptr[i] == '\\' && i + 1 < quoted.len ? 1 : 0;
        char c = quoted.ptr[i];
        buf_putc(out, c < ' ' || c > '~' ? '?' : c);
    }
}

int bearer_refused(long status, struct tidings_str field, struct tidings_error *err)
{
    struct bearer_challenge c;
    struct buf text;
    buf_init(&text, 1024);
    if (bearer_read_challenge(field, &c)) {
        /* Half a URL is worth nothing, so it comes first. */
        bool is_url = c.metadata.len <= 120 && (str_starts(c.metadata, STR("https://")) ||
                                                str_starts(c.metadata, STR("http://")));
        put_plain(&text, "; see ", is_url ? c.metadata : STR_EMPTY, 120);
        put_plain(&text, "; scope wanted: ", c.scope, 80);
        put_plain(&text, "; ", c.description.len > 0 ? c.description : c.error, 80);
    }
    tidings_fail(err, TIDINGS_E_DENIED, "%s (HTTP %ld)%.*s",
                 status == 401 ? "the server wants a good token" : "the server denies access",
                 status, STR_ARG(buf_str(&text)));
    buf_deinit(&text);
    return TIDINGS_E_DENIED;
}

bool bearer_is_scope(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~' || s.ptr[i] == '"' || s.ptr[i] == '\\') {
            return false;
        }
    }
    return s.len > 0;
}
