/* SPDX-License-Identifier: MIT
 *
 * Live copies of an entity with lost patches, over a transport without a server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/copy.h>

#include "support/fake_entity.h"
#include "support/fake_transport.h"

#define URI ENTITY_URI

struct watcher {
    struct tidings_client *client;
    struct tidings_copy *copy;
    bool ends; /* in its callback */
    int count;
    int version; /* the last one it received */
    bool is_deleted;
    int problem;
    char text[4096];
};

/* ---- the copy -------------------------------------------------------------------------------- */

static void on_copy(void *user, const struct tidings_copy_state *s)
{
    struct watcher *w = user;
    char at[32], value[4096] = "";
    assert_string_equal(s->uri, URI);
    w->count++;
    w->problem = s->problem ? s->problem->code : 0;
    w->is_deleted = s->is_deleted;
    for (int i = 1; i <= ENTITY_MAX_VERSIONS; i++) {
        w->version = str_eq(s->valid_from, tidings_str(entity_instant(i, at))) ? i : w->version;
    }
    /* Whatever was lost, the copy equals a real version. */
    if (s->value.len > 0 && !s->problem) {
        entity_put_value(value, sizeof(value), w->version);
        struct json *is = NULL, *should = NULL;
        assert_int_equal(jv_parse(s->value, 64, &is, NULL), 0);
        assert_int_equal(jv_parse(tidings_str(value), 64, &should, NULL), 0);
        if (!jv_equal(is, should)) {
            fail_msg("version %d should be %s, is %.*s", w->version, value, (int)s->value.len,
                     s->value.ptr);
        }
        jv_unref(is);
        jv_unref(should);
    }
    entity_note(w->text, sizeof(w->text),
                s->problem      ? "problem %d\n"
                : s->is_deleted ? "deleted %d\n"
                                : "%d\n",
                s->problem ? s->problem->code : w->version);
    if (w->ends) {
        tidings_copy_end(w->copy);
    }
}

static void step(struct watcher *w)
{
    struct tidings_error err = {0};
    if (tidings_client_step(w->client, -1, &err) != 1) {
        fail_msg("%s; so far: %s", err.text, w->text);
    }
}

static void until(struct watcher *w, const char *line)
{
    while (!strstr(w->text, line)) {
        step(w);
    }
}

static void until_log(struct watcher *w, const struct entity *e, const char *line)
{
    while (!strstr(e->log, line)) {
        step(w);
    }
}

/* With version `kept`; 0: without a version. */
static void begin(struct entity *e, struct watcher *w, int kept)
{
    char at[32], value[4096] = "";
    struct tidings_client_options o = {.retry_min_ms = 1, .retry_max_ms = 4};
    struct tidings_copying how = {.fn = on_copy, .user = w};
    if (kept > 0) {
        entity_put_value(value, sizeof(value), kept);
        how.value = value;
        how.valid_from = entity_instant(kept, at);
    }
    w->client = fake_client(&e->fake, entity_serve, e, &o);
    w->copy = tidings_copy_begin(w->client, URI, &how, NULL);
    assert_non_null(w->copy);
}

static void both_eras(void (*test)(bool is_legacy))
{
    test(false);
    test(true);
}

static void follow(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 2, .oldest = 1};
    struct watcher w = {0};
    begin(&e, &w, 0);
    until_log(&w, &e, "subscribe");
    e.current = 3;
    entity_tell(&e, true);
    until(&w, "3\n");
    e.is_deleted = true;
    entity_tell(&e, true);
    entity_tell(&e, true);
    until(&w, "deleted 3\n");
    e.is_deleted = false;
    e.current = 5;
    entity_tell(&e, true);
    until(&w, "5\n");
    assert_string_equal(w.text, "2\n3\ndeleted 3\n5\n");
    assert_string_equal(e.log, "read " URI "\nsubscribe 2024-01-01T10:02:00.000Z\n");
    tidings_client_destroy(w.client);
}

static void copy_is_read_once_and_follows_patches(void **state)
{
    (void)state;
    both_eras(follow);
}

static void miss(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 1, .oldest = 1};
    struct watcher w = {0};
    begin(&e, &w, 1);
    until_log(&w, &e, "subscribe");
    e.current = 2;
    entity_tell(&e, false);
    e.current = 4;
    entity_tell(&e, true);
    until(&w, "4\n");
    assert_string_equal(w.text, "4\n");
    assert_string_equal(e.log, "subscribe 2024-01-01T10:01:00.000Z\n"
                               "read " URI "/patch/2024-01-01T10:01:00.000Z\n");
    entity_say(&e, ""); /* too large to report */
    e.current = 5;
    until(&w, "5\n");
    tidings_client_destroy(w.client);
}

static void patch_of_another_version_is_ignored_and_entity_reread(void **state)
{
    (void)state;
    both_eras(miss);
}

static void overtake(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 1, .oldest = 1, .overtakes = true};
    struct watcher w = {0};
    begin(&e, &w, 1);
    until_log(&w, &e, "subscribe");
    entity_say(&e, "");
    until(&w, "3\n");
    assert_string_equal(e.log, "subscribe 2024-01-01T10:01:00.000Z\n"
                               "read " URI "/patch/2024-01-01T10:01:00.000Z\n"
                               "read " URI "/patch/2024-01-01T10:01:00.000Z\n");
    tidings_client_destroy(w.client);
}

static void copy_rereads_if_first_read_is_stale(void **state)
{
    (void)state;
    both_eras(overtake);
}

static void forget(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 9, .oldest = 8};
    struct watcher w = {0};
    begin(&e, &w, 2);
    until_log(&w, &e, "subscribe 2024-01-01T10:09:00.000Z\n");
    e.current = 10;
    until(&w, "9\n");
    entity_tell(&e, true);
    until(&w, "10\n");
    assert_string_equal(w.text, "9\n10\n");
    assert_string_equal(e.log, "subscribe 2024-01-01T10:02:00.000Z\n"
                               "read " URI "/patch/2024-01-01T10:02:00.000Z\n"
                               "read " URI "\n"
                               "subscribe 2024-01-01T10:09:00.000Z\n");
    tidings_client_destroy(w.client);
}

static void forgotten_version_is_replaced_by_full_value(void **state)
{
    (void)state;
    both_eras(forget);
}

static void return_later(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 3, .oldest = 1, .is_deleted = true};
    struct watcher w = {0};
    begin(&e, &w, 2);
    until(&w, "deleted 2\n");
    fake_say(&e.fake, NULL);
    while (e.fake.opened < 2) {
        step(&w);
    }
    e.returns_after = 3; /* so a read right after the rejection succeeds */
    until(&w, "4\n");
    until_log(&w, &e, "subscribe 2024-01-01T10:04:00.000Z\n");
    e.current = 5;
    entity_tell(&e, true);
    until(&w, "5\n");
    assert_string_equal(w.text, "deleted 2\n4\n5\n");
    tidings_client_destroy(w.client);
}

static void deleted_entity_is_polled_until_restored(void **state)
{
    (void)state;
    both_eras(return_later);
}

static void absent(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy};
    struct watcher w = {0};
    begin(&e, &w, 0);
    until_log(&w, &e, "read " URI "\nread " URI "\nread " URI "\n");
    assert_int_equal(w.count, 1);
    assert_int_equal(w.problem, TIDINGS_E_NOTFOUND);
    e.current = e.oldest = 1;
    until(&w, "1\n");
    assert_int_equal(w.problem, 0);
    tidings_client_destroy(w.client);
}

static void missing_entity_is_reported_once_and_retried(void **state)
{
    (void)state;
    both_eras(absent);
}

static void refuse(bool is_legacy)
{
    struct entity e = {.is_legacy = is_legacy, .current = 2, .oldest = 1, .refuses = true};
    struct watcher w = {0};
    begin(&e, &w, 1);
    until(&w, "problem");
    assert_int_equal(w.problem, TIDINGS_E_DENIED);
    e.refuses = false;
    e.current = 3;
    until(&w, "3\n");
    tidings_client_destroy(w.client);
}

static void unwatchable_entity_is_a_problem(void **state)
{
    (void)state;
    both_eras(refuse);
}

/* ---- ending, sharing ------------------------------------------------------------------------- */

static void copy_can_end_at_any_time(void **state)
{
    (void)state;
    struct entity e = {.current = 1, .oldest = 1};
    struct watcher w = {.ends = true};
    begin(&e, &w, 0); /* in its callback */
    until(&w, "1\n");
    struct watcher other = {.client = w.client};
    struct tidings_copying how = {.fn = on_copy, .user = &other};
    tidings_copy_end(tidings_copy_begin(w.client, URI, &how, NULL)); /* while it is read */
    other.copy = tidings_copy_begin(w.client, URI, &how, NULL);
    until(&other, "1\n");
    tidings_copy_end(other.copy); /* outside */
    assert_int_equal(w.client->copy_count, 0);
    assert_int_equal(w.client->watch_count, 0);
    (void)tidings_copy_begin(w.client, URI, &how, NULL); /* with its client */
    tidings_copy_end(NULL);
    tidings_client_destroy(w.client);
    assert_int_equal(w.count, 1);
}

static void two_copies_of_one_entity_are_both_correct(void **state)
{
    (void)state;
    struct entity e = {.current = 5, .oldest = 1};
    struct watcher one = {0}, two = {0};
    begin(&e, &one, 5);
    until_log(&one, &e, "subscribe");
    two.client = one.client;
    struct tidings_copying how = {.fn = on_copy,
                                  .user = &two,
                                  .value = "{\"n\":2,\"v1\":true,\"v2\":true}",
                                  .valid_from = "2024-01-01T10:02:00.000Z"};
    two.copy = tidings_copy_begin(one.client, URI, &how, NULL);
    until(&two, "5\n");
    e.current = 6;
    entity_tell(&e, true);
    until(&one, "6\n");
    until(&two, "6\n");
    assert_string_equal(two.text, "5\n6\n");
    tidings_copy_end(one.copy);
    e.current = 7;
    entity_tell(&e, true);
    until(&two, "7\n");
    assert_string_equal(one.text, "6\n");
    tidings_client_destroy(one.client);
}

static void saved_copy_requires_value_and_version(void **state)
{
    (void)state;
    static const struct tidings_copying bad[] = {
        {.fn = on_copy, .value = "{}"},
        {.fn = on_copy, .valid_from = "2024-01-01T10:02:00.000Z"},
        {.fn = on_copy, .value = "{", .valid_from = "2024-01-01T10:02:00.000Z"},
        {.fn = on_copy, .value = "{}", .valid_from = "../../etc"},
        {.fn = on_copy, .value = "{}", .valid_from = ""},
        {.value = "{}", .valid_from = "2024-01-01T10:02:00.000Z"},
    };
    struct entity e = {0};
    struct tidings_client *c = fake_client(&e.fake, entity_serve, &e, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tidings_error err = {0};
        assert_null(tidings_copy_begin(c, URI, &bad[i], &err));
        assert_int_equal(err.code, TIDINGS_E_INVALID);
    }
    assert_int_equal(c->copy_count, 0);
    tidings_client_destroy(c);
}

/* ---- strangers ------------------------------------------------------------------------------- */

static void forged_update_changes_nothing(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "7",
        "[]",
        "{\"value\":{\"n\":7}}",
        "{\"validFrom\":7,\"value\":{\"n\":7}}",
        "{\"validFrom\":\"../x\",\"value\":{\"n\":7}}",
        "{\"validFrom\":\"2024-01-01T10:09:00.000Z\",\"patch\":{\"n\":9}}",
        "{\"validFrom\":\"2024-01-01T10:09:00.000Z\",\"baseline\":\"\",\"patch\":{\"n\":9}}",
        "{\"validFrom\":\"2024-01-01T10:09:00.000Z\",\"baseline\":7,\"deleted\":true}",
        "{\"validFrom\":\"2024-01-01T10:01:00.000Z\",\"value\":{\"n\":7}}", /* older */
    };
    struct entity e = {.current = 2, .oldest = 1};
    struct watcher w = {0};
    begin(&e, &w, 2);
    until_log(&w, &e, "subscribe");
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        entity_say(&e, lies[i]);
    }
    e.current = 3;
    entity_tell(&e, true);
    until(&w, "3\n");
    assert_string_equal(w.text, "3\n");
    tidings_client_destroy(w.client);
}

static void endlessly_growing_value_is_a_problem(void **state)
{
    (void)state;
    char data[8192];
    struct entity e = {.current = 2, .oldest = 1};
    struct watcher w = {0};
    begin(&e, &w, 2);
    until_log(&w, &e, "subscribe");
    w.client->settings.max_bytes = 4096;
    snprintf(data, sizeof(data),
             "{\"validFrom\":\"2024-01-01T10:09:00.000Z\",\"baseline\":"
             "\"2024-01-01T10:02:00.000Z\",\"patch\":{\"long\":\"%0*d\"}}",
             5000, 0);
    entity_say(&e, data);
    until(&w, "problem");
    assert_int_equal(w.problem, TIDINGS_E_LIMIT);
    assert_int_equal(w.version, 2);
    tidings_client_destroy(w.client);
}

/* ---- storms ---------------------------------------------------------------------------------- */

static uint32_t roll(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* One random event: a version, a deletion, a restoration, a lost connection or a failed
 * allocation. */
static void happen(struct entity *e, uint32_t *seed)
{
    uint32_t kind = roll(seed) % 16;
    bool arrives = roll(seed) % 3 != 0;
    if (e->is_deleted || kind < 9) {
        e->is_deleted = e->is_deleted && kind < 5;
        e->current += e->is_deleted ? 0 : 1 + (int)(roll(seed) % 2);
        entity_tell(e, arrives);
    } else if (kind < 11) {
        e->is_deleted = true;
        entity_tell(e, arrives);
    } else if (kind < 13 && e->is_open) {
        e->is_open = false;
        fake_say(&e->fake, NULL);
    } else if (kind < 14) {
        e->oldest = e->current;
    } else if (kind < 15) {
        e->refuses = !e->refuses;
    } else {
        entity_say(e, "");
    }
}

static void storm(uint32_t seed)
{
    struct entity e = {.is_legacy = seed % 2 == 1, .current = 1, .oldest = 1};
    struct watcher w = {0};
    uint32_t chance = seed;
    begin(&e, &w, (int)(roll(&chance) % 2));
    while (e.current < ENTITY_MAX_VERSIONS - 8) {
        happen(&e, &chance);
        for (uint32_t n = roll(&chance) % 4; n > 0; n--) {
            assert_int_equal(tidings_client_step(w.client, 0, NULL), 1);
        }
    }
    e.refuses = e.is_deleted = false;
    e.current++;
    e.told = e.told > 0 ? e.told : 1;
    entity_tell(&e, true);
    while (w.version != e.current || w.is_deleted) {
        step(&w);
    }
    tidings_copy_end(w.copy);
    assert_int_equal(w.client->copy_count, 0);
    assert_true(list_empty(&w.client->copies));
    tidings_client_destroy(w.client);
}

static void copy_equals_entity_after_losses(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        storm(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_is_read_once_and_follows_patches),
        cmocka_unit_test(patch_of_another_version_is_ignored_and_entity_reread),
        cmocka_unit_test(copy_rereads_if_first_read_is_stale),
        cmocka_unit_test(forgotten_version_is_replaced_by_full_value),
        cmocka_unit_test(deleted_entity_is_polled_until_restored),
        cmocka_unit_test(missing_entity_is_reported_once_and_retried),
        cmocka_unit_test(unwatchable_entity_is_a_problem),
        cmocka_unit_test(copy_can_end_at_any_time),
        cmocka_unit_test(two_copies_of_one_entity_are_both_correct),
        cmocka_unit_test(saved_copy_requires_value_and_version),
        cmocka_unit_test(forged_update_changes_nothing),
        cmocka_unit_test(endlessly_growing_value_is_a_problem),
        cmocka_unit_test(copy_equals_entity_after_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
