/* SPDX-License-Identifier: MIT
 *
 * <tidings/json.h>: our JSON for programs, texts in and texts out.
 */
#include <tidings/json.h>

#include "base/error.h"
#include "base/str.h"
#include "json/json.h"
#include "json/merge_patch.h"
#include "json/pointer.h"
#include "json/write.h"

#define TEXT_MAX ((size_t)1 << 30)

/* NULL: it is too long, or there is no memory. */
static char *as_text(const struct json *value)
{
    struct buf out;
    struct jw w;
    buf_init(&out, TEXT_MAX);
    jw_init(&w, &out);
    jw_value(&w, value);
    if (out.failed) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

char *tidings_json_get(struct tidings_str json, const char *pointer)
{
    struct json *root = NULL;
    if (jv_parse(json, JSON_MAX_DEPTH, &root, NULL) < 0) {
        return NULL;
    }
    const struct json *value = jv_point(root, tidings_str(pointer));
    char *text = value ? as_text(value) : NULL;
    jv_unref(root);
    return text;
}

char *tidings_json_string(struct tidings_str json, const char *pointer)
{
    struct json *root = NULL;
    if (jv_parse(json, JSON_MAX_DEPTH, &root, NULL) < 0) {
        return NULL;
    }
    const struct json *value = jv_point(root, tidings_str(pointer));
    struct tidings_str s = jv_str(value);
    bool is_plain = jv_is(value, JV_STRING) && (s.len == 0 || !memchr(s.ptr, '\0', s.len));
    char *text = is_plain ? str_dup(s) : NULL;
    jv_unref(root);
    return text;
}

char *tidings_json_merge(struct tidings_str target, struct tidings_str patch,
                         struct tidings_error *err)
{
    struct json *a = NULL, *b = NULL, *merged = NULL;
    char *text = NULL;
    int rc = target.len > 0 ? jv_parse(target, JSON_MAX_DEPTH, &a, err) : 0;
    if (rc < 0) {
        error_wrap(err, rc, "target");
    } else if ((rc = jv_parse(patch, JSON_MAX_DEPTH, &b, err)) < 0) {
        error_wrap(err, rc, "patch");
    } else {
        merged = merge_apply(a, b);
        text = merged ? as_text(merged) : NULL;
        if (!text) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    jv_unref(merged);
    jv_unref(b);
    jv_unref(a);
    return text;
}
