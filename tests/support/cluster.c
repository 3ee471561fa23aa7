/* SPDX-License-Identifier: MIT
 *
 * The two servers and the questions to them.
 */
#include "support/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "cluster/postgres_store.h"
#include "server/server_internal.h"

struct postgres_server *cluster_postgres;
static char url[POSTGRES_URL];
struct shared_memory *db;
struct store *stores[NODES];
struct ears ears;

static void begin_node(unsigned i)
{
    void *none = NULL;
    served_select(i);
    served_begin(&none);
    stores[i] = cluster_postgres ? NULL : shared_memory_connect(db);
    served()->store.given_store = stores[i];
    served_set("entities", cluster_postgres ? url : "postgres://in-memory");
    served_set("self", "true");
    served_set("allow-write", "true");
    served_set("change-tools", "on");
}

int cluster_begin(void **state)
{
    (void)state;
    db = shared_memory_create();
    if (cluster_postgres) {
        (void)postgres_server_fresh(cluster_postgres, url);
    }
    ears_init(&ears);
    for (unsigned i = 0; i < NODES; i++) {
        begin_node(i);
    }
    return 0;
}

int cluster_end(void **state)
{
    for (unsigned i = 0; i < NODES; i++) {
        served_select(i);
        served_end(state);
    }
    served_select(0);
    shared_memory_destroy(db);
    return 0;
}

void run(unsigned i)
{
    served_select(i);
    served_run();
}

void run_all(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        run(i);
    }
}

const char *at(unsigned node, const char *tool, const char *arguments)
{
    served_select(node);
    return served_call(tool, arguments);
}

void must_say(const char *answer, const char *says)
{
    if (!strstr(answer, says)) {
        fail_msg("%s does not say '%s'", answer, says);
    }
}

void must_not_say(const char *answer, const char *says)
{
    if (strstr(answer, says)) {
        fail_msg("%s says '%s'", answer, says);
    }
}

void add_type(unsigned node)
{
    must_say(at(node, "add-entity-type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{}"),
             "\"success\":true");
}

const char *upsert(unsigned node, const char *id, int n)
{
    char arguments[160];
    snprintf(arguments, sizeof arguments, "\"uri\":\"entity:///T@1/%s\",\"value\":{\"n\":%d}", id,
             n);
    return at(node, "upsert-entity", arguments);
}

const char *read_at(unsigned node, const char *uri)
{
    served_select(node);
    return served_modern("resources/read", uri);
}

void publish(unsigned node, const char *uri, const char *text)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "\"uri\":\"%s\",\"text\":\"%s\"", uri, text);
    must_say(at(node, "publish", arguments), "\"etag\":");
}

void hear(size_t n, unsigned node, enum tidings_change_kind kind, const char *says)
{
    struct told t = ears_await(&ears, n);
    assert_string_equal(t.refused, "");
    assert_int_equal(t.kind, kind);
    must_say(read_at(node, "published:///x"), says);
}

void await_followed(unsigned node)
{
    static unsigned n;
    char text[16];
    snprintf(text, sizeof text, "%u", n++);
    publish(node, "published:///followed", text);
}

void cursor_of(unsigned node, const char *cursor, const char *uri, char out[256],
               const char **answer)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "\"uris\":[\"%s\"]%s%s%s", uri,
             cursor ? ",\"cursor\":\"" : "", cursor ? cursor : "", cursor ? "\"" : "");
    *answer = at(node, "changes_since", arguments);
    const char *found = strstr(*answer, "\"structuredContent\":{\"cursor\":\"");
    assert_non_null(found);
    assert_int_equal(sscanf(found, "\"structuredContent\":{\"cursor\":\"%255[^\"]", out), 1);
}

struct store *cluster_hold(void)
{
    struct store *holder = NULL;
    if (cluster_postgres) {
        assert_int_equal(postgres_store_open(url, STR("tidings"), &holder, NULL), 0);
    } else {
        holder = shared_memory_connect(db);
    }
    assert_int_equal(holder->ops->begin(holder, NULL), 0);
    return holder;
}

void cluster_let_go(struct store *holder)
{
    holder->ops->rollback(holder);
    holder->ops->destroy(holder);
}

void cluster_expire_leases(void)
{
    postgres_server_exec(cluster_postgres, postgres_url_schema(url),
                         "UPDATE tidings_leases SET until=0");
}
