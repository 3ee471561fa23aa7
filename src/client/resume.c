/* SPDX-License-Identifier: MIT
 *
 * Keeping the cursor of a stream and the versions that were told. Cursors are texts without a
 * meaning to us.
 */
#include "client/resume.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/version.h"
#include "json/write.h"

struct seen {
    struct list link; /* in order */
    struct tidings_str key;
    uint64_t life; /* of the connection it was told on */
    uint8_t version_len;
    bool has_epoch;
    char text[]; /* the key, then the version */
};

void resume_init(struct resume *r)
{
    *r = (struct resume){0};
    map_init(&r->seen);
    list_init(&r->order);
    resume_interrupted(r);
}

static void resume_drop(struct resume *r, struct seen *s)
{
    map_remove(&r->seen, s->key);
    list_remove(&s->link);
    mem_free(s);
}

void resume_deinit(struct resume *r)
{
    list_each (it, next, &r->order) {
        resume_drop(r, list_entry(it, struct seen, link));
    }
    map_deinit(&r->seen);
}

void resume_interrupted(struct resume *r)
{
    r->lives++;
}

bool resume_is_cursor(struct tidings_str text)
{
    return text.len > 0 && text.len < RESUME_MAX_CURSOR && !memchr(text.ptr, '\0', text.len);
}

void resume_take(struct resume *r, struct tidings_str cursor)
{
    if (resume_is_cursor(cursor)) {
        memcpy(r->cursor, cursor.ptr, cursor.len);
        r->cursor[cursor.len] = '\0';
    }
}

/* ---- what was told --------------------------------------------------------------------------- */

/* `epoch.number`; of what has no such form nothing, which is the same as no other. */
static struct tidings_str epoch_of(struct tidings_str version, struct tidings_str *ret_number)
{
    bool found;
    struct tidings_str epoch = str_cut(version, '.', ret_number, &found);
    uint64_t n;
    return found && str_to_u64(*ret_number, &n) ? epoch : STR_EMPTY;
}

static bool is_newer(const struct resume *r, const struct seen *last, struct tidings_str version,
                     bool has_epoch)
{
    struct tidings_str told = tidings_strn(last->text + last->key.len, last->version_len), a, b;
    if (last->has_epoch != has_epoch) {
        return true;
    }
    if (has_epoch) {
        struct tidings_str epoch = epoch_of(version, &a);
        bool is_same = epoch.len > 0 && str_eq(epoch, epoch_of(told, &b));
        return !is_same || version_compare(a, b) == VERSION_NEWER;
    }
    enum version_order order = version_compare(version, told);
    return last->life != r->lives || order == VERSION_NEWER || order == VERSION_UNKNOWN;
}

/* Out of memory costs a repetition at worst. */
static void resume_remember(struct resume *r, struct tidings_str key, struct tidings_str version,
                            bool has_epoch)
{
    struct seen *s = mem_alloc(sizeof(*s) + key.len + version.len);
    void *old = NULL;
    if (!s) {
        return;
    }
    char *at = s->text;
    s->key = str_pack(&at, key);
    (void)str_pack(&at, version);
    s->version_len = (uint8_t)version.len;
    s->has_epoch = has_epoch;
    s->life = r->lives;
    if (map_put(&r->seen, s->key, s, &old) < 0) {
        mem_free(s);
        return;
    }
    list_append(&r->order, &s->link);
    if (old) {
        list_remove(&((struct seen *)old)->link);
        mem_free(old);
    } else if (r->seen.count > RESUME_MAX_SEEN) {
        resume_drop(r, list_entry(r->order.next, struct seen, link));
    }
}

bool resume_is_new(struct resume *r, uint64_t watch, struct tidings_str uri,
                   struct tidings_str version, bool has_epoch)
{
    struct buf key;
    if (version.len == 0 || version.len > VERSION_MAX) {
        return true;
    }
    buf_init(&key, uri.len + 24);
    buf_putf(&key, "%" PRIu64 " ", watch);
    buf_puts(&key, uri);
    const struct seen *last = key.failed ? NULL : map_find(&r->seen, buf_str(&key));
    bool is_new = !last || is_newer(r, last, version, has_epoch);
    if (is_new && !key.failed) {
        resume_remember(r, buf_str(&key), version, has_epoch);
    }
    buf_deinit(&key);
    return is_new;
}

/* ---- asking again ---------------------------------------------------------------------------- */

bool resume_has_baseline(const char *options)
{
    return options && strstr(options, "\"baseline\"");
}

void resume_put_options(const char *options, const char *since, bool bookmarks, struct buf *out)
{
    struct json *root = NULL;
    struct tidings_str key;
    struct json *value;
    struct jw w;
    bool has_since = since[0] != '\0' && !resume_has_baseline(options);
    if (!has_since && !bookmarks) {
        buf_puts(out, options ? tidings_str(options) : STR_EMPTY);
        return;
    }
    jw_init(&w, out);
    jw_begin_object(&w);
    if (options && jv_parse(tidings_str(options), JSON_MAX_DEPTH, &root, NULL) == 0) {
        for (void *at = jv_next(root, NULL, &key, &value); at;
             at = jv_next(root, at, &key, &value)) {
            /* What there is now was told when it was accepted first. */
            bool is_over = str_eq(key, STR("since")) || str_eq(key, STR("initial"));
            if (!(has_since && is_over) && !(bookmarks && str_eq(key, STR("bookmarks")))) {
                jw_key(&w, key);
                jw_value(&w, value);
            }
        }
        jv_unref(root);
    }
    if (has_since) {
        jw_put_string(&w, STR("since"), tidings_str(since));
    }
    if (bookmarks) {
        jw_put_bool(&w, STR("bookmarks"), true);
    }
    jw_end_object(&w);
}
