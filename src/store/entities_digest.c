/* SPDX-License-Identifier: MIT
 *
 * The digest of a write request, by which an idempotency key tells the same request from another.
 * Every part is preceded by its length, so that no two requests are written alike.
 */
#include "base/sha256.h"
#include "base/str.h"
#include "store/entities.h"
#include "json/write.h"

#define VALUE_MAX (256u << 20)

static void put_number(struct sha256 *s, int64_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    sha256_put(s, bytes, sizeof(bytes));
}

static void entities_digest_put_text(struct sha256 *s, struct tidings_str text)
{
    put_number(s, (int64_t)text.len);
    sha256_put(s, text.ptr, text.len);
}

static int entities_digest_put_value(struct sha256 *s, const struct json *value)
{
    struct buf text;
    struct jw w;
    buf_init(&text, VALUE_MAX);
    jw_init(&w, &text);
    if (value) {
        jw_value(&w, value);
    }
    entities_digest_put_text(s, buf_str(&text));
    int rc = text.failed;
    buf_deinit(&text);
    return rc;
}

int entity_digest(const struct entity_write *writes, size_t count, char out[ENTITY_DIGEST_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[SHA256_BYTES];
    struct sha256 s;
    int rc = 0;
    sha256_init(&s);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct entity_write *w = &writes[i];
        put_number(&s, w->op);
        entities_digest_put_text(&s, w->id);
        entities_digest_put_text(&s, w->type);
        entities_digest_put_text(&s, w->type_version);
        rc = entities_digest_put_value(&s, w->value);
        rc = rc == 0 ? entities_digest_put_value(&s, w->patch) : rc;
        put_number(&s, w->has_parent);
        entities_digest_put_text(&s, w->parent);
        entities_digest_put_text(&s, w->changed_by);
        put_number(&s, w->baseline);
        put_number(&s, w->valid_from);
        put_number(&s, w->must_be_new);
        put_number(&s, w->must_exist);
        put_number(&s, w->rebase);
    }
    sha256_end(&s, sum);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[2 * SHA256_BYTES] = '\0';
    return rc;
}
