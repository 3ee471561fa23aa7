/* SPDX-License-Identifier: MIT
 *
 * tidings_token_create: a new bearer token, for programs that hand them out.
 */
#include <tidings/server.h>

#include "auth/token_file.h"

int tidings_token_create(struct tidings_str name, struct tidings_str scopes, char **ret_token,
                         char **ret_line, struct tidings_error *err)
{
    struct buf token, line;
    buf_init_secret(&token, AUTH_TOKEN_MAX);
    buf_init(&line, TOKEN_FILE_MAX);
    int rc = token_make(name, scopes, &token, &line, err);
    if (rc == 0) {
        *ret_token = buf_detach(&token, NULL);
        *ret_line = buf_detach(&line, NULL);
    }
    buf_deinit(&token);
    buf_deinit(&line);
    return rc;
}
