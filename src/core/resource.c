/* SPDX-License-Identifier: MIT
 *
 * Unknown fields are left out; capabilities are always said (absent would mean "unknown" to
 * clients of SEP-2093). `size` is raw bytes.
 */
#include "core/resource.h"

#include "base/clock.h"
#include "base/mem.h"

void tidings_resource_init(struct tidings_resource *r)
{
    memset(r, 0, sizeof(*r));
    r->size = -1;
    r->priority = -1;
    r->subscribable = true;
}

/* By listable and subscribable: written often. */
static const struct tidings_str capabilities[2][2] = {
    {{"{\"list\":false,\"subscribe\":false}", 32}, {"{\"list\":false,\"subscribe\":true}", 31}},
    {{"{\"list\":true,\"subscribe\":false}", 31}, {"{\"list\":true,\"subscribe\":true}", 30}},
};

static void put_text(struct jw *w, struct tidings_str key, struct tidings_str value)
{
    if (value.len > 0) {
        jw_put_string(w, key, value);
    }
}

static void write_annotations(struct jw *w, const struct tidings_resource *r)
{
    if (r->modified_ms == 0 && r->audience.len == 0 && r->priority < 0) {
        return;
    }
    jw_key(w, STR("annotations"));
    jw_begin_object(w);
    if (r->audience.len > 0) {
        jw_put_raw(w, STR("audience"), r->audience);
    }
    if (r->priority >= 0) {
        jw_key(w, STR("priority"));
        jw_number(w, r->priority);
    }
    if (r->modified_ms != 0) {
        char iso[25];
        clock_format_iso(r->modified_ms, iso);
        jw_put_string(w, STR("lastModified"), tidings_strn(iso, 24));
    }
    jw_end_object(w);
}

void resource_write_members(struct jw *w, struct tidings_str uri_key,
                            const struct tidings_resource *r)
{
    jw_put_string(w, uri_key, r->uri);
    jw_put_string(w, STR("name"), r->name.len > 0 ? r->name : r->uri);
    put_text(w, STR("title"), r->title);
    put_text(w, STR("description"), r->description);
    put_text(w, STR("mimeType"), r->mime_type);
    if (r->size >= 0) {
        jw_put_integer(w, STR("size"), r->size);
    }
    if (r->icons.len > 0) {
        jw_put_raw(w, STR("icons"), r->icons);
    }
    write_annotations(w, r);
    jw_put_raw(w, STR("capabilities"), capabilities[r->listable][r->subscribable]);
    if (r->etag.len > 0) {
        jw_key(w, STR("_meta"));
        jw_begin_object(w);
        jw_put_string(w, STR("dev.tidings/etag"), r->etag);
        jw_end_object(w);
    }
}

/* The slices of a resource, for copying them all alike. */
#define RESOURCE_SLICES(X)                                                                         \
    X(uri) X(name) X(title) X(description) X(mime_type) X(etag) X(icons) X(audience)

struct tidings_resource *resource_dup(const struct tidings_resource *r)
{
    size_t extra = 0;
#define ADD_LENGTH(field) extra += r->field.len;
    RESOURCE_SLICES(ADD_LENGTH)
#undef ADD_LENGTH
    struct tidings_resource *copy = mem_alloc(sizeof(*copy) + extra);
    if (!copy) {
        return NULL;
    }
    *copy = *r;
    char *at = (char *)(copy + 1);
#define COPY_SLICE(field)                                                                          \
    if (r->field.len > 0) {                                                                        \
        memcpy(at, r->field.ptr, r->field.len);                                                    \
    }                                                                                              \
    copy->field.ptr = at;                                                                          \
    at += r->field.len;
    RESOURCE_SLICES(COPY_SLICE)
#undef COPY_SLICE
    return copy;
}
