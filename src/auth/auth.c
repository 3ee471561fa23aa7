/* SPDX-License-Identifier: MIT
 *
 * Settings and files. What the files hold is loaded beside what is in effect and then put
 * into the shared map, in one step for each value.
 */
#include "auth/auth.h"

#include "auth/auth_private.h"
#include "auth/introspect.h"
#include "auth/jwks.h"
#include "auth/remote.h"
#include "auth/settings.h"
#include "auth/token_file.h"
#include "base/error.h"
#include "base/mem.h"

struct auth_files {
    struct token_file *tokens;           /* NULL: none configured */
    struct jwks *jwks[AUTH_ISSUERS_MAX]; /* NULL: not from a file */
    struct credentials *credentials;
};

bool auth_is_configured(const struct auth_settings *settings)
{
    return settings->tokens || settings->issuer_count > 0 || settings->introspection;
}

struct claims_rules auth_rules(const struct auth *a, bool needs_expiry)
{
    return (struct claims_rules){
        .audiences = a->audiences,
        .audience_count = a->audience_count,
        .leeway_ms = a->leeway_ms,
        .needs_expiry = needs_expiry,
    };
}

/* ---- files ----------------------------------------------------------------------------------- */

static int replace(void *user, const struct shared_value *old)
{
    (void)user;
    (void)old;
    return SHARED_MAP_REPLACE;
}

int auth_share(struct auth *a, struct shared_value *value)
{
    int rc = shared_map_update(a->shared, value->key, value, replace, NULL);
    return rc < 0 ? rc : 0;
}

void auth_advance(struct auth *a)
{
    __atomic_add_fetch(&a->generation, 1, __ATOMIC_RELEASE);
}

static int load(const struct auth *a, struct auth_files *files, struct tidings_error *err)
{
    int rc = a->tokens ? token_file_load(&files->tokens, a->tokens, err) : 0;
    if (rc < 0) {
        return error_wrap(err, rc, "file of tokens");
    }
    for (size_t i = 0; i < a->issuer_count && rc == 0; i++) {
        const struct issuer *issuer = &a->issuers[i];
        if (!issuer->is_remote) {
            rc = jwks_load(&files->jwks[i], tidings_str(issuer->name), issuer->jwks, err);
        }
    }
    if (rc < 0) {
        return error_wrap(err, rc, "key set");
    }
    rc = a->credentials ? credentials_load(&files->credentials, a->credentials, err) : 0;
    return rc < 0 ? error_wrap(err, rc, "credentials") : 0;
}

int auth_files_load(const struct auth *a, struct auth_files **ret, struct tidings_error *err)
{
    struct auth_files *files = mem_zalloc(sizeof(*files));
    if (!files) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = load(a, files, err);
    if (rc < 0) {
        auth_files_destroy(files);
        return rc;
    }
    *ret = files;
    return 0;
}

/* Fails only when there was nothing in the shared map yet. */
static int put_all(struct auth *a, struct auth_files *files)
{
    int rc = files->tokens ? auth_share(a, token_file_value(files->tokens)) : 0;
    for (size_t i = 0; i < a->issuer_count && rc == 0; i++) {
        rc = files->jwks[i] ? auth_share(a, jwks_value(files->jwks[i])) : 0;
    }
    if (rc == 0 && files->credentials) {
        rc = auth_share(a, credentials_value(files->credentials));
    }
    auth_advance(a);
    return rc;
}

void auth_files_put(struct auth *a, struct auth_files *take)
{
    (void)put_all(a, take);
    if (a->remote) {
        remote_refresh(a->remote);
    }
    auth_files_destroy(take);
}

void auth_files_destroy(struct auth_files *files)
{
    if (!files) {
        return;
    }
    shared_value_unref(files->tokens ? token_file_value(files->tokens) : NULL);
    for (size_t i = 0; i < AUTH_ISSUERS_MAX; i++) {
        shared_value_unref(files->jwks[i] ? jwks_value(files->jwks[i]) : NULL);
    }
    shared_value_unref(files->credentials ? credentials_value(files->credentials) : NULL);
    mem_free(files);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_files(struct auth *a, struct tidings_error *err)
{
    struct auth_files *files;
    int rc = auth_files_load(a, &files, err);
    if (rc == 0) {
        rc = put_all(a, files);
        auth_files_destroy(files);
        if (rc < 0) {
            tidings_fail(err, rc, "out of memory");
        }
    }
    return rc;
}

int auth_open(struct auth **ret, const struct auth_settings *settings, struct tidings_error *err)
{
    struct auth *a = mem_zalloc(sizeof(*a));
    if (!a) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = settings_keep(a, settings, err);
    if (rc == 0 && a->issuer_count > 0) {
        rc = signature_load(err);
    }
    if (rc == 0) {
        a->shared = shared_map_create(err);
        rc = a->shared ? open_files(a, err) : TIDINGS_E_NOMEM;
    }
    if (rc < 0) {
        auth_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

int auth_start(struct auth *a, struct tidings_error *err)
{
    bool is_needed = a->introspection != NULL;
    for (size_t i = 0; i < a->issuer_count; i++) {
        is_needed = is_needed || a->issuers[i].is_remote;
    }
    return is_needed ? remote_start(&a->remote, a, err) : 0;
}

void auth_close(struct auth *a)
{
    if (!a) {
        return;
    }
    remote_stop(a->remote);
    shared_map_destroy(a->shared);
    ledger_destroy_all(a->ledgers);
    settings_drop(a);
    mem_free(a);
}

_Static_assert(AUTH_ISSUERS_MAX <= 1u << JWKS_PROOF_SPARE, "the issuer fits into a proof");

uint64_t auth_make_proof(size_t issuer, uint64_t key)
{
    return key << JWKS_PROOF_SPARE | issuer;
}

bool auth_stands(const struct auth *a, uint64_t proof)
{
    size_t issuer = proof & ((1u << JWKS_PROOF_SPARE) - 1);
    if (proof == 0 || issuer >= a->issuer_count) {
        return proof == 0;
    }
    struct jwks *set = jwks_of(shared_map_find(a->shared, tidings_str(a->issuers[issuer].name)));
    bool stands = !set || jwks_has(set, proof >> JWKS_PROOF_SPARE);
    shared_value_unref(set ? jwks_value(set) : NULL);
    return stands;
}

void auth_get_fetches(const struct auth *a, struct auth_fetches *ret)
{
    ret->keys = __atomic_load_n(&a->fetches.keys, __ATOMIC_RELAXED);
    ret->introspections = __atomic_load_n(&a->fetches.introspections, __ATOMIC_RELAXED);
    ret->failures = __atomic_load_n(&a->fetches.failures, __ATOMIC_RELAXED);
}
