/* SPDX-License-Identifier: MIT
 *
 * Fan-out costs only the copy per subscriber. A change for a thousand subscribers is encoded once,
 * when it is created. Encoding needs a buffer, and delivery allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "formats/json.h"
#include "store/change.h"
#include "support/harness_delivery.h"

/* cmocka replaces these with macros; here the libc functions are meant. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <stdlib.h>

enum { PEERS = 1000, ROOM = 2048 };

static size_t allocations;

static void *count_alloc(size_t size)
{
    allocations++;
    return malloc(size);
}

static void *count_resize(void *p, size_t size)
{
    allocations++;
    return realloc(p, size);
}

/* A stream that remembers its last message. */
struct stream {
    struct sink sink;
    size_t messages, len;
    char last[ROOM];
};

static char *room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    struct stream *s = list_entry(sink, struct stream, sink);
    (void)event_id;
    assert_true(len < ROOM);
    s->messages++;
    s->len = len;
    return s->last;
}

static size_t pending(const struct sink *sink)
{
    (void)sink;
    return 0;
}

static const struct sink_ops ops = {.name = "memory", .room = room, .pending = pending};

static struct stream streams[PEERS];

static void change_for_a_thousand_clients_is_encoded_once_without_allocation(void **state)
{
    (void)state;
    struct harness b;
    harness_init(&b);
    b.worker_count = 1;
    harness_start_delivery(&b);
    struct worker *worker = b.worker[0];
    for (int i = 0; i < PEERS; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%d", i);
        streams[i] = (struct stream){.sink = {.ops = &ops}};
        struct subscriber *subscriber = subscriber_create(worker, NULL);
        struct subscription_group *listen = subscription_group_create(subscriber, tidings_str(id));
        subscriber_set_sink(subscriber, &streams[i].sink);
        listen->is_open = true;
        assert_non_null(subscription_create(listen, STR("mem://r/"), STR("mem://r/"),
                                            PATTERN_CONTAINER, 0, NULL));
    }
    struct tidings_change from = {.uri = STR("mem://r/one"), .etag = STR("e1")};
    struct change *change = change_create(&from, worker->epoch, worker->last_seq + 1);
    tidings_set_allocator(count_alloc, count_resize, free);
    allocations = 0;
    delivery_on_change(worker, change);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(streams[i].messages, 0); /* sent at the end of the turn */
    }
    worker->delivery->flush_hook.fn(worker->delivery->flush_hook.user);
    size_t allocated = allocations;
    tidings_set_allocator(NULL, NULL, NULL);
    assert_int_equal(allocated, 0);
    for (int i = 0; i < PEERS; i++) {
        struct tidings_str text = tidings_strn(streams[i].last, streams[i].len);
        struct json *message = NULL;
        assert_int_equal(streams[i].messages, 1);
        assert_int_equal(jv_parse(text, 64, &message, NULL), 0);
        struct json *meta = jv_get(jv_get(message, "params"), "_meta");
        assert_int_equal(jv_int(jv_get(meta, "io.modelcontextprotocol/subscriptionId")), i);
        jv_unref(message);
    }
    change_unref(change);
    list_each (it, next, &worker->delivery->subscribers) {
        subscriber_destroy(list_entry(it, struct subscriber, link));
    }
    harness_run_until_idle(&b);
    harness_stop_delivery(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(change_for_a_thousand_clients_is_encoded_once_without_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
