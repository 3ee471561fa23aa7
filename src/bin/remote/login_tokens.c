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
#include "bin/remote/browser.h"

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

char *login_tokens_address(const char *url)
{
    bool is_socket = strncmp(url, "ws://", 5) == 0 || strncmp(url, "wss://", 6) == 0;
    bool is_web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    size_t size = strlen(url) + 3;
    char *text = is_socket || is_web ? tidings_alloc(size) : NULL;
    if (text) {
        snprintf(text, size, "%s%s", is_socket ? "http" : "", url + (is_socket ? 2 : 0));
    }
    return text;
}

/* Each client has its own. */
static struct kept {
    struct tidings_oauth *oauth;
    struct kept *next;
} * all;

void login_tokens_end(void)
{
    while (all) {
        struct kept *k = all;
        all = k->next;
        tidings_oauth_destroy(k->oauth);
        free(k);
    }
}

static int login_tokens_open(void *user, const char *url)
{
    browser_show(user, url, true);
    return 0;
}

static int login_tokens_create(const struct cli *cli, const char *path,
                               struct tidings_client_options *options, struct tidings_error *err)
{
    struct tidings_oauth_options how = {.token_file = path, .ca_file = cli->ca_file};
    if (cli->login) {
        how.on_open = login_tokens_open;
        how.user = (void *)(uintptr_t)cli->command->name;
    }
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

int login_tokens_use(const struct cli *cli, const char *url, struct tidings_client_options *options,
                     struct tidings_error *err)
{
    char path[PATH_MAX];
    struct tidings_error none = {0};
    char *web = url ? login_tokens_address(url) : NULL;
    bool is_fit = web && !login_tokens_has_authorization(options);
    tidings_free(web);
    if (cli->login && !is_fit) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--login is for servers at http://, https://, ws:// and wss://, "
                            "without another token");
    }
    if (cli->login) {
        int rc = login_tokens_path(path, err);
        rc = rc == 0 ? user_file_make_directories(path, err) : rc;
        return rc == 0 ? login_tokens_create(cli, path, options, err) : rc;
    }
    if (!is_fit || login_tokens_path(path, &none) < 0 || access(path, F_OK) != 0) {
        return 0;
    }
    return login_tokens_create(cli, path, options, err);
}

const char *login_tokens_hint(const struct cli *cli)
{
    static char hint[512];
    if (!cli->target) {
        return "check that the program can be run";
    }
    snprintf(hint, sizeof(hint),
             "'tidings login %.200s' logs in, --login when it is asked for; a token is given by "
             "--token-file or TIDINGS_TOKEN, "
             "certificates by --cacert, --cert",
             cli->target);
    return hint;
}
