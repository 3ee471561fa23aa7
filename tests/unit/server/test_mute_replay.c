/* SPDX-License-Identifier: MIT
 *
 * Unsubscribable resources after a restart, on each store: a resuming client is not notified of
 * their changes, neither by a subscription nor by `changes_since`. By then only the store knows
 * that a removed resource is unsubscribable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "support/cluster.h"
#include "support/postgres.h"
#include "support/remove_tree.h"
#include "support/served.h"
#include "support/shared_memory.h"

static struct postgres_server *postgres; /* NULL: the store is an SQLite file */
static char directory[64], files[96], store[POSTGRES_URL];

static void start(unsigned node)
{
    void *none = NULL;
    char name[16];
    snprintf(name, sizeof name, "%u", node);
    served_select(node);
    served_begin(&none);
    served_set("store", store);
    served_set("publish", "note://");
    served_set("allow-write", "true");
    served_set("change-tools", "on");
    if (postgres) {
        served_set("node", name);
    } else {
        served_set("mount", files);
    }
    served_run();
}

static void end(unsigned node)
{
    void *none = NULL;
    served_select(node);
    served_end(&none);
}

static void restart(unsigned node)
{
    end(node);
    start(node);
}

static void publish_as(const char *uri, bool not_subscribable)
{
    struct tidings_resource about = {0};
    struct tidings_error err = {0, ""};
    about.uri = tidings_str(uri);
    about.not_subscribable = not_subscribable;
    assert_int_equal(tidings_server_publish(served(), &about, tidings_str("1"), &err), 1);
}

static void unpublish(const char *uri)
{
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_unpublish(served(), tidings_str(uri), &err), 0);
}

/* The client gets only this change of those below `below` after the cursor, with this kind. */
static void resumes_with(unsigned node, const char *cursor, const char *below, const char *uri,
                         enum tidings_change_kind kind)
{
    static struct ears resumed;
    char next[256], options[320];
    const char *answer = NULL;
    cursor_of(node, cursor, below, next, &answer);
    must_say(answer, uri);
    must_not_say(answer, "dark");
    must_not_say(answer, "\"gap\"");
    ears_init(&resumed);
    snprintf(options, sizeof options, "{\"since\":\"%s\"}", cursor);
    served_subscribe(below, options, &resumed);
    struct told first = ears_await(&resumed, 0);
    assert_string_equal(first.uri, uri);
    assert_int_equal(first.kind, kind);
    assert_false(first.truncated);
    assert_int_equal(ears_count(&resumed), 1);
}

static void unsubscribable_deletion_is_not_replayed(void **state)
{
    (void)state;
    char cursor[256];
    const char *answer = NULL;
    start(0);
    publish_as("note://light", false);
    publish_as("note://dark", true);
    cursor_of(0, NULL, "note://", cursor, &answer);
    unpublish("note://dark");
    unpublish("note://light");
    restart(0);
    resumes_with(0, cursor, "note://", "note://light", TIDINGS_CHANGE_DELETED);
    restart(0);
    resumes_with(0, cursor, "note://", "note://light", TIDINGS_CHANGE_DELETED);
    end(0);
}

static void announce_as(const char *uri, const char *from, bool not_subscribable)
{
    struct tidings_change change = {0};
    struct tidings_error err = {0, ""};
    change.uri = tidings_str(uri);
    change.from = tidings_str(from);
    change.kind = from ? TIDINGS_CHANGE_MOVED : TIDINGS_CHANGE_UPDATED;
    change.not_subscribable = not_subscribable;
    assert_int_equal(tidings_announce(served(), &change, &err), 0);
}

/* One node's announcements are delivered on the other, at once and after a restart. */
static void unsubscribable_announcements_skip_clients_of_other_nodes(void **state)
{
    (void)state;
    static struct ears live;
    char cursor[256];
    const char *answer = NULL;
    ears_init(&live);
    start(0);
    start(1);
    served_subscribe("note://", NULL, &live);
    size_t n = served_await_subscribed("note://any", &live);
    served_announce("note://mark", "", TIDINGS_CHANGE_UPDATED);
    while (strcmp(ears_await(&live, n++).uri, "note://mark") != 0) {
    }
    cursor_of(1, NULL, "note://", cursor, &answer);
    served_select(0);
    announce_as("note://dark", NULL, true);
    announce_as("note://dark/new", "note://dark/old", true);
    announce_as("note://light", NULL, false);
    assert_string_equal(ears_await(&live, n).uri, "note://light");
    restart(1);
    resumes_with(1, cursor, "note://", "note://light", TIDINGS_CHANGE_UPDATED);
    end(0);
    end(1);
}

/* Below a file mount the program may announce any change. */
static void unsubscribable_file_changes_are_not_replayed(void **state)
{
    (void)state;
    static struct ears live;
    char cursor[256];
    const char *answer = NULL;
    ears_init(&live);
    start(0);
    served_subscribe("file:///mute/", NULL, &live);
    size_t n = served_await_subscribed("file:///mute/any", &live);
    served_announce("file:///mute/mark", "", TIDINGS_CHANGE_UPDATED);
    while (strcmp(ears_await(&live, n++).uri, "file:///mute/mark") != 0) {
    }
    cursor_of(0, NULL, "file:///mute/", cursor, &answer);
    announce_as("file:///mute/dark", NULL, true);
    announce_as("file:///mute/light", NULL, false);
    assert_string_equal(ears_await(&live, n).uri, "file:///mute/light");
    restart(0);
    resumes_with(0, cursor, "file:///mute/", "file:///mute/light", TIDINGS_CHANGE_UPDATED);
    end(0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/tidings-mute-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(files, sizeof files, "file:///mute/=%s/tree", directory);
    assert_int_equal(mkdir(files + strlen("file:///mute/="), 0755), 0);
    if (postgres) {
        (void)postgres_server_fresh(postgres, store);
    } else {
        snprintf(store, sizeof store, "%s/store", directory);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    served_select(0);
    remove_tree(directory);
    return 0;
}

#define REPLAY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest both[] = {
        REPLAY(unsubscribable_deletion_is_not_replayed),
    };
    const struct CMUnitTest file[] = {
        REPLAY(unsubscribable_file_changes_are_not_replayed),
    };
    const struct CMUnitTest shared[] = {
        REPLAY(unsubscribable_announcements_skip_clients_of_other_nodes),
    };
    int failed = cmocka_run_group_tests_name("SQLite", both, NULL, NULL);
    failed += cmocka_run_group_tests_name("files", file, NULL, NULL);
    postgres = postgres_server_start();
    failed += postgres ? cmocka_run_group_tests_name("PostgreSQL", both, NULL, NULL) : 0;
    failed += postgres ? cmocka_run_group_tests_name("nodes", shared, NULL, NULL) : 0;
    postgres_server_stop(postgres);
    return failed;
}
