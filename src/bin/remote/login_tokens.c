/* SPDX-License-Identifier: MIT
 *
 * Finds the tokens of 'tidings login' for a command.
 */
#include "bin/remote/login_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "bin/cli/process.h"
#include "bin/cli/user_file.h"

int login_tokens_path(char path[PATH_MAX], struct tidings_error *err)
{
    return user_file_path(path, "XDG_STATE_HOME", "/.local/state", "tokens.json", err);
}

static bool login_tokens_has_authorization(const struct tidings_client_options *options)
{
    static const char name[] = "Authorization:";
    for (size_t i = 0; options->headers && options->headers[i]; i++) {
        if (strncasecmp(options->headers[i], name, sizeof(name) - 1) == 0) {
            return true;
        }
    }
    return options->token != NULL || options->on_token != NULL;
}

int login_tokens_use(const struct cli *cli, const char *url, struct tidings_client_options *options,
                     struct tidings_error *err)
{
    /* Each client has its own, for as long as the process lives. */
    static struct kept {
        struct tidings_oauth *oauth;
        struct kept *next;
    } * all;
    char path[PATH_MAX];
    struct tidings_error none = {0};
    bool is_http = url && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    if (!is_http || login_tokens_has_authorization(options) || login_tokens_path(path, &none) < 0 ||
        access(path, F_OK) != 0) {
        return 0;
    }
    struct tidings_oauth_options how = {.token_file = path, .ca_file = cli->ca_file};
    struct kept *k = malloc(sizeof(*k));
    if (!k) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *k = (struct kept){tidings_oauth_create(&how, err), all};
    if (!k->oauth) {
        free(k);
        return err->code;
    }
    all = k;
    process_has_secrets();
    options->credentials = tidings_oauth_credentials(k->oauth);
    return 0;
}

const char *login_tokens_hint(const struct cli *cli)
{
    static char hint[512];
    if (!cli->target) {
        return "check that the program can be run";
    }
    snprintf(hint, sizeof(hint),
             "'tidings login %.200s' logs in; a token is given by --token-file or TIDINGS_TOKEN, "
             "certificates by --cacert, --cert",
             cli->target);
    return hint;
}
