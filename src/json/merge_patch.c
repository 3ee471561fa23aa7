/* SPDX-License-Identifier: MIT
 *
 * Merge patches of JSON values, applied and made. Both directions walk two objects side by side;
 * everything that is not an object, arrays included, is taken or left whole (RFC 7396 §2). The
 * result is a document of its own that shares nothing with what it was made from.
 */
#include "json/merge_patch.h"

#include "json/build.h"

static bool merge_patch_apply(struct build *b, const struct json *target, const struct json *patch);

/* The members of `target` that the patch leaves or changes. */
static bool apply_to_members(struct build *b, const struct json *target, const struct json *patch)
{
    bool ok = true;
    for (struct json *m = value_first(target); ok && m; m = value_next(target, m)) {
        const struct json *change = value_find(patch, value_text(m));
        if (!change) {
            ok = build_key(b, value_text(m)) && build_copy(b, m + 1);
        } else if (!jv_is(change, JV_NULL)) {
            ok = build_key(b, value_text(m)) && merge_patch_apply(b, m + 1, change);
        }
    }
    return ok;
}

static bool add_members(struct build *b, const struct json *target, const struct json *patch)
{
    bool ok = true;
    for (struct json *m = value_first(patch); ok && m; m = value_next(patch, m)) {
        if (!jv_is(m + 1, JV_NULL) && !jv_get_str(target, value_text(m))) {
            ok = build_key(b, value_text(m)) && merge_patch_apply(b, NULL, m + 1);
        }
    }
    return ok;
}

static bool merge_patch_apply(struct build *b, const struct json *target, const struct json *patch)
{
    if (!jv_is(patch, JV_OBJECT)) {
        return build_copy(b, patch);
    }
    return build_begin(b, JV_OBJECT) && apply_to_members(b, target, patch) &&
           add_members(b, target, patch) && build_end(b);
}

struct json *merge_apply(struct json *target, struct json *patch)
{
    struct build b;
    if (build_init(&b, BUILD_FIRST_VALUES, BUILD_FIRST_TEXT) == 0) {
        (void)merge_patch_apply(&b, target, patch);
    }
    return build_finish(&b);
}

/* Is there a null that would be read as "remove" when `v` stands in a patch? */
static bool has_null_member(const struct json *v)
{
    for (struct json *m = value_first(v); m; m = value_next(v, m)) {
        if (jv_is(m + 1, JV_NULL) || has_null_member(m + 1)) {
            return true;
        }
    }
    return false;
}

static int merge_patch_diff(struct build *b, const struct json *from, const struct json *to);

static int diff_member(struct build *b, const struct json *from, const struct json *m)
{
    const struct json *before = value_find(from, value_text(m));
    if (before && jv_equal(before, m + 1)) {
        return 1;
    }
    if (jv_is(m + 1, JV_NULL)) {
        return 0;
    }
    return build_key(b, value_text(m)) ? merge_patch_diff(b, before, m + 1) : TIDINGS_E_NOMEM;
}

static int diff_members(struct build *b, const struct json *from, const struct json *to)
{
    for (struct json *m = value_first(from); m; m = value_next(from, m)) {
        if (!value_find(to, value_text(m)) && !(build_key(b, value_text(m)) && build_null(b))) {
            return TIDINGS_E_NOMEM;
        }
    }
    for (struct json *m = value_first(to); m; m = value_next(to, m)) {
        int rc = diff_member(b, from, m);
        if (rc <= 0) {
            return rc;
        }
    }
    return 1;
}

static int merge_patch_diff(struct build *b, const struct json *from, const struct json *to)
{
    if (!jv_is(to, JV_OBJECT) || !jv_is(from, JV_OBJECT)) {
        return has_null_member(to) ? 0 : build_copy(b, to) ? 1 : TIDINGS_E_NOMEM;
    }
    int rc = build_begin(b, JV_OBJECT) ? diff_members(b, from, to) : TIDINGS_E_NOMEM;
    return rc <= 0 ? rc : build_end(b) ? 1 : TIDINGS_E_NOMEM;
}

int merge_diff(struct json *from, struct json *to, struct json **ret_patch)
{
    struct build b;
    int rc = build_init(&b, BUILD_FIRST_VALUES, BUILD_FIRST_TEXT);
    rc = rc == 0 ? merge_patch_diff(&b, from, to) : rc;
    if (rc == 1) {
        *ret_patch = build_finish(&b);
    } else {
        build_discard(&b);
    }
    return rc;
}
