/* SPDX-License-Identifier: MIT
 *
 * Writes and signs JWTs.
 */
#include "oauth/assertion.h"

#include "base/clock.h"
#include "base/sha256.h"
#include "json/write.h"

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
