/* SPDX-License-Identifier: MIT
 *
 * `tidings login`, `tidings logout`: get a token for a server by OAuth, and revoke it. The user
 * approves in a browser; the token is stored for all commands (cli/remote.h). Tokens are never
 * printed.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidings/file.h>
#include <tidings/oauth.h>
#include <tidings/provider.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"

#define SECRET_MAX 16384u
#define SCOPE_TEXT_MAX 4096u

struct login {
    struct cli cli;
    const char *client_id, *client_secret, *client_key, *client_url, *issuer;
    struct words scopes;
    uint64_t port, wait_ms;
    bool lists, is_device, is_client, no_browser;
};

/* ---- the user -------------------------------------------------------------------------------- */

static int login_open(void *user, const char *url)
{
    const struct login *l = user;
    browser_show("login", url, !l->no_browser);
    return 0;
}

static int login_show_code(void *user, const char *url, const char *code)
{
    (void)user;
    fprintf(stderr, "tidings login: open %s on any device and enter the code\n\n    %s\n\n", url,
            code);
    return 0;
}

/* ---- options --------------------------------------------------------------------------------- */

/* "@FILE", or the variable; tidings_free it. NULL with code 0: there is none. */
static char *login_secret(const char *given, const char *variable, struct tidings_error *err)
{
    const char *own = getenv(variable);
    size_t len = 0;
    if (given && given[0] != '@') {
        tidings_fail(err, TIDINGS_E_INVALID,
                     "a secret is not given on the command line, where others see it: name a file, "
                     "'@FILE', or set %s",
                     variable);
        return NULL;
    }
    char *text = given ? tidings_file_read(given + 1, TIDINGS_FILE_NAMED, SECRET_MAX, &len, err)
                 : own && *own ? tidings_alloc(strlen(own) + 1)
                               : NULL;
    if (!given && text) {
        memcpy(text, own, strlen(own) + 1);
    }
    while (given && text && len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        text[--len] = '\0';
    }
    return text;
}

static bool login_join_scopes(const struct words *scopes, char out[SCOPE_TEXT_MAX])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < scopes->count; i++) {
        int n =
            snprintf(out + len, SCOPE_TEXT_MAX - len, "%s%s", len > 0 ? " " : "", scopes->items[i]);
        if (n < 0 || (size_t)n >= SCOPE_TEXT_MAX - len) {
            return false;
        }
        len += (size_t)n;
    }
    return true;
}

/* The address of the selected server; tidings_free it. */
static char *login_server(const struct cli *cli, struct tidings_error *err)
{
    char *url = cli->launch ? NULL : target_address(cli, err);
    char *web = url ? login_tokens_address(url) : NULL;
    if (!web && err->code == 0) {
        tidings_fail(err, TIDINGS_E_INVALID,
                     "'%.100s' is not an address for a login (accepted: https://…, wss://…, and "
                     "http://…, ws://… on this machine)",
                     url ? url : "a program that is launched");
    }
    tidings_free(url);
    return web;
}

/* ---- list ------------------------------------------------------------------------------------ */

static void login_put_token(void *user, const struct tidings_oauth_token *t)
{
    const struct cli *cli = user;
    if (cli->json) {
        fputs("{\"server\":", stdout);
        put_quoted(stdout, tidings_str(t->resource));
        fputs(",\"issuer\":", stdout);
        put_quoted(stdout, tidings_str(t->issuer));
        fputs(",\"client\":", stdout);
        put_quoted(stdout, tidings_str(t->client_id));
        fputs(",\"scope\":", stdout);
        put_quoted(stdout, tidings_str(t->scope));
        printf(",\"renewable\":%s,\"bound\":%s", t->is_renewable ? "true" : "false",
               t->is_bound ? "true" : "false");
        if (t->expires_ms > 0) {
            fputs(",\"expires\":\"", stdout);
            put_time(stdout, t->expires_ms);
            fputc('"', stdout);
        }
        fputs("}\n", stdout);
        return;
    }
    put_style(cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, tidings_str(t->resource));
    put_style(cli, stdout, STYLE_PLAIN);
    if (!cli->quiet) {
        put_gap(stdout, used, 40);
        put_text(stdout, tidings_str(t->issuer));
        fputs(t->is_renewable ? "  renewed by itself" : "", stdout);
        if (!t->is_renewable && t->expires_ms > 0) {
            fputs("  until ", stdout);
            put_time(stdout, t->expires_ms);
        }
    }
    fputc('\n', stdout);
}

static int login_list(struct cli *cli, struct tidings_oauth *oauth, struct tidings_error *err)
{
    int count = tidings_oauth_tokens(oauth, login_put_token, cli, err);
    if (count == 0 && !cli->quiet && !cli->json) {
        fputs("tidings login: no server; 'tidings login SERVER' logs in\n", stderr);
    }
    return count;
}

/* ---- run ------------------------------------------------------------------------------------- */

static struct tidings_oauth *login_create(const struct login *l,
                                          const struct tidings_oauth_options *given,
                                          struct tidings_error *err)
{
    char path[PATH_MAX];
    struct tidings_oauth_options how = *given;
    if (login_tokens_path(path, err) < 0 || user_file_make_directories(path, err) < 0) {
        return NULL;
    }
    how.token_file = path;
    how.client_name = "tidings";
    how.ca_file = l->cli.ca_file;
    process_has_secrets();
    return tidings_oauth_create(&how, err);
}

static int login_in(struct login *l, struct tidings_oauth *oauth, struct tidings_error *err)
{
    char *server = login_server(&l->cli, err);
    int rc = server ? tidings_oauth_login(oauth, server, err) : err->code;
    if (rc == 0 && !l->cli.quiet) {
        fputs("tidings login: logged in to ", stderr);
        put_text(stderr, tidings_str(server));
        fputc('\n', stderr);
    }
    tidings_free(server);
    return rc;
}

static int login_run(struct cli *cli)
{
    struct login *l = (struct login *)cli;
    struct tidings_error err = {0};
    char scope[SCOPE_TEXT_MAX];
    if (!login_join_scopes(&l->scopes, scope)) {
        return command_misuse("login", "the scopes are too long", NULL);
    }
    char *secret = login_secret(l->client_secret, "TIDINGS_CLIENT_SECRET", &err);
    char *key = l->client_key && err.code == 0
                    ? tidings_file_read(l->client_key, TIDINGS_FILE_NAMED, SECRET_MAX, NULL, &err)
                    : NULL;
    struct tidings_oauth_options how = {
        .grant = l->is_device   ? TIDINGS_OAUTH_DEVICE
                 : l->is_client ? TIDINGS_OAUTH_CLIENT
                                : TIDINGS_OAUTH_CODE,
        .client_id = l->client_id,
        .client_secret = secret,
        .client_key = key,
        .client_url = l->client_url,
        .issuer = l->issuer,
        .scope = scope[0] ? scope : NULL,
        .redirect_port = (uint16_t)l->port,
        .login_ms = (uint32_t)l->wait_ms,
        .on_open = login_open,
        .on_device = login_show_code,
        .user = l,
    };
    struct tidings_oauth *oauth = err.code == 0 ? login_create(l, &how, &err) : NULL;
    int rc = !oauth ? err.code : l->lists ? login_list(cli, oauth, &err) : login_in(l, oauth, &err);
    tidings_oauth_destroy(oauth);
    if (secret) {
        explicit_bzero(secret, strlen(secret));
    }
    if (key) {
        explicit_bzero(key, strlen(key));
    }
    tidings_free(secret);
    tidings_free(key);
    return rc < 0 ? command_fail("login", &err,
                                 rc == TIDINGS_E_INVALID || l->lists
                                     ? NULL
                                     : "'tidings info SERVER' checks whether the server responds; "
                                       "if that works without a login, none is needed")
                  : command_finish("login");
}

static int logout_run(struct cli *cli)
{
    struct login l = {.cli = *cli};
    struct tidings_error err = {0};
    char *server = login_server(cli, &err);
    struct tidings_oauth_options how = {0};
    struct tidings_oauth *oauth = server ? login_create(&l, &how, &err) : NULL;
    int rc = oauth ? tidings_oauth_logout(oauth, server, &err) : err.code;
    if (rc == 0 && !cli->quiet) {
        fputs("tidings logout: ", stderr);
        put_text(stderr, tidings_str(err.text[0] ? err.text : "logged out"));
        fputc('\n', stderr);
    }
    tidings_oauth_destroy(oauth);
    tidings_free(server);
    return rc < 0 ? command_fail("logout", &err, "'tidings login --list' lists where you are") : 0;
}

#define AT(member) offsetof(struct login, member)

static const struct option options[] = {
    {.name = "list",
     .kind = OPTION_FLAG,
     .offset = AT(lists),
     .help = "list where you are logged in"},
    {.name = "device",
     .kind = OPTION_FLAG,
     .offset = AT(is_device),
     .help = "agree on another device, with a code"},
    {.name = "no-browser",
     .kind = OPTION_FLAG,
     .offset = AT(no_browser),
     .help = "only print the address"},
    {.name = "client-id",
     .kind = OPTION_TEXT,
     .offset = AT(client_id),
     .metavar = "ID",
     .help = "an id that the authorization server knows"},
    {.name = "client-secret",
     .kind = OPTION_TEXT,
     .offset = AT(client_secret),
     .metavar = "@FILE",
     .help = "its secret, in a file or in TIDINGS_CLIENT_SECRET"},
    {.name = "client-key",
     .kind = OPTION_FILE,
     .offset = AT(client_key),
     .metavar = "FILE",
     .help = "its private key, PEM, instead of a secret"},
    {.name = "client-url",
     .kind = OPTION_TEXT,
     .offset = AT(client_url),
     .metavar = "URL",
     .help = "a client id metadata document, where the server takes such"},
    {.name = "issuer",
     .kind = OPTION_TEXT,
     .offset = AT(issuer),
     .metavar = "URL",
     .help = "the authorization server to use, of those that the server names"},
    {.name = "as-client",
     .kind = OPTION_FLAG,
     .offset = AT(is_client),
     .help = "the client itself logs in, no person (client credentials)"},
    {.name = "scope",
     .kind = OPTION_LIST,
     .offset = AT(scopes),
     .metavar = "SCOPE",
     .help = "scope to request; may be repeated"},
    {.name = "port",
     .kind = OPTION_NUMBER,
     .offset = AT(port),
     .metavar = "PORT",
     .help = "of the listener at 127.0.0.1 for the browser's answer",
     .max = 65535},
    {.name = "wait",
     .kind = OPTION_TIME,
     .offset = AT(wait_ms),
     .metavar = "TIME",
     .help = "how long you may take",
     .min = 1000,
     .max = 3600000,
     .value = "5m"},
    {0},
};

const struct command command_login = {
    .name = "login",
    .help = "log in to a server that wants a token (OAuth)",
    .about =
        "Log in to SERVER, once: its authorization server is found, a browser is opened (BROWSER, "
        "or\nxdg-open) or its address printed, and when you have agreed there the token is kept. "
        "All\ncommands then show it to that server, and renew it before it expires.\n\n"
        "Where a server names several authorization servers, the one you were logged in at before "
        "is\nused, else the first; --issuer names another of them.\n\n"
        "Tokens are in ~/.local/state/tidings/tokens.json (or in $XDG_STATE_HOME), readable\nonly "
        "by you; a file that others can read is not used. They are never printed.\n\n"
        "--json with --list prints one object per line: server, issuer, client, scope, renewable, "
        "bound,\nexpires.\n",
    .options = options,
    .size = sizeof(struct login),
    .has_target = true,
    .run = login_run,
};

const struct command command_logout = {
    .name = "logout",
    .help = "forget the token of a server, and have it revoked",
    .about = "Log out of SERVER: its authorization server is asked to revoke the token, where it "
             "can be,\nand the token is forgotten.\n",
    .has_target = true,
    .run = logout_run,
};
