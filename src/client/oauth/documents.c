/* SPDX-License-Identifier: MIT
 *
 * Reads the two documents of discovery.
 */
#include "client/oauth/documents.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "formats/http_fields.h"
#include "formats/json_write.h"
#include "formats/url.h"

/* -------------------------------------------------------------------------------------------------
 * Writes and signs JWTs.
 */

#define ASSERTION_S 60
#define JWT_MAX 16384u

int random_text(char out[RANDOM_TEXT_MAX])
{
    unsigned char bytes[32];
    struct buf text;
    int rc = random_bytes(bytes, sizeof(bytes));
    buf_init_secret(&text, RANDOM_TEXT_MAX);
    if (rc == 0) {
        rc = base64url_put(&text, tidings_strn((const char *)bytes, sizeof(bytes)));
    }
    if (rc == 0) {
        memcpy(out, text.ptr, text.len + 1);
    }
    explicit_bzero(bytes, sizeof(bytes));
    buf_deinit(&text);
    return rc;
}

static int assertion_put_digest(struct buf *out, struct tidings_str text)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    sha256_put(&s, text.ptr, text.len);
    sha256_end(&s, digest);
    return base64url_put(out, tidings_strn((const char *)digest, sizeof(digest)));
}

int pkce_put_challenge(struct buf *out, const char *verifier)
{
    return assertion_put_digest(out, tidings_str(verifier));
}

/* header.payload.signature */
static int assertion_sign(struct buf *out, const struct private_key *key, const struct buf *header,
                          const struct buf *payload)
{
    struct buf text, signature;
    buf_init(&text, JWT_MAX);
    buf_init(&signature, JWT_MAX);
    base64url_put(&text, buf_str(header));
    buf_putc(&text, '.');
    base64url_put(&text, buf_str(payload));
    int rc = header->failed    ? header->failed
             : payload->failed ? payload->failed
             : text.failed     ? text.failed
                               : private_key_sign(key, buf_str(&text), &signature);
    if (rc == 0) {
        buf_puts(out, buf_str(&text));
        buf_putc(out, '.');
        rc = base64url_put(out, buf_str(&signature));
    }
    buf_deinit(&text);
    buf_deinit(&signature);
    return rc < 0 ? rc : out->failed;
}

/* {"alg":…,"typ":… */
static void assertion_begin(struct jw *w, struct buf *out, const struct private_key *key,
                            const char *type)
{
    jw_init(w, out);
    jw_begin_object(w);
    jw_put_string(w, STR("alg"), tidings_str(private_key_algorithm(key)));
    jw_put_string(w, STR("typ"), tidings_str(type));
}

int assertion_put(struct buf *out, const struct private_key *key, const char *client_id,
                  const char *audience)
{
    struct buf header, payload;
    struct jw w;
    char id[RANDOM_TEXT_MAX];
    int64_t now = clock_wall_ms() / 1000;
    if (random_text(id) < 0) {
        return TIDINGS_E_IO;
    }
    buf_init(&header, JWT_MAX);
    buf_init(&payload, JWT_MAX);
    assertion_begin(&w, &header, key, "JWT");
    jw_end_object(&w);
    jw_init(&w, &payload);
    jw_begin_object(&w);
    jw_put_string(&w, STR("iss"), tidings_str(client_id));
    jw_put_string(&w, STR("sub"), tidings_str(client_id));
    jw_put_string(&w, STR("aud"), tidings_str(audience));
    jw_put_string(&w, STR("jti"), tidings_str(id));
    jw_put_integer(&w, STR("iat"), now);
    jw_put_integer(&w, STR("exp"), now + ASSERTION_S);
    jw_end_object(&w);
    int rc = assertion_sign(out, key, &header, &payload);
    buf_deinit(&header);
    buf_deinit(&payload);
    return rc;
}

int proof_put(struct buf *out, const struct private_key *key, const struct proof *proof)
{
    struct buf header, payload, jwk, digest;
    struct jw w;
    char id[RANDOM_TEXT_MAX];
    if (random_text(id) < 0) {
        return TIDINGS_E_IO;
    }
    buf_init(&header, JWT_MAX);
    buf_init(&payload, JWT_MAX);
    buf_init(&jwk, JWT_MAX);
    buf_init(&digest, JWT_MAX);
    int rc = private_key_put_jwk(key, &jwk);
    assertion_begin(&w, &header, key, "dpop+jwt");
    jw_put_raw(&w, STR("jwk"), rc == 0 ? buf_str(&jwk) : STR("null"));
    jw_end_object(&w);
    jw_init(&w, &payload);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jti"), tidings_str(id));
    jw_put_string(&w, STR("htm"), tidings_str(proof->method));
    jw_put_string(&w, STR("htu"), tidings_strn(proof->url, strcspn(proof->url, "?#")));
    jw_put_integer(&w, STR("iat"), clock_wall_ms() / 1000);
    if (proof->token) {
        assertion_put_digest(&digest, tidings_str(proof->token));
        jw_put_string(&w, STR("ath"), buf_str(&digest));
    }
    if (proof->nonce && proof->nonce[0]) {
        jw_put_string(&w, STR("nonce"), tidings_str(proof->nonce));
    }
    jw_end_object(&w);
    rc = rc < 0 ? rc : digest.failed ? digest.failed : assertion_sign(out, key, &header, &payload);
    buf_deinit(&header);
    buf_deinit(&payload);
    buf_deinit(&jwk);
    buf_deinit(&digest);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Scopes by their words, of which there are few.
 */

static bool scope_has_word(struct tidings_str all, struct tidings_str word)
{
    while (all.len > 0) {
        if (str_eq(str_cut(all, ' ', &all, NULL), word)) {
            return true;
        }
    }
    return false;
}

bool scope_has(struct tidings_str all, struct tidings_str part)
{
    while (part.len > 0) {
        struct tidings_str word = str_cut(part, ' ', &part, NULL);
        if (word.len > 0 && !scope_has_word(all, word)) {
            return false;
        }
    }
    return true;
}

void scope_add(struct buf *all, struct tidings_str more)
{
    while (more.len > 0) {
        struct tidings_str word = str_cut(more, ' ', &more, NULL);
        if (bearer_is_scope(word) && !scope_has_word(buf_str(all), word)) {
            buf_puts(all, all->len > 0 ? STR(" ") : STR_EMPTY);
            buf_puts(all, word);
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * Reads members of untrusted JSON documents.
 */

int document_read(struct tidings_str text, const char *what, struct json **ret,
                  struct tidings_error *err)
{
    struct json *root = NULL;
    int rc = text.len > DOCUMENT_MAX
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "larger than %u bytes", DOCUMENT_MAX)
                 : jv_parse(text, 32, &root, err);
    if (rc < 0) {
        return error_wrap(err, rc, "%s", what);
    }
    if (!jv_is(root, JV_OBJECT)) {
        jv_unref(root);
        return tidings_fail(err, TIDINGS_E_PARSE, "%s is not a JSON object", what);
    }
    *ret = root;
    return 0;
}

int document_text(const struct json *document, const char *name, size_t max, char **ret,
                  struct tidings_error *err)
{
    struct json *member = jv_get(document, name);
    struct tidings_str text = jv_str(member);
    *ret = NULL;
    if (!member || jv_is(member, JV_NULL)) {
        return 0;
    }
    bool is_fit = jv_is(member, JV_STRING) && text.len <= max;
    for (size_t i = 0; is_fit && i < text.len; i++) {
        is_fit = text.ptr[i] >= ' ' && text.ptr[i] <= '~';
    }
    if (!is_fit) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "'%s' is not a string of visible characters, at most %zu", name, max);
    }
    *ret = str_dup(text);
    return *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int document_url(const struct json *document, const char *name, char **ret,
                 struct tidings_error *err)
{
    struct url u;
    char shown[120];
    int rc = document_text(document, name, URL_MAX, ret, err);
    if (rc < 0 || !*ret) {
        return rc;
    }
    if (!url_read(tidings_str(*ret), &u) || !url_is_safe(&u)) {
        tidings_fail(err, TIDINGS_E_DENIED,
                     "'%s' is '%s': only https is used, and http on this very machine", name,
                     document_shown(tidings_str(*ret), shown, sizeof(shown)));
        mem_free(*ret);
        *ret = NULL;
        return TIDINGS_E_DENIED;
    }
    return 0;
}

/* Returns true if the array member contains `text`. */
static bool document_lists(const struct json *document, const char *name, const char *text)
{
    struct json *list = jv_get(document, name);
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), tidings_str(text))) {
            return true;
        }
    }
    return false;
}

/* The strings of that array that may be scopes, with blanks between; NULL: it is absent. */
static int document_scopes(const struct json *document, const char *name, char **ret)
{
    struct json *list = jv_get(document, name);
    struct buf all;
    size_t bytes = 0;
    *ret = NULL;
    if (!jv_is(list, JV_ARRAY)) {
        return 0;
    }
    buf_init(&all, SCOPE_MAX);
    buf_put(&all, "", 0);
    for (size_t i = 0; i < jv_count(list) && !all.failed && bytes <= SCOPES_MAX; i++) {
        struct tidings_str words = jv_str(jv_at(list, i));
        bytes += words.len;
        scope_add(&all, bytes <= SCOPES_MAX ? words : STR_EMPTY); /* each is compared with all */
    }
    int rc = bytes > SCOPES_MAX ? TIDINGS_E_LIMIT : all.failed;
    *ret = rc == 0 ? buf_detach(&all, NULL) : NULL;
    buf_deinit(&all);
    return rc;
}

const char *document_shown(struct tidings_str text, char *out, size_t size)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = text.ptr[i] >= ' ' && text.ptr[i] <= '~' ? text.ptr[i] : '?';
    }
    out[n] = '\0';
    return out;
}

/* -------------------------------------------------------------------------------------------------
 * Writes and reads the messages of a registration.
 */

static const struct {
    const char *name;
    unsigned bit;
} registration_methods[] = {
    {"none", CLIENT_AUTH_NONE},
    {"client_secret_basic", CLIENT_AUTH_BASIC},
    {"client_secret_post", CLIENT_AUTH_POST},
    {"private_key_jwt", CLIENT_AUTH_KEY},
};

unsigned client_auth_find(struct tidings_str name)
{
    for (size_t i = 0; i < sizeof(registration_methods) / sizeof(registration_methods[0]); i++) {
        if (str_eq(name, tidings_str(registration_methods[i].name))) {
            return registration_methods[i].bit;
        }
    }
    return 0;
}

const char *client_auth_name(unsigned bit)
{
    for (size_t i = 0; i < sizeof(registration_methods) / sizeof(registration_methods[0]); i++) {
        if (registration_methods[i].bit == bit) {
            return registration_methods[i].name;
        }
    }
    return NULL;
}

int registration_put(struct buf *out, const struct registration_request *r)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("client_name"), tidings_str(r->client_name));
    jw_put_string(&w, STR("application_type"), STR("native"));
    if (r->redirect_uri) {
        jw_key(&w, STR("redirect_uris"));
        jw_begin_array(&w);
        jw_string(&w, tidings_str(r->redirect_uri));
        jw_end_array(&w);
        jw_put_raw(&w, STR("response_types"), STR("[\"code\"]"));
    }
    jw_key(&w, STR("grant_types"));
    jw_begin_array(&w);
    jw_string(&w, tidings_str(r->grant));
    jw_string(&w, STR("refresh_token"));
    jw_end_array(&w);
    jw_put_string(&w, STR("token_endpoint_auth_method"), tidings_str(client_auth_name(r->method)));
    jw_end_object(&w);
    return out->failed;
}

int registration_read(long status, struct tidings_str text, struct registration *ret,
                      struct tidings_error *err)
{
    struct registration r = {0};
    struct json *root = NULL;
    struct tidings_error unread = {0};
    char code[64], why[160];
    int rc = document_read(text, "the answer to the registration", &root, &unread);
    if (status != 200 && status != 201) {
        document_shown(jv_str(jv_get(root, "error")), code, sizeof(code));
        document_shown(jv_str(jv_get(root, "error_description")), why, sizeof(why));
        jv_unref_secret(root);
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the authorization server registers no client (HTTP %ld%s%s%s%s)",
                            status, code[0] ? ", " : "", code, why[0] ? ": " : "", why);
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", unread.text);
    }
    rc = document_text(root, "client_id", TOKEN_TEXT_MAX, &r.client_id, err);
    if (rc == 0 && (!r.client_id || !r.client_id[0])) {
        rc =
            tidings_fail(err, TIDINGS_E_PARSE, "the registration was answered without a client id");
    }
    if (rc == 0) {
        rc = document_text(root, "client_secret", TOKEN_TEXT_MAX, &r.client_secret, err);
    }
    r.method = client_auth_find(jv_str(jv_get(root, "token_endpoint_auth_method")));
    jv_unref_secret(root);
    if (rc < 0) {
        registration_deinit(&r);
        return rc;
    }
    *ret = r;
    return 0;
}

void registration_deinit(struct registration *r)
{
    mem_free(r->client_id);
    str_free_secret(r->client_secret);
    *r = (struct registration){0};
}

/* -------------------------------------------------------------------------------------------------
 * Reads answers of token endpoints, and keeps tokens in memory that is wiped.
 */

#define EXPIRES_MAX (INT64_C(10) * 365 * 86400)

void token_deinit(struct token *t)
{
    mem_free(t->resource);
    mem_free(t->issuer);
    mem_free(t->token_endpoint);
    mem_free(t->revocation_endpoint);
    mem_free(t->client_id);
    str_free_secret(t->client_secret);
    str_free_secret(t->access);
    str_free_secret(t->refresh);
    mem_free(t->scope);
    str_free_secret(t->key);
    *t = (struct token){0};
}

static bool token_take(char **to, const char *from)
{
    *to = from ? str_dup(tidings_str(from)) : NULL;
    return !from || *to;
}

int token_copy(struct token *to, const struct token *from)
{
    struct token t = {.client_auth = from->client_auth,
                      .expires_ms = from->expires_ms,
                      .life_ms = from->life_ms,
                      .is_bound = from->is_bound};
    bool ok = token_take(&t.resource, from->resource) && token_take(&t.issuer, from->issuer) &&
              token_take(&t.token_endpoint, from->token_endpoint) &&
              token_take(&t.revocation_endpoint, from->revocation_endpoint) &&
              token_take(&t.client_id, from->client_id) &&
              token_take(&t.client_secret, from->client_secret) &&
              token_take(&t.access, from->access) && token_take(&t.refresh, from->refresh) &&
              token_take(&t.scope, from->scope) && token_take(&t.key, from->key);
    if (!ok) {
        token_deinit(&t);
        return TIDINGS_E_NOMEM;
    }
    *to = t;
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A string that a header can contain: visible, without blanks. */
static int token_read_secret(const struct json *root, const char *name, char **ret,
                             struct tidings_error *err)
{
    int rc = document_text(root, name, TOKEN_TEXT_MAX, ret, err);
    if (rc == 0 && *ret && (strchr(*ret, ' ') || !**ret)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "'%s' is empty or has blanks in it", name);
    }
    return rc;
}

static int token_read_type(const struct json *root, bool is_assertion, struct token_answer *a,
                           struct tidings_error *err)
{
    char shown[40];
    struct tidings_str type = jv_str(jv_get(root, "token_type"));
    struct tidings_str issued = jv_str(jv_get(root, "issued_token_type"));
    if (is_assertion) {
        return str_eq(issued, STR("urn:ietf:params:oauth:token-type:id-jag"))
                   ? 0
                   : tidings_fail(err, TIDINGS_E_PARSE,
                                  "the identity provider issued no assertion of type id-jag");
    }
    a->is_bound = str_eq_nocase(type, STR("DPoP"));
    if (!a->is_bound && !str_eq_nocase(type, STR("Bearer"))) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "tokens of type '%s' are not known (accepted: Bearer, DPoP)",
                            document_shown(type, shown, sizeof(shown)));
    }
    return 0;
}

static void token_read_expiry(const struct json *root, struct token_answer *a)
{
    struct json *expires = jv_get(root, "expires_in");
    uint64_t seconds = 0;
    a->expires_s = -1;
    if (jv_is_number(expires) && jv_real(expires) >= 0) {
        a->expires_s =
            jv_real(expires) < (double)EXPIRES_MAX ? (int64_t)jv_real(expires) : EXPIRES_MAX;
    } else if (str_to_u64(jv_str(expires), &seconds)) { /* some servers write it as a string */
        a->expires_s = seconds < (uint64_t)EXPIRES_MAX ? (int64_t)seconds : EXPIRES_MAX;
    }
}

static int token_refused(long status, const struct json *root, struct token_answer *a,
                         struct tidings_error *err)
{
    char code[64], why[160];
    struct tidings_str error = jv_str(jv_get(root, "error"));
    struct tidings_str description = jv_str(jv_get(root, "error_description"));
    document_shown(error, code, sizeof(code));
    document_shown(description, why, sizeof(why));
    snprintf(a->error, sizeof(a->error), "%s", code);
    return tidings_fail(err, TIDINGS_E_DENIED,
                        "the authorization server gives no token (HTTP %ld%s%s%s%s)", status,
                        code[0] ? ", " : "", code, why[0] ? ": " : "", why);
}

int token_answer_read(long status, struct tidings_str text, bool is_assertion,
                      struct token_answer *ret, struct tidings_error *err)
{
    struct token_answer a = {.expires_s = -1};
    struct json *root = NULL;
    struct tidings_error unread = {0};
    *ret = a;
    int rc = document_read(text, "the answer of the token endpoint", &root, &unread);
    if (status != 200) {
        int code = status == 429 || status >= 500 ? TIDINGS_E_BUSY : TIDINGS_E_DENIED;
        token_refused(status, root, ret, err);
        jv_unref_secret(root);
        return code == TIDINGS_E_BUSY ? error_wrap(err, code, "try again later") : code;
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", unread.text);
    }
    rc = token_read_secret(root, "access_token", &a.access, err);
    if (rc == 0 && !a.access) {
        rc = jv_get(root, "error") ? token_refused(status, root, ret, err)
                                   : tidings_fail(err, TIDINGS_E_PARSE,
                                                  "the token endpoint answered without a token");
    }
    if (rc == 0) {
        rc = token_read_type(root, is_assertion, &a, err);
    }
    if (rc == 0) {
        rc = token_read_secret(root, "refresh_token", &a.refresh, err);
    }
    if (rc == 0) {
        rc = document_text(root, "scope", SCOPE_MAX, &a.scope, err);
    }
    token_read_expiry(root, &a);
    jv_unref_secret(root);
    if (rc < 0) {
        token_answer_deinit(&a);
        return rc;
    }
    *ret = a;
    return 0;
}

void token_answer_deinit(struct token_answer *a)
{
    str_free_secret(a->access);
    str_free_secret(a->refresh);
    mem_free(a->scope);
    *a = (struct token_answer){0};
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- the resource ---------------------------------------------------------------------------- */

static int metadata_check_resource(const char *resource, const char *server,
                                   struct tidings_error *err)
{
    struct url named, asked;
    char shown[160];
    if (resource && url_read(tidings_str(resource), &named) &&
        url_read(tidings_str(server), &asked) && url_covers(&named, &asked)) {
        return 0;
    }
    return tidings_fail(
        err, TIDINGS_E_DENIED,
        "the metadata of '%.120s' is that of another resource: '%s'; no token is "
        "asked for",
        server, document_shown(tidings_str(resource ? resource : ""), shown, sizeof(shown)));
}

/* The wanted issuer is not among them: lists those that are, for the person who has to choose. */
static int metadata_say_issuers(const struct json *document, const char *wanted,
                                struct tidings_error *err)
{
    struct json *list = jv_get(document, "authorization_servers");
    struct buf all;
    char shown[80];
    buf_init(&all, 320);
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list) && !all.failed; i++) {
        document_shown(jv_str(jv_at(list, i)), shown, sizeof(shown));
        buf_putf(&all, "%s'%s'", i > 0 ? ", " : "", shown); /* as many as there is room for */
    }
    int rc =
        tidings_fail(err, TIDINGS_E_DENIED, "the server takes no tokens of '%.90s', it names %s",
                     wanted, all.len > 0 ? all.ptr : "nobody");
    buf_deinit(&all);
    return rc;
}

/* Chooses the preferred issuer if present, else the first permitted one. */
static int metadata_choose_issuer(const struct json *document, const struct issuer_choice *choice,
                                  char **ret, struct tidings_error *err)
{
    struct json *list = jv_get(document, "authorization_servers");
    struct tidings_str chosen = STR_EMPTY;
    struct url u;
    const char *preferred = choice->only ? choice->only : choice->preferred;
    if (preferred && document_lists(document, "authorization_servers", preferred)) {
        chosen = tidings_str(preferred);
    } else if (choice->only) {
        return metadata_say_issuers(document, choice->only, err);
    }
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list) && chosen.len == 0; i++) {
        struct tidings_str issuer = jv_str(jv_at(list, i));
        chosen = url_read(issuer, &u) && url_is_safe(&u) ? issuer : chosen;
    }
    if (chosen.len == 0) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the server's metadata names no authorization server by https");
    }
    *ret = str_dup(chosen);
    return *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int resource_metadata_read(struct tidings_str text, const char *server,
                           const struct issuer_choice *choice, struct resource_metadata *ret,
                           struct tidings_error *err)
{
    struct resource_metadata m = {0};
    struct json *root = NULL;
    int rc = document_read(text, "the metadata of the resource", &root, err);
    if (rc == 0) {
        rc = document_text(root, "resource", URL_MAX, &m.resource, err);
    }
    if (rc == 0) {
        rc = metadata_check_resource(m.resource, server, err);
    }
    if (rc == 0) {
        rc = metadata_choose_issuer(root, choice, &m.issuer, err);
    }
    if (rc == 0 && (rc = document_scopes(root, "scopes_supported", &m.scopes)) < 0) {
        tidings_fail(err, rc, "the server's metadata names too many scopes");
    }
    m.wants_proof = jv_is_true(jv_get(root, "dpop_bound_access_tokens_required"));
    jv_unref(root);
    if (rc < 0) {
        resource_metadata_deinit(&m);
        return rc;
    }
    *ret = m;
    return 0;
}

void resource_metadata_deinit(struct resource_metadata *m)
{
    mem_free(m->resource);
    mem_free(m->issuer);
    mem_free(m->scopes);
    *m = (struct resource_metadata){0};
}

/* ---- the authorization server ---------------------------------------------------------------- */

static unsigned metadata_auth_methods(const struct json *document)
{
    static const struct {
        const char *name;
        enum client_auth bit;
    } known[] = {
        {"none", CLIENT_AUTH_NONE},
        {"client_secret_basic", CLIENT_AUTH_BASIC},
        {"client_secret_post", CLIENT_AUTH_POST},
        {"private_key_jwt", CLIENT_AUTH_KEY},
    };
    unsigned all = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool is_there =
            document_lists(document, "token_endpoint_auth_methods_supported", known[i].name);
        all |= is_there ? known[i].bit : 0u;
    }
    return all;
}

static int metadata_check_issuer(const struct json *document, const char *issuer,
                                 struct tidings_error *err)
{
    char shown[160];
    struct tidings_str named = jv_str(jv_get(document, "issuer"));
    if (str_eq(named, tidings_str(issuer))) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_DENIED,
                        "the metadata of the authorization server '%.120s' is that of '%s': it is "
                        "not used",
                        issuer, document_shown(named, shown, sizeof(shown)));
}

static int metadata_read_endpoints(const struct json *document, struct server_metadata *m,
                                   struct tidings_error *err)
{
    const struct {
        const char *name;
        char **at;
    } endpoints[] = {
        {"authorization_endpoint", &m->authorization_endpoint},
        {"token_endpoint", &m->token_endpoint},
        {"registration_endpoint", &m->registration_endpoint},
        {"device_authorization_endpoint", &m->device_endpoint},
        {"revocation_endpoint", &m->revocation_endpoint},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]) && rc == 0; i++) {
        rc = document_url(document, endpoints[i].name, endpoints[i].at, err);
    }
    if (rc == 0 && !m->token_endpoint) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the authorization server names no token endpoint");
    }
    return rc;
}

int server_metadata_read(struct tidings_str text, const char *issuer, struct server_metadata *ret,
                         struct tidings_error *err)
{
    struct server_metadata m = {0};
    struct json *root = NULL;
    int rc = document_read(text, "the metadata of the authorization server", &root, err);
    if (rc == 0) {
        rc = metadata_check_issuer(root, issuer, err);
    }
    if (rc == 0) {
        rc = metadata_read_endpoints(root, &m, err);
    }
    if (rc == 0 && (rc = document_scopes(root, "scopes_supported", &m.scopes)) < 0) {
        tidings_fail(err, rc, "the authorization server names too many scopes");
    }
    if (rc == 0 && !(m.issuer = str_dup(tidings_str(issuer)))) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m.auth_methods = metadata_auth_methods(root);
    m.has_s256 = document_lists(root, "code_challenge_methods_supported", "S256");
    m.sends_issuer = jv_is_true(jv_get(root, "authorization_response_iss_parameter_supported"));
    m.takes_client_urls = jv_is_true(jv_get(root, "client_id_metadata_document_supported"));
    m.takes_proofs = document_lists(root, "dpop_signing_alg_values_supported", "ES256");
    m.lists_grants = jv_is(jv_get(root, "grant_types_supported"), JV_ARRAY);
    m.has_client_grant = document_lists(root, "grant_types_supported", "client_credentials");
    m.has_assertion_grant = document_lists(root, "grant_types_supported",
                                           "urn:ietf:params:oauth:grant-type:jwt-bearer");
    jv_unref(root);
    if (rc < 0) {
        server_metadata_deinit(&m);
        return rc;
    }
    *ret = m;
    return 0;
}

static char *metadata_join(struct tidings_str origin, const char *path)
{
    struct buf out;
    buf_init(&out, URL_MAX);
    buf_puts(&out, origin);
    buf_puts(&out, tidings_str(path));
    char *text = out.failed ? NULL : buf_detach(&out, NULL);
    buf_deinit(&out);
    return text;
}

int server_metadata_guess(struct tidings_str origin, struct server_metadata *ret,
                          struct tidings_error *err)
{
    struct server_metadata m = {
        .issuer = str_dup(origin),
        .authorization_endpoint = metadata_join(origin, "/authorize"),
        .token_endpoint = metadata_join(origin, "/token"),
        .registration_endpoint = metadata_join(origin, "/register"),
        .has_s256 = true, /* that revision demands it */
    };
    if (!m.issuer || !m.authorization_endpoint || !m.token_endpoint || !m.registration_endpoint) {
        server_metadata_deinit(&m);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *ret = m;
    return 0;
}

void server_metadata_deinit(struct server_metadata *m)
{
    mem_free(m->issuer);
    mem_free(m->authorization_endpoint);
    mem_free(m->token_endpoint);
    mem_free(m->registration_endpoint);
    mem_free(m->device_endpoint);
    mem_free(m->revocation_endpoint);
    mem_free(m->scopes);
    *m = (struct server_metadata){0};
}
