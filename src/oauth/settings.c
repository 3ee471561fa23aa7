/* SPDX-License-Identifier: MIT
 *
 * Checks the options of <tidings/oauth.h> by the grant they are for.
 */
#include "oauth/settings.h"

#include "base/error.h"
#include "base/mem.h"
#include "oauth/url.h"

#define LOGIN_MS 300000u

static bool oauth_settings_take(char **at, const char *text)
{
    *at = text ? str_dup(tidings_str(text)) : NULL;
    return !text || *at;
}

/* What each grant cannot do without. */
static int oauth_settings_check(const struct tidings_oauth_options *o, struct tidings_error *err)
{
    bool has_secret = o->client_secret || o->client_key;
    struct url u;
    switch (o->grant) {
    case TIDINGS_OAUTH_CODE:
    case TIDINGS_OAUTH_DEVICE:
        break;
    case TIDINGS_OAUTH_CLIENT:
        if (!o->client_id || !has_secret) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a client for itself needs client_id, and client_secret or "
                                "client_key");
        }
        break;
    case TIDINGS_OAUTH_ASSERTION:
        if (!o->client_id || !o->assertion) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a workload needs client_id and an assertion");
        }
        break;
    case TIDINGS_OAUTH_ENTERPRISE:
        if (!o->client_id || !o->id_token || !o->idp_endpoint || !o->idp_client_id) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "an enterprise's login needs client_id, id_token, idp_endpoint and "
                                "idp_client_id");
        }
        if (!url_read(tidings_str(o->idp_endpoint), &u) || !url_is_safe(&u)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "idp_endpoint is no https URL");
        }
        break;
    default:
        return tidings_fail(err, TIDINGS_E_INVALID, "no such grant: %d", (int)o->grant);
    }
    return 0;
}

int oauth_settings_init(struct oauth_settings *s, const struct tidings_oauth_options *options,
                        struct tidings_error *err)
{
    static const struct tidings_oauth_options none = {0};
    const struct tidings_oauth_options *o = options ? options : &none;
    *s = (struct oauth_settings){
        .grant = o->grant,
        .redirect_port = o->redirect_port,
        .login_ms = o->login_ms > 0 ? o->login_ms : LOGIN_MS,
        .on_open = o->on_open,
        .on_device = o->on_device,
        .user = o->user,
    };
    int rc = RESERVED_CHECK(o, err);
    rc = rc == 0 ? oauth_settings_check(o, err) : rc;
    if (rc == 0 && o->client_key) {
        rc = private_key_read(&s->client_key, tidings_str(o->client_key), err);
    }
    if (rc < 0) {
        return rc;
    }
    bool ok = oauth_settings_take(&s->client_name, o->client_name ? o->client_name : "tidings") &&
              oauth_settings_take(&s->client_id, o->client_id) &&
              oauth_settings_take(&s->client_secret, o->client_secret) &&
              oauth_settings_take(&s->client_url, o->client_url) &&
              oauth_settings_take(&s->issuer, o->issuer) &&
              oauth_settings_take(&s->scope, o->scope) &&
              oauth_settings_take(&s->ca_file, o->ca_file) &&
              oauth_settings_take(&s->assertion, o->assertion) &&
              oauth_settings_take(&s->id_token, o->id_token) &&
              oauth_settings_take(&s->idp_endpoint, o->idp_endpoint) &&
              oauth_settings_take(&s->idp_client_id, o->idp_client_id);
    return ok ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void oauth_settings_deinit(struct oauth_settings *s)
{
    mem_free(s->client_name);
    mem_free(s->client_id);
    str_free_secret(s->client_secret);
    mem_free(s->client_url);
    mem_free(s->issuer);
    mem_free(s->scope);
    mem_free(s->ca_file);
    str_free_secret(s->assertion);
    str_free_secret(s->id_token);
    mem_free(s->idp_endpoint);
    mem_free(s->idp_client_id);
    private_key_destroy(s->client_key);
    *s = (struct oauth_settings){0};
}

bool oauth_settings_ask_person(const struct oauth_settings *s)
{
    return s->grant == TIDINGS_OAUTH_CODE || s->grant == TIDINGS_OAUTH_DEVICE;
}
