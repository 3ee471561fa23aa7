/* SPDX-License-Identifier: MIT
 *
 * Notifications of an untrusted database client. Any string: it decrypts nowhere, and nothing is
 * read from it. Any bytes as the rows of a payload that a node sealed (first byte 1): they are read
 * within their limits, each row from the end of the last one, or rejected as a whole. And any bytes
 * as the record of a table row.
 */
#include <stdlib.h>

#include "cluster/log_record.h"
#include "store/change.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_slice(struct tidings_str rows, struct tidings_str s)
{
    require(s.len == 0 || (s.ptr >= rows.ptr && s.ptr + s.len <= rows.ptr + rows.len));
}

static void check_record(struct tidings_str rows, const struct kept_record *r)
{
    const struct entity_version *v = &r->version;
    struct tidings_change c = r->resource;
    struct log_entry change;
    struct tidings_str *texts[CHANGE_TEXTS];
    const struct tidings_str of_version[] = {
        v->id,         v->type,      v->type_version,     v->parent,
        v->changed_by, v->principal, v->old_type_version, v->previous,
        v->value};
    change_texts(&c, texts);
    for (size_t i = 0; i < CHANGE_TEXTS; i++) {
        check_slice(rows, *texts[i]);
    }
    for (size_t i = 0; i < sizeof of_version / sizeof *of_version; i++) {
        check_slice(rows, of_version[i]);
    }
    kept_record_change(r, &change);
    check_slice(rows, change.uri);
    require(!change.announced == !log_entry_is_announced(change.kind));
    require(change.version.value.len == 0 && change.version.previous.len == 0);
}

static uint64_t check_rows(struct tidings_str rows)
{
    struct tidings_str at = rows;
    struct kept_record row;
    uint64_t count = 0;
    for (size_t before = at.len; notify_payload_next(&at, count + 1, &row); before = at.len) {
        require(at.len < before && row.position == ++count);
        check_record(rows, &row);
    }
    return at.len == 0 ? count : 0;
}

/* A record of a table. Writing it again gives the canonical bytes, and reading these gives the same
 * record. */
static void check_table(struct tidings_str bytes)
{
    struct tidings_str at = bytes, once, twice;
    struct kept_record record;
    struct buf written, again;
    if (!kept_record_take(&at, &record)) {
        require(at.len == bytes.len);
        return;
    }
    check_record(bytes, &record);
    buf_init(&written, KEPT_RECORD_MAX);
    buf_init(&again, KEPT_RECORD_MAX);
    kept_record_put(&record, &written);
    once = buf_str(&written);
    require(once.len <= bytes.len - at.len && kept_record_take(&once, &record) && once.len == 0);
    kept_record_put(&record, &again);
    once = buf_str(&written);
    twice = buf_str(&again);
    require(str_eq(once, twice));
    buf_deinit(&again);
    buf_deinit(&written);
}

static void check_sealed(struct sealer *sealer, struct tidings_str bytes)
{
    static const struct notify_payload_scope place;
    struct notify_payload n;
    struct notify_payload_head head;
    struct buf text, rows;
    uint64_t count = check_rows(bytes);
    notify_payload_init(&n);
    buf_init(&text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    buf_init(&rows, NOTIFY_PAYLOAD_TEXT_MAX);
    n.count = count > 0 ? count : 1;
    if (buf_puts(&n.rows, bytes) == 0 && notify_payload_put(&n, sealer, &place, 1, &text) == 0) {
        require(notify_payload_parse(buf_str(&text), &head) && head.to == n.count);
        int rc = notify_payload_open(&head, sealer, &place, &rows);
        require(rc == (count > 0 ? 0 : TIDINGS_E_UNSUPPORTED));
        require(rc < 0 ? rows.len == 0 : str_eq(buf_str(&rows), bytes));
    }
    buf_deinit(&rows);
    buf_deinit(&text);
    notify_payload_deinit(&n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seal_key key;
    static struct sealer sealer;
    static bool is_made;
    static const struct notify_payload_scope place;
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    struct notify_payload_head head;
    struct buf rows;
    if (!is_made) {
        const unsigned char secret[32] = {1};
        notify_payload_key(secret, &key);
        sealer_init(&sealer, &key);
        is_made = true;
    }
    buf_init(&rows, NOTIFY_PAYLOAD_TEXT_MAX);
    if (notify_payload_parse(text, &head)) {
        require(head.from > 0 && head.from <= head.to);
        check_slice(text, head.sealed);
        require(notify_payload_open(&head, &sealer, &place, &rows) == TIDINGS_E_INVALID);
        require(rows.len == 0);
    }
    buf_deinit(&rows);
    check_table(text);
    if (size > 0 && data[0] == 1) {
        check_sealed(&sealer, tidings_strn(text.ptr + 1, text.len - 1));
    }
    return 0;
}
