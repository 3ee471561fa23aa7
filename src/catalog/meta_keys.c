/* SPDX-License-Identifier: MIT
 *
 * Checking the keys of an application's `_meta`.
 */
#include "catalog/meta_keys.h"

#include "base/error.h"
#include "base/str.h"
#include "json/json.h"

static bool is_reserved(struct tidings_str key)
{
    bool has_prefix = false, more = true;
    struct tidings_str rest, prefix = str_cut(key, '/', &rest, &has_prefix);
    for (size_t i = 0; has_prefix && more; i++) {
        struct tidings_str label = str_cut(prefix, '.', &prefix, &more);
        bool is_theirs = str_eq(label, STR("mcp")) || str_eq(label, STR("modelcontextprotocol"));
        if (is_theirs && (i == 1 || more)) {
            return true;
        }
    }
    return false;
}

static bool is_prefix_ours(struct tidings_str key)
{
    return str_starts(key, STR("dev.tidings/")) || str_starts(key, STR("dev.tidings."));
}

int meta_check(struct tidings_str text, size_t max_bytes, unsigned max_depth,
               struct tidings_error *err)
{
    struct json *meta = NULL, *value = NULL;
    struct tidings_str key;
    if (text.len == 0) {
        return 0;
    }
    if (text.len > max_bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "_meta may be at most %zu bytes long", max_bytes);
    }
    int rc = jv_parse(text, max_depth, &meta, err);
    if (rc < 0) {
        return error_wrap(err, rc, "_meta");
    }
    if (!jv_is(meta, JV_OBJECT)) {
        jv_unref(meta);
        return tidings_fail(err, TIDINGS_E_INVALID, "_meta must be a JSON object");
    }
    for (void *at = jv_next(meta, NULL, &key, &value); at && rc == 0;
         at = jv_next(meta, at, &key, &value)) {
        if (is_reserved(key) || is_prefix_ours(key)) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "_meta: the prefix of '%.*s' is reserved by %s", STR_ARG_MAX(key, 64),
                              is_prefix_ours(key) ? "the server" : "the protocol");
        }
    }
    jv_unref(meta);
    return rc;
}
