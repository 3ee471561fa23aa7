/* SPDX-License-Identifier: MIT
 *
 * The files that settings name (tokens, key sets, credentials), loaded beside what is in effect, so
 * that a mistake in one of them changes nothing.
 */
#ifndef AUTH_AUTH_FILES_H
#define AUTH_AUTH_FILES_H

#include "auth/settings.h"

struct auth_files {
    struct token_file *tokens;           /* NULL: none configured */
    struct jwks *jwks[AUTH_ISSUERS_MAX]; /* NULL: not from a file */
    struct credentials *credentials;
};

/* TIDINGS_E_PARSE with "FILE:LINE: …", and what reading a file fails with. */
int auth_files_load(const struct auth_settings *s, struct auth_files **ret,
                    struct tidings_error *err);
void auth_files_destroy(struct auth_files *files); /* NULL is fine */

#endif
