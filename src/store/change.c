/* SPDX-License-Identifier: MIT
 *
 * A change is one block of memory: the struct and every text it points to. The texts that go into
 * notifications are encoded here, once, on the hub.
 */
#include "store/change.h"

#include "base/mem.h"
#include "base/str.h"
#include "json/write.h"

static const char *const kind_names[] = {
    [TIDINGS_CHANGE_UPDATED] = "updated",
    [TIDINGS_CHANGE_CREATED] = "created",
    [TIDINGS_CHANGE_DELETED] = "deleted",
};

const char *change_kind_name(enum tidings_change_kind kind)
{
    return kind_names[kind];
}

/* The members every notification of this change carries in `_meta`. */
static void write_meta(struct buf *out, const struct tidings_change *change, uint64_t epoch,
                       uint64_t seq)
{
    buf_putf(out, "\"dev.tidings/version\":\"%llx.%llu\"", (unsigned long long)epoch,
             (unsigned long long)seq);
    if (!change) {
        return;
    }
    if (change->etag.len > 0) {
        buf_puts(out, STR(",\"dev.tidings/etag\":"));
        jw_quote(out, change->etag);
    }
    if (change->from.len > 0) {
        buf_puts(out, STR(",\"dev.tidings/from\":"));
        jw_quote(out, change->from);
    }
    if (change->metadata.len > 0) {
        buf_puts(out, STR(",\"dev.tidings/metadata\":"));
        buf_puts(out, change->metadata);
    }
}

/* Copy `s` to *at and move on. */
static struct tidings_str place(char **at, struct tidings_str s)
{
    struct tidings_str copy = {*at, s.len};
    if (s.len > 0) {
        memcpy(*at, s.ptr, s.len);
    }
    *at += s.len;
    return copy;
}

struct change *change_create(const struct tidings_change *change, uint64_t epoch, uint64_t seq)
{
    static const struct tidings_change none;
    const struct tidings_change *from = change ? change : &none;
    struct buf text;
    buf_init(&text, SIZE_MAX / 2);
    jw_quote(&text, from->uri);
    size_t quoted = text.len;
    write_meta(&text, change, epoch, seq);

    size_t extra = text.len + from->uri.len + from->etag.len + from->from.len + from->metadata.len;
    struct change *c = text.failed ? NULL : mem_zalloc(sizeof(*c) + extra);
    if (c) {
        char *at = (char *)(c + 1);
        c->epoch = epoch;
        c->seq = seq;
        c->kind = from->kind;
        c->list_changed = !change;
        c->size = from->has_size ? from->size : -1;
        c->modified_ms = from->modified_ms;
        c->uri = place(&at, from->uri);
        c->uri_json = place(&at, tidings_strn(text.ptr, quoted));
        c->meta_json = place(&at, tidings_strn(text.ptr + quoted, text.len - quoted));
        c->etag = place(&at, from->etag);
        c->from = place(&at, from->from);
        c->metadata = place(&at, from->metadata);
        c->memory = sizeof(*c) + extra;
        c->refs = 1;
    }
    buf_deinit(&text);
    return c;
}

struct change *change_ref(const struct change *c)
{
    struct change *shared = (struct change *)(uintptr_t)c; /* the count is not part of the value */
    __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    return shared;
}

void change_unref(const struct change *c)
{
    struct change *shared = (struct change *)(uintptr_t)c;
    if (shared && __atomic_sub_fetch(&shared->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        mem_free(shared);
    }
}

size_t change_bytes(const struct change *c)
{
    return c->memory;
}
