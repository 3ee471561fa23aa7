/* SPDX-License-Identifier: MIT
 *
 * Reads answers of token endpoints, and keeps tokens in memory that is wiped.
 */
#include "oauth/token.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/scope.h"

#define EXPIRES_MAX (INT64_C(10) * 365 * 86400)

void token_deinit(struct token *t)
{
    mem_free(t->resource);
    mem_free(t->issuer);
    mem_free(t->token_endpoint);
    mem_free(t->revocation_endpoint);
    mem_free(t->client_id);
    str_free_secret(t->client_secret);
    str_free_secret(t->access);
    str_free_secret(t->refresh);
    mem_free(t->scope);
    str_free_secret(t->key);
    *t = (struct token){0};
}

static bool token_take(char **to, const char *from)
{
    *to = from ? str_dup(tidings_str(from)) : NULL;
    return !from || *to;
}

int token_copy(struct token *to, const struct token *from)
{
    struct token t = {.client_auth = from->client_auth,
                      .expires_ms = from->expires_ms,
                      .life_ms = from->life_ms,
                      .is_bound = from->is_bound};
    bool ok = token_take(&t.resource, from->resource) && token_take(&t.issuer, from->issuer) &&
              token_take(&t.token_endpoint, from->token_endpoint) &&
              token_take(&t.revocation_endpoint, from->revocation_endpoint) &&
              token_take(&t.client_id, from->client_id) &&
              token_take(&t.client_secret, from->client_secret) &&
              token_take(&t.access, from->access) && token_take(&t.refresh, from->refresh) &&
              token_take(&t.scope, from->scope) && token_take(&t.key, from->key);
    if (!ok) {
        token_deinit(&t);
        return TIDINGS_E_NOMEM;
    }
    *to = t;
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Something that can stand in a header: visible, without blanks. */
static int token_read_secret(const struct json *root, const char *name, char **ret,
                             struct tidings_error *err)
{
    int rc = document_text(root, name, TOKEN_TEXT_MAX, ret, err);
    if (rc == 0 && *ret && (strchr(*ret, ' ') || !**ret)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "'%s' is empty or has blanks in it", name);
    }
    return rc;
}

static int token_read_type(const struct json *root, bool is_assertion, struct token_answer *a,
                           struct tidings_error *err)
{
    char shown[40];
    struct tidings_str type = jv_str(jv_get(root, "token_type"));
    struct tidings_str issued = jv_str(jv_get(root, "issued_token_type"));
    if (is_assertion) {
        return str_eq(issued, STR("urn:ietf:params:oauth:token-type:id-jag"))
                   ? 0
                   : tidings_fail(err, TIDINGS_E_PARSE,
                                  "the identity provider issued no assertion of type id-jag");
    }
    a->is_bound = str_eq_nocase(type, STR("DPoP"));
    if (!a->is_bound && !str_eq_nocase(type, STR("Bearer"))) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "tokens of type '%s' are not known (accepted: Bearer, DPoP)",
                            document_shown(type, shown, sizeof(shown)));
    }
    return 0;
}

static void token_read_expiry(const struct json *root, struct token_answer *a)
{
    struct json *expires = jv_get(root, "expires_in");
    uint64_t seconds = 0;
    a->expires_s = -1;
    if (jv_is_number(expires) && jv_real(expires) >= 0) {
        a->expires_s =
            jv_real(expires) < (double)EXPIRES_MAX ? (int64_t)jv_real(expires) : EXPIRES_MAX;
    } else if (str_to_u64(jv_str(expires), &seconds)) { /* some write it as a text */
        a->expires_s = seconds < (uint64_t)EXPIRES_MAX ? (int64_t)seconds : EXPIRES_MAX;
    }
}

static int token_refused(long status, const struct json *root, struct token_answer *a,
                         struct tidings_error *err)
{
    char code[64], why[160];
    struct tidings_str error = jv_str(jv_get(root, "error"));
    struct tidings_str description = jv_str(jv_get(root, "error_description"));
    document_shown(error, code, sizeof(code));
    document_shown(description, why, sizeof(why));
    snprintf(a->error, sizeof(a->error), "%s", code);
    return tidings_fail(err, TIDINGS_E_DENIED,
                        "the authorization server gives no token (HTTP %ld%s%s%s%s)", status,
                        code[0] ? ", " : "", code, why[0] ? ": " : "", why);
}

int token_answer_read(long status, struct tidings_str text, bool is_assertion,
                      struct token_answer *ret, struct tidings_error *err)
{
    struct token_answer a = {.expires_s = -1};
    struct json *root = NULL;
    struct tidings_error unread = {0};
    *ret = a;
    int rc = document_read(text, "the answer of the token endpoint", &root, &unread);
    if (status != 200) {
        int code = status == 429 || status >= 500 ? TIDINGS_E_BUSY : TIDINGS_E_DENIED;
        token_refused(status, root, ret, err);
        jv_unref_secret(root);
        return code == TIDINGS_E_BUSY ? error_wrap(err, code, "try again later") : code;
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", unread.text);
    }
    rc = token_read_secret(root, "access_token", &a.access, err);
    if (rc == 0 && !a.access) {
        rc = jv_get(root, "error") ? token_refused(status, root, ret, err)
                                   : tidings_fail(err, TIDINGS_E_PARSE,
                                                  "the token endpoint answered without a token");
    }
    if (rc == 0) {
        rc = token_read_type(root, is_assertion, &a, err);
    }
    if (rc == 0) {
        rc = token_read_secret(root, "refresh_token", &a.refresh, err);
    }
    if (rc == 0) {
        rc = document_text(root, "scope", SCOPE_MAX, &a.scope, err);
    }
    token_read_expiry(root, &a);
    jv_unref_secret(root);
    if (rc < 0) {
        token_answer_deinit(&a);
        return rc;
    }
    *ret = a;
    return 0;
}

void token_answer_deinit(struct token_answer *a)
{
    str_free_secret(a->access);
    str_free_secret(a->refresh);
    mem_free(a->scope);
    *a = (struct token_answer){0};
}
