/* SPDX-License-Identifier: MIT
 *
 * Merge patches over jansson's values. Both directions walk two objects side by side; everything
 * that is not an object, arrays included, is taken or left whole (RFC 7396 §2).
 */
#include "json/merge_patch.h"

#include <jansson.h>

static json_t *unwrap(const struct json *v)
{
    return (json_t *)(uintptr_t)v;
}

/* Takes `value` also on failure. */
static bool put(json_t *object, const char *key, size_t len, json_t *value)
{
    return value && json_object_setn_new_nocheck(object, key, len, value) == 0;
}

static json_t *apply(json_t *target, json_t *patch);

/* The members of `target` that the patch leaves or changes. */
static bool apply_to_members(json_t *result, json_t *target, json_t *patch)
{
    const char *key;
    size_t len;
    json_t *value;
    json_object_keylen_foreach(target, key, len, value)
    {
        json_t *change = json_object_getn(patch, key, len);
        if (change && json_is_null(change)) {
            continue;
        }
        if (!put(result, key, len, change ? apply(value, change) : json_incref(value))) {
            return false;
        }
    }
    return true;
}

static bool add_members(json_t *result, json_t *target, json_t *patch)
{
    const char *key;
    size_t len;
    json_t *change;
    json_object_keylen_foreach(patch, key, len, change)
    {
        if (json_is_null(change) || json_object_getn(target, key, len)) {
            continue;
        }
        if (!put(result, key, len, apply(NULL, change))) {
            return false;
        }
    }
    return true;
}

static json_t *apply(json_t *target, json_t *patch)
{
    if (!json_is_object(patch)) {
        return json_incref(patch);
    }
    json_t *members = json_is_object(target) ? target : NULL;
    json_t *result = json_object();
    if (!result || !apply_to_members(result, members, patch) ||
        !add_members(result, members, patch)) {
        json_decref(result);
        return NULL;
    }
    return result;
}

struct json *merge_apply(struct json *target, struct json *patch)
{
    return (struct json *)(void *)apply(unwrap(target), unwrap(patch));
}

/* Is there a null that would be read as "remove" when `v` stands in a patch? */
static bool has_null_member(const json_t *v)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        if (json_is_null(value) || has_null_member(value)) {
            return true;
        }
    }
    return false;
}

static int diff(json_t *from, json_t *to, json_t **ret);

static int diff_member(json_t *patch, json_t *from, const char *key, size_t len, json_t *value)
{
    json_t *before = json_object_getn(from, key, len);
    if (before && json_equal(before, value)) {
        return 1;
    }
    json_t *change = NULL;
    int rc = json_is_null(value) ? 0 : diff(before, value, &change);
    if (rc <= 0) {
        return rc;
    }
    return put(patch, key, len, change) ? 1 : TIDINGS_E_NOMEM;
}

static int diff_objects(json_t *patch, json_t *from, json_t *to)
{
    const char *key;
    size_t len;
    json_t *value;
    json_object_keylen_foreach(from, key, len, value)
    {
        if (!json_object_getn(to, key, len) && !put(patch, key, len, json_null())) {
            return TIDINGS_E_NOMEM;
        }
    }
    json_object_keylen_foreach(to, key, len, value)
    {
        int rc = diff_member(patch, from, key, len, value);
        if (rc <= 0) {
            return rc;
        }
    }
    return 1;
}

static int diff(json_t *from, json_t *to, json_t **ret)
{
    if (!json_is_object(to) || !json_is_object(from)) {
        if (has_null_member(to)) {
            return 0;
        }
        *ret = json_incref(to);
        return 1;
    }
    json_t *patch = json_object();
    int rc = patch ? diff_objects(patch, from, to) : TIDINGS_E_NOMEM;
    if (rc <= 0) {
        json_decref(patch);
        return rc;
    }
    *ret = patch;
    return 1;
}

int merge_diff(struct json *from, struct json *to, struct json **ret_patch)
{
    json_t *patch = NULL;
    int rc = diff(unwrap(from), unwrap(to), &patch);
    if (rc == 1) {
        *ret_patch = (struct json *)(void *)patch;
    }
    return rc;
}
