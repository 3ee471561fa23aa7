/* SPDX-License-Identifier: MIT
 *
 * Encodes and decodes a change as bytes, and the changes of a batch as one sealed string.
 * `record_fields` is the only list of the fields.
 */
#include "cluster/log_record.h"

#include "base/hash.h"
#include "base/str.h"
#include "store/change.h"

#define NUMBER_BYTES 10u
#define PURPOSE "tidings rows 1"

/* ---- one change ------------------------------------------------------------------------------ */

enum record_flag {
    FLAG_DELETED = 1, /* a version */
    FLAG_CREATED = 2,
    FLAG_KIND = 3, /* otherwise: the kind of change … */
    FLAG_MUTE = 4, /* … and whether only lists are notified */
    FLAGS_MAX = 7,
};

#define FIELD_NUMBERS 4u

struct record_fields {
    int64_t *numbers[FIELD_NUMBERS];
    struct tidings_str *texts[CHANGE_TEXTS];
    size_t number_count, text_count;
};

static bool record_has_version(enum log_entry_kind kind)
{
    return kind == LOG_ENTRY_ENTITY || kind == LOG_ENTRY_MOVED;
}

static void record_fields(struct kept_record *r, struct record_fields *ret)
{
    struct entity_version *v = &r->version;
    struct tidings_change *c = &r->resource;
    if (record_has_version(r->kind)) {
        *ret = (struct record_fields){
            .numbers = {&r->at_ms, &v->from, &v->since, &r->version_checksum},
            .texts = {&v->id, &v->type, &v->type_version, &v->parent, &v->changed_by, &v->principal,
                      &v->old_type_version, &v->old_parent},
            .number_count = 4,
            .text_count = 8,
        };
        return;
    }
    *ret = (struct record_fields){
        .numbers = {&r->at_ms, &c->modified_ms, &c->size},
        .number_count = 3,
        .text_count = CHANGE_TEXTS_KEPT,
    };
    change_texts(c, ret->texts);
}

static void record_put_number(struct buf *out, int64_t number)
{
    uint64_t n = ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
    char bytes[NUMBER_BYTES];
    size_t len = 0;
    for (; n >= 0x80; n >>= 7) {
        bytes[len++] = (char)(n | 0x80);
    }
    bytes[len++] = (char)n;
    buf_put(out, bytes, len);
}

static void record_put_texts(struct buf *out, const struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        record_put_number(out, (int64_t)texts[i].len);
        buf_puts(out, texts[i]);
    }
}

void kept_record_put(const struct kept_record *r, struct buf *out)
{
    struct kept_record copy = *r; /* the list of fields needs a writable record */
    struct record_fields f;
    const struct tidings_change *c = &r->resource;
    record_fields(&copy, &f);
    buf_putc(out, (char)r->kind);
    record_put_number(out, record_has_version(r->kind)
                               ? (r->version.deleted ? FLAG_DELETED : 0) |
                                     (r->version.created ? FLAG_CREATED : 0)
                               : (int)c->kind | (c->not_subscribable ? FLAG_MUTE : 0));
    for (size_t i = 0; i < f.number_count; i++) {
        record_put_number(out, *f.numbers[i]);
    }
    for (size_t i = 0; i < f.text_count; i++) {
        record_put_texts(out, f.texts[i], 1);
    }
}

static bool record_take_number(struct tidings_str *at, int64_t *ret)
{
    uint64_t n = 0;
    for (size_t i = 0; i < at->len && i < NUMBER_BYTES; i++) {
        uint64_t byte = (unsigned char)at->ptr[i];
        if (i == NUMBER_BYTES - 1 && byte > 1) {
            return false;
        }
        n |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *at = str_skip(*at, i + 1);
            *ret = (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
            return true;
        }
    }
    return false;
}

static bool record_take_texts(struct tidings_str *at, struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t len = 0;
        if (!record_take_number(at, &len) || len < 0 || (uint64_t)len > at->len) {
            return false;
        }
        texts[i] = tidings_strn(at->ptr, (size_t)len);
        *at = str_skip(*at, (size_t)len);
    }
    return true;
}

static bool record_take_fields(struct tidings_str *at, struct kept_record *ret)
{
    struct record_fields f;
    bool is_there = true;
    record_fields(ret, &f);
    for (size_t i = 0; is_there && i < f.number_count; i++) {
        is_there = record_take_number(at, f.numbers[i]);
    }
    for (size_t i = 0; is_there && i < f.text_count; i++) {
        is_there = record_take_texts(at, f.texts[i], 1);
    }
    return is_there;
}

bool kept_record_take(struct tidings_str *at, struct kept_record *ret)
{
    struct tidings_str rest = str_skip(*at, 1);
    int64_t flags = 0;
    int kind = at->len > 0 ? at->ptr[0] : -1;
    *ret = (struct kept_record){.version.to = TIMELINE_FOREVER};
    if (kind < LOG_ENTRY_ENTITY || kind > LOG_ENTRY_MOUNTED || kind == LOG_ENTRY_FILE ||
        !record_take_number(&rest, &flags) || flags < 0 || flags > FLAGS_MAX) {
        return false;
    }
    ret->kind = (enum log_entry_kind)kind;
    if (!record_take_fields(&rest, ret)) {
        return false;
    }
    if (record_has_version(ret->kind)) {
        ret->version.deleted = (flags & FLAG_DELETED) != 0;
        ret->version.created = (flags & FLAG_CREATED) != 0;
    } else {
        ret->resource.kind = (enum tidings_change_kind)(flags & FLAG_KIND);
        ret->resource.not_subscribable = (flags & FLAG_MUTE) != 0;
        ret->resource.has_size = ret->resource.size >= 0;
    }
    *at = rest;
    return true;
}

void kept_record_change(const struct kept_record *r, struct log_entry *ret)
{
    const struct entity_version *v = &r->version;
    const struct tidings_change *c = &r->resource;
    *ret = (struct log_entry){.kind = r->kind, .position = r->position, .at_ms = r->at_ms};
    if (record_has_version(r->kind)) {
        ret->version = *v;
        ret->version.value = ret->version.previous = ret->version.old_type_version = STR_EMPTY;
        ret->old_type_version = v->old_type_version;
        ret->uri = v->id;
        ret->modified_ms = v->from;
        ret->removed = v->deleted;
        ret->created = v->created;
        return;
    }
    ret->version.id = ret->uri = c->uri;
    ret->etag = c->etag;
    ret->came_from = c->from;
    ret->target = c->target;
    ret->metadata = c->metadata;
    ret->size = c->size;
    ret->modified_ms = c->modified_ms;
    ret->not_subscribable = c->not_subscribable;
    ret->removed = r->kind == LOG_ENTRY_PUBLISHED && c->kind == TIDINGS_CHANGE_DELETED;
    ret->created = r->kind == LOG_ENTRY_PUBLISHED && c->kind == TIDINGS_CHANGE_CREATED;
    ret->announced = log_entry_is_announced(r->kind) ? c : NULL;
}

/* ---- payloads -------------------------------------------------------------------------------- */

void notify_payload_key(const unsigned char secret[32], struct seal_key *ret)
{
    struct hmac256 h;
    hmac256_init(&h, secret, 32);
    hmac256_put(&h, PURPOSE, sizeof(PURPOSE));
    hmac256_end(&h, ret->secret);
}

/* The additional authenticated data. */
struct payload_purpose {
    char text[sizeof(PURPOSE) + NOTIFY_PAYLOAD_SCOPE + 16];
};

static void payload_bind(struct payload_purpose *p, const struct notify_payload_scope *scope,
                         uint64_t from, uint64_t to)
{
    char *at = p->text;
    memcpy(at, PURPOSE, sizeof(PURPOSE));
    at += sizeof(PURPOSE);
    memcpy(at, scope->digest, NOTIFY_PAYLOAD_SCOPE);
    at += NOTIFY_PAYLOAD_SCOPE;
    for (int i = 0; i < 8; i++) {
        at[i] = (char)(from >> (56 - 8 * i));
        at[8 + i] = (char)(to >> (56 - 8 * i));
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

void notify_payload_init(struct notify_payload *n)
{
    *n = (struct notify_payload){0};
    buf_init_secret(&n->rows, NOTIFY_PAYLOAD_MAX);
}

void notify_payload_deinit(struct notify_payload *n)
{
    buf_deinit(&n->rows);
}

void notify_payload_clear(struct notify_payload *n)
{
    buf_clear(&n->rows);
    n->count = 0;
    n->is_partial = false;
}

/* Adds a row after the first `len` bytes. Returns false, and removes a partial row, if it does not
 * fit. */
static bool payload_added(struct notify_payload *n, size_t len)
{
    if (!n->rows.failed) {
        n->count++;
        return true;
    }
    n->rows.len = len;
    n->rows.failed = 0;
    return false;
}

void notify_payload_add(struct notify_payload *n, const struct kept_record *r)
{
    static const struct tidings_str cut[2];
    const struct tidings_str values[] = {r->version.previous, r->version.value};
    size_t len = n->rows.len;
    bool is_added = false;
    for (int is_cut = 0; !n->is_partial && !is_added && is_cut <= (r->kind == LOG_ENTRY_ENTITY);
         is_cut++) {
        kept_record_put(r, &n->rows);
        if (r->kind == LOG_ENTRY_ENTITY) {
            record_put_texts(&n->rows, is_cut ? cut : values, 2);
        }
        is_added = payload_added(n, len);
    }
    n->is_partial = !is_added;
}

bool notify_payload_is_whole(const struct notify_payload *n, uint64_t before, uint64_t last)
{
    return !n->is_partial && n->count > 0 && last - before == n->count;
}

int notify_payload_put(const struct notify_payload *n, struct sealer *sealer,
                       const struct notify_payload_scope *scope, uint64_t from, struct buf *out)
{
    struct payload_purpose purpose;
    uint64_t to = from + n->count - 1;
    payload_bind(&purpose, scope, from, to);
    buf_putu(out, from);
    buf_putc(out, ' ');
    buf_putu(out, to);
    buf_putc(out, ' ');
    int rc =
        seal_put(sealer, out, tidings_strn(purpose.text, sizeof(purpose.text)), buf_str(&n->rows));
    rc = rc == 0 && out->failed ? out->failed : rc;
    return rc == 0 && out->len > NOTIFY_PAYLOAD_TEXT_MAX ? TIDINGS_E_LIMIT : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool notify_payload_parse(struct tidings_str text, struct notify_payload_head *ret)
{
    struct tidings_str rest = STR_EMPTY;
    return text.len <= NOTIFY_PAYLOAD_TEXT_MAX &&
           str_to_u64(str_cut(text, ' ', &rest, NULL), &ret->from) &&
           str_to_u64(str_cut(rest, ' ', &ret->sealed, NULL), &ret->to) && ret->from > 0 &&
           ret->from <= ret->to && ret->to - ret->from < NOTIFY_PAYLOAD_MAX && ret->sealed.len > 0;
}

/* Returns true for the kinds that payloads can have. */
static bool notice_has_kind(enum log_entry_kind kind)
{
    return kind == LOG_ENTRY_ENTITY || kind == LOG_ENTRY_SESSION || log_entry_is_announced(kind);
}

bool notify_payload_next(struct tidings_str *rows, uint64_t position, struct kept_record *ret)
{
    struct tidings_str at = *rows, values[2];
    if (!kept_record_take(&at, ret) || !notice_has_kind(ret->kind) ||
        (ret->kind == LOG_ENTRY_ENTITY && !record_take_texts(&at, values, 2))) {
        return false;
    }
    if (ret->kind == LOG_ENTRY_ENTITY) {
        ret->version.previous = values[0];
        ret->version.value = values[1];
    }
    ret->position = position;
    *rows = at;
    return true;
}

static bool payload_is_understood(const struct notify_payload_head *head, struct tidings_str rows)
{
    bool is_row = true;
    for (uint64_t position = head->from; is_row && position <= head->to; position++) {
        struct kept_record row;
        is_row = notify_payload_next(&rows, position, &row);
    }
    return is_row && rows.len == 0;
}

int notify_payload_open(const struct notify_payload_head *head, struct sealer *sealer,
                        const struct notify_payload_scope *scope, struct buf *out)
{
    struct payload_purpose purpose;
    size_t before = out->len;
    payload_bind(&purpose, scope, head->from, head->to);
    int rc = seal_open(sealer, out, tidings_strn(purpose.text, sizeof(purpose.text)), head->sealed);
    if (rc == 0 && !payload_is_understood(head, str_skip(buf_str(out), before))) {
        out->len = before;
        rc = TIDINGS_E_UNSUPPORTED;
    }
    return rc;
}
