/* SPDX-License-Identifier: MIT
 *
 * Sealed data that untrusted clients return. Any string as a cursor: accepted ones are written and
 * read back as the same. Any string as a seal, or (first byte 1) as changes to a valid one: only
 * unchanged data that was sealed for the same purpose can be opened.
 */
#include <stdlib.h>

#include "engine/protocol/cursor.h"
#include "security/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_cursor(struct tidings_str text)
{
    struct log_cursor c, again;
    char room[CURSOR_TEXT];
    if (cursor_parse(text, &c)) {
        require(cursor_parse(cursor_print(&c, room), &again));
        require(again.epoch == c.epoch && again.seq == c.seq && again.position == c.position);
        require(again.has_position == c.has_position);
        require(again.gap == c.gap && again.gap_to == c.gap_to);
        require(c.gap == 0 || cursor_has_gap(&c, c.gap));
    }
}

/* Exchange one character of a good seal for another, put one in or leave one out. */
static void damage(struct buf *sealed, const uint8_t *how, size_t size)
{
    size_t at = (how[0] | (size > 1 ? (size_t)how[1] << 8 : 0)) % sealed->len;
    if (size > 2 && how[2] != 0) {
        sealed->ptr[at] = (char)how[2];
    } else {
        memmove(sealed->ptr + at, sealed->ptr + at + 1, sealed->len - at);
        sealed->len--;
    }
}

static void check_seal(struct sealer *s, const uint8_t *data, size_t size)
{
    struct buf sealed, before, out;
    buf_init(&sealed, SIZE_MAX / 2);
    buf_init(&before, SIZE_MAX / 2);
    buf_init(&out, SIZE_MAX / 2);
    require(seal_put(s, &sealed, STR("this"), STR("a secret")) == 0);
    buf_puts(&before, buf_str(&sealed));
    require(seal_open(s, &out, STR("that"), buf_str(&sealed)) == TIDINGS_E_INVALID);
    if (size > 0) {
        damage(&sealed, data, size);
    }
    bool is_same = str_eq(buf_str(&sealed), buf_str(&before));
    int rc = seal_open(s, &out, STR("this"), buf_str(&sealed));
    require(is_same ? rc == 0 && str_eq(buf_str(&out), STR("a secret")) : rc == TIDINGS_E_INVALID);
    require(is_same || out.len == 0);
    buf_deinit(&sealed);
    buf_deinit(&before);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Nothing is ever sealed with the second: what was, the fuzzer finds out by watching. */
    static struct seal_key key, unused_key;
    static struct sealer sealer, unused;
    static bool is_made;
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    struct buf out;
    if (!is_made) {
        require(seal_key_init(&key) == 0);
        require(seal_key_init(&unused_key) == 0);
        sealer_init(&sealer, &key);
        sealer_init(&unused, &unused_key);
        is_made = true;
    }
    check_cursor(text);
    buf_init(&out, SIZE_MAX / 2);
    require(seal_open(&unused, &out, STR("this"), text) == TIDINGS_E_INVALID && out.len == 0);
    buf_deinit(&out);
    if (size > 0 && data[0] == 1) {
        check_seal(&sealer, data + 1, size - 1);
    }
    return 0;
}
