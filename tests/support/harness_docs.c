/* SPDX-License-Identifier: MIT */
#include "support/harness_docs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "support/harness_json.h"

/* cmocka puts its own in front of these; here libc's are meant. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <stdlib.h>

static struct docs *docs_of(struct tidings_provider *p)
{
    return *(struct docs **)tidings_provider_state(p);
}

static const struct doc_version *newest(const struct docs *d, struct tidings_str uri)
{
    for (size_t i = d->count; i-- > 0;) {
        if (str_eq(tidings_str(d->versions[i].uri), uri)) {
            return &d->versions[i];
        }
    }
    return NULL;
}

static const struct doc_version *find(const struct docs *d, struct tidings_str uri,
                                      struct tidings_str etag)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct doc_version *v = &d->versions[i];
        char name[16];
        snprintf(name, sizeof(name), "v%04u", v->number);
        if (str_eq(tidings_str(v->uri), uri) && !v->is_forgotten &&
            str_eq(tidings_str(name), etag)) {
            return v;
        }
    }
    return NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int docs_open(struct tidings_provider *p, struct tidings_str config,
                     struct tidings_error *err)
{
    (void)err;
    memcpy(tidings_provider_state(p), config.ptr, sizeof(struct docs *));
    return 0;
}

static void docs_close(struct tidings_provider *p)
{
    (void)p;
}

static void describe(const struct docs *d, const struct doc_version *v,
                     struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = tidings_str(v->uri);
    about->name = tidings_str(v->uri);
    about->mime_type =
        tidings_str(d->flags & DOCS_TEXT ? "text/plain" : "application/json; charset=utf-8");
    about->etag = tidings_str(text_of("v%04u", v->number));
}

static void docs_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    struct docs *d = docs_of(p);
    const struct doc_version *v = newest(d, uri);
    struct tidings_resource about;
    struct tidings_error err = {0};
    d->reads++;
    if (!v || !v->text) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
        return;
    }
    describe(d, v, &about);
    tidings_read_done(read, tidings_read_text(read, &about, tidings_str(v->text), &err), &err);
}

static void docs_stat(struct tidings_provider *p, struct tidings_stat *stat, struct tidings_str uri)
{
    struct docs *d = docs_of(p);
    const struct doc_version *v = newest(d, uri);
    struct tidings_resource about;
    if (!v || !v->text) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    describe(d, v, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

static void docs_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct docs *d = docs_of(p);
    struct tidings_resource about;
    for (size_t i = 0; i < d->count; i++) { /* tests add them in their order */
        if (newest(d, tidings_str(d->versions[i].uri)) == &d->versions[i] && d->versions[i].text) {
            describe(d, &d->versions[i], &about);
            tidings_list_add(list, &about, NULL);
        }
    }
    tidings_list_done(list, 0, NULL);
}

static void put_change(struct jw *w, const struct doc_version *from, const struct doc_version *to)
{
    struct json *a = NULL, *b = NULL, *patch = NULL;
    int rc = jv_parse(tidings_str(to->text), 32, &b, NULL);
    if (rc == 0 && from && from->text) {
        rc = jv_parse(tidings_str(from->text), 32, &a, NULL);
    }
    if (rc < 0) { /* they are JSON */
        w->out->failed = TIDINGS_E_NOMEM;
    } else if (from && merge_diff(a, b, &patch) == 1) {
        jw_key(w, STR("patch"));
        jw_value(w, patch);
    } else {
        jw_put_bool(w, STR("full"), true);
        jw_put_raw(w, STR("value"), tidings_str(to->text));
    }
    jv_unref(a);
    jv_unref(b);
    jv_unref(patch);
}

static void answer_patch(struct docs *d, struct tidings_read *read, struct tidings_str uri,
                         struct tidings_str baseline)
{
    const struct doc_version *to = newest(d, uri), *from = find(d, uri, baseline);
    struct tidings_resource about;
    struct tidings_error err = {0};
    struct buf out;
    struct jw w;
    int rc = !to || (!to->text && baseline.len == 0) ? TIDINGS_E_NOTFOUND
             : baseline.len > 0 && !from             ? TIDINGS_E_INVALID
                                                     : 0;
    if (rc < 0) {
        tidings_fail(&err, rc, "no version '%.*s'", STR_ARG(baseline));
        tidings_read_done(read, rc, &err);
        return;
    }
    describe(d, to, &about);
    about.uri = STR_EMPTY;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("etag"), about.etag);
    if (from) {
        jw_put_string(&w, STR("baseline"), baseline);
    }
    if (to->text) {
        put_change(&w, from, to);
    } else {
        about.etag = baseline;
        jw_put_bool(&w, STR("deleted"), true);
    }
    jw_end_object(&w);
    rc = out.failed ? tidings_fail(&err, out.failed, "out of memory")
                    : tidings_read_text(read, &about, buf_str(&out), &err);
    tidings_read_done(read, rc, &err);
    buf_deinit(&out);
}

static void docs_patch(struct tidings_provider *p, struct tidings_read *read,
                       struct tidings_str uri, struct tidings_str baseline)
{
    struct docs *d = docs_of(p);
    d->patches++;
    assert_true(d->held_count < DOCS_MAX);
    if (d->fails < 0) {
        tidings_read_done(read, d->fails, NULL);
        d->fails = 0;
    } else if (d->holds) {
        d->held[d->held_count] = read;
        d->held_uri[d->held_count] = uri;
        d->held_from[d->held_count++] = baseline;
    } else {
        answer_patch(d, read, uri, baseline);
    }
}

void docs_release_one(struct docs *d)
{
    struct tidings_read *read = d->held[0];
    struct tidings_str uri = d->held_uri[0], from = d->held_from[0];
    assert_true(d->held_count > 0);
    d->held_count--;
    memmove(d->held, d->held + 1, d->held_count * sizeof(d->held[0]));
    memmove(d->held_uri, d->held_uri + 1, d->held_count * sizeof(d->held_uri[0]));
    memmove(d->held_from, d->held_from + 1, d->held_count * sizeof(d->held_from[0]));
    answer_patch(d, read, uri, from);
}

void docs_release(struct docs *d)
{
    size_t count = d->held_count;
    d->holds = false;
    d->held_count = 0;
    for (size_t i = 0; i < count; i++) {
        answer_patch(d, d->held[i], d->held_uri[i], d->held_from[i]);
    }
}

static int docs_patches_of(struct tidings_provider *p, struct tidings_str uri, char *of,
                           size_t *len, struct tidings_error *err)
{
    (void)p;
    if (str_ends(uri, STR("/no"))) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "not this one");
    }
    if (!str_ends(uri, STR("/patch"))) {
        return 0;
    }
    *len = uri.len - sizeof("/patch") + 1;
    memcpy(of, uri.ptr, *len);
    return 1;
}

#define RESOURCE_IO_OPS                                                                            \
    .abi = TIDINGS_PROVIDER_ABI, .name = "docs", .size = sizeof(struct docs *), .open = docs_open, \
    .read = docs_read, .list = docs_list, .stat = docs_stat, .close = docs_close

static const struct tidings_provider_ops resource_io_ops = {RESOURCE_IO_OPS};
static const struct tidings_provider_ops patching_ops = {
    RESOURCE_IO_OPS,
    .patch = docs_patch,
    .patches_of = docs_patches_of,
};

/* ---- for tests ------------------------------------------------------------------------------- */

void docs_mount(struct docs *d, struct harness *b, const char *prefix, unsigned flags)
{
    struct tidings_error err;
    memset(d, 0, sizeof(*d));
    d->harness = b;
    d->flags = flags;
    assert_int_equal(hub_mount(b->hub, flags & DOCS_PATCHING ? &patching_ops : &resource_io_ops,
                               tidings_str(prefix), tidings_strn((const char *)&d, sizeof(d)),
                               &d->provider, &err),
                     0);
    harness_run_until_idle(b);
}

void docs_free(struct docs *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->versions[i].text);
    }
}

void docs_begin(struct docs *d, struct harness *b, unsigned flags)
{
    harness_init(b);
    b->self.list_changed = b->options.list_changed = false;
    harness_start(b);
    docs_mount(d, b, "doc:///", flags);
}

void docs_begin_with_a(struct docs *d, struct harness *b, void **state)
{
    docs_begin(d, b, *state ? *(unsigned *)*state : 0);
    docs_write(d, "doc:///a", "{\"n\":1,\"s\":{\"x\":1}}");
}

void docs_end(struct docs *d)
{
    harness_stop(d->harness);
    assert_int_equal(d->held_count, 0);
    docs_free(d);
}

void docs_write(struct docs *d, const char *uri, const char *text)
{
    assert_true(d->count < DOCS_MAX);
    struct doc_version *v = &d->versions[d->count++];
    snprintf(v->uri, sizeof(v->uri), "%s", uri);
    v->text = text ? strdup(text) : NULL;
    v->number = (unsigned)d->count;
}

void docs_put(struct docs *d, const char *uri, const char *text, const char *origin)
{
    const struct doc_version *before = newest(d, tidings_str(uri));
    bool was = before && before->text;
    docs_write(d, uri, text);
    struct tidings_change change = {
        .uri = tidings_str(uri),
        .kind = !text ? TIDINGS_CHANGE_DELETED
                : was ? TIDINGS_CHANGE_UPDATED
                      : TIDINGS_CHANGE_CREATED,
        .etag = tidings_str(docs_etag(d, uri)),
        .origin = tidings_str(origin),
    };
    (void)tidings_provider_changed(d->provider, &change, NULL); /* memory may be short */
}

void docs_forget(struct docs *d, const char *uri)
{
    const struct doc_version *last = newest(d, tidings_str(uri));
    for (size_t i = 0; i < d->count; i++) {
        bool is = strcmp(d->versions[i].uri, uri) == 0 && &d->versions[i] != last;
        d->versions[i].is_forgotten = d->versions[i].is_forgotten || is;
    }
}

const char *docs_text(const struct docs *d, const char *uri)
{
    const struct doc_version *v = newest(d, tidings_str(uri));
    return v ? v->text : NULL;
}

const char *docs_etag(const struct docs *d, const char *uri)
{
    const struct doc_version *v = newest(d, tidings_str(uri));
    return v ? text_of("v%04u", v->number) : "";
}
