/* SPDX-License-Identifier: MIT
 *
 * Two servers share a mount that one of them owns. Only the owner watches it, both deliver its
 * provider's reports with all metadata, and the other node takes over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/cluster.h"
#include "support/postgres.h"
#include "support/served.h"

#define MOUNT "out:///"

/* ---- a scripted provider --------------------------------------------------------------------- */

struct outside {
    struct tidings_provider *provider;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned watches, unwatches;
    char scope[32];
    bool refuses;
    bool is_slow;
    struct tidings_watch *waiting; /* still unanswered */
};
static struct outside outside[NODES] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER},
};

static struct outside *outside_of(struct tidings_provider *p)
{
    return *(struct outside **)tidings_provider_state(p);
}

static int outside_open(struct tidings_provider *p, struct tidings_str config,
                        struct tidings_error *err)
{
    (void)err;
    struct outside *o = &outside[config.ptr[0] - '0'];
    *(struct outside **)tidings_provider_state(p) = o;
    o->provider = p;
    o->watches = o->unwatches = 0;
    o->refuses = o->is_slow = false;
    o->waiting = NULL;
    return 0;
}

static void outside_read(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_answer(read, tidings_str("there"));
}

static void outside_stat(struct tidings_provider *p, struct tidings_stat *stat,
                         struct tidings_str uri)
{
    struct tidings_resource about = {.uri = uri, .name = TIDINGS_STR("it")};
    (void)p;
    tidings_stat_done(stat, 0, &about, NULL);
}

static void outside_watch(struct tidings_provider *p, struct tidings_watch *watch,
                          struct tidings_str uri)
{
    struct outside *o = outside_of(p);
    struct tidings_error err;
    pthread_mutex_lock(&o->lock);
    o->watches++;
    snprintf(o->scope, sizeof o->scope, "%.*s", (int)uri.len, uri.ptr);
    bool refuses = o->refuses, is_slow = o->is_slow;
    o->waiting = is_slow ? watch : NULL;
    pthread_cond_broadcast(&o->moved);
    pthread_mutex_unlock(&o->lock);
    if (is_slow) {
        return;
    }
    tidings_watch_done(watch, refuses ? tidings_fail(&err, TIDINGS_E_LIMIT, "not here") : 0, &err);
}

static void outside_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct outside *o = outside_of(p);
    (void)uri;
    pthread_mutex_lock(&o->lock);
    o->unwatches++;
    pthread_cond_broadcast(&o->moved);
    pthread_mutex_unlock(&o->lock);
}

static void outside_close(struct tidings_provider *p)
{
    (void)p;
}

static const struct tidings_provider_ops outside_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "outside",
    .size = sizeof(struct outside *),
    .open = outside_open,
    .read = outside_read,
    .stat = outside_stat,
    .watch = outside_watch,
    .unwatch = outside_unwatch,
    .close = outside_close,
};

static unsigned watches(unsigned node)
{
    pthread_mutex_lock(&outside[node].lock);
    unsigned count = outside[node].watches;
    pthread_mutex_unlock(&outside[node].lock);
    return count;
}

/* Returns after that number of requests. */
static void await_count(struct outside *o, const unsigned *is, unsigned count)
{
    struct timespec until;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&o->lock);
    while (rc == 0 && *is < count) {
        rc = pthread_cond_timedwait(&o->moved, &o->lock, &until);
    }
    pthread_mutex_unlock(&o->lock);
    assert_int_equal(rc, 0);
}

static void await_watch(unsigned node, unsigned count)
{
    await_count(&outside[node], &outside[node].watches, count);
}

static void await_unwatch(unsigned node)
{
    await_count(&outside[node], &outside[node].unwatches, 1);
}

static void changed(unsigned node, const char *uri, const char *metadata)
{
    const struct tidings_change change = {.uri = tidings_str(uri),
                                          .kind = TIDINGS_CHANGE_CREATED,
                                          .etag = TIDINGS_STR("e1"),
                                          .metadata = tidings_str(metadata)};
    (void)tidings_provider_changed(outside[node].provider, &change, NULL);
}

/* ---- two nodes ------------------------------------------------------------------------------- */

static struct ears there; /* of the second node */

static void mount(unsigned node, const char *nodes)
{
    char config[2] = {(char)('0' + node), '\0'};
    served_select(node);
    if (nodes) {
        served_set(nodes, MOUNT);
    }
    assert_int_equal(
        tidings_server_mount(served(), &outside_ops, TIDINGS_STR(MOUNT), tidings_str(config), NULL),
        0);
}

static void mount_all(const char *nodes)
{
    ears_init(&there);
    for (unsigned i = 0; i < NODES; i++) {
        mount(i, nodes);
    }
}

/* Runs, and knows that the mount has an owner. */
static void run_and_hear(unsigned node, struct ears *e)
{
    served_select(node);
    assert_non_null(
        served_subscribe(MOUNT "a", NULL, e)); /* before it runs, so earlier than that */
    served_run();
    await_watch(node, 1);
    assert_true(ears_await(e, 0).truncated);
    assert_string_equal(outside[node].scope, MOUNT);
}

static void own(void)
{
    mount_all("owned");
    run_and_hear(0, &ears);
    run(1);
}

static void subscribe_there(const char *uri, const char *options)
{
    served_select(1);
    assert_non_null(served_subscribe(uri, options, &there));
}

/* The subscription exists: it was made before a delivered change. */
static void await_there(const char *uri)
{
    subscribe_there(uri, "{\"initial\":true}");
    assert_true(ears_await(&there, 0).initial);
}

static void owner_change_is_delivered_by_both_nodes_with_metadata(void **state)
{
    (void)state;
    own();
    await_there(MOUNT "a");
    changed(0, MOUNT "a", "{\"k\":7}");
    struct told here = ears_await(&ears, 1), far = ears_await(&there, 1);
    assert_string_equal(here.uri, MOUNT "a");
    assert_string_equal(far.uri, MOUNT "a");
    assert_int_equal(far.kind, TIDINGS_CHANGE_CREATED);
    must_say(far.metadata, "\"k\":7");
    assert_false(far.truncated);
    assert_int_equal(watches(0), 1); /* a client that subscribes */
    assert_int_equal(watches(1), 0);
    /* The server ignores the other node's provider. */
    changed(1, MOUNT "a", "{\"k\":8}");
    tidings_provider_missed(outside[1].provider);
    changed(0, MOUNT "a", "{\"k\":9}");
    far = ears_await(&there, 2);
    must_say(far.metadata, "\"k\":9");
    assert_false(far.truncated);
    must_say(ears_await(&ears, 2).metadata, "\"k\":9");
}

static void filters_apply_to_changes_of_another_node(void **state)
{
    (void)state;
    own();
    struct ears later;
    ears_init(&later);
    subscribe_there(MOUNT "a", "{\"filter\":{\"properties\":{\"metadata\":{\"properties\":{\"k\":{"
                               "\"const\":7}},\"required\":[\"k\"]}}}}");
    assert_non_null(served_subscribe(MOUNT "a", "{\"initial\":true}", &later));
    assert_true(ears_await(&later, 0).initial); /* so is the one before it */
    changed(0, MOUNT "a", "{\"k\":6}");
    changed(0, MOUNT "a", "{\"k\":7}");
    must_say(ears_await(&there, 0).metadata, "\"k\":7");
}

static void takeover_truncates_every_subscription(void **state)
{
    (void)state;
    own();
    await_there(MOUNT "a");
    served_select(0);
    served_stop();
    cluster_expire_leases(); /* the stopped node does not renew it */
    await_watch(1, 1);
    assert_true(ears_await(&there, 1).truncated);
    changed(0, MOUNT "a", "{\"k\":1}"); /* it has ended */
    changed(1, MOUNT "a", "{\"k\":2}");
    must_say(ears_await(&there, 2).metadata, "\"k\":2");
}

static void node_releases_mount_if_watch_fails(void **state)
{
    (void)state;
    mount_all("owned");
    outside[0].refuses = true;
    run(0);
    await_watch(0, 1);
    run_and_hear(1, &there);
    changed(1, MOUNT "a", "{}");
    assert_false(ears_await(&there, 1).truncated);
}

/* A late answer is unwatched again, because the other node owns the mount. */
static void node_releases_mount_if_watch_is_slow(void **state)
{
    (void)state;
    mount_all("owned");
    outside[0].is_slow = true;
    served_select(0);
    served_set("watch-timeout", "10ms");
    run(0);
    await_watch(0, 1);
    run_and_hear(1, &there);
    tidings_watch_done(outside[0].waiting, 0, NULL);
    await_unwatch(0);
    changed(0, MOUNT "a", "{\"k\":1}");
    changed(1, MOUNT "a", "{\"k\":2}");
    must_say(ears_await(&there, 1).metadata, "\"k\":2");
}

/* Lost by the provider, or for lack of space. */
static void owner_gap_is_reported_by_both_nodes(void **state)
{
    (void)state;
    char uri[32];
    served_select(0);
    served_set("max-announced", "64k");
    own();
    await_there(MOUNT "a");
    tidings_provider_missed(outside[0].provider);
    assert_true(ears_await(&ears, 1).truncated);
    assert_true(ears_await(&there, 1).truncated);
    struct store *holder = cluster_hold(); /* so that they wait */
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(uri, sizeof uri, MOUNT "b%u", i);
        changed(0, uri, "{}");
        if (i % 50 == 0) {
            must_say(read_at(0, MOUNT "a"), "there"); /* the hub has passed them on */
        }
    }
    cluster_let_go(holder);
    assert_true(ears_await(&there, 2).truncated);
}

static void shared_mount_is_watched_and_announced_by_every_node(void **state)
{
    (void)state;
    mount_all("shared");
    run_all();
    served_select(0);
    assert_non_null(served_subscribe(MOUNT "a", "{\"initial\":true}", &ears));
    assert_true(ears_await(&ears, 0).initial);
    await_there(MOUNT "a");
    await_watch(0, 1);
    await_watch(1, 1);
    changed(0, MOUNT "a", "{\"k\":1}");
    must_say(ears_await(&ears, 1).metadata, "\"k\":1");
    changed(1, MOUNT "a", "{\"k\":2}"); /* each its own */
    must_say(ears_await(&there, 1).metadata, "\"k\":2");
    served_select(0);
    served_announce(MOUNT "a", "{\"k\":3}", TIDINGS_CHANGE_UPDATED);
    must_say(ears_await(&there, 2).metadata, "\"k\":3");
    must_say(ears_await(&ears, 2).metadata, "\"k\":3");
}

/* The outsider: a node whose configuration does not share the mount. */
static void node_with_private_mount_receives_nothing(void **state)
{
    (void)state;
    ears_init(&there);
    mount(0, "owned");
    mount(1, NULL);
    run_and_hear(0, &ears);
    run(1);
    await_there(MOUNT "a");
    await_watch(1, 1); /* for itself */
    changed(0, MOUNT "a", "{\"k\":1}");
    must_say(ears_await(&ears, 1).metadata, "\"k\":1");
    await_followed(1);
    changed(1, MOUNT "a", "{\"k\":2}");
    must_say(ears_await(&there, 1).metadata, "\"k\":2");
    assert_int_equal(ears_count(&ears), 2);
}

static void cursor_resumes_on_other_node(void **state)
{
    (void)state;
    char cursor[256], next[256];
    const char *answer;
    own();
    cursor_of(0, NULL, MOUNT, cursor, &answer);
    changed(0, MOUNT "a", "{}");
    (void)ears_await(&ears, 1);
    await_followed(1);
    cursor_of(1, cursor, MOUNT, next, &answer);
    must_not_say(answer, "\"gap\"");
    must_say(answer, MOUNT "a");
    served_select(0);
    assert_non_null(served_subscribe(MOUNT "b", "{\"initial\":true}", &there));
    assert_true(ears_await(&there, 0).initial);
    changed(0, MOUNT "b", "{}");
    (void)ears_await(&there, 1);
    cursor_of(0, next, MOUNT, cursor, &answer);
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, MOUNT "a");
    must_say(answer, MOUNT "b");
}

static void unknown_owned_mount_is_rejected(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    served_select(0);
    served_set("owned", "nowhere:///");
    assert_int_equal(tidings_server_start(served(), &err), TIDINGS_E_INVALID);
    must_say(err.text, "--owned: nothing is mounted at 'nowhere:///'");
}

static int run_owned(struct postgres_server *p)
{
    const struct CMUnitTest tests[] = {
        CASE(owner_change_is_delivered_by_both_nodes_with_metadata),
        CASE(filters_apply_to_changes_of_another_node),
        CASE(takeover_truncates_every_subscription),
        CASE(node_releases_mount_if_watch_fails),
        CASE(node_releases_mount_if_watch_is_slow),
        CASE(owner_gap_is_reported_by_both_nodes),
        CASE(shared_mount_is_watched_and_announced_by_every_node),
        CASE(node_with_private_mount_receives_nothing),
        CASE(cursor_resumes_on_other_node),
        CASE(unknown_owned_mount_is_rejected),
    };
    cluster_postgres = p;
    return cmocka_run_group_tests_name("owned mounts", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run_owned);
}
