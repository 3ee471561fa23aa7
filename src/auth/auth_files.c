/* SPDX-License-Identifier: MIT
 *
 * Loading all files of tokens, keys and credentials, or none.
 */
#include "auth/auth_files.h"

#include "auth/credentials.h"
#include "auth/jwks.h"
#include "auth/token_file.h"
#include "base/error.h"
#include "base/mem.h"

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
