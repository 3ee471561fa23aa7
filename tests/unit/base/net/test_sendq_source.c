/* SPDX-License-Identifier: MIT
 *
 * Sources of send queues: order, memory, and a source that fails, is dropped or must wait. */
#include "base/net/sendq.h"

#include <errno.h>

#include "base/mem.h"
#include "support/sendq_wire.h"

/* Counts in bytes, at most 1,000 at once. */
struct counter {
    struct sendq_source source;
    unsigned next;
    size_t most;  /* of the largest request */
    size_t until; /* it fails when it has this many left; 0: never */
    size_t dry;   /* it has no more for now when it has this many left; 0: always */
    bool *is_gone;
};

static ssize_t counter_make(struct sendq_source *source, char *room, size_t len)
{
    struct counter *c = list_entry(source, struct counter, source);
    c->most = c->most < len ? len : c->most;
    len = len < 1000 ? len : 1000;
    if (c->until >= source->left) {
        return -ESTALE;
    }
    if (c->dry >= source->left) {
        return -EAGAIN;
    }
    for (size_t i = 0; i < len; i++) {
        room[i] = (char)(c->next++ % 251);
    }
    return (ssize_t)len;
}

static void counter_destroy(struct sendq_source *source)
{
    struct counter *c = list_entry(source, struct counter, source);
    *c->is_gone = true;
    mem_free(c);
}

static struct counter *counter_create(size_t len, bool *is_gone)
{
    struct counter *c = mem_zalloc(sizeof *c);
    assert_non_null(c);
    c->source =
        (struct sendq_source){.make = counter_make, .destroy = counter_destroy, .left = len};
    c->source.held = 7;
    c->is_gone = is_gone;
    *is_gone = false;
    return c;
}

static void source_keeps_its_place_and_needs_memory_for_one_piece(void **state)
{
    enum { LONG = 3000000 };
    struct wire w;
    struct buf got;
    bool is_gone;
    size_t by_sources, most = 0;
    wire_open(&w, path_of(state), SOCK_STREAM);
    buf_init(&got, 2 * LONG);
    assert_int_equal(sendq_puts(&w.q, STR("before")), 0);
    assert_int_equal(sendq_put_source(&w.q, &counter_create(LONG, &is_gone)->source), 0);
    assert_int_equal(sendq_puts(&w.q, STR("behind")), 0);
    assert_int_equal(w.q.pending, LONG + 12);
    turn(&w);
    while (w.q.pending > 0) {
        assert_int_equal(w.last, SENDQ_WAITING); /* it gives the others their turns */
        size_t held = sendq_held(&w.q, &by_sources);
        most = held > most ? held : most;
        assert_int_equal(by_sources, is_gone ? 0 : 7);
        read_all(&w, &got);
        w.last = sendq_flush(&w.q);
    }
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_true(is_gone);
    assert_true(most < 2 * SENDQ_MADE + 2048);
    read_all(&w, &got);
    assert_int_equal(got.len, LONG + 12);
    assert_memory_equal(got.ptr, "before", 6);
    assert_memory_equal(got.ptr + 6 + LONG, "behind", 6);
    for (size_t i = 0; i < LONG; i++) {
        assert_int_equal((unsigned char)got.ptr[6 + i], i % 251);
    }
    assert_int_equal(sendq_held(&w.q, &by_sources), 0);
    buf_deinit(&got);
    wire_close(&w);
}

static void failed_source_breaks_its_queue(void **state)
{
    struct wire w;
    struct buf got;
    bool is_gone, is_unsent;
    wire_open(&w, path_of(state), SOCK_STREAM);
    buf_init(&got, 1 << 20);
    struct counter *c = counter_create(9000, &is_gone);
    c->until = 4000;
    assert_int_equal(sendq_put_source(&w.q, &c->source), 0);
    turn(&w);
    while (w.last == SENDQ_WAITING) {
        w.last = sendq_flush(&w.q);
    }
    assert_int_equal(w.last, SENDQ_BROKEN);
    assert_int_equal(w.q.error, ESTALE);
    assert_int_equal(w.q.pending, 0);
    assert_true(is_gone);
    read_all(&w, &got);
    assert_int_equal(got.len, 5000); /* and nothing else */
    assert_true(sendq_put_source(&w.q, &counter_create(10, &is_unsent)->source) < 0);
    assert_true(is_unsent);
    buf_deinit(&got);
    wire_close(&w);
}

static void queue_waits_for_a_source_without_bytes(void **state)
{
    struct wire w;
    struct buf got;
    bool is_gone;
    struct sendq from;
    wire_open(&w, path_of(state), SOCK_STREAM);
    buf_init(&got, 1 << 20);
    struct counter *c = counter_create(3000, &is_gone);
    c->dry = 3000;
    sendq_put(&w.q, "<", 1);
    assert_int_equal(sendq_put_source(&w.q, &c->source), 0);
    sendq_put(&w.q, ">", 1);
    for (size_t left = 2000;; left -= 1000) {
        turn(&w);
        while (w.last == SENDQ_WAITING && sendq_awaits_space(&w.q)) {
            w.last = sendq_flush(&w.q); /* one turn of a source is a piece */
        }
        assert_int_equal(w.last, SENDQ_WAITING);
        assert_int_equal(w.q.pending, c->dry + 1);
        int calls = w.calls;
        sendq_put(&w.q, "", 0);
        turn(&w); /* no attempt until there are bytes */
        assert_int_equal(w.calls, calls);
        assert_int_equal(sendq_flush(&w.q), SENDQ_WAITING);
        assert_false(sendq_awaits_space(&w.q));
        c->dry = left;
        sendq_move(&from, &w.q, NULL); /* … and it knows its position */
        sendq_deinit(&w.q);
        sendq_move(&w.q, &from, on_flushed);
        sendq_deinit(&from);
        sendq_source_ready(&c->source);
        if (left == 0) {
            break;
        }
    }
    turn(&w);
    while (w.last == SENDQ_WAITING) {
        w.last = sendq_flush(&w.q);
    }
    assert_int_equal(w.last, SENDQ_EMPTY);
    assert_true(is_gone);
    read_all(&w, &got);
    assert_int_equal(got.len, 3002);
    for (size_t i = 0; i < 3000; i++) {
        assert_int_equal((unsigned char)got.ptr[1 + i], i % 251);
    }
    assert_int_equal(got.ptr[3001], '>');
    buf_deinit(&got);
    wire_close(&w);
}

static void source_is_dropped_with_its_queue(void **state)
{
    struct wire w;
    bool is_gone, is_empty;
    wire_open(&w, path_of(state), SOCK_STREAM);
    assert_int_equal(sendq_put_source(&w.q, &counter_create(0, &is_empty)->source), 0);
    assert_true(is_empty);
    assert_int_equal(w.q.pending, 0);
    assert_int_equal(sendq_put_source(&w.q, &counter_create(9000, &is_gone)->source), 0);
    assert_false(is_gone);
    wire_close(&w);
    assert_true(is_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(source_keeps_its_place_and_needs_memory_for_one_piece),
        BOTH(failed_source_breaks_its_queue),
        BOTH(queue_waits_for_a_source_without_bytes),
        BOTH(source_is_dropped_with_its_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
