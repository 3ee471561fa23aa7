/* SPDX-License-Identifier: MIT
 *
 * The changes of a batch as one sealed string. A node that has the key and is at the same position
 * reads exactly what the sender wrote. No other reader can open the string. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cluster/log_record.h"

#define TEXT(literal)                                                                              \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

static const struct entity_version version = {
    .id = TEXT("x"),
    .from = 1700000000123,
    .since = -5,
    .type = TEXT("T"),
    .type_version = TEXT("1"),
    .parent = TEXT("p"),
    .value = TEXT("{\"tell-tale\":1}"),
    .changed_by = TEXT("[]"),
    .principal = TEXT("{\"who\":2}"),
    .previous = TEXT("{}"),
    .created = true,
};
static const struct tidings_change announced = {
    .uri = TEXT("n:///1"),
    .kind = TIDINGS_CHANGE_MOVED,
    .etag = TEXT("e"),
    .from = TEXT("n:///0"),
    .target = TEXT("n:///t"),
    .metadata = TEXT("{\"k\":7}"),
    .checksum = TEXT("c"),
    .origin = TEXT("o"),
    .modified_ms = 9,
    .size = 0,
    .has_size = true,
};
static const struct notify_payload_scope here = {.digest = {1, 2, 3}},
                                         elsewhere = {.digest = {1, 2}};

static void add_version(struct notify_payload *n, const struct entity_version *v, int64_t at_ms)
{
    const struct kept_record r = {.kind = LOG_ENTRY_ENTITY,
                                  .at_ms = at_ms,
                                  .version = *v,
                                  .version_checksum = entity_version_checksum(v)};
    notify_payload_add(n, &r);
}

static void add_change(struct notify_payload *n, enum log_entry_kind kind,
                       const struct tidings_change *c, int64_t at_ms)
{
    notify_payload_add(n, &(struct kept_record){.kind = kind, .at_ms = at_ms, .resource = *c});
}

struct sealing {
    struct seal_key key;
    struct sealer sealer;
};

static void sealing_init(struct sealing *s, unsigned char first)
{
    const unsigned char secret[32] = {first};
    notify_payload_key(secret, &s->key);
    sealer_init(&s->sealer, &s->key);
}

/* "7 8 …": a version and an announcement, at positions 7 and 8. */
static void put_this(struct sealing *s, const struct tidings_change *change, struct buf *out)
{
    struct notify_payload n;
    notify_payload_init(&n);
    add_version(&n, &version, 42);
    add_change(&n, LOG_ENTRY_ANNOUNCED, change, 43);
    assert_true(notify_payload_is_whole(&n, 6, 8));
    assert_false(notify_payload_is_whole(&n, 6, 9));
    assert_false(notify_payload_is_whole(&n, 7, 8));
    buf_init(out, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    assert_int_equal(notify_payload_put(&n, &s->sealer, &here, 7, out), 0);
    notify_payload_deinit(&n);
}

static void put_two(struct sealing *s, struct buf *out)
{
    put_this(s, &announced, out);
}

static int open_text(struct sealing *s, const struct notify_payload_scope *place,
                     struct tidings_str text, struct buf *rows)
{
    struct notify_payload_head head;
    buf_init(rows, NOTIFY_PAYLOAD_TEXT_MAX);
    return notify_payload_parse(text, &head) ? notify_payload_open(&head, &s->sealer, place, rows)
                                             : TIDINGS_E_PARSE;
}

static bool is_same(struct tidings_str a, struct tidings_str b)
{
    return str_eq(a, b);
}

static void payload_reads_back_as_written(void **state)
{
    (void)state;
    struct sealing writer, reader;
    struct buf text, rows;
    struct kept_record row;
    struct log_entry change;
    sealing_init(&writer, 9);
    sealing_init(&reader, 9);
    put_two(&writer, &text);
    assert_memory_equal(text.ptr, "7 8 ", 4);
    assert_int_equal(open_text(&reader, &here, buf_str(&text), &rows), 0);
    struct tidings_str at = buf_str(&rows);
    assert_true(notify_payload_next(&at, 7, &row));
    kept_record_change(&row, &change);
    const struct entity_version *v = &row.version;
    assert_int_equal(change.kind, LOG_ENTRY_ENTITY);
    assert_int_equal(change.position, 7);
    assert_int_equal(change.modified_ms, version.from);
    assert_int_equal(change.at_ms, 42);
    assert_true(entity_version_is_whole(v, row.version_checksum));
    assert_int_equal(v->from, version.from);
    assert_int_equal(v->to, TIMELINE_FOREVER);
    assert_int_equal(v->since, -5);
    assert_true(v->created && change.created && !v->deleted && !change.removed);
    assert_true(is_same(v->id, version.id) && is_same(change.uri, version.id));
    assert_true(is_same(v->type, version.type) && is_same(v->type_version, version.type_version));
    assert_true(is_same(v->parent, version.parent) && is_same(v->changed_by, version.changed_by));
    assert_true(is_same(v->principal, version.principal));
    assert_true(is_same(v->value, version.value) && is_same(v->previous, version.previous));
    assert_true(change.version.value.len == 0 && change.version.previous.len == 0);
    assert_true(notify_payload_next(&at, 8, &row));
    kept_record_change(&row, &change);
    const struct tidings_change *c = change.announced;
    assert_int_equal(change.kind, LOG_ENTRY_ANNOUNCED);
    assert_int_equal(change.at_ms, 43);
    assert_int_equal(c->kind, TIDINGS_CHANGE_MOVED);
    assert_true(is_same(c->uri, announced.uri) && is_same(c->etag, announced.etag));
    assert_true(is_same(c->from, announced.from) && is_same(c->target, announced.target));
    assert_true(is_same(c->metadata, announced.metadata) && is_same(c->origin, announced.origin));
    assert_true(is_same(c->checksum, announced.checksum));
    assert_true(c->modified_ms == 9 && c->size == 0 && c->has_size);
    assert_false(c->not_subscribable || change.not_subscribable);
    assert_false(notify_payload_next(&at, 9, &row));
    assert_int_equal(at.len, 0);
    buf_deinit(&text);
    buf_deinit(&rows);
    sealer_deinit(&writer.sealer);
    sealer_deinit(&reader.sealer);
}

static void unsubscribable_change_keeps_its_flag(void **state)
{
    (void)state;
    struct sealing s;
    struct buf text, rows;
    struct kept_record row;
    struct tidings_change change = announced;
    change.not_subscribable = true;
    sealing_init(&s, 9);
    put_this(&s, &change, &text);
    assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), 0);
    struct tidings_str at = buf_str(&rows);
    assert_true(notify_payload_next(&at, 7, &row));
    assert_true(notify_payload_next(&at, 8, &row));
    assert_true(row.resource.not_subscribable);
    assert_int_equal(row.resource.kind, TIDINGS_CHANGE_MOVED);
    buf_deinit(&text);
    buf_deinit(&rows);
    sealer_deinit(&s.sealer);
}

/* All record kinds: reading gives the written record, and every prefix is rejected. */
static void records_of_all_kinds_are_read_as_written(void **state)
{
    (void)state;
    static const enum log_entry_kind kinds[] = {
        LOG_ENTRY_ENTITY,      LOG_ENTRY_MOVED,     LOG_ENTRY_TYPES,
        LOG_ENTRY_PUBLISHED,   LOG_ENTRY_ANNOUNCED, LOG_ENTRY_SESSION,
        LOG_ENTRY_INCARNATION, LOG_ENTRY_DATA_LOSS, LOG_ENTRY_MOUNTED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct kept_record r = {.kind = kinds[i],
                                .at_ms = INT64_MIN,
                                .version = version,
                                .version_checksum = INT64_MAX,
                                .resource = announced};
        struct kept_record read;
        struct buf bytes, again;
        r.resource.kind = TIDINGS_CHANGE_DELETED;
        r.resource.modified_ms = INT64_MIN;
        r.resource.size = -1;
        r.version.old_type_version = STR("0");
        buf_init(&bytes, 4096);
        buf_init(&again, 4096);
        kept_record_put(&r, &bytes);
        for (size_t len = 0; len < bytes.len; len++) {
            struct tidings_str cut = tidings_strn(bytes.ptr, len);
            assert_false(kept_record_take(&cut, &read));
            assert_int_equal(cut.len, len);
        }
        struct tidings_str at = buf_str(&bytes);
        assert_true(kept_record_take(&at, &read));
        assert_int_equal(at.len, 0);
        assert_int_equal(read.kind, kinds[i]);
        assert_int_equal(read.at_ms, INT64_MIN);
        bool is_version = kinds[i] == LOG_ENTRY_ENTITY || kinds[i] == LOG_ENTRY_MOVED;
        assert_int_equal(read.version_checksum, is_version ? INT64_MAX : 0);
        assert_int_equal(read.version.old_type_version.len, is_version ? 1 : 0);
        assert_int_equal(read.resource.kind, is_version ? 0 : TIDINGS_CHANGE_DELETED);
        assert_false(read.resource.has_size);
        kept_record_put(&read, &again);
        assert_true(str_eq(buf_str(&again), buf_str(&bytes)));
        buf_deinit(&again);
        buf_deinit(&bytes);
    }
    struct kept_record read;
    static const char files[] = {LOG_ENTRY_FILE}, others[] = {LOG_ENTRY_MOUNTED + 1},
                      negative[] = {-1};
    struct tidings_str none[] = {tidings_strn(files, 1), tidings_strn(others, 1),
                                 tidings_strn(negative, 1), STR_EMPTY};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_false(kept_record_take(&none[i], &read));
    }
}

static void payload_opens_only_with_its_key_and_position(void **state)
{
    (void)state;
    struct sealing s, other;
    struct buf text, rows;
    sealing_init(&s, 9);
    sealing_init(&other, 8);
    put_two(&s, &text);
    assert_int_equal(open_text(&s, &elsewhere, buf_str(&text), &rows), TIDINGS_E_INVALID);
    assert_int_equal(open_text(&other, &here, buf_str(&text), &rows), TIDINGS_E_INVALID);
    static const char *const latest[] = {"8 9 ", "7 7 ", "7 9 ", "6 8 ", "1 2 "};
    for (size_t i = 0; i < sizeof latest / sizeof *latest; i++) {
        memcpy(text.ptr, latest[i], 4);
        assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), TIDINGS_E_INVALID);
        assert_int_equal(rows.len, 0);
    }
    buf_deinit(&text);
    sealer_deinit(&s.sealer);
    sealer_deinit(&other.sealer);
}

static void payload_is_rejected_if_any_bit_changed(void **state)
{
    (void)state;
    struct sealing s;
    struct buf text, rows;
    sealing_init(&s, 9);
    put_two(&s, &text);
    for (size_t i = 0; i < text.len; i++) {
        char was = text.ptr[i];
        text.ptr[i] = was == 'A' ? 'B' : 'A';
        assert_true(open_text(&s, &here, buf_str(&text), &rows) < 0);
        text.ptr[i] = was;
        assert_true(open_text(&s, &here, tidings_strn(text.ptr, i), &rows) < 0);
        assert_int_equal(rows.len, 0);
    }
    buf_puts(&text, STR("AAAA"));
    assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), TIDINGS_E_INVALID);
    buf_deinit(&text);
    sealer_deinit(&s.sealer);
}

static void malformed_payload_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "7",
                                        "7 8",
                                        "7 8 ",
                                        " 7 8 AAAA",
                                        "7  8 AAAA",
                                        "8 7 AAAA",
                                        "0 1 AAAA",
                                        "-1 1 A",
                                        "7 8x A",
                                        "1 18446744073709551616 A",
                                        "1 9999 AAAA"};
    struct notify_payload_head head;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(notify_payload_parse(tidings_str(texts[i]), &head));
    }
    char *large = mem_alloc(NOTIFY_PAYLOAD_TEXT_MAX + 1);
    memset(large, 'A', NOTIFY_PAYLOAD_TEXT_MAX + 1);
    memcpy(large, "1 2 ", 4);
    assert_true(notify_payload_parse(tidings_strn(large, NOTIFY_PAYLOAD_TEXT_MAX), &head));
    assert_false(notify_payload_parse(tidings_strn(large, NOTIFY_PAYLOAD_TEXT_MAX + 1), &head));
    mem_free(large);
}

/* A payload with our key whose rows do not match its positions. */
static void payload_is_rejected_if_rows_and_positions_differ(void **state)
{
    (void)state;
    struct sealing s;
    struct notify_payload n;
    struct buf text, rows;
    sealing_init(&s, 9);
    notify_payload_init(&n);
    buf_init(&text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    add_version(&n, &version, 42);
    n.count = 2;
    assert_int_equal(notify_payload_put(&n, &s.sealer, &here, 7, &text), 0);
    assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), TIDINGS_E_UNSUPPORTED);
    assert_int_equal(rows.len, 0);
    buf_deinit(&rows);
    add_version(&n, &version, 42);
    n.count = 1;
    buf_clear(&text);
    assert_int_equal(notify_payload_put(&n, &s.sealer, &here, 7, &text), 0);
    assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), TIDINGS_E_UNSUPPORTED);
    buf_deinit(&rows);
    notify_payload_clear(&n);
    add_change(&n, LOG_ENTRY_TYPES, &announced, 1); /* a kind that is not announced */
    buf_clear(&text);
    assert_int_equal(notify_payload_put(&n, &s.sealer, &here, 7, &text), 0);
    assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), TIDINGS_E_UNSUPPORTED);
    buf_deinit(&rows);
    buf_deinit(&text);
    notify_payload_deinit(&n);
    sealer_deinit(&s.sealer);
}

/* Values of every size around the limit: the record is whole, lacks its value, or is left out. */
static void oversized_rows_are_left_out(void **state)
{
    (void)state;
    struct sealing s;
    struct buf text, rows;
    unsigned whole = 0, cut = 0;
    char *value = mem_alloc(NOTIFY_PAYLOAD_MAX + 1);
    memset(value, '1', NOTIFY_PAYLOAD_MAX + 1);
    sealing_init(&s, 9);
    for (size_t len = NOTIFY_PAYLOAD_MAX - 200; len <= NOTIFY_PAYLOAD_MAX; len++) {
        struct entity_version v = version;
        struct notify_payload n;
        struct kept_record row;
        v.value = tidings_strn(value, len);
        notify_payload_init(&n);
        add_version(&n, &v, 42);
        buf_init(&text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
        assert_true(notify_payload_is_whole(&n, 6, 7));
        assert_int_equal(
            notify_payload_put(&n, &s.sealer, &here, UINT64_C(9000000000000000000), &text), 0);
        assert_true(text.len <= NOTIFY_PAYLOAD_TEXT_MAX);
        assert_int_equal(open_text(&s, &here, buf_str(&text), &rows), 0);
        struct tidings_str at = buf_str(&rows);
        assert_true(notify_payload_next(&at, 7, &row));
        bool is_whole = entity_version_is_whole(&row.version, row.version_checksum);
        whole += is_whole && row.version.value.len == len;
        cut += !is_whole && row.version.value.len == 0 && row.version.previous.len == 0;
        buf_deinit(&rows);
        buf_deinit(&text);
        notify_payload_deinit(&n);
    }
    assert_int_equal(whole + cut, 201);
    assert_true(whole > 0 && cut > 0);
    struct notify_payload n;
    struct entity_version v = version;
    v.id = tidings_strn(value, NOTIFY_PAYLOAD_MAX);
    notify_payload_init(&n);
    add_version(&n, &v, 42);
    assert_false(notify_payload_is_whole(&n, 6, 7));
    add_version(&n, &version, 42); /* nor any row after it */
    assert_false(notify_payload_is_whole(&n, 6, 8));
    notify_payload_deinit(&n);
    mem_free(value);
    sealer_deinit(&s.sealer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payload_reads_back_as_written),
        cmocka_unit_test(unsubscribable_change_keeps_its_flag),
        cmocka_unit_test(records_of_all_kinds_are_read_as_written),
        cmocka_unit_test(payload_opens_only_with_its_key_and_position),
        cmocka_unit_test(payload_is_rejected_if_any_bit_changed),
        cmocka_unit_test(malformed_payload_is_rejected),
        cmocka_unit_test(payload_is_rejected_if_rows_and_positions_differ),
        cmocka_unit_test(oversized_rows_are_left_out),
    };
    return cmocka_run_group_tests_name("row notices", tests, NULL, NULL);
}
