/* SPDX-License-Identifier: MIT
 *
 * Opening, starting and closing what verifies tokens; the rest is passed on to its parts.
 */
#include "auth/auth.h"

#include "auth/remote.h"
#include "auth/verifier.h"
#include "base/mem.h"

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
