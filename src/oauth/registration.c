/* SPDX-License-Identifier: MIT
 *
 * Writes and reads the messages of a registration.
 */
#include "oauth/registration.h"

#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/token.h"
#include "json/write.h"

static const struct {
    const char *name;
    unsigned bit;
} registration_methods[] = {
    {"none", CLIENT_AUTH_NONE},
    {"client_secret_basic", CLIENT_AUTH_BASIC},
    {"client_secret_post", CLIENT_AUTH_POST},
    {"private_key_jwt", CLIENT_AUTH_KEY},
};

unsigned client_auth_find(struct tidings_str name)
{
    for (size_t i = 0; i < sizeof(registration_methods) / sizeof(registration_methods[0]); i++) {
        if (str_eq(name, tidings_str(registration_methods[i].name))) {
            return registration_methods[i].bit;
        }
    }
    return 0;
}

const char *client_auth_name(unsigned bit)
{
    for (size_t i = 0; i < sizeof(registration_methods) / sizeof(registration_methods[0]); i++) {
        if (registration_methods[i].bit == bit) {
            return registration_methods[i].name;
        }
    }
    return NULL;
}

int registration_put(struct buf *out, const struct registration_request *r)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("client_name"), tidings_str(r->client_name));
    jw_put_string(&w, STR("application_type"), STR("native"));
    if (r->redirect_uri) {
        jw_key(&w, STR("redirect_uris"));
        jw_begin_array(&w);
        jw_string(&w, tidings_str(r->redirect_uri));
        jw_end_array(&w);
        jw_put_raw(&w, STR("response_types"), STR("[\"code\"]"));
    }
    jw_key(&w, STR("grant_types"));
    jw_begin_array(&w);
    jw_string(&w, tidings_str(r->grant));
    jw_string(&w, STR("refresh_token"));
    jw_end_array(&w);
    jw_put_string(&w, STR("token_endpoint_auth_method"), tidings_str(client_auth_name(r->method)));
    jw_end_object(&w);
    return out->failed;
}

int registration_read(long status, struct tidings_str text, struct registration *ret,
                      struct tidings_error *err)
{
    struct registration r = {0};
    struct json *root = NULL;
    struct tidings_error unread = {0};
    char code[64], why[160];
    int rc = document_read(text, "the answer to the registration", &root, &unread);
    if (status != 200 && status != 201) {
        document_shown(jv_str(jv_get(root, "error")), code, sizeof(code));
        document_shown(jv_str(jv_get(root, "error_description")), why, sizeof(why));
        jv_unref_secret(root);
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the authorization server registers no client (HTTP %ld%s%s%s%s)",
                            status, code[0] ? ", " : "", code, why[0] ? ": " : "", why);
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", unread.text);
    }
    rc = document_text(root, "client_id", TOKEN_TEXT_MAX, &r.client_id, err);
    if (rc == 0 && (!r.client_id || !r.client_id[0])) {
        rc =
            tidings_fail(err, TIDINGS_E_PARSE, "the registration was answered without a client id");
    }
    if (rc == 0) {
        rc = document_text(root, "client_secret", TOKEN_TEXT_MAX, &r.client_secret, err);
    }
    r.method = client_auth_find(jv_str(jv_get(root, "token_endpoint_auth_method")));
    jv_unref_secret(root);
    if (rc < 0) {
        registration_deinit(&r);
        return rc;
    }
    *ret = r;
    return 0;
}

void registration_deinit(struct registration *r)
{
    mem_free(r->client_id);
    str_free_secret(r->client_secret);
    *r = (struct registration){0};
}
