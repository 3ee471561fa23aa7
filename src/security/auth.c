/* SPDX-License-Identifier: MIT
 *
 * Opens, starts and closes token verification; delegates everything else to its parts.
 */
#include "security/auth.h"

#include "base/error.h"
#include "base/mem.h"
#include "security/jwt.h"
#include "security/remote_auth.h"
#include "security/token_file.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * Loads all files of tokens, keys and credentials, or none.
 */

static int auth_files_load_all(const struct auth_settings *s, struct auth_files *files,
                               struct tidings_error *err)
{
    int rc = s->tokens ? token_file_load(&files->tokens, s->tokens, err) : 0;
    if (rc < 0) {
        return error_wrap(err, rc, "file of tokens");
    }
    for (size_t i = 0; i < s->issuer_count && rc == 0; i++) {
        const struct issuer *issuer = &s->issuers[i];
        if (!issuer->is_remote) {
            rc = jwks_load(&files->jwks[i], tidings_str(issuer->name), issuer->jwks, err);
        }
    }
    if (rc < 0) {
        return error_wrap(err, rc, "key set");
    }
    rc = s->credentials ? credentials_load(&files->credentials, s->credentials, err) : 0;
    return rc < 0 ? error_wrap(err, rc, "credentials") : 0;
}

int auth_files_load(const struct auth_settings *s, struct auth_files **ret,
                    struct tidings_error *err)
{
    struct auth_files *files = mem_zalloc(sizeof(*files));
    if (!files) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = auth_files_load_all(s, files, err);
    if (rc < 0) {
        auth_files_destroy(files);
        return rc;
    }
    *ret = files;
    return 0;
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

/* ---------------------------------------------------------------------------------------------- */

struct auth {
    struct verifier verifier;
    struct token_cache_shared shared;
};

int auth_open(struct auth **ret, const struct auth_options *options, struct tidings_error *err)
{
    struct auth *a = mem_zalloc(sizeof(*a));
    if (!a) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    a->shared.verifier = &a->verifier;
    int rc = verifier_init(&a->verifier, options, err);
    if (rc < 0) {
        auth_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

int auth_start(struct auth *a, struct tidings_error *err)
{
    const struct auth_settings *s = &a->verifier.settings;
    bool is_needed = s->introspection != NULL;
    for (size_t i = 0; i < s->issuer_count; i++) {
        is_needed = is_needed || s->issuers[i].is_remote;
    }
    return is_needed ? remote_start(&a->shared.remote, &a->verifier, err) : 0;
}

void auth_close(struct auth *a)
{
    if (!a) {
        return;
    }
    remote_stop(a->shared.remote);
    verifier_deinit(&a->verifier);
    counters_destroy_all(a->shared.counters);
    mem_free(a);
}

struct token_cache *auth_create_cache(struct auth *a, struct mailbox *mailbox,
                                      auth_release_fn release, struct tidings_error *err)
{
    return token_cache_create(&a->shared, mailbox, release, err);
}

int auth_load_files(const struct auth *a, struct auth_files **ret, struct tidings_error *err)
{
    return auth_files_load(&a->verifier.settings, ret, err);
}

void auth_put_files(struct auth *a, struct auth_files *take)
{
    (void)verifier_put_files(&a->verifier, take);
    if (a->shared.remote) {
        remote_refresh(a->shared.remote);
    }
    auth_files_destroy(take);
}

bool auth_proof_is_valid(const struct auth *a, uint64_t proof)
{
    return verifier_proof_is_valid(&a->verifier, proof);
}

void auth_get_counts(const struct auth *a, struct auth_counts *ret)
{
    counters_sum(&a->shared.counters, ret);
}

void auth_each_refusal(const struct auth *a, auth_refusal_fn fn, void *user)
{
    counters_each_refusal(&a->shared.counters, fn, user);
}

void auth_get_fetches(const struct auth *a, struct auth_fetches *ret)
{
    *ret = (struct auth_fetches){0};
    if (a->shared.remote) {
        remote_get_fetches(a->shared.remote, ret);
    }
}
