/* SPDX-License-Identifier: MIT
 *
 * The rows of tools/list and prompts/list. JSON texts are parsed and written anew: what lists show
 * is well-formed and compact.
 */
#include "server/feature_row.h"

#include "base/error.h"
#include "base/str.h"

int row_read_json(struct tidings_str text, const char *what, enum jv_type type, struct json **ret,
                  struct tidings_error *err)
{
    int rc = jv_parse(text, ROW_DEPTH, ret, err);
    if (rc < 0) {
        return error_wrap(err, rc, "%s", what);
    }
    if (!jv_is(*ret, type)) {
        jv_unref(*ret);
        return tidings_fail(err, TIDINGS_E_INVALID, "%s must be a JSON %s", what,
                            type == JV_ARRAY ? "array" : "object");
    }
    return 0;
}

int row_put_json(struct jw *w, const char *key, struct tidings_str text, enum jv_type type,
                 struct tidings_error *err)
{
    struct json *value = NULL;
    if (text.len == 0) {
        return 0;
    }
    int rc = row_read_json(text, key, type, &value, err);
    if (rc == 0) {
        jw_key(w, tidings_str(key));
        jw_value(w, value);
        jv_unref(value);
    }
    return rc;
}

void row_put_text(struct jw *w, struct tidings_str key, struct tidings_str text)
{
    if (text.len > 0) {
        jw_put_string(w, key, text);
    }
}
