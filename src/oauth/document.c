/* SPDX-License-Identifier: MIT
 *
 * Reads members of JSON documents that strangers wrote.
 */
#include "oauth/document.h"

#include "base/error.h"
#include "base/mem.h"
#include "oauth/scope.h"
#include "oauth/url.h"

int document_read(struct tidings_str text, const char *what, struct json **ret,
                  struct tidings_error *err)
{
    struct json *root = NULL;
    int rc = text.len > DOCUMENT_MAX
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "larger than %u bytes", DOCUMENT_MAX)
                 : jv_parse(text, 32, &root, err);
    if (rc < 0) {
        return error_wrap(err, rc, "%s", what);
    }
    if (!jv_is(root, JV_OBJECT)) {
        jv_unref(root);
        return tidings_fail(err, TIDINGS_E_PARSE, "%s is no JSON object", what);
    }
    *ret = root;
    return 0;
}

int document_text(const struct json *document, const char *name, size_t max, char **ret,
                  struct tidings_error *err)
{
    struct json *member = jv_get(document, name);
    struct tidings_str text = jv_str(member);
    *ret = NULL;
    if (!member || jv_is(member, JV_NULL)) {
        return 0;
    }
    bool is_fit = jv_is(member, JV_STRING) && text.len <= max;
    for (size_t i = 0; is_fit && i < text.len; i++) {
        is_fit = text.ptr[i] >= ' ' && text.ptr[i] <= '~';
    }
    if (!is_fit) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "'%s' is no text of visible characters, at most %zu", name, max);
    }
    *ret = str_dup(text);
    return *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int document_url(const struct json *document, const char *name, char **ret,
                 struct tidings_error *err)
{
    struct url u;
    char shown[120];
    int rc = document_text(document, name, URL_MAX, ret, err);
    if (rc < 0 || !*ret) {
        return rc;
    }
    if (!url_read(tidings_str(*ret), &u) || !url_is_safe(&u)) {
        tidings_fail(err, TIDINGS_E_DENIED,
                     "'%s' is '%s': only https is used, and http on this very machine", name,
                     document_shown(tidings_str(*ret), shown, sizeof(shown)));
        mem_free(*ret);
        *ret = NULL;
        return TIDINGS_E_DENIED;
    }
    return 0;
}

bool document_lists(const struct json *document, const char *name, const char *text)
{
    struct json *list = jv_get(document, name);
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), tidings_str(text))) {
            return true;
        }
    }
    return false;
}

int document_scopes(const struct json *document, const char *name, char **ret)
{
    struct json *list = jv_get(document, name);
    struct buf all;
    size_t bytes = 0;
    *ret = NULL;
    if (!jv_is(list, JV_ARRAY)) {
        return 0;
    }
    buf_init(&all, SCOPE_MAX);
    buf_put(&all, "", 0);
    for (size_t i = 0; i < jv_count(list) && !all.failed && bytes <= SCOPES_MAX; i++) {
        struct tidings_str words = jv_str(jv_at(list, i));
        bytes += words.len;
        scope_add(&all, bytes <= SCOPES_MAX ? words : STR_EMPTY); /* each is held against all */
    }
    int rc = bytes > SCOPES_MAX ? TIDINGS_E_LIMIT : all.failed;
    *ret = rc == 0 ? buf_detach(&all, NULL) : NULL;
    buf_deinit(&all);
    return rc;
}

const char *document_shown(struct tidings_str text, char *out, size_t size)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = text.ptr[i] >= ' ' && text.ptr[i] <= '~' ? text.ptr[i] : '?';
    }
    out[n] = '\0';
    return out;
}
