/* SPDX-License-Identifier: MIT
 *
 * What a person can do about a failure of the client.
 */
#include "bin/remote/login_tokens.h"
#include "bin/remote/target.h"

static bool is_innocent;

void target_is_innocent(void)
{
    is_innocent = true;
}

/* Did TLS fail? What a server says over HTTP is something else. */
static bool is_about_certificate(const struct tidings_error *err)
{
    return strstr(err->text, "certificate") && !strstr(err->text, "(HTTP ");
}

/* Without a word about where the server comes from. */
static const char *plain_hint(const struct cli *cli, const struct tidings_error *err,
                              bool wants_login)
{
    bool by_name = cli->target && target_is_name(cli->target);
    switch (err->code) {
    case TIDINGS_E_INVALID:
        return by_name ? NULL : "a server is a URL such as http://127.0.0.1:7777/mcp, or a name";
    case TIDINGS_E_NOTFOUND:
        if (strcmp(cli->command->name, "watch") == 0 && !by_name) {
            return "'tidings ls' lists what a server has; --match glob waits for what is not there "
                   "yet";
        }
        return by_name ? "'tidings servers' lists the names that are known"
                       : "check the address and the URIs; 'tidings ls' lists what a server has";
    case TIDINGS_E_DENIED:
        return wants_login || !cli->target ? login_tokens_hint(cli)
               : is_about_certificate(err) ? "--cacert FILE trusts a certificate authority; "
                                             "--cert and --key show your own"
                                           : NULL;
    case TIDINGS_E_TIMEOUT:
        return "--timeout gives it more time";
    case TIDINGS_E_IO:
        return cli->launch ? "check that the program can be run"
                           : "check that the server runs and the address is right";
    default:
        return NULL;
    }
}

const char *target_hint(const struct cli *cli, const struct tidings_error *err, bool wants_login)
{
    if (is_innocent) {
        is_innocent = false;
        return NULL;
    }
    return target_hint_with(cli, plain_hint(cli, err, wants_login));
}
