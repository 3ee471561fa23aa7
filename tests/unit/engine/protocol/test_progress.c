/* SPDX-License-Identifier: MIT
 *
 * A client whose connection never lasts longer than a few bytes, and that resumes each time with
 * the cursor or event id of its last whole message. If one message fits, each connection delivers
 * something new, and in the end the client knows everything. In both eras, with numeric and sealed
 * cursors, for changes and for truncated updates, with a store after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/session.h"
#include "store/change.h"
#include "support/earlier_log.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define CHANGES 20u
#define FIRST 100u           /* the newest position when the epoch of a store began */
#define EARLIER "ea.7000.60" /* a cursor of an earlier one (support/earlier_log.h) */

static struct harness b;
static struct stub stub;

/* ---- state of the client --------------------------------------------------------------------- */

struct reader {
    size_t budget; /* bytes a connection lasts */
    char cursor[256], id[256];
    bool knows[CHANGES];
    size_t known, again; /* received, and received once more */
    bool looks_again;    /* truncated at a container */
};

static unsigned index_of(const char *uri)
{
    return (unsigned)strtoul(uri + strlen(uri) - 3, NULL, 10);
}

static void learn(struct reader *r, const char *text)
{
    const char *uri = json_at(text, "params|uri");
    if (!uri) {
        return; /* a list */
    }
    if (uri[strlen(uri) - 1] == '/') { /* read all durable resources again */
        for (unsigned i = 0; i < CHANGES / 2; i++) {
            r->known += !r->knows[i];
            r->knows[i] = true;
        }
        r->looks_again = true;
        return;
    }
    unsigned i = index_of(uri);
    assert_true(i < CHANGES);
    r->again += r->knows[i] && !(r->looks_again && i < CHANGES / 2);
    r->known += !r->knows[i];
    r->knows[i] = true;
}

/* The bytes of a connection that arrive before the cut. */
static void receive(struct reader *r, const struct client *c)
{
    size_t left = r->budget;
    for (size_t i = 0; i < c->count; i++) {
        const struct utterance *u = &c->said[i];
        size_t size = u->len + strlen(u->id);
        if (size > left) {
            return;
        }
        left -= size;
        if (u->id[0]) {
            snprintf(r->id, sizeof(r->id), "%s", u->id);
        }
        const char *method = u->kind == SAID_EVENT ? json_at(u->text, "method") : NULL;
        const char *cursor = method ? json_at(u->text, "params|_meta|dev.tidings/cursor") : NULL;
        if (cursor) {
            snprintf(r->cursor, sizeof(r->cursor), "%s", cursor);
        }
        if (method && strcmp(method, SAID_UPDATED) == 0) {
            learn(r, u->text);
        }
    }
}

/* The largest message of a kind in a whole connection. */
static size_t largest(const struct client *c, bool is_update)
{
    size_t size = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct utterance *u = &c->said[i];
        const char *method = u->kind == SAID_EVENT ? json_at(u->text, "method") : NULL;
        if ((method && strcmp(method, SAID_UPDATED) == 0) == is_update) {
            size_t here = u->len + strlen(u->id);
            size = is_update ? (here > size ? here : size) : size + here;
        }
    }
    return size;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* One connection with all its messages, windows included. */
typedef struct client *(*connect_fn)(struct reader *r);

static struct client *run_with_windows(struct client *c)
{
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    harness_run_until_idle(&b);
    return c;
}

static const char *listened; /* a JSON array */
static const char *more_options = "";
static bool may_look_again; /* truncated at all durable resources */

static struct client *connect_listen(struct reader *r)
{
    struct client *c = client_http(&b);
    client_listen_with(c, "1", listened, text_of("{\"since\":\"%s\"%s}", r->cursor, more_options));
    return run_with_windows(c);
}

static struct harness_session session;

static struct client *connect_stream(struct reader *r)
{
    return run_with_windows(session_stream(&session, r->id[0] ? r->id : NULL));
}

/* Cut every `budget` bytes until everything is known. */
static void read_all(struct reader *r, connect_fn connect)
{
    while (r->known < CHANGES) {
        size_t before = r->known;
        struct client *c = connect(r);
        receive(r, c);
        client_free(c);
        harness_run_until_idle(&b);
        if (r->known == before) {
            fail_msg("with %zu bytes a connection: nothing new after %zu of %u, at '%s' '%s'",
                     r->budget, before, CHANGES, r->cursor, r->id);
        }
    }
    assert_int_equal(r->again, 0);
    assert_true(may_look_again || !r->looks_again);
}

/* For every number of bytes from the first that holds a message. `fresh` makes the same reader
 * each time. */
static void with_every_budget(struct reader (*fresh)(void), connect_fn connect)
{
    struct reader r = fresh();
    struct client *c = connect(&r);
    size_t one = largest(c, true), rest = largest(c, false);
    assert_true(one > 0);
    client_free(c);
    harness_run_until_idle(&b);
    /* Numbers get more digits as they grow, and a cursor may list pending subscriptions. */
    for (size_t extra = 40; extra < 3 * one; extra += extra < 48 ? 1 : 97) {
        r = fresh();
        r.budget = rest + one + extra;
        read_all(&r, connect);
    }
}

/* ---- worlds ---------------------------------------------------------------------------------- */

static const char *uri_of(unsigned i)
{
    return text_of("mem://x/r%03u", i);
}

static int begin_plain(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    for (unsigned i = 0; i < CHANGES; i++) {
        stub_add(&stub, uri_of(i), false);
    }
    listened = "[\"mem://x/\"]";
    more_options = "";
    return 0;
}

static int end(void **state)
{
    (void)state;
    b.principal.name = NULL;
    harness_stop(&b);
    return 0;
}

static void change_all(void)
{
    for (unsigned i = 0; i < CHANGES; i++) {
        harness_change(&b, uri_of((i * 7) % CHANGES), TIDINGS_CHANGE_UPDATED);
    }
    harness_run_until_idle(&b);
}

static char start_cursor[256];

/* The position of a client before everything changes. */
static void note_start(void)
{
    struct client *c = listen_with(&b, listened, NULL);
    snprintf(start_cursor, sizeof(start_cursor), "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    client_free(c);
    harness_run_until_idle(&b);
}

static struct reader at_start(void)
{
    struct reader r = {.budget = SIZE_MAX};
    snprintf(r.cursor, sizeof(r.cursor), "%s", start_cursor);
    return r;
}

/* All of them by name. */
static void listen_by_name(void)
{
    static char uris[64 * CHANGES];
    size_t len = 0;
    for (unsigned i = 0; i < CHANGES; i++) {
        len +=
            (size_t)snprintf(uris + len, sizeof(uris) - len, "%s\"%s\"", i ? "," : "[", uri_of(i));
    }
    snprintf(uris + len, sizeof(uris) - len, "]");
    listened = uris;
}

/* ---- listens --------------------------------------------------------------------------------- */

static void listen_resumes_from_each_message(void **state)
{
    (void)state;
    static const char *const options[] = {"", ",\"windowMs\":0", ",\"windowMs\":5000"};
    note_start();
    change_all();
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        more_options = options[i];
        with_every_budget(at_start, connect_listen);
    }
}

static void listen_by_name_resumes_from_each_message(void **state)
{
    (void)state;
    listen_by_name();
    note_start();
    change_all();
    with_every_budget(at_start, connect_listen);
}

static void listen_resumes_from_sealed_cursors(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {{"reader", NULL, "mem://x/**", HARNESS_SEE}};
    harness_rules(&b, rules, 1);
    harness_is(&b, "reader", "");
    note_start();
    assert_true(strlen(start_cursor) > CURSOR_TEXT);
    change_all();
    with_every_budget(at_start, connect_listen);
}

static struct reader with_unknown_cursor(void)
{
    struct reader r = {.budget = SIZE_MAX, .cursor = "5eed.1"};
    return r;
}

static void truncated_subscriptions_are_notified_over_several_streams(void **state)
{
    (void)state;
    listen_by_name();
    change_all();
    with_every_budget(with_unknown_cursor, connect_listen);
}

static struct reader with_unknown_seal(void)
{
    struct reader r = {.budget = SIZE_MAX, .cursor = "-"};
    return r;
}

static void truncation_resumes_from_sealed_cursors_of_an_earlier_run(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {{"reader", NULL, "mem://x/**", HARNESS_SEE}};
    harness_rules(&b, rules, 1);
    harness_is(&b, "reader", "");
    listen_by_name();
    with_every_budget(with_unknown_seal, connect_listen);
}

static void listen_truncates_with_short_history(void **state)
{
    (void)state;
    listen_by_name();
    note_start();
    change_all();
    for (unsigned i = 0; i < b.options.log.max_entries + 10; i++) {
        harness_change(&b, text_of("mem://x/other/%u", i), TIDINGS_CHANGE_CREATED);
        if (i % 100 == 0) {
            harness_run_until_idle(&b);
        }
    }
    harness_run_until_idle(&b);
    with_every_budget(at_start, connect_listen);
}

static int begin_short(void **state)
{
    begin_plain(state);
    end(state);
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = 40;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    for (unsigned i = 0; i < CHANGES; i++) {
        stub_add(&stub, uri_of(i), false);
    }
    return 0;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static struct reader in_session(void)
{
    struct reader r = {.budget = SIZE_MAX};
    if (session.id[0]) {
        assert_int_equal(session_delete(&session), 204);
    }
    harness_session(&b, "2025-11-25", &session);
    assert_non_null(json_at(session_subscribe_with(&session, "mem://x/", NULL), "result"));
    change_all();
    return r;
}

static void end_session(void)
{
    assert_int_equal(session_delete(&session), 204);
    session.id[0] = '\0';
    harness_run_until_idle(&b);
}

static void stream_resumes_from_each_event(void **state)
{
    (void)state;
    with_every_budget(in_session, connect_stream);
    end_session();
}

static void stream_resumes_from_sealed_event_ids(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {{"reader", NULL, "mem://x/**", HARNESS_SEE}};
    harness_rules(&b, rules, 1);
    harness_is(&b, "reader", "");
    with_every_budget(in_session, connect_stream);
    end_session();
}

/* Added and removed again, so that the list changes with each. */
static struct reader in_session_with_lists(void)
{
    struct reader r = in_session();
    for (unsigned i = 0; i < CHANGES; i++) {
        harness_change(&b, uri_of(i), TIDINGS_CHANGE_CREATED);
        harness_run_until_idle(&b);
    }
    return r;
}

static void list_change_does_not_stop_the_stream(void **state)
{
    (void)state;
    with_every_budget(in_session_with_lists, connect_stream);
    end_session();
}

static int begin_listed(void **state)
{
    begin_plain(state);
    end(state);
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = true;
    b.options.list_changed_ms = 0;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    for (unsigned i = 0; i < CHANGES; i++) {
        stub_add(&stub, uri_of(i), false);
    }
    return 0;
}

/* The subscription goes back to a cursor, in a session that starts after all changes. */
static struct reader in_session_since(void)
{
    struct reader r = {.budget = SIZE_MAX};
    if (session.id[0]) {
        assert_int_equal(session_delete(&session), 204);
    }
    harness_session(&b, "2025-11-25", &session);
    const char *options = text_of("{\"since\":\"%s\"}", start_cursor);
    assert_non_null(json_at(session_subscribe_with(&session, "mem://x/", options), "result"));
    return r;
}

static void session_with_a_cursor_resumes_from_each_event(void **state)
{
    (void)state;
    note_start();
    change_all();
    with_every_budget(in_session_since, connect_stream);
    end_session();
}

/* Each with an unknown cursor. */
static struct reader in_session_lost(void)
{
    struct reader r = {.budget = SIZE_MAX};
    if (session.id[0]) {
        assert_int_equal(session_delete(&session), 204);
    }
    harness_session(&b, "2025-11-25", &session);
    for (unsigned i = 0; i < CHANGES; i++) {
        const char *answer = session_subscribe_with(&session, uri_of(i), "{\"since\":\"5eed.1\"}");
        assert_non_null(json_at(answer, "result"));
    }
    return r;
}

static void truncated_session_is_notified_over_several_streams(void **state)
{
    (void)state;
    with_every_budget(in_session_lost, connect_stream);
    end_session();
}

/* ---- a store, after a restart ---------------------------------------------------------------- */

/* The first half is durable and changed in the earlier run, the others are volatile. */
static const char *stored_uri(unsigned i)
{
    return text_of("%s://x/r%03u", i < CHANGES / 2 ? "kept" : "mem", i);
}

static int begin_stored(void **state)
{
    (void)state;
    static struct stub second;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    struct changelog *log = earlier_log(&b.options.log, FIRST);
    for (unsigned i = 0; i < CHANGES / 2; i++) {
        struct tidings_change c = {.uri = tidings_str(stored_uri(i))};
        struct change *change = change_create(&c, log->ops->epoch(log), 61 + 2 * i);
        assert_non_null(change);
        assert_int_equal(log->ops->append(log, change), 0);
        change_unref(change);
    }
    b.options.durable = log;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_mount(&second, &b, "kept://x/", 0);
    second.provider->is_durable = true;
    for (unsigned i = 0; i < CHANGES; i++) {
        stub_add(i < CHANGES / 2 ? &second : &stub, stored_uri(i), false);
    }
    more_options = "";
    return 0;
}

static struct reader from_earlier_run(void)
{
    struct reader r = {.budget = SIZE_MAX, .cursor = EARLIER};
    return r;
}

/* A cut during the truncated updates of volatile resources may truncate durable ones too; after
 * a later cut the stream resumes from each message. */
static void durable_and_volatile_resources_are_both_sent_after_a_restart(void **state)
{
    (void)state;
    static char uris[64 * CHANGES];
    size_t len = (size_t)snprintf(uris, sizeof(uris), "[\"kept://x/\"");
    for (unsigned i = CHANGES / 2; i < CHANGES; i++) {
        len += (size_t)snprintf(uris + len, sizeof(uris) - len, ",\"%s\"", stored_uri(i));
    }
    snprintf(uris + len, sizeof(uris) - len, "]");
    listened = uris;
    struct reader r = from_earlier_run();
    struct client *c = connect_listen(&r);
    assert_int_equal(client_count(c, SAID_UPDATED), CHANGES);
    client_free(c);
    may_look_again = true;
    with_every_budget(from_earlier_run, connect_listen);
    may_look_again = false;
}

static struct reader from_earlier_run_with_one(void)
{
    struct reader r = from_earlier_run();
    for (unsigned i = CHANGES / 2 + 1; i < CHANGES; i++) {
        r.knows[i] = true;
        r.known++;
    }
    return r;
}

static void durable_resources_resume_from_each_message_after_a_restart(void **state)
{
    (void)state;
    char uris[64];
    snprintf(uris, sizeof(uris), "[\"kept://x/\",\"%s\"]", stored_uri(CHANGES / 2));
    listened = uris;
    with_every_budget(from_earlier_run_with_one, connect_listen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, begin_plain, end)
        PLAIN(listen_resumes_from_each_message),
        PLAIN(listen_by_name_resumes_from_each_message),
        PLAIN(listen_resumes_from_sealed_cursors),
        PLAIN(truncated_subscriptions_are_notified_over_several_streams),
        PLAIN(truncation_resumes_from_sealed_cursors_of_an_earlier_run),
        cmocka_unit_test_setup_teardown(listen_truncates_with_short_history, begin_short, end),
        PLAIN(stream_resumes_from_each_event),
        PLAIN(stream_resumes_from_sealed_event_ids),
        cmocka_unit_test_setup_teardown(list_change_does_not_stop_the_stream, begin_listed, end),
        PLAIN(session_with_a_cursor_resumes_from_each_event),
        PLAIN(truncated_session_is_notified_over_several_streams),
        cmocka_unit_test_setup_teardown(
            durable_and_volatile_resources_are_both_sent_after_a_restart, begin_stored, end),
        cmocka_unit_test_setup_teardown(durable_resources_resume_from_each_message_after_a_restart,
                                        begin_stored, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
