/* SPDX-License-Identifier: MIT
 *
 * Checking options and copying them: mistakes are found here, before anything is opened.
 */
#include "auth/settings.h"

#include <arpa/inet.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#define URL_MAX 2048u
#define REFRESH_MS (10u * 60 * 1000)
#define INTERVAL_MS (30u * 1000)
#define STALE_MS (60u * 60 * 1000)

/* ---- URLs ------------------------------------------------------------------------------------ */

/* Exactly an address of the loopback network or "localhost", and not a name that begins so. */
static bool is_loopback(struct tidings_str host)
{
    char text[16];
    struct in_addr address;
    if (str_eq_nocase(host, STR("localhost")) || str_eq(host, STR("[::1]"))) {
        return true;
    }
    if (host.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static struct tidings_str host_of(struct tidings_str authority)
{
    if (authority.len > 0 && authority.ptr[0] == '[') {
        ptrdiff_t end = str_find(authority, ']');
        return tidings_strn(authority.ptr, end < 0 ? 0 : (size_t)end + 1);
    }
    return str_cut(authority, ':', &(struct tidings_str){0}, NULL);
}

bool auth_settings_is_safe_url(struct tidings_str url)
{
    bool is_https = str_starts(url, STR("https://"));
    struct tidings_str rest = str_skip(url, is_https ? 8 : 7);
    size_t end = 0;
    if (url.len > URL_MAX || (!is_https && !str_starts(url, STR("http://")))) {
        return false;
    }
    for (size_t i = 0; i < url.len; i++) {
        if (url.ptr[i] <= ' ' || url.ptr[i] > '~' || url.ptr[i] == '\\' || url.ptr[i] == '#') {
            return false;
        }
    }
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?') {
        end++;
    }
    struct tidings_str authority = tidings_strn(rest.ptr, end), host = host_of(authority);
    return host.len > 0 && str_find(authority, '@') < 0 && (is_https || is_loopback(host));
}

static int check_url(struct tidings_str url, const char *what, struct tidings_error *err)
{
    return auth_settings_is_safe_url(url)
               ? 0
               : tidings_fail(
                     err, TIDINGS_E_INVALID,
                     "%s '%.*s' must be a URL with https, or with http to 127.0.0.1, [::1] "
                     "or localhost",
                     what, STR_ARG(url));
}

/* ---- keeping --------------------------------------------------------------------------------- */

static int auth_settings_keep(char **ret, const char *text, struct tidings_error *err)
{
    *ret = text ? str_dup(tidings_str(text)) : NULL;
    return text && !*ret ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

static bool is_url(const char *text)
{
    return strstr(text, "://") != NULL;
}

static int keep_issuer(struct auth_settings *s, const struct auth_issuer *from,
                       struct tidings_error *err)
{
    struct issuer *i = &s->issuers[s->issuer_count];
    for (size_t n = 0; n < s->issuer_count; n++) {
        if (strcmp(s->issuers[n].name, from->issuer) == 0) {
            return tidings_fail(err, TIDINGS_E_INVALID, "the issuer '%s' is named twice",
                                from->issuer);
        }
    }
    int rc = check_url(tidings_str(from->issuer), "the issuer", err);
    if (rc == 0 && from->jwks && is_url(from->jwks)) {
        rc = check_url(tidings_str(from->jwks), "the key set", err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&i->name, from->issuer, err);
        s->issuer_count++;
    }
    if (rc == 0) {
        rc = auth_settings_keep(&i->jwks, from->jwks, err);
        i->is_remote = !from->jwks || is_url(from->jwks);
    }
    return rc;
}

static int keep_audiences(struct auth_settings *s, const struct auth_options *o,
                          struct tidings_error *err)
{
    if (o->audience_count > AUTH_AUDIENCES_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u audiences", AUTH_AUDIENCES_MAX);
    }
    if (o->audience_count == 0 && (o->issuer_count > 0 || o->introspection)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "tokens of an authorization server need an audience: the name by which "
                            "it knows this server");
    }
    int rc = 0;
    for (size_t i = 0; i < o->audience_count && rc == 0; i++) {
        rc = auth_settings_keep(&s->audiences[i], o->audiences[i], err);
        s->audience_count += rc == 0;
    }
    return rc;
}

int auth_settings_init(struct auth_settings *s, const struct auth_options *o,
                       struct tidings_error *err)
{
    s->leeway_ms = o->leeway_ms;
    s->refresh_ms = o->refresh_ms ? o->refresh_ms : REFRESH_MS;
    s->interval_ms = o->interval_ms ? o->interval_ms : INTERVAL_MS;
    s->stale_ms = o->stale_ms ? o->stale_ms : STALE_MS;
    if (o->issuer_count > AUTH_ISSUERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u issuers", AUTH_ISSUERS_MAX);
    }
    int rc = keep_audiences(s, o, err);
    for (size_t i = 0; i < o->issuer_count && rc == 0; i++) {
        rc = keep_issuer(s, &o->issuers[i], err);
    }
    if (rc == 0 && o->introspection) {
        rc = check_url(tidings_str(o->introspection), "the introspection URL", err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->tokens, o->tokens, err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->introspection, o->introspection, err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->credentials, o->introspection_credentials, err);
    }
    return rc < 0 ? rc : auth_settings_keep(&s->ca, o->ca, err);
}

void auth_settings_deinit(struct auth_settings *s)
{
    for (size_t i = 0; i < s->issuer_count; i++) {
        mem_free(s->issuers[i].name);
        mem_free(s->issuers[i].jwks);
    }
    for (size_t i = 0; i < s->audience_count; i++) {
        mem_free(s->audiences[i]);
    }
    mem_free(s->tokens);
    mem_free(s->introspection);
    mem_free(s->credentials);
    mem_free(s->ca);
}

const struct issuer *auth_settings_find_issuer(const struct auth_settings *s,
                                               struct tidings_str name)
{
    for (size_t i = 0; i < s->issuer_count; i++) {
        if (str_eq(name, tidings_str(s->issuers[i].name))) {
            return &s->issuers[i];
        }
    }
    return NULL;
}

struct claims_rules auth_settings_rules(const struct auth_settings *s, bool needs_expiry)
{
    return (struct claims_rules){
        .audiences = s->audiences,
        .audience_count = s->audience_count,
        .leeway_ms = s->leeway_ms,
        .needs_expiry = needs_expiry,
    };
}
