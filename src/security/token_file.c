/* SPDX-License-Identifier: MIT
 *
 * Parses the token file, and finds tokens in it. Digests are contiguous, so that all of them can be
 * compared in one pass; the rest of a line is used only after a match.
 */
#include "security/token_file.h"

#include "base/encode.h"
#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * Reads the file with the client id and secret. Wipes all buffers that held the secret.
 */

#define CREDENTIALS_MAX 4096u

void credentials_put_encoded(struct buf *out, struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            buf_putc(out, (char)c);
        } else {
            buf_putf(out, "%%%02X", c);
        }
    }
}

struct credentials {
    struct shared_value value;
    char header[];
};

static void credentials_destroy(struct shared_value *value)
{
    struct credentials *c = list_entry(value, struct credentials, value);
    mem_free_secret(c, sizeof(*c) + strlen(c->header));
}

struct shared_value *credentials_value(struct credentials *c)
{
    return &c->value;
}

struct credentials *credentials_of(struct shared_value *value)
{
    return value ? list_entry(value, struct credentials, value) : NULL;
}

const char *credentials_header(const struct credentials *c)
{
    return c->header;
}

static int put_header(struct buf *out, struct tidings_str line, struct tidings_error *err)
{
    struct buf pair;
    struct tidings_str secret;
    bool found = false;
    struct tidings_str id = str_cut(line, ':', &secret, &found);
    if (!found || id.len == 0 || str_find(line, '\n') >= 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "one line 'CLIENT_ID:SECRET' is expected");
    }
    buf_init_secret(&pair, 4 * CREDENTIALS_MAX);
    credentials_put_encoded(&pair, id);
    buf_putc(&pair, ':');
    credentials_put_encoded(&pair, secret);
    buf_puts(out, STR("Authorization: Basic "));
    base64_put(out, buf_str(&pair));
    int failed = pair.failed ? pair.failed : out->failed;
    buf_deinit(&pair);
    return failed ? tidings_fail(err, failed, "out of memory") : 0;
}

int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err)
{
    struct buf text, header;
    struct credentials *c = NULL;
    buf_init_secret(&text, 4 * CREDENTIALS_MAX);
    buf_init_secret(&header, 8 * CREDENTIALS_MAX);
    int rc = whole_file_read(path, CREDENTIALS_MAX, &text, err);
    if (rc == 0) {
        rc = put_header(&header, str_trim(buf_str(&text), "\r\n"), err);
        rc = rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
    }
    if (rc == 0) {
        c = mem_zalloc(sizeof(*c) + header.len + 1);
        rc = c ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (c) {
        c->value = (struct shared_value){CREDENTIALS_KEY, credentials_destroy, 1};
        memcpy(c->header, header.ptr, header.len);
        *ret = c;
    }
    buf_deinit(&text);
    buf_deinit(&header);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define TOKEN_BYTES 32u
#define TOKEN_PREFIX "tdg_" /* lets scanners for leaked secrets recognize a token */

struct line {
    struct tidings_str name, scopes; /* in the text */
};

struct token_file {
    struct shared_value value;
    size_t count;
    unsigned char (*digests)[SHA256_BYTES];
    struct line *lines;
    char *text;
};

static void token_file_destroy(struct shared_value *value)
{
    struct token_file *f = list_entry(value, struct token_file, value);
    mem_free_secret(f->digests, f->count * sizeof(*f->digests));
    mem_free(f->lines);
    str_free_secret(f->text);
    mem_free(f);
}

struct shared_value *token_file_value(struct token_file *f)
{
    return &f->value;
}

struct token_file *token_file_of(struct shared_value *value)
{
    return value ? list_entry(value, struct token_file, value) : NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct tidings_str token_file_next_word(struct tidings_str *rest)
{
    *rest = str_trim(*rest, " \t");
    size_t len = 0;
    while (len < rest->len && rest->ptr[len] != ' ' && rest->ptr[len] != '\t') {
        len++;
    }
    struct tidings_str word = tidings_strn(rest->ptr, len);
    *rest = str_trim(str_skip(*rest, len), " \t");
    return word;
}

static int token_file_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool parse_digest(struct tidings_str hex, unsigned char out[SHA256_BYTES])
{
    if (hex.len != 2 * SHA256_BYTES) {
        return false;
    }
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        int high = token_file_hex_digit(hex.ptr[2 * i]),
            low = token_file_hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Splits words at any blanks. */
static bool token_file_gather_scopes(struct tidings_str text, struct scope_list *scopes)
{
    while (text.len > 0) {
        if (!scope_list_add(scopes, token_file_next_word(&text))) {
            return false;
        }
    }
    return true;
}

static int token_file_reserve_one(struct token_file *f, size_t *cap)
{
    if (f->count < *cap) {
        return 0;
    }
    size_t more = *cap ? *cap * 2 : 16;
    void *digests = mem_realloc(f->digests, more * sizeof(*f->digests));
    if (digests) {
        f->digests = digests;
    }
    void *lines = digests ? mem_realloc(f->lines, more * sizeof(*f->lines)) : NULL;
    if (!lines) {
        return TIDINGS_E_NOMEM;
    }
    f->lines = lines;
    *cap = more;
    return 0;
}

static int token_file_parse_line(struct token_file *f, struct tidings_str text,
                                 struct tidings_error *err)
{
    struct scope_list scopes = {.count = 0};
    struct line *line = &f->lines[f->count];
    unsigned char *digest = f->digests[f->count];
    line->name = token_file_next_word(&text);
    if (!identity_is_name(line->name, TOKEN_FILE_NAME_MAX)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "a line begins with a name of at most %u bytes of UTF-8",
                            TOKEN_FILE_NAME_MAX);
    }
    if (!parse_digest(token_file_next_word(&text), digest)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the name is followed by the SHA-256 of its token, 64 hexadecimal "
                            "digits ('tidings token NAME' makes both)");
    }
    for (size_t i = 0; i < f->count; i++) {
        if (memcmp(f->digests[i], digest, SHA256_BYTES) == 0) {
            return tidings_fail(err, TIDINGS_E_PARSE, "this token is on an earlier line already");
        }
    }
    line->scopes = text;
    if (!token_file_gather_scopes(text, &scopes)) {
        return tidings_fail(
            err, TIDINGS_E_PARSE,
            "scopes must be visible ASCII without quotes and backslashes, at most %u of them",
            AUTH_SCOPES_MAX);
    }
    f->count++;
    return 0;
}

static int parse_lines(struct token_file *f, const char *path, struct tidings_str text,
                       struct tidings_error *err)
{
    size_t cap = 0;
    for (unsigned number = 1; text.len > 0; number++) {
        struct tidings_str line = str_trim(str_cut(text, '\n', &text, NULL), " \t\r");
        if (line.len == 0 || line.ptr[0] == '#') {
            continue;
        }
        int rc = f->count == TOKEN_FILE_LINES
                     ? tidings_fail(err, TIDINGS_E_LIMIT, "more than %u tokens", TOKEN_FILE_LINES)
                     : 0;
        if (rc == 0 && token_file_reserve_one(f, &cap) < 0) {
            rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        if (rc == 0) {
            rc = token_file_parse_line(f, line, err);
        }
        if (rc < 0) {
            return error_wrap(err, rc, "%s:%u", path, number);
        }
    }
    return 0;
}

int token_file_parse(struct token_file **ret, const char *path, struct tidings_str text,
                     struct tidings_error *err)
{
    struct token_file *f = mem_zalloc(sizeof(*f));
    char *copy = f ? str_dup(text) : NULL;
    if (!copy) {
        mem_free(f);
        return tidings_fail(err, TIDINGS_E_NOMEM, "%s: out of memory", path);
    }
    f->value = (struct shared_value){TOKEN_FILE_KEY, token_file_destroy, 1};
    f->text = copy;
    int rc = parse_lines(f, path, tidings_strn(copy, text.len), err);
    if (rc < 0) {
        shared_value_unref(&f->value);
        return rc;
    }
    *ret = f;
    return 0;
}

int token_file_load(struct token_file **ret, const char *path, struct tidings_error *err)
{
    struct buf text;
    buf_init_secret(&text, TOKEN_FILE_MAX + 8192);
    int rc = whole_file_read(path, TOKEN_FILE_MAX, &text, err);
    if (rc == 0) {
        rc = token_file_parse(ret, path, buf_str(&text), err);
    }
    buf_deinit(&text);
    return rc;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* 0 if they are equal; constant time. */
static unsigned token_file_difference(const unsigned char *a, const unsigned char *b)
{
    unsigned all = 0;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        all |= (unsigned)(a[i] ^ b[i]);
    }
    return all;
}

int token_file_find(const struct token_file *f, const unsigned char digest[SHA256_BYTES],
                    struct identity **ret)
{
    size_t found = 0; /* 1 is the first */
    for (size_t i = 0; i < f->count; i++) {
        size_t is_it =
            (size_t)(token_file_difference(f->digests[i], digest) - 1) >> 8 & 1; /* no branch */
        found |= (0 - is_it) & (i + 1);
    }
    *ret = NULL;
    if (found == 0) {
        return 0;
    }
    struct scope_list scopes = {.count = 0};
    const struct line *line = &f->lines[found - 1];
    (void)token_file_gather_scopes(line->scopes, &scopes);
    *ret = identity_create(STR_EMPTY, line->name, &scopes, 0, AUTH_BY_FILE);
    return *ret ? 0 : TIDINGS_E_NOMEM;
}

/* ---- creation -------------------------------------------------------------------------------- */

int token_make(struct tidings_str name, struct tidings_str scopes, struct buf *token,
               struct buf *line, struct tidings_error *err)
{
    unsigned char secret[TOKEN_BYTES], digest[SHA256_BYTES];
    struct scope_list list = {.count = 0};
    struct sha256 hash;
    if (!identity_is_name(name, TOKEN_FILE_NAME_MAX) || str_find(name, ' ') >= 0 ||
        name.ptr[0] == '#') {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a name has no blanks, does not begin with '#', and has at most %u "
                            "bytes",
                            TOKEN_FILE_NAME_MAX);
    }
    if (!scope_list_add_all(&list, scopes)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a scope is visible ASCII without quotes and backslashes, and there "
                            "are at most %u",
                            AUTH_SCOPES_MAX);
    }
    if (random_bytes(secret, sizeof(secret)) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "the system gives no random numbers");
    }
    size_t begin = token->len;
    buf_puts(token, STR(TOKEN_PREFIX));
    base64url_put(token, tidings_strn((const char *)secret, sizeof(secret)));
    if (!token->failed) {
        sha256_init(&hash);
        sha256_put(&hash, token->ptr + begin, token->len - begin);
        sha256_end(&hash, digest);
        buf_puts(line, name);
        buf_putc(line, ' ');
        for (size_t i = 0; i < SHA256_BYTES; i++) {
            buf_putf(line, "%02x", digest[i]);
        }
        for (size_t i = 0; i < list.count; i++) {
            buf_putc(line, ' ');
            buf_puts(line, list.items[i]);
        }
    }
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(&hash, sizeof(hash));
    int failed = token->failed ? token->failed : line->failed;
    return failed ? tidings_fail(err, failed, "out of memory") : 0;
}
