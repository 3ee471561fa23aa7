/* SPDX-License-Identifier: MIT
 *
 * Writing and reading the changes of a batch as one sealed text.
 *
 * A row is its kind (one byte), then numbers and texts in a fixed order. Numbers have seven bits
 * in a byte, the lowest first, with the sign in the lowest; texts follow their length.
 */
#include "cluster/log_record.h"

#include "base/hash.h"
#include "base/str.h"

#define NUMBER_BYTES 10u
#define PURPOSE "tidings rows 1"

/* Which bits a version has. */
enum version_bit {
    VERSION_DELETED = 1,
    VERSION_CREATED = 2,
    VERSION_WHOLE = 4, /* with its value, and the patch to the one before */
};

/* Added to the kind of an announced change. Older nodes do not understand it, and ask the database.
 */
#define ANNOUNCED_MUTE 8

void row_notice_key(const unsigned char secret[32], struct seal_key *ret)
{
    struct hmac256 h;
    hmac256_init(&h, secret, 32);
    hmac256_put(&h, PURPOSE, sizeof(PURPOSE));
    hmac256_end(&h, ret->secret);
}

/* What is authenticated beside the rows. */
struct notice_purpose {
    char text[sizeof(PURPOSE) + ROW_NOTICE_PLACE + 16];
};

static void notice_bind(struct notice_purpose *p, const struct row_notice_place *place,
                        uint64_t from, uint64_t to)
{
    char *at = p->text;
    memcpy(at, PURPOSE, sizeof(PURPOSE));
    at += sizeof(PURPOSE);
    memcpy(at, place->digest, ROW_NOTICE_PLACE);
    at += ROW_NOTICE_PLACE;
    for (int i = 0; i < 8; i++) {
        at[i] = (char)(from >> (56 - 8 * i));
        at[8 + i] = (char)(to >> (56 - 8 * i));
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

void row_notice_init(struct row_notice *n)
{
    *n = (struct row_notice){0};
    buf_init_secret(&n->rows, ROW_NOTICE_MAX);
}

void row_notice_deinit(struct row_notice *n)
{
    buf_deinit(&n->rows);
}

void row_notice_clear(struct row_notice *n)
{
    buf_clear(&n->rows);
    n->count = 0;
    n->is_partial = false;
}

static void notice_put_number(struct buf *out, int64_t number)
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

static void notice_put_texts(struct buf *out, const struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        notice_put_number(out, (int64_t)texts[i].len);
        buf_puts(out, texts[i]);
    }
}

/* A row was put after the first `len` bytes. false: it does not fit, and nothing of it is there. */
static bool notice_added(struct row_notice *n, size_t len)
{
    if (!n->rows.failed) {
        n->count++;
        return true;
    }
    n->rows.len = len;
    n->rows.failed = 0;
    return false;
}

static bool add_version(struct row_notice *n, const struct entity_version *v, int64_t at_ms,
                        int64_t sum, bool is_whole)
{
    const struct tidings_str texts[] = {v->id,         v->type,      v->type_version, v->parent,
                                        v->changed_by, v->principal, v->previous,     v->value};
    size_t len = n->rows.len;
    buf_putc(&n->rows, KEPT_ENTITY);
    notice_put_number(&n->rows, (v->deleted ? VERSION_DELETED : 0) |
                                    (v->created ? VERSION_CREATED : 0) |
                                    (is_whole ? VERSION_WHOLE : 0));
    notice_put_number(&n->rows, v->from);
    notice_put_number(&n->rows, at_ms);
    notice_put_number(&n->rows, v->since);
    notice_put_number(&n->rows, is_whole ? sum : 0);
    notice_put_texts(&n->rows, texts, is_whole ? 8 : 6);
    return notice_added(n, len);
}

void row_notice_add_version(struct row_notice *n, const struct entity_version *v, int64_t at_ms,
                            int64_t sum)
{
    n->is_partial = n->is_partial ||
                    (!add_version(n, v, at_ms, sum, true) && !add_version(n, v, at_ms, sum, false));
}

void row_notice_add_announced(struct row_notice *n, enum kept_kind kind,
                              const struct tidings_change *c, int64_t at_ms)
{
    const struct tidings_str texts[] = {c->uri,      c->etag,     c->from,  c->target,
                                        c->metadata, c->checksum, c->origin};
    size_t len = n->rows.len;
    if (n->is_partial) {
        return;
    }
    buf_putc(&n->rows, (char)kind);
    notice_put_number(&n->rows, c->kind | (c->not_subscribable ? ANNOUNCED_MUTE : 0));
    notice_put_number(&n->rows, at_ms);
    notice_put_number(&n->rows, c->modified_ms);
    notice_put_number(&n->rows, c->has_size ? c->size : -1);
    notice_put_texts(&n->rows, texts, sizeof texts / sizeof *texts);
    n->is_partial = !notice_added(n, len);
}

bool row_notice_is_whole(const struct row_notice *n, uint64_t before, uint64_t last)
{
    return !n->is_partial && n->count > 0 && last - before == n->count;
}

int row_notice_put(const struct row_notice *n, struct sealer *sealer,
                   const struct row_notice_place *place, uint64_t from, struct buf *out)
{
    struct notice_purpose purpose;
    uint64_t to = from + n->count - 1;
    notice_bind(&purpose, place, from, to);
    buf_putu(out, from);
    buf_putc(out, ' ');
    buf_putu(out, to);
    buf_putc(out, ' ');
    int rc =
        seal_put(sealer, out, tidings_strn(purpose.text, sizeof(purpose.text)), buf_str(&n->rows));
    rc = rc == 0 && out->failed ? out->failed : rc;
    return rc == 0 && out->len > ROW_NOTICE_TEXT_MAX ? TIDINGS_E_LIMIT : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool row_notice_parse(struct tidings_str text, struct row_notice_head *ret)
{
    struct tidings_str rest = STR_EMPTY;
    return text.len <= ROW_NOTICE_TEXT_MAX &&
           str_to_u64(str_cut(text, ' ', &rest, NULL), &ret->from) &&
           str_to_u64(str_cut(rest, ' ', &ret->sealed, NULL), &ret->to) && ret->from > 0 &&
           ret->from <= ret->to && ret->to - ret->from < ROW_NOTICE_MAX && ret->sealed.len > 0;
}

static bool notice_take_number(struct tidings_str *at, int64_t *ret)
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

static bool notice_take_numbers(struct tidings_str *at, int64_t *numbers, size_t count)
{
    bool is_there = true;
    for (size_t i = 0; is_there && i < count; i++) {
        is_there = notice_take_number(at, &numbers[i]);
    }
    return is_there;
}

static bool notice_take_texts(struct tidings_str *at, struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t len = 0;
        if (!notice_take_number(at, &len) || len < 0 || (uint64_t)len > at->len) {
            return false;
        }
        texts[i] = tidings_strn(at->ptr, (size_t)len);
        *at = str_skip(*at, (size_t)len);
    }
    return true;
}

static bool take_version(struct tidings_str *at, uint64_t position, struct followed_row *ret)
{
    int64_t n[5]; /* bits, from, at, since, sum */
    struct tidings_str t[8] = {[6] = STR_EMPTY, [7] = STR_EMPTY};
    if (!notice_take_numbers(at, n, 5) || n[0] < 0 || n[0] > 7 ||
        !notice_take_texts(at, t, (n[0] & VERSION_WHOLE) != 0 ? 8 : 6)) {
        return false;
    }
    ret->change = (struct kept_change){
        .kind = KEPT_ENTITY,
        .position = position,
        .modified_ms = n[1],
        .at_ms = n[2],
        .removed = (n[0] & VERSION_DELETED) != 0,
        .created = (n[0] & VERSION_CREATED) != 0,
        .uri = t[0],
    };
    ret->change.version = (struct entity_version){
        .id = t[0],
        .from = n[1],
        .to = TIMELINE_FOREVER,
        .type = t[1],
        .type_version = t[2],
        .parent = t[3],
        .changed_by = t[4],
        .principal = t[5],
        .deleted = ret->change.removed,
        .created = ret->change.created,
        .since = n[3],
    };
    ret->sum = (n[0] & VERSION_WHOLE) != 0 ? n[4] : 0;
    ret->previous = t[6];
    ret->value = t[7];
    return true;
}

static bool take_announced(struct tidings_str *at, enum kept_kind kind, uint64_t position,
                           struct followed_row *ret)
{
    int64_t n[4]; /* kind of change, at, modified, size */
    struct tidings_str t[7];
    if (!notice_take_numbers(at, n, 4) || n[0] < 0 ||
        (n[0] & ~ANNOUNCED_MUTE) > TIDINGS_CHANGE_MOVED || !notice_take_texts(at, t, 7)) {
        return false;
    }
    bool is_mute = (n[0] & ANNOUNCED_MUTE) != 0;
    ret->announced = (struct tidings_change){
        .uri = t[0],
        .kind = (enum tidings_change_kind)(n[0] & ~ANNOUNCED_MUTE),
        .etag = t[1],
        .from = t[2],
        .target = t[3],
        .metadata = t[4],
        .checksum = t[5],
        .origin = t[6],
        .modified_ms = n[2],
        .size = n[3] < 0 ? 0 : n[3],
        .has_size = n[3] >= 0,
        .not_subscribable = is_mute,
    };
    ret->change = (struct kept_change){
        .kind = kind,
        .position = position,
        .at_ms = n[1],
        .modified_ms = n[2],
        .size = n[3],
        .uri = t[0],
        .etag = t[1],
        .came_from = t[2],
        .target = t[3],
        .metadata = t[4],
        .not_subscribable = is_mute,
        .announced = kept_is_announced(kind) ? &ret->announced : NULL,
    };
    return true;
}

bool row_notice_next(struct tidings_str *rows, uint64_t position, struct followed_row *ret)
{
    struct tidings_str at = str_skip(*rows, 1);
    int kind = rows->len > 0 ? rows->ptr[0] : -1;
    *ret = (struct followed_row){.sum = 0, .previous = STR_EMPTY, .value = STR_EMPTY};
    bool is_row = kind == KEPT_ENTITY ? take_version(&at, position, ret)
                  : kind == KEPT_ANNOUNCED || kind == KEPT_MOUNTED || kind == KEPT_SESSION
                      ? take_announced(&at, (enum kept_kind)kind, position, ret)
                      : false;
    *rows = is_row ? at : *rows;
    return is_row;
}

static bool notice_is_understood(const struct row_notice_head *head, struct tidings_str rows)
{
    bool is_row = true;
    for (uint64_t position = head->from; is_row && position <= head->to; position++) {
        struct followed_row row;
        is_row = row_notice_next(&rows, position, &row);
    }
    return is_row && rows.len == 0;
}

int row_notice_open(const struct row_notice_head *head, struct sealer *sealer,
                    const struct row_notice_place *place, struct buf *out)
{
    struct notice_purpose purpose;
    size_t before = out->len;
    notice_bind(&purpose, place, head->from, head->to);
    int rc = seal_open(sealer, out, tidings_strn(purpose.text, sizeof(purpose.text)), head->sealed);
    if (rc == 0 && !notice_is_understood(head, str_skip(buf_str(out), before))) {
        out->len = before;
        rc = TIDINGS_E_UNSUPPORTED;
    }
    return rc;
}
