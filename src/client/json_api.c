/* SPDX-License-Identifier: MIT
 *
 * Implements <tidings/json.h>, the JSON functions for programs: strings in and strings out.
 */
#include "client/json_api.h"

#include <tidings/json.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client_internal.h"
#include "formats/json.h"
#include "formats/json_parse.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * Writing a JSON value into memory that the program frees.
 */

char *json_text_of(const struct tidings_client *c, const struct json *value, size_t *ret_len)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 2 * c->settings.max_bytes);
    jw_init(&w, &out);
    jw_value(&w, value);
    if (out.failed) {
        buf_deinit(&out);
    }
    return buf_detach(&out, ret_len);
}

/* ---------------------------------------------------------------------------------------------- */

#define TEXT_MAX ((size_t)1 << 30)

/* NULL: it is too long, or there is no memory. */
static char *json_as_text(const struct json *value)
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
    if (json_parse_lenient(json, &root, NULL, NULL) < 0) {
        return NULL;
    }
    const struct json *value = jv_point(root, tidings_str(pointer));
    char *text = value ? json_as_text(value) : NULL;
    jv_unref(root);
    return text;
}

char *tidings_json_text(struct tidings_str json, const char *pointer, size_t *ret_len)
{
    struct json *root = NULL;
    if (json_parse_lenient(json, &root, NULL, NULL) < 0) {
        return NULL;
    }
    const struct json *value = jv_point(root, tidings_str(pointer));
    struct tidings_str s = jv_str(value);
    char *text = jv_is(value, JV_STRING) ? str_dup(s) : NULL;
    *ret_len = s.len;
    jv_unref(root);
    return text;
}

char *tidings_json_string(struct tidings_str json, const char *pointer)
{
    size_t len = 0;
    char *text = tidings_json_text(json, pointer, &len);
    if (text && strlen(text) != len) {
        mem_free(text);
        text = NULL;
    }
    return text;
}

char *tidings_json_bytes(struct tidings_str json, const char *pointer, size_t *ret_len)
{
    struct json *root = NULL;
    struct buf out;
    if (json_parse_lenient(json, &root, NULL, NULL) < 0) {
        return NULL;
    }
    buf_init(&out, TEXT_MAX);
    const struct json *value = jv_point(root, tidings_str(pointer));
    bool is_good = jv_is(value, JV_STRING) && base64_decode(&out, jv_str(value)) == 0 &&
                   buf_reserve(&out, 1) == 0;
    jv_unref(root);
    if (!is_good) {
        buf_deinit(&out);
        return NULL;
    }
    out.ptr[out.len] = '\0';
    return buf_detach(&out, ret_len);
}

static int json_emit(tidings_json_each_fn fn, void *user, struct tidings_str key,
                     const struct json *value)
{
    char *text = json_as_text(value);
    if (!text) {
        return TIDINGS_E_NOMEM;
    }
    int rc = fn(user, key, tidings_str(text));
    mem_free(text);
    return rc;
}

int tidings_json_each(struct tidings_str json, const char *pointer, tidings_json_each_fn fn,
                      void *user)
{
    struct json *root = NULL;
    int rc = 0;
    if (json_parse_lenient(json, &root, NULL, NULL) < 0) {
        return TIDINGS_E_NOTFOUND;
    }
    struct json *at = jv_point(root, tidings_str(pointer));
    if (jv_is(at, JV_OBJECT)) {
        struct tidings_str key;
        struct json *value;
        for (void *it = NULL; rc == 0 && (it = jv_next(at, it, &key, &value)) != NULL;) {
            rc = json_emit(fn, user, key, value);
        }
    } else if (jv_is(at, JV_ARRAY)) {
        for (size_t i = 0; rc == 0 && i < jv_count(at); i++) {
            rc = json_emit(fn, user, STR_EMPTY, jv_at(at, i));
        }
    } else {
        rc = TIDINGS_E_NOTFOUND;
    }
    jv_unref(root);
    return rc;
}

char *tidings_json_quote(struct tidings_str text)
{
    struct buf out;
    struct jw w;
    buf_init(&out, TEXT_MAX);
    jw_init(&w, &out);
    jw_string(&w, text);
    if (out.failed) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

char *tidings_json_quote_bytes(struct tidings_str bytes)
{
    struct buf out;
    buf_init(&out, TEXT_MAX);
    buf_putc(&out, '"');
    base64_put(&out, bytes);
    buf_putc(&out, '"');
    if (out.failed) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

char *tidings_json_compact(struct tidings_str text, struct tidings_error *err)
{
    struct json *root = NULL;
    char *result = NULL;
    char *copy = str_dup(text);
    unsigned unclosed = copy ? json_blank_comments(copy, text.len) : 0;
    if (!copy) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (unclosed > 0) {
        tidings_fail(err, TIDINGS_E_PARSE, "line %u: the comment is never closed", unclosed);
    } else {
        json_blank_commas(copy, text.len);
        if (jv_parse(tidings_strn(copy, text.len), JSON_MAX_DEPTH, &root, err) == 0) {
            result = json_as_text(root);
            if (!result) {
                tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            }
        }
    }
    jv_unref(root);
    mem_free(copy);
    return result;
}

char *tidings_json_pretty(struct tidings_str json)
{
    struct buf out;
    char *compact = tidings_json_get(json, "");
    buf_init(&out, TEXT_MAX);
    if (!compact || json_pretty(&out, tidings_str(compact)) < 0) {
        mem_free(compact);
        buf_deinit(&out);
        return NULL;
    }
    mem_free(compact);
    return buf_detach(&out, NULL);
}

char *tidings_json_merge(struct tidings_str target, struct tidings_str patch,
                         struct tidings_error *err)
{
    struct json *a = NULL, *b = NULL, *merged = NULL;
    char *text = NULL;
    int rc = target.len > 0 ? json_parse_lenient(target, &a, NULL, err) : 0;
    if (rc < 0) {
        error_wrap(err, rc, "target");
    } else if ((rc = json_parse_lenient(patch, &b, NULL, err)) < 0) {
        error_wrap(err, rc, "patch");
    } else {
        merged = merge_apply(a, b);
        text = merged ? json_as_text(merged) : NULL;
        if (!text) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    jv_unref(merged);
    jv_unref(b);
    jv_unref(a);
    return text;
}
