/* SPDX-License-Identifier: MIT
 *
 * Checks DPoP proofs, issues nonces, and remembers used proofs.
 */
#include "security/dpop.h"

#include <stdatomic.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "formats/json_write.h"
#include "security/jwt.h"

#define DPOP_AGE_MS 60000
#define DPOP_ID_MAX 256u
#define DPOP_NONCE_MS 150000 /* the present and the previous one are valid */
#define DPOP_SLOTS (1u << 20)
#define DPOP_PROBES 32u
#define DPOP_TRIES 8u
#define DPOP_TIME_BITS 24u /* the seconds in an entry; the bits above identify the proof */
#define DPOP_TIME_MASK ((UINT64_C(1) << DPOP_TIME_BITS) - 1)
#define DPOP_LIVE_S (2 * DPOP_AGE_MS / 1000 + 2) /* maximum time until a proof expires */
#define DPOP_SHARES 1024u                        /* of principals, by the hash of their names */
#define DPOP_SHARE_MS 128000                     /* at least as long as a proof is remembered */
#define DPOP_PATH "/mcp"                         /* this server's own path of the resource */

typedef _Atomic uint64_t dpop_slot; /* 0: free */

struct dpop {
    enum dpop_mode mode;
    unsigned char secret[32];
    _Atomic(dpop_slot *) used;             /* NULL: no proof arrived yet */
    _Atomic uint64_t shares[DPOP_SHARES];  /* the time in DPOP_SHARE_MS << 32, proofs used in it */
    struct tidings_str origin, path, base; /* in `text`; `base`: prefix of each own path */
    char text[];
};

int dpop_create(struct dpop **ret, struct tidings_str origin, struct tidings_str path,
                enum dpop_mode mode, struct tidings_error *err)
{
    struct dpop *d = mem_zalloc(sizeof(*d) + origin.len + path.len + 2);
    if (!d) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (random_bytes(d->secret, sizeof(d->secret)) < 0) {
        mem_free(d);
        return tidings_fail(err, TIDINGS_E_IO, "there is no randomness");
    }
    char *at = d->text;
    d->mode = mode;
    d->origin = str_pack(&at, origin);
    d->path = d->base = str_pack(&at, path);
    d->base.len -= str_ends(path, STR(DPOP_PATH)) ? sizeof(DPOP_PATH) - 1 : path.len;
    *ret = d;
    return 0;
}

void dpop_destroy(struct dpop *d)
{
    if (d) {
        mem_free(atomic_load(&d->used));
        mem_free_secret(d, sizeof(*d));
    }
}

bool dpop_is_required(const struct dpop *d)
{
    return d->mode != DPOP_ACCEPT;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void dpop_put_digest(const void *bytes, size_t len, char out[DPOP_KEY_TEXT])
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    struct buf text;
    sha256_init(&hash);
    sha256_put(&hash, bytes, len);
    sha256_end(&hash, digest);
    buf_init(&text, DPOP_KEY_TEXT);
    bool ok = base64url_put(&text, tidings_strn((const char *)digest, sizeof(digest))) == 0;
    memcpy(out, ok ? text.ptr : "", ok ? text.len + 1 : 1);
    buf_deinit(&text);
}

/* RFC 7638: the required members in the order of their names. The key was parsed, so they are
 * valid. */
static void dpop_put_thumbprint(const struct json *jwk, char out[DPOP_KEY_TEXT])
{
    static const char *const names[] = {"crv", "e", "kty", "n", "x", "y"};
    bool is_rsa = str_eq(jv_str(jv_get(jwk, "kty")), STR("RSA"));
    bool is_ec = str_eq(jv_str(jv_get(jwk, "kty")), STR("EC"));
    struct buf text;
    struct jw w;
    buf_init(&text, 2 * DPOP_PROOF_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char n = names[i][0];
        bool is_part = names[i][1] == 't' ||
                       (is_rsa ? n == 'e' || n == 'n' : n == 'c' || n == 'x') ||
                       (is_ec && n == 'y');
        if (is_part) {
            jw_put_string(&w, tidings_str(names[i]), jv_str(jv_get(jwk, names[i])));
        }
    }
    jw_end_object(&w);
    out[0] = '\0';
    if (!text.failed) {
        dpop_put_digest(text.ptr, text.len, out);
    }
    buf_deinit(&text);
}

const char *dpop_read_binding(const struct json *claims, char out[DPOP_KEY_TEXT])
{
    const struct json *cnf = jv_get(claims, "cnf");
    struct tidings_str key = jv_str(jv_get(cnf, "jkt"));
    out[0] = '\0';
    if (!cnf) {
        return NULL;
    }
    /* RFC 7800: reject a confirmation that this server cannot check. */
    if (!jv_is(cnf, JV_OBJECT) || jv_count(cnf) != 1 || key.len != DPOP_KEY_TEXT - 1) {
        return "the token is bound to something else than a key by its jkt";
    }
    memcpy(out, key.ptr, key.len);
    out[key.len] = '\0';
    return NULL;
}

/* ---- nonces ---------------------------------------------------------------------------------- */

static void dpop_make_nonce(const struct dpop *d, int64_t period, char out[DPOP_NONCE_TEXT])
{
    unsigned char digest[SHA256_BYTES];
    struct hmac256 h;
    hmac256_init(&h, d->secret, sizeof(d->secret));
    hmac256_put(&h, &period, sizeof(period));
    hmac256_end(&h, digest);
    dpop_put_digest(digest, sizeof(digest), out);
}

bool dpop_put_nonce(const struct dpop *d, int64_t now_ms, char out[DPOP_NONCE_TEXT])
{
    if (d->mode == DPOP_NONCE) {
        dpop_make_nonce(d, now_ms / DPOP_NONCE_MS, out);
    }
    return d->mode == DPOP_NONCE;
}

static bool dpop_is_nonce(const struct dpop *d, struct tidings_str given, int64_t now_ms)
{
    char known[DPOP_NONCE_TEXT];
    for (int64_t before = 0; before < 2; before++) {
        dpop_make_nonce(d, now_ms / DPOP_NONCE_MS - before, known);
        if (known[0] && str_eq(given, tidings_str(known))) {
            return true;
        }
    }
    return false;
}

/* ---- the proof ------------------------------------------------------------------------------- */

/* The origin without a default port. */
static struct tidings_str dpop_plain_origin(struct tidings_str origin)
{
    bool is_secure = origin.len > 8 && str_eq_nocase(tidings_strn(origin.ptr, 8), STR("https://"));
    struct tidings_str port = is_secure ? STR(":443") : STR(":80");
    if (str_ends(origin, port)) {
        origin.len -= port.len;
    }
    return origin;
}

/* The path of a request, either unchanged or as clients see it behind a proxy that serves this
 * server below another path: with the prefix of the resource address, or all of that address. */
static bool dpop_is_path(const struct dpop *d, struct tidings_str named, struct tidings_str path)
{
    bool is_ours = str_eq(named, path.len > 0 ? path : STR("/"));
    bool is_below = str_starts(named, d->base) && str_eq(str_skip(named, d->base.len), path);
    bool is_resource =
        str_eq(path, STR(DPOP_PATH)) && str_eq(named, d->path.len > 0 ? d->path : STR("/"));
    return is_ours || is_below || is_resource;
}

/* RFC 9449 §4.3: without query and fragment. */
static bool dpop_is_here(const struct dpop *d, struct tidings_str url, struct tidings_str path)
{
    size_t end = 0, slashes = 0, at = 0;
    while (end < url.len && url.ptr[end] != '?' && url.ptr[end] != '#') {
        end++;
    }
    url.len = end;
    while (at < url.len && (url.ptr[at] != '/' || ++slashes < 3)) {
        at++;
    }
    struct tidings_str own = dpop_plain_origin(d->origin);
    struct tidings_str named = at < url.len ? str_skip(url, at) : STR("/");
    return str_eq_nocase(dpop_plain_origin(tidings_strn(url.ptr, at)), own) &&
           dpop_is_path(d, named, path);
}

static const char *dpop_check_claims(const struct dpop *d, const struct json *claims,
                                     const struct dpop_request *r, int64_t now_ms)
{
    const struct json *made = jv_get(claims, "iat");
    struct tidings_str id = jv_str(jv_get(claims, "jti"));
    double age = (double)now_ms - 1000.0 * jv_real(made);
    char digest[DPOP_KEY_TEXT];
    dpop_put_digest(r->token.ptr, r->token.len, digest);
    if (id.len == 0 || id.len > DPOP_ID_MAX) {
        return "the proof has no id (jti) of at most 256 bytes";
    }
    if (!str_eq(jv_str(jv_get(claims, "htm")), r->method)) {
        return "the proof is for another method (htm)";
    }
    if (!dpop_is_here(d, jv_str(jv_get(claims, "htu")), r->path)) {
        return "the proof is for another address (htu)";
    }
    if (!jv_is_number(made) || !(age <= DPOP_AGE_MS && age >= -DPOP_AGE_MS)) {
        return "the proof is too old, or of the future (iat)";
    }
    if (!digest[0] || !str_eq(jv_str(jv_get(claims, "ath")), tidings_str(digest))) {
        return "the proof is for another token (ath)";
    }
    return NULL;
}

static const char *dpop_check_signature(const struct jwt *t, char key[DPOP_KEY_TEXT])
{
    const struct json *jwk = jv_get(t->header, "jwk");
    struct public_key *public = NULL;
    if (jwks_read_public(jwk, &public, NULL) < 0) {
        return "the proof holds no public key that is accepted here (jwk)";
    }
    bool is_good = public_key_fits(public, t->algorithm) &&
                   signature_is_good(public, t->algorithm, t->bytes, buf_str(&t->signature));
    public_key_destroy(public);
    if (!is_good) {
        return "the signature of the proof is wrong";
    }
    dpop_put_thumbprint(jwk, key);
    return key[0] ? NULL : "the key of the proof cannot be named";
}

static uint64_t dpop_id(const char *key, struct tidings_str id)
{
    unsigned char digest[SHA256_BYTES];
    uint64_t n = 0;
    struct sha256 hash;
    sha256_init(&hash);
    sha256_put(&hash, key, DPOP_KEY_TEXT);
    sha256_put(&hash, id.ptr, id.len);
    sha256_end(&hash, digest);
    memcpy(&n, digest, sizeof(n));
    return n;
}

const char *dpop_check(const struct dpop *d, const struct dpop_request *r, int64_t now_ms,
                       struct dpop_proof *ret)
{
    struct jwt t;
    *ret = (struct dpop_proof){.id = 0};
    if (r->proof.len > DPOP_PROOF_MAX) {
        return "the proof is too long";
    }
    if (jwt_parse_as(&t, r->proof, "dpop+jwt")) {
        return "the proof is not a JWT of type dpop+jwt with an accepted algorithm";
    }
    struct dpop_proof proof = {.id = 0};
    const char *why = dpop_check_claims(d, t.claims, r, now_ms);
    why = why ? why : dpop_check_signature(&t, proof.key);
    if (!why) {
        proof.id = dpop_id(proof.key, jv_str(jv_get(t.claims, "jti")));
        proof.until_ms = (int64_t)(1000.0 * jv_real(jv_get(t.claims, "iat"))) + DPOP_AGE_MS;
        proof.wants_nonce =
            d->mode == DPOP_NONCE && !dpop_is_nonce(d, jv_str(jv_get(t.claims, "nonce")), now_ms);
        *ret = proof;
    }
    jwt_deinit(&t);
    return why;
}

/* ---- used proofs ----------------------------------------------------------------------------- */

static dpop_slot *dpop_slots(struct dpop *d)
{
    dpop_slot *slots = atomic_load(&d->used), *none = NULL;
    if (!slots && (slots = mem_zalloc(DPOP_SLOTS * sizeof(*slots))) != NULL &&
        !atomic_compare_exchange_strong(&d->used, &none, slots)) {
        mem_free(slots); /* another thread was faster */
        slots = none;
    }
    return slots;
}

static bool dpop_is_live(uint64_t entry, int64_t now_ms)
{
    uint64_t left = ((entry & DPOP_TIME_MASK) - (uint64_t)(now_ms / 1000)) & DPOP_TIME_MASK;
    return entry != 0 && left <= DPOP_LIVE_S; /* older entries wrap around, after months */
}

/* Finds another slot with the same entry, except `own`; DPOP_PROBES: none. *ret_free: the first
 * free slot. */
static unsigned dpop_find(dpop_slot *slots, uint64_t entry, uint64_t id, int64_t now_ms,
                          unsigned *ret_free)
{
    unsigned found = DPOP_PROBES;
    *ret_free = DPOP_PROBES;
    for (unsigned i = 0; i < DPOP_PROBES; i++) {
        uint64_t there = atomic_load(&slots[(id + i) % DPOP_SLOTS]);
        bool is_live = dpop_is_live(there, now_ms);
        if (is_live && (there | DPOP_TIME_MASK) == (entry | DPOP_TIME_MASK) && found > i) {
            found = i;
        }
        *ret_free = !is_live && *ret_free > i ? i : *ret_free;
    }
    return found;
}

/* One principal must not fill the table for the others: within the time that proofs are remembered,
 * it gets at most two shares. */
static bool dpop_take_share(struct dpop *d, struct tidings_str who, int64_t now_ms)
{
    unsigned char digest[SHA256_BYTES];
    struct hmac256 h;
    uint64_t time = (uint64_t)(now_ms / DPOP_SHARE_MS) << 32;
    hmac256_init(&h, d->secret, sizeof(d->secret));
    hmac256_put(&h, who.ptr, who.len);
    hmac256_end(&h, digest);
    _Atomic uint64_t *share = &d->shares[(digest[0] | (unsigned)digest[1] << 8) % DPOP_SHARES];
    uint64_t before = atomic_load(share), count = 0;
    do {
        count = before >> 32 == time >> 32 ? before & UINT32_MAX : 0;
    } while (count < DPOP_SHARE &&
             !atomic_compare_exchange_weak(share, &before, time | (count + 1)));
    return count < DPOP_SHARE;
}

enum dpop_use dpop_use(struct dpop *d, const struct dpop_proof *proof, struct tidings_str who,
                       int64_t now_ms)
{
    dpop_slot *slots = dpop_slots(d);
    uint64_t until = (uint64_t)(proof->until_ms / 1000 + 1) & DPOP_TIME_MASK;
    uint64_t entry = (proof->id & ~DPOP_TIME_MASK) | until;
    unsigned at = 0, other = 0;
    for (unsigned tries = 0; slots && tries < DPOP_TRIES; tries++) {
        if (dpop_find(slots, entry, proof->id, now_ms, &at) < DPOP_PROBES) {
            return DPOP_USED;
        }
        if (at == DPOP_PROBES || (tries == 0 && !dpop_take_share(d, who, now_ms))) {
            return DPOP_FULL;
        }
        dpop_slot *slot = &slots[(proof->id + at) % DPOP_SLOTS];
        uint64_t before = atomic_load(slot);
        if (dpop_is_live(before, now_ms) || !atomic_compare_exchange_strong(slot, &before, entry)) {
            continue; /* another thread took it */
        }
        /* If another thread adds the same proof at the same time, the first one counts. */
        other = dpop_find(slots, entry, proof->id, now_ms, &(unsigned){0});
        return other < at ? DPOP_USED : DPOP_FRESH;
    }
    return DPOP_FULL;
}
