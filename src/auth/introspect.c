/* SPDX-License-Identifier: MIT
 *
 * Asking about one token, and reading what is said of it.
 */
#include "auth/introspect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/whole_file.h"
#include "json/json.h"

#define CREDENTIALS_MAX 4096u
#define DEPTH_MAX 16u
#define CREDENTIALS_KEY STR("credentials")

/* application/x-www-form-urlencoded, of what needs it. */
static void put_encoded(struct buf *out, struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            buf_putc(out, (char)c);
        } else {
            buf_putf(out, "%%%02X", c);
        }
    }
}

/* ---- credentials ----------------------------------------------------------------------------- */

struct credentials {
    struct shared_value value;
    char header[];
};

static void destroy(struct shared_value *value)
{
    struct credentials *c = list_entry(value, struct credentials, value);
    mem_free_secret(c, sizeof(*c) + strlen(c->header));
}

struct shared_value *credentials_value(struct credentials *c)
{
    return &c->value;
}

static int put_header(struct buf *out, struct tidings_str line, struct tidings_error *err)
{
    struct buf pair;
    struct tidings_str secret;
    bool found = false;
    struct tidings_str id = str_cut(line, ':', &secret, &found);
    if (!found || id.len == 0 || str_find(line, '\n') >= 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "one line 'CLIENT_ID:SECRET' is expected");
    }
    buf_init_secret(&pair, 4 * CREDENTIALS_MAX);
    put_encoded(&pair, id);
    buf_putc(&pair, ':');
    put_encoded(&pair, secret);
    buf_puts(out, STR("Authorization: Basic "));
    base64_put(out, buf_str(&pair));
    int failed = pair.failed ? pair.failed : out->failed;
    buf_deinit(&pair);
    return failed ? tidings_fail(err, failed, "out of memory") : 0;
}

int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err)
{
    struct buf text, header;
    struct credentials *c = NULL;
    buf_init_secret(&text, 4 * CREDENTIALS_MAX);
    buf_init_secret(&header, 8 * CREDENTIALS_MAX);
    int rc = whole_file_read(path, CREDENTIALS_MAX, &text, err);
    if (rc == 0) {
        rc = put_header(&header, str_trim(buf_str(&text), "\r\n"), err);
        rc = rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
    }
    if (rc == 0) {
        c = mem_zalloc(sizeof(*c) + header.len + 1);
        rc = c ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (c) {
        c->value = (struct shared_value){CREDENTIALS_KEY, destroy, 1};
        memcpy(c->header, header.ptr, header.len);
        *ret = c;
    }
    buf_deinit(&text);
    buf_deinit(&header);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct verdict unavailable = {
    .outcome = AUTH_UNAVAILABLE,
    .why = "the authorization server cannot be asked at the moment",
};

static bool is_trusted(const struct auth *a, struct tidings_str issuer)
{
    bool found = a->issuer_count == 0;
    for (size_t i = 0; i < a->issuer_count && !found; i++) {
        found = str_eq(issuer, tidings_str(a->issuers[i].name));
    }
    return found;
}

/* Some servers say so of a refresh token, which is active too. */
static bool is_access_token(const struct json *use)
{
    return !use || str_eq(jv_str(use), STR("access_token")) || str_eq(jv_str(use), STR("access"));
}

static const char *read_active(const struct auth *a, const struct json *root, int64_t now_ms,
                               struct identity **ret)
{
    const struct json *issuer = jv_get(root, "iss");
    struct claims_rules rules = auth_rules(a, false);
    struct claims claims;
    if (issuer && !is_trusted(a, jv_str(issuer))) {
        return "the issuer of the token is not trusted here";
    }
    if (!is_access_token(jv_get(root, "token_use"))) {
        return "the token is no access token";
    }
    const char *why = claims_check(root, &rules, now_ms, &claims);
    if (why) {
        return why;
    }
    struct tidings_str prefix = a->issuer_count < 2 ? STR_EMPTY
                                : issuer            ? jv_str(issuer)
                                                    : tidings_str(a->introspection);
    if (!identity_fits(prefix, claims.name)) {
        return "the name in the token is too long";
    }
    *ret = identity_create(prefix, claims.name, &claims.scopes, claims.expires_ms,
                           AUTH_BY_INTROSPECTION);
    return NULL;
}

void introspect_read(const struct auth *a, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret)
{
    struct json *root = NULL;
    *ret = unavailable;
    if (jv_parse(body, DEPTH_MAX, &root, NULL) < 0) {
        return;
    }
    const struct json *active = jv_get(root, "active");
    if (jv_is(active, JV_FALSE)) {
        *ret = (struct verdict){.outcome = AUTH_INVALID, .why = "the token is not active"};
    } else if (jv_is_true(active)) {
        struct identity *i = NULL;
        const char *why = read_active(a, root, now_ms, &i);
        if (why) {
            *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
        } else if (i) {
            i->until_ms = now_ms + INTROSPECT_REMEMBER_MS;
            *ret = (struct verdict){.outcome = AUTH_OK, .identity = i};
        }
    }
    jv_unref(root);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Said when it begins and when it is over, not for every request. */
static void note(struct auth *a, bool failed, long status, const char *why)
{
    bool before = __atomic_exchange_n(&a->is_failing, failed, __ATOMIC_RELAXED);
    if (failed) {
        __atomic_add_fetch(&a->fetches.failures, 1, __ATOMIC_RELAXED);
    }
    if (failed && !before) {
        log_warn("tokens cannot be introspected", "url=%s status=%ld reason=\"%s\"",
                 a->introspection, status, why);
    } else if (!failed && before) {
        log_info("tokens can be introspected again", "url=%s", a->introspection);
    }
}

static void on_answer(void *user, long status, struct tidings_str body,
                      const struct tidings_error *err)
{
    struct auth_question *q = user;
    q->verdict = unavailable;
    if (status == 200) {
        introspect_read(q->auth, body, clock_wall_ms(), &q->verdict);
    }
    note(q->auth, q->verdict.outcome == AUTH_UNAVAILABLE, status,
         status == 0 ? err->text : "an answer with 'active' is expected");
    question_return(q);
}

void introspect(struct remote *r, struct auth_question *q)
{
    struct buf form;
    struct shared_value *value = shared_map_find(q->auth->shared, CREDENTIALS_KEY);
    buf_init_secret(&form, 4 * AUTH_TOKEN_MAX);
    buf_puts(&form, STR("token_type_hint=access_token&token="));
    put_encoded(&form, tidings_strn(q->token, q->token_len));
    const struct remote_request request = {
        .url = q->auth->introspection,
        .authorization = value ? list_entry(value, struct credentials, value)->header : NULL,
        .form = buf_str(&form),
    };
    __atomic_add_fetch(&q->auth->fetches.introspections, 1, __ATOMIC_RELAXED);
    if (form.failed || remote_fetch(r, &request, on_answer, q) < 0) {
        q->verdict = unavailable;
        question_return(q);
    }
    buf_deinit(&form);
    shared_value_unref(value);
}
