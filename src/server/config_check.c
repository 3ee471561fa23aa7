/* SPDX-License-Identifier: MIT
 *
 * What no single row of the configuration can judge: settings that need, or contradict, one
 * another.
 */
#include "base/error.h"
#include "base/tls.h"
#include "server/config.h"

/* An address that other machines can reach. */
static int check_remote(const struct config *c, const char *option, const struct config_address *a,
                        struct tidings_error *err)
{
    if (config_address_is_loopback(a)) {
        return 0;
    }
    if (!c->allow_remote && !config_knows_clients(c)) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s: '%s' can be reached by other machines and nothing asks who "
                            "they are; add --allow-remote to serve there, or use 127.0.0.1",
                            option, a->host);
    }
    if (c->allow_write) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "--allow-write: '%s' can be reached by other machines, and no rules "
                            "say who may write; use 127.0.0.1, or leave it out",
                            a->host);
    }
    return 0;
}

/* Whether the files are any good is found out when they are opened. */
static int check_tls(const struct config *c, struct tidings_error *err)
{
    bool asks = c->tls_client_auth != 0, has_ca = c->tls_client_ca[0] != '\0';
    if (c->tls_cert.count != c->tls_key.count) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-cert, --tls-key: %zu certificates and %zu keys; each "
                            "certificate needs its key, in the same order",
                            c->tls_cert.count, c->tls_key.count);
    }
    if ((asks || has_ca) && c->tls_cert.count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "clients can be asked for certificates over TLS only; add --tls-cert "
                            "and --tls-key");
    }
    if (asks && !has_ca) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-client-auth: name with --tls-client-ca whose certificates are "
                            "accepted");
    }
    if (has_ca && !asks) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-client-ca: say with --tls-client-auth whether clients may "
                            "(request) or must (require) show a certificate");
    }
    return 0;
}

bool config_knows_clients(const struct config *c)
{
    return c->tls_cert.count > 0 && c->tls_client_auth == TLS_CLIENT_REQUIRE;
}

int config_check(const struct config *c, struct tidings_error *err)
{
    int rc = check_tls(c, err);
    if (rc < 0) {
        return rc;
    }
    rc = config_wants_http(c) ? check_remote(c, "--http", &c->http, err) : 0;
    for (size_t i = 0; rc == 0 && i < c->tcp.count; i++) {
        struct config_address a;
        rc = config_parse_address(tidings_str(c->tcp.items[i]), &a, err);
        rc = rc < 0 ? rc : check_remote(c, "--tcp", &a, err);
    }
    if (rc == 0 && c->entities[0] && c->store[0] && strcmp(c->entities, c->store) != 0) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "--entities '%s' and --store '%s': a server has one store; name the same "
                          "file, or leave one out",
                          c->entities, c->store);
    }
    return rc;
}
