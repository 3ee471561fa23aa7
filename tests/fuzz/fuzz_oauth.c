/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the untrusted input of a login: the first byte selects the document, response or
 * query as which the rest is read. Accepted values are valid: addresses that may receive a secret,
 * tokens that fit into a header, the requested issuer and resource; and errors are visible ASCII.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "client/oauth/callback.h"
#include "client/oauth/documents.h"
#include "client/oauth/token_store.h"
#include "formats/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SERVER "https://a.test/mcp"
#define ISSUER "https://as.test"

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void require_visible(const char *text, bool may_have_blanks)
{
    for (const char *p = text; p && *p; p++) {
        require(*p <= '~' && (may_have_blanks ? *p >= ' ' : *p > ' '));
    }
}

static void require_safe(const char *url)
{
    struct url u;
    require(!url || (url_read(tidings_str(url), &u) && url_is_safe(&u)));
}

static void check_resource(struct tidings_str s, struct tidings_error *err)
{
    struct resource_metadata m = {0};
    struct url resource, server;
    struct issuer_choice choice = {.preferred = "https://b.test"},
                         only = {.only = "https://a.test"};
    if (resource_metadata_read(s, SERVER, &only, &m, err) == 0) {
        require(strcmp(m.issuer, only.only) == 0);
        resource_metadata_deinit(&m);
    }
    if (resource_metadata_read(s, SERVER, &choice, &m, err) == 0) {
        require_safe(m.issuer);
        require(url_read(tidings_str(m.resource), &resource) && url_read(STR(SERVER), &server) &&
                url_covers(&resource, &server));
        require_visible(m.scopes, true);
    }
    resource_metadata_deinit(&m);
}

static void check_server(struct tidings_str s, struct tidings_error *err)
{
    struct server_metadata m = {0};
    if (server_metadata_read(s, ISSUER, &m, err) == 0) {
        require(str_eq(tidings_str(m.issuer), STR(ISSUER)) && m.token_endpoint);
        require_safe(m.token_endpoint);
        require_safe(m.authorization_endpoint);
        require_safe(m.registration_endpoint);
        require_safe(m.device_endpoint);
        require_safe(m.revocation_endpoint);
    }
    server_metadata_deinit(&m);
}

static void check_token(struct tidings_str s, long status, struct tidings_error *err)
{
    struct token_answer a;
    if (token_answer_read(status, s, false, &a, err) == 0) {
        require(a.access && a.access[0]);
        require_visible(a.access, false);
        require_visible(a.refresh, false);
    }
    require_visible(a.error, true);
    token_answer_deinit(&a);
}

static void check_registration(struct tidings_str s, struct tidings_error *err)
{
    struct registration r = {0};
    require(registration_read(201, s, &r, err) < 0 || r.client_id[0]);
    require_visible(r.client_id, true);
    registration_deinit(&r);
}

static void check_callback(struct tidings_str s)
{
    struct callback_answer a;
    callback_answer_init(&a);
    if (callback_answer_read(&a, s, "STATE")) {
        require((a.code.len > 0) != (a.error.len > 0));
    }
    callback_answer_deinit(&a);
}

static void check_store(struct tidings_str s, struct tidings_error *err)
{
    struct token_store store;
    require(token_store_init(&store, NULL) == 0);
    if (token_store_parse(&store, s, err) == 0) {
        (void)token_store_find(&store, SERVER, NULL);
    }
    token_store_deinit(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str s = {size > 1 ? (const char *)data + 1 : "", size > 1 ? size - 1 : 0};
    struct tidings_error err = {0};
    switch (size > 0 ? data[0] : 0) {
    case 'r':
        check_resource(s, &err);
        break;
    case 's':
        check_server(s, &err);
        break;
    case 't':
        check_token(s, 200, &err);
        break;
    case 'e':
        check_token(s, 400, &err);
        break;
    case 'c':
        check_callback(s);
        break;
    case 'f':
        check_store(s, &err);
        break;
    default:
        check_registration(s, &err);
        break;
    }
    require_visible(err.text, true);
    return 0;
}
