/* SPDX-License-Identifier: MIT
 *
 * Payloads: pieces of any size give the same text as one encoding, and changed content is never
 * sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/encode.h"
#include "base/mem.h"
#include "base/thread.h"
#include "engine/catalog/payload.h"
#include "engine/worker.h"
#include "formats/json_write.h"
#include "support/fail_alloc.h"

enum { SIZE = 3 * PAYLOAD_PIECE + 1000 };

/* Content that is read in pieces and may change. */
struct thing {
    char bytes[SIZE];
    size_t size;
    unsigned reads, looks, changes; /* number of reads that see a change */
    unsigned written;               /* reads that return other bytes */
    bool is_closed;
};

static int thing_read(void *user, int64_t offset, char *bytes, size_t len,
                      struct tidings_error *err)
{
    struct thing *thing = user;
    thing->reads++;
    if ((size_t)offset + len > thing->size) {
        return tidings_fail(err, TIDINGS_E_CONFLICT, "it has become shorter");
    }
    if (thing->written > 0) {
        thing->written--;
        thing->bytes[0]++;
    }
    memcpy(bytes, thing->bytes + offset, len);
    return 0;
}

static bool thing_changed(void *user)
{
    struct thing *thing = user;
    return thing->looks++ < thing->changes;
}

static void thing_close(void *user)
{
    struct thing *thing = user;
    assert_false(thing->is_closed);
    thing->is_closed = true;
}

static struct thing thing;
static struct worker worker;

/* A piece that a thread works on, until thing_give. */
static struct {
    struct tidings_piece *piece;
    char *bytes;
    size_t offset, len;
    unsigned count;
} wanted;

static void thing_fetch(void *user, int64_t offset, char *bytes, size_t len,
                        struct tidings_piece *piece)
{
    assert_ptr_equal(user, &thing);
    assert_null(wanted.piece); /* one at a time */
    wanted.piece = piece;
    wanted.bytes = bytes;
    wanted.offset = (size_t)offset;
    wanted.len = len;
    wanted.count++;
}

static void *thing_thread(void *code)
{
    struct tidings_piece *piece = wanted.piece;
    struct tidings_error err;
    wanted.piece = NULL;
    memcpy(wanted.bytes, thing.bytes + wanted.offset, wanted.len);
    tidings_fail(&err, *(int *)code, "as told");
    tidings_piece_done(piece, *(int *)code, &err);
    return NULL;
}

/* Another thread works on it and notifies the worker. */
static void thing_give(int code)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thing_thread, &code), 0);
    pthread_join(thread, NULL);
    assert_int_equal(mailbox_drain(worker.mailbox), 1);
}

static void thing_open(const char *pattern)
{
    size_t len = strlen(pattern);
    thing = (struct thing){.size = SIZE};
    for (size_t i = 0; i < SIZE; i++) {
        thing.bytes[i] = pattern[i % len];
    }
    memset(thing.bytes + SIZE - SIZE % len, 'e', SIZE % len);
}

static bool nobody_waits;

static bool is_gone(void *user)
{
    (void)user;
    return nobody_waits;
}

static struct payload *payload_of_thing(struct tidings_error *err)
{
    const struct tidings_pieces pieces = {.user = &thing,
                                          .size = SIZE,
                                          .read = thing_read,
                                          .changed = thing_changed,
                                          .close = thing_close};
    const struct payload_waiter waiter = {is_gone, NULL};
    return payload_of_pieces(&pieces, &waiter, err);
}

/* Encodes two payloads within other text, `room` bytes at once. */
static void assert_encoded(struct payload *first, struct payload *second, size_t room,
                           struct tidings_str want)
{
    static const struct response_text {
        const char *before, *between, *behind;
    } t = {"<<", "><", ">>"};
    struct buf text, got;
    buf_init(&text, 100);
    buf_init(&got, want.len + 1);
    buf_putf(&text, "%s%s%s", t.before, t.between, t.behind);
    first->at = 2;
    second->at = 4;
    first->next = second;
    struct payload *all = first;
    struct output output = {0};
    struct sendq_source *source = payload_source(&text, &all, &output, &worker);
    assert_non_null(source);
    assert_null(all);
    assert_int_equal(source->left, want.len);
    char *bytes = test_malloc(room);
    while (source->left > 0) {
        size_t len = source->left < room ? source->left : room;
        ssize_t n = source->make(source, bytes, len);
        assert_in_range(n, 1, len);
        assert_int_equal(buf_put(&got, bytes, (size_t)n), 0);
        source->left -= (size_t)n;
    }
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.ptr, want.ptr, want.len);
    source->destroy(source);
    test_free(bytes);
    buf_deinit(&got);
    buf_deinit(&text);
}

static void pieces_equal_one_encoding_of_the_text(void **state)
{
    (void)state;
    static const char *const patterns[] = {"plain text\n", "\x01\"\\", "\xc3\xa4\xe2\x82\xac",
                                           "\xff\xfe\x80", "\xf0\x9f\x98\x80"};
    static const size_t rooms[] = {65536, 65537, 100000, 1000000};
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
            struct tidings_error err = {0};
            thing_open(patterns[p]);
            struct tidings_str whole = tidings_strn(thing.bytes, SIZE);
            bool is_text = str_is_utf8(whole);
            char *copy = mem_alloc(SIZE);
            assert_non_null(copy);
            memcpy(copy, thing.bytes, SIZE);
            struct payload *a = payload_of_thing(&err);
            struct payload *b = payload_of_memory(copy, tidings_strn(copy, SIZE), is_text);
            assert_non_null(a);
            assert_non_null(b);
            assert_int_equal(a->is_text, is_text);
            payload_set_form(a, is_text ? PAYLOAD_TEXT : PAYLOAD_BASE64);
            payload_set_form(b, r % 2 ? PAYLOAD_RAW : PAYLOAD_BASE64);
            struct buf want;
            struct jw w;
            buf_init(&want, 10 * SIZE);
            jw_init(&w, &want);
            buf_puts(&want, STR("<"));
            is_text ? jw_string(&w, whole) : jw_base64(&w, whole);
            want.ptr[1] = '<'; /* the quotes */
            want.ptr[want.len - 1] = '>';
            buf_puts(&want, STR("<"));
            if (r % 2) {
                buf_puts(&want, whole);
            } else {
                base64_put(&want, whole);
            }
            buf_puts(&want, STR(">>"));
            assert_encoded(a, b, rooms[r], buf_str(&want));
            assert_true(thing.is_closed);
            buf_deinit(&want);
        }
    }
}

static void changed_content_is_never_sent(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    char *room = test_malloc(10 * SIZE);
    thing_open("abc");
    struct payload *c = payload_of_thing(&err);
    assert_non_null(c);
    payload_send_by(c, &worker, NULL, NULL);
    payload_set_form(c, PAYLOAD_TEXT);
    assert_int_equal(payload_write(c, room, 100), 100);
    thing.bytes[200] = 'X'; /* already in memory: the old byte is sent */
    thing.bytes[PAYLOAD_PIECE + 1] = 'X';
    size_t told = 100;
    ssize_t n;
    while ((n = payload_write(c, room + told, 10 * SIZE)) > 0) {
        told += (size_t)n;
    }
    assert_int_equal(n, -ESTALE);
    assert_int_equal(told, PAYLOAD_PIECE);
    assert_null(memchr(room, 'X', told));
    payload_destroy(c);
    thing_open("abc");
    c = payload_of_thing(&err);
    thing.size = PAYLOAD_PIECE;
    payload_send_by(c, &worker, NULL, NULL);
    payload_set_form(c, PAYLOAD_RAW);
    assert_int_equal(payload_write(c, room, 10 * SIZE), PAYLOAD_PIECE);
    assert_int_equal(payload_write(c, room, 10 * SIZE), -ESTALE);
    payload_destroy(c);
    assert_true(thing.is_closed);
    test_free(room);
}

static void changing_content_is_read_until_two_reads_agree(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    thing_open("abc");
    thing.changes = 1000; /* it always grows, but its start stays */
    struct payload *c = payload_of_thing(&err);
    assert_non_null(c);
    assert_int_equal(thing.reads, 2 * (SIZE / PAYLOAD_PIECE + 1));
    payload_destroy(c);
    thing_open("abc");
    thing.changes = 1;
    thing.written = 2; /* different at the first reads */
    c = payload_of_thing(&err);
    assert_non_null(c);
    payload_destroy(c);
    thing_open("abc");
    thing.changes = thing.written = 1000;
    c = payload_of_thing(&err);
    assert_null(c);
    assert_int_equal(err.code, TIDINGS_E_BUSY);
    assert_true(thing.is_closed);
}

static void reading_stops_when_client_leaves(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    thing_open("abc");
    nobody_waits = true;
    assert_null(payload_of_thing(&err));
    nobody_waits = false;
    assert_int_equal(err.code, TIDINGS_E_CANCELLED);
    assert_true(thing.is_closed);
}

static struct sendq_source *source_of_fetched(struct output *output)
{
    struct tidings_error err = {0};
    struct buf text;
    thing_open("abc");
    wanted.count = 0;
    struct payload *c = payload_of_thing(&err);
    assert_non_null(c);
    c->pieces.fetch = thing_fetch;
    payload_set_form(c, PAYLOAD_RAW);
    buf_init(&text, 100);
    buf_puts(&text, STR("<>"));
    c->at = 1;
    return payload_source(&text, &c, output, &worker);
}

static void source_waits_for_pieces_being_fetched(void **state)
{
    (void)state;
    struct output output = {0};
    struct sendq queue = {0};
    struct sendq_batch batch;
    struct sendq_source *source = source_of_fetched(&output);
    char *room = test_malloc(2 * SIZE);
    sendq_batch_init(&batch);
    queue.batch = &batch;
    list_init(&queue.dirty_link);
    source->queue = &queue;
    size_t got = 0, waits = 0;
    while (source->left > 0) {
        ssize_t n = source->make(source, room + got, source->left);
        if (n == -EAGAIN) {
            assert_int_equal(source->make(source, room + got, source->left), -EAGAIN);
            assert_int_equal(worker.jobs, 1);
            queue.is_waiting = queue.awaits_source = true;
            thing_give(0);
            assert_false(queue.is_waiting || queue.awaits_source);
            assert_false(list_empty(&queue.dirty_link));
            waits++;
            continue;
        }
        assert_true(n > 0);
        got += (size_t)n;
        source->left -= (size_t)n;
    }
    assert_int_equal(waits, SIZE / PAYLOAD_PIECE + 1);
    assert_int_equal(wanted.count, waits);
    assert_int_equal(got, SIZE + 2);
    assert_memory_equal(room + 1, thing.bytes, SIZE);
    source->destroy(source);
    assert_true(thing.is_closed);
    list_remove(&queue.dirty_link);
    test_free(room);
}

static void failed_fetch_ends_the_answer(void **state)
{
    (void)state;
    static const struct {
        int code, error;
    } cases[] = {{TIDINGS_E_CONFLICT, -ESTALE}, {TIDINGS_E_NOMEM, -ENOMEM}, {TIDINGS_E_IO, -EIO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output output = {0};
        struct sendq queue = {0};
        char room[64];
        struct sendq_source *source = source_of_fetched(&output);
        source->queue = &queue;
        assert_int_equal(source->make(source, room, sizeof room), 1);
        assert_int_equal(source->make(source, room, sizeof room), -EAGAIN);
        thing_give(cases[i].code);
        assert_int_equal(source->make(source, room, sizeof room), cases[i].error);
        source->destroy(source);
        assert_true(thing.is_closed);
    }
}

static void fetched_piece_stays_booked_until_it_arrives(void **state)
{
    (void)state;
    static struct limit_counters counters;
    struct output output;
    struct refusal why;
    char room[64];
    counters.values[LIMIT_OUTPUT] = 1u << 20;
    output_init(&output, &counters, (struct share_taker){0});
    assert_true(output_book(&output, 1000, &why));
    struct sendq_source *source = source_of_fetched(&output);
    assert_int_equal(source->make(source, room, sizeof room), 1);
    assert_int_equal(source->make(source, room, sizeof room), -EAGAIN);
    source->destroy(source); /* its client has left */
    assert_false(thing.is_closed);
    assert_int_equal(counters.in_use[LIMIT_OUTPUT], 1000);
    thing_give(0);
    assert_true(thing.is_closed);
    assert_int_equal(counters.in_use[LIMIT_OUTPUT], 0);
    assert_int_equal(worker.jobs, 0);
}

static void failed_allocation_leaks_nothing(void **state)
{
    (void)state;
    bool reached = true;
    static char room[2 * SIZE];
    for (unsigned n = 1; reached; n++) {
        struct tidings_error err = {0};
        struct buf text;
        thing_open("abc");
        buf_init(&text, 100);
        fail_alloc_start(n);
        buf_puts(&text, STR("<>"));
        struct payload *c = payload_of_thing(&err);
        struct sendq_source *source = NULL;
        if (c && !text.failed) {
            payload_set_form(c, PAYLOAD_TEXT);
            c->at = 1;
            struct output output = {0};
            source = payload_source(&text, &c, &output, &worker);
        }
        ssize_t made = source ? source->make(source, room, 2 * SIZE) : 0;
        reached = fail_alloc_stop();
        assert_true(reached || made == SIZE + 2);
        assert_true(made >= 0 || made == -ENOMEM);
        if (source) {
            source->destroy(source);
        }
        payload_destroy(c);
        assert_true(thing.is_closed);
        buf_deinit(&text);
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_equal_one_encoding_of_the_text),
        cmocka_unit_test(changed_content_is_never_sent),
        cmocka_unit_test(changing_content_is_read_until_two_reads_agree),
        cmocka_unit_test(reading_stops_when_client_leaves),
        cmocka_unit_test(source_waits_for_pieces_being_fetched),
        cmocka_unit_test(failed_fetch_ends_the_answer),
        cmocka_unit_test(fetched_piece_stays_booked_until_it_arrives),
        cmocka_unit_test(failed_allocation_leaks_nothing),
    };
    worker.mailbox = mailbox_create_blocking(&worker, NULL);
    int failed = worker.mailbox ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    mailbox_close(worker.mailbox);
    mailbox_unref(worker.mailbox);
    return failed;
}
