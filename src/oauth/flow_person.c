/* SPDX-License-Identifier: MIT
 *
 * The steps in which a person agrees: in a browser on this machine, or anywhere with a code
 * (RFC 8628).
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/encoded_form.h"
#include "oauth/flow_private.h"

#define INTERVAL_MS 5000u
#define INTERVAL_MAX_MS 60000u
#define EXPIRES_MAX_S 3600

static const char *flow_scope(const struct flow *f)
{
    return f->scope.len > 0 ? f->scope.ptr : NULL;
}

/* ---- a browser ------------------------------------------------------------------------------- */

static void flow_put_address(struct flow *f, struct buf *out)
{
    struct buf challenge;
    const char *endpoint = f->issuer.authorization_endpoint;
    const char *scope = flow_scope(f);
    bool is_offline = scope && scope_has(tidings_str(scope), STR("offline_access"));
    buf_init(&challenge, 64);
    pkce_put_challenge(&challenge, f->verifier);
    buf_puts(out, tidings_str(endpoint));
    if (!strchr(endpoint, '?')) {
        buf_putc(out, '?');
    }
    encoded_form_put(out, "response_type", "code");
    encoded_form_put(out, "client_id", f->client_id);
    encoded_form_put(out, "redirect_uri", f->redirect_uri);
    encoded_form_put(out, "state", f->state);
    encoded_form_put(out, "code_challenge", challenge.ptr);
    encoded_form_put(out, "code_challenge_method", "S256");
    encoded_form_put(out, "resource", f->resource.resource ? f->resource.resource : f->server);
    encoded_form_put(out, "scope", scope);
    encoded_form_put(out, "prompt", is_offline ? "consent" : NULL); /* OpenID Connect Core §11 */
    buf_deinit(&challenge);
}

static void flow_ask_person(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    struct buf address;
    if (!flow_may_ask(f, f->issuer.authorization_endpoint)) {
        return;
    }
    buf_init(&address, 65536);
    flow_put_address(f, &address);
    alarm_set(&f->deadline, s->login_ms);
    int rc = address.failed ? address.failed : s->on_open(s->user, address.ptr);
    buf_deinit(&address);
    if (rc != 0) {
        flow_failf(f, rc < 0 ? rc : TIDINGS_E_DENIED, "the address of the login cannot be shown");
    }
}

/* ---- another device -------------------------------------------------------------------------- */

static uint64_t flow_interval(const struct json *document)
{
    int64_t seconds = jv_int(jv_get(document, "interval"));
    uint64_t ms = seconds > 0 && seconds < INT32_MAX ? (uint64_t)seconds * 1000 : INTERVAL_MS;
    return ms < INTERVAL_MAX_MS ? ms : INTERVAL_MAX_MS;
}

static void flow_on_next(void *user)
{
    flow_ask_token(user);
}

static void flow_show_code(struct flow *f, const struct json *document)
{
    const struct oauth_settings *s = f->host.settings;
    char *url = NULL, *code = NULL;
    struct tidings_error why = {0};
    int64_t expires = jv_int(jv_get(document, "expires_in"));
    uint64_t limit =
        expires > 0 && expires < EXPIRES_MAX_S ? (uint64_t)expires * 1000 : s->login_ms;
    int rc = document_url(document, "verification_uri", &url, &why);
    if (rc == 0) {
        rc = document_text(document, "user_code", 64, &code, &why);
    }
    if (rc == 0) {
        rc = document_text(document, "device_code", TOKEN_TEXT_MAX, &f->device_code, &why);
    }
    if (rc == 0 && (!url || !code || !f->device_code)) {
        rc = tidings_fail(&why, TIDINGS_E_PARSE,
                          "the authorization server gave no code for a device");
    }
    if (rc == 0 && s->on_device(s->user, url, code) != 0) {
        rc = tidings_fail(&why, TIDINGS_E_DENIED, "the code of the login cannot be shown");
    }
    mem_free(url);
    mem_free(code);
    if (rc < 0) {
        flow_fail(f, &why);
        return;
    }
    f->interval_ms = flow_interval(document);
    f->next.fn = flow_on_next;
    alarm_set(&f->deadline, limit < s->login_ms ? limit : s->login_ms);
    alarm_set(&f->next, f->interval_ms);
}

static void flow_on_device(struct flow *f, const struct flow_answer *answer)
{
    struct json *root = NULL;
    struct tidings_error why = {0};
    char shown[120];
    int rc = document_read(answer->body, "the answer for a device", &root, &why);
    if (answer->status != 200) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "the authorization server gives no code for a device (HTTP %ld, %s)",
                   answer->status,
                   document_shown(jv_str(jv_get(root, "error")), shown, sizeof(shown)));
    } else if (rc < 0) {
        flow_fail(f, &why);
    } else {
        flow_show_code(f, root);
    }
    jv_unref_secret(root);
}

static void flow_ask_device(struct flow *f)
{
    struct buf form;
    if (!f->host.settings->on_device) {
        flow_failf(f, TIDINGS_E_DENIED, "nobody is there to log in: log in first");
        return;
    }
    buf_init(&form, 65536);
    encoded_form_put(&form, "scope", flow_scope(f));
    encoded_form_put(&form, "resource", f->resource.resource ? f->resource.resource : f->server);
    flow_post_form(f, f->issuer.device_endpoint, &form, flow_on_device);
    buf_deinit(&form);
}

/* ---- by the grant ---------------------------------------------------------------------------- */

void flow_identified(struct flow *f)
{
    switch (f->host.settings->grant) {
    case TIDINGS_OAUTH_CODE:
        flow_ask_person(f);
        break;
    case TIDINGS_OAUTH_DEVICE:
        flow_ask_device(f);
        break;
    case TIDINGS_OAUTH_ENTERPRISE:
        flow_ask_assertion(f);
        break;
    case TIDINGS_OAUTH_CLIENT:
    case TIDINGS_OAUTH_ASSERTION:
        flow_ask_token(f);
        break;
    }
}
