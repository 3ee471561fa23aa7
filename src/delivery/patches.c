/* SPDX-License-Identifier: MIT
 *
 * Writes what a patch subscription is told of a change, as a JSON object.
 */
#include "delivery/patches.h"

#include "store/change.h"
#include "json/merge_patch.h"

/* Our own text: it holds no more levels than this around what is quoted in it. */
#define CONTENTS_DEPTH 16u

static bool is_json(struct tidings_str mime_type)
{
    struct tidings_str type =
        str_trim(str_cut(mime_type, ';', &(struct tidings_str){0}, NULL), " ");
    return str_eq_nocase(type, STR("application/json")) || str_ends(type, STR("+json"));
}

/* The first element that is JSON. */
static struct json *find_json(struct json *contents)
{
    for (size_t i = 0; i < jv_count(contents); i++) {
        struct json *element = jv_at(contents, i);
        if (jv_get(element, "text") && is_json(jv_str(jv_get(element, "mimeType")))) {
            return element;
        }
    }
    return NULL;
}

/* The members of a patch; false: none can say it, or it is not known from what. */
static bool put_patch(struct jw *w, const struct baseline *from, struct tidings_str etag,
                      struct json *to)
{
    struct json *before = NULL, *patch = NULL;
    if (!from || (!from->content && !str_eq(baseline_etag(from), etag))) {
        return false;
    }
    if (from->content) {
        (void)jv_parse(tidings_strn(from->content, from->content_len), JSON_MAX_DEPTH, &before,
                       NULL);
    }
    bool known = merge_diff(before ? before : to, to, &patch) == 1;
    if (known) {
        jw_put_string(w, STR("baseline"), baseline_etag(from));
        jw_key(w, STR("patch"));
        jw_value(w, patch);
    }
    jv_unref(patch);
    jv_unref(before);
    return known;
}

static void patches_put_json(struct jw *w, const struct baseline *from, struct tidings_str etag,
                             struct json *to)
{
    if (!put_patch(w, from, etag, to)) {
        jw_put_bool(w, STR("full"), true);
        jw_key(w, STR("value"));
        jw_value(w, to);
    }
}

void patch_write(struct buf *out, struct baselines *all, struct tidings_str uri,
                 const struct baseline *from, struct tidings_str contents, struct baseline **ret_to)
{
    struct json *root = NULL, *value = NULL;
    struct jw w;
    *ret_to = NULL;
    if (jv_parse(contents, CONTENTS_DEPTH, &root, NULL) < 0) {
        out->failed = TIDINGS_E_NOMEM;
        return;
    }
    struct json *element = find_json(root);
    struct json *own = element ? element : jv_at(root, 0);
    struct tidings_str etag = jv_str(jv_get(jv_get(own, "_meta"), "dev.tidings/etag"));
    struct tidings_str text = jv_str(jv_get(element, "text"));
    bool is_value = element && jv_parse(text, JSON_MAX_DEPTH, &value, NULL) == 0;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("etag"), etag);
    if (is_value) {
        patches_put_json(&w, from, etag, value);
        *ret_to = out->failed ? NULL : baseline_get(all, uri, etag, text);
    } else {
        jw_put_bool(&w, STR("full"), true);
        jw_put_raw(&w, STR("contents"), contents);
    }
    jw_end_object(&w);
    jv_unref(value);
    jv_unref(root);
}

void patch_write_deleted(struct buf *out, const struct change *change, const struct baseline *from)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (change->etag.len > 0) {
        jw_put_string(&w, STR("etag"), change->etag);
    }
    if (from) {
        jw_put_string(&w, STR("baseline"), baseline_etag(from));
    }
    jw_put_bool(&w, STR("deleted"), true);
    jw_end_object(&w);
}
