/* SPDX-License-Identifier: MIT
 *
 * A change: one block of memory with the struct and all its strings. The strings of notifications
 * are encoded here, once, on the hub.
 */
#include "store/change.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/json_write.h"

void change_texts(struct tidings_change *c, struct tidings_str *ret[CHANGE_TEXTS])
{
    struct tidings_str *const texts[CHANGE_TEXTS] = {&c->uri,    &c->etag,       &c->from,
                                                     &c->target, &c->metadata,   &c->checksum,
                                                     &c->origin, &c->traceparent};
    memcpy(ret, texts, sizeof texts);
}

size_t change_texts_len(const struct tidings_change *c)
{
    struct tidings_change copy = *c;
    struct tidings_str *texts[CHANGE_TEXTS];
    size_t len = 0;
    change_texts(&copy, texts);
    for (size_t i = 0; i < CHANGE_TEXTS; i++) {
        len += texts[i]->len;
    }
    return len;
}

void change_pack(struct tidings_change *c, char *at)
{
    struct tidings_str *texts[CHANGE_TEXTS];
    change_texts(c, texts);
    for (size_t i = 0; i < CHANGE_TEXTS; i++) {
        *texts[i] = str_pack(&at, *texts[i]);
    }
}

enum tidings_change_kind change_kind_of(const struct change *change, enum tidings_change_kind kind)
{
    bool is_move = (kind == TIDINGS_CHANGE_CREATED && change->from.len > 0) ||
                   change_names_destination(change, kind, false);
    return is_move ? TIDINGS_CHANGE_MOVED : kind;
}

const char *change_type_name(const struct change *change, enum tidings_change_kind kind)
{
    return tidings_change_name(change_kind_of(change, kind));
}

struct tidings_str change_metadata_object(const struct change *change)
{
    struct tidings_str members = change->metadata_json;
    return members.ptr ? tidings_strn(members.ptr - 1, members.len + 2) : STR_EMPTY;
}

struct tidings_str change_metadata_without_version(const struct change *change)
{
    struct tidings_str all = change->metadata_json;
    return tidings_strn(all.ptr, all.len - change->metadata_version_len);
}

struct tidings_str change_metadata_plain(const struct change *change)
{
    return tidings_strn(change->metadata_json.ptr, change->metadata_plain_len);
}

int change_check_metadata(struct tidings_str text, struct tidings_error *err)
{
    struct json *metadata = NULL;
    if (text.len == 0) {
        return 0;
    }
    if (text.len > CHANGE_METADATA_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "metadata of %zu bytes; at most %u are accepted",
                            text.len, CHANGE_METADATA_MAX);
    }
    int rc = jv_parse(text, CHANGE_METADATA_DEPTH, &metadata, err);
    bool is_object = jv_is(metadata, JV_OBJECT);
    jv_unref(metadata);
    if (rc < 0) {
        return error_wrap(err, rc, "metadata");
    }
    return is_object ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "metadata must be a JSON object");
}

int change_put_metadata(struct buf *out, const struct json *metadata, struct tidings_error *err)
{
    struct jw w;
    buf_init(out, CHANGE_METADATA_MAX);
    if (!metadata) {
        return 0;
    }
    jw_init(&w, out);
    jw_value(&w, metadata);
    if (out->failed) {
        return out->failed == TIDINGS_E_LIMIT
                   ? tidings_fail(err, TIDINGS_E_LIMIT, "metadata has at most %u bytes",
                                  CHANGE_METADATA_MAX)
                   : tidings_fail(err, out->failed, "out of memory");
    }
    return change_check_metadata(buf_str(out), err);
}

#define VERSION_MAX 40u
#define USUAL_BYTES 256u /* output besides URI and metadata */

static struct tidings_str change_version(char out[VERSION_MAX], uint64_t epoch, uint64_t seq)
{
    int n =
        snprintf(out, VERSION_MAX, "%llx.%llu", (unsigned long long)epoch, (unsigned long long)seq);
    return tidings_strn(out, n > 0 ? (size_t)n : 0);
}

/* Writes the `_meta` members that are the same in every notification of this change. */
static void change_write_meta(struct buf *out, const struct tidings_change *change,
                              struct tidings_str number, struct change *c)
{
    size_t begun = out->len;
    buf_puts(out, STR(",\"dev.tidings/version\":"));
    jw_quote(out, number);
    c->meta_version_len = (uint32_t)(out->len - begun);
    if (change->etag.len > 0) {
        buf_puts(out, STR(",\"dev.tidings/etag\":"));
        jw_quote(out, change->etag);
    }
    if (change->traceparent.len > 0) { /* SEP-414: the only key there without our prefix */
        buf_puts(out, STR(",\"traceparent\":"));
        jw_quote(out, change->traceparent);
    }
    begun = out->len;
    if (change->from.len > 0) {
        buf_puts(out, STR(",\"dev.tidings/from\":"));
        jw_quote(out, change->from);
    }
    c->meta_from_len = (uint32_t)(out->len - begun);
}

/* The application's keys, except `change_type`; that one goes to `type`. */
static void write_given(struct jw *w, struct json *given, struct buf *type)
{
    struct tidings_str key;
    struct json *value = NULL;
    for (void *at = jv_next(given, NULL, &key, &value); at; at = jv_next(given, at, &key, &value)) {
        if (str_eq(key, STR("change_type"))) {
            struct jw only;
            jw_init(&only, type);
            jw_value(&only, value);
        } else {
            jw_key(w, key);
            jw_value(w, value);
        }
    }
}

/* The application's keys first; then our keys that the application did not set. */
static void change_write_metadata(struct buf *out, const struct tidings_change *change,
                                  struct tidings_str number, struct buf *type, struct change *c)
{
    struct json *given = NULL;
    if (change->metadata.len > 0) {
        (void)jv_parse(change->metadata, JSON_MAX_DEPTH, &given, NULL);
    }
    struct jw w;
    int64_t now = clock_wall_ms();
    size_t opened = out->len + 1;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (jv_is(given, JV_OBJECT)) {
        write_given(&w, given, type);
    }
    c->metadata_plain_len = (uint32_t)(out->len - opened);
    if (!jv_get(given, "updated_at")) {
        jw_put_integer(&w, STR("updated_at"), change->modified_ms ? change->modified_ms : now);
    }
    if (change->has_size && !jv_get(given, "size")) {
        jw_put_integer(&w, STR("size"), change->size);
    }
    if (change->checksum.len > 0 && !jv_get(given, "checksum")) {
        jw_put_string(&w, STR("checksum"), change->checksum);
    }
    if (jv_count(given) == 0) {
        c->metadata_plain_len = (uint32_t)(out->len - opened);
    }
    if (!jv_get(given, "timestamp")) {
        jw_put_integer(&w, STR("timestamp"), now);
    }
    size_t begun = out->len;
    if (!jv_get(given, "version")) {
        jw_put_string(&w, STR("version"), number);
    }
    c->metadata_version_len = (uint32_t)(out->len - begun);
    jw_end_object(&w);
    jv_unref(given);
}

/* `to` empty: not the first half of a move. */
static struct change *change_make(const struct tidings_change *change, struct tidings_str to,
                                  uint64_t epoch, uint64_t seq)
{
    struct buf text;
    char room[VERSION_MAX];
    struct tidings_str number = change_version(room, epoch, seq);
    buf_init(&text, SIZE_MAX / 2);
    (void)buf_reserve(&text, USUAL_BYTES + change->uri.len + change->metadata.len);
    jw_quote(&text, change->uri);
    size_t quoted = text.len;
    if (to.len > 0) {
        jw_quote(&text, to);
    }
    size_t led = text.len;
    struct change lengths = {0};
    change_write_meta(&text, change, number, &lengths);
    size_t meta = text.len;
    struct buf type;
    buf_init(&type, SIZE_MAX / 2);
    change_write_metadata(&text, change, number, &type, &lengths);
    text.failed = text.failed ? text.failed : type.failed;

    size_t extra = text.len + type.len + change->uri.len + change->etag.len + change->origin.len +
                   change->from.len + change->target.len + to.len;
    struct change *c = text.failed ? NULL : mem_zalloc(sizeof(*c) + extra);
    if (c) {
        char *at = (char *)(c + 1);
        *c = lengths;
        c->epoch = epoch;
        c->seq = seq;
        c->numbered_us = clock_monotonic_ns() / 1000;
        c->kind = change->kind;
        c->size = change->has_size ? change->size : -1;
        c->modified_ms = change->modified_ms;
        c->is_mute = change->not_subscribable;
        c->uri = str_pack(&at, change->uri);
        c->uri_json = str_pack(&at, tidings_strn(text.ptr, quoted));
        c->to_json = str_pack(&at, tidings_strn(text.ptr + quoted, led - quoted));
        c->meta_json = str_pack(&at, tidings_strn(text.ptr + led, meta - led));
        struct tidings_str object = str_pack(&at, tidings_strn(text.ptr + meta, text.len - meta));
        c->metadata_json = tidings_strn(object.ptr + 1, object.len - 2);
        c->own_type_json = str_pack(&at, buf_str(&type));
        c->etag = str_pack(&at, change->etag);
        c->origin = str_pack(&at, change->origin);
        c->from = str_pack(&at, change->from);
        c->target = str_pack(&at, change->target);
        c->to = str_pack(&at, to);
        c->memory = sizeof(*c) + extra;
        c->refs = 1;
    }
    buf_deinit(&type);
    buf_deinit(&text);
    return c;
}

struct change *change_create(const struct tidings_change *change, uint64_t epoch, uint64_t seq)
{
    return change_make(change, STR_EMPTY, epoch, seq);
}

struct change *change_create_departure(const struct tidings_change *move, uint64_t epoch,
                                       uint64_t seq)
{
    struct tidings_change gone = *move;
    gone.uri = move->from;
    gone.kind = TIDINGS_CHANGE_DELETED;
    return change_make(&gone, move->uri, epoch, seq);
}

struct change *change_create_list_event(enum list_event what, uint64_t epoch, uint64_t seq)
{
    /* Keys of these changes in the log; none is a URI. */
    static const struct {
        struct tidings_str key;
        unsigned lists;
    } notices[] = {
        [CHANGE_LIST] = {{"", 0}, LIST_RESOURCES},
        [CHANGE_TOOLS] = {{"*tools", 6}, LIST_TOOLS},
        [CHANGE_PROMPTS] = {{"*prompts", 8}, LIST_PROMPTS},
        [CHANGE_EVERYTHING] = {{"*", 1}, 0},
    };
    struct tidings_change none = {.uri = notices[what].key};
    struct change *c = change_create(&none, epoch, seq);
    if (c) {
        c->lists = notices[what].lists;
        c->everything = what == CHANGE_EVERYTHING;
    }
    return c;
}

struct change *change_create_missed(struct tidings_str prefix, uint64_t epoch, uint64_t seq)
{
    struct buf key;
    buf_init(&key, prefix.len + 1);
    buf_putc(&key, '*'); /* like the keys above: no URI starts with it */
    buf_puts(&key, prefix);
    struct tidings_change none = {.uri = buf_str(&key)};
    struct change *c = key.failed ? NULL : change_create(&none, epoch, seq);
    if (c) {
        c->everything = true;
    }
    buf_deinit(&key);
    return c;
}

bool change_is_missed_uri(struct tidings_str uri)
{
    return str_starts(uri, STR("*"));
}

struct tidings_str change_scope(const struct change *c)
{
    return str_skip(c->uri, 1);
}

struct change *change_ref(const struct change *c)
{
    /* the reference count is not part of the value */
    struct change *shared = (struct change *)(uintptr_t)c;
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
