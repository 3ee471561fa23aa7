/* SPDX-License-Identifier: MIT
 *
 * Keeping the cursor of a stream and the versions that were told. Cursors are texts without a
 * meaning to us; versions are `epoch.number` or a number.
 */
#include "client/resume.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "json/write.h"

struct seen {
    struct list link; /* in order */
    struct tidings_str key;
    uint64_t number;
    size_t epoch_len;
    char text[]; /* the key, then the epoch */
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
    snprintf(r->life, sizeof(r->life), "%" PRIu64, ++r->lives);
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

/* ---- versions -------------------------------------------------------------------------------- */

struct mark {
    struct tidings_str epoch;
    uint64_t number;
};

/* false: no version that could be compared. */
static bool read_mark(const struct resume *r, struct tidings_str text, struct mark *ret)
{
    const char *dot = text.len > 0 ? memchr(text.ptr, '.', text.len) : NULL;
    size_t i = dot ? (size_t)(dot - text.ptr) + 1 : 0, first = i;
    ret->epoch = dot ? tidings_strn(text.ptr, i) : tidings_str(r->life);
    ret->number = 0;
    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        if (ret->number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        ret->number = ret->number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    return i > first && i == text.len && (!dot || dot > text.ptr);
}

/* ---- what was told --------------------------------------------------------------------------- */

/* NULL: out of memory, which costs a repetition at worst. */
static struct seen *resume_create(struct tidings_str key, const struct mark *m)
{
    struct seen *s = mem_alloc(sizeof(*s) + key.len + m->epoch.len);
    if (!s) {
        return NULL;
    }
    memcpy(s->text, key.ptr, key.len);
    memcpy(s->text + key.len, m->epoch.ptr, m->epoch.len);
    s->key = (struct tidings_str){s->text, key.len};
    s->epoch_len = m->epoch.len;
    s->number = m->number;
    return s;
}

static void resume_remember(struct resume *r, struct tidings_str key, const struct mark *m)
{
    struct seen *s = resume_create(key, m);
    void *old = NULL;
    if (!s) {
        return;
    }
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
                   struct tidings_str version)
{
    struct mark m;
    struct buf key;
    char number[24];
    bool is_new = true;
    if (!read_mark(r, version, &m)) {
        return true;
    }
    snprintf(number, sizeof(number), "%" PRIu64 " ", watch);
    buf_init(&key, uri.len + sizeof(number));
    buf_puts(&key, tidings_str(number));
    buf_puts(&key, uri);
    const struct seen *s = key.failed ? NULL : map_find(&r->seen, buf_str(&key));
    if (s && s->epoch_len == m.epoch.len &&
        memcmp(s->text + s->key.len, m.epoch.ptr, m.epoch.len) == 0) {
        is_new = m.number > s->number;
    }
    if (is_new && !key.failed) {
        resume_remember(r, buf_str(&key), &m);
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
