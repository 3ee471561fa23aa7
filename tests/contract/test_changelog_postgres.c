/* SPDX-License-Identifier: MIT
 *
 * The change log beside a PostgreSQL database keeps the contract of change logs, and the database
 * keeps the contract of durable stores.
 */
#include "contract/changelog_suite.c"

#include "cluster/postgres_store.h"
#include "contract/durable_suite.h"
#include "support/postgres.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

static struct store *open_kept(bool is_fresh)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    if (is_fresh) {
        postgres_server_fresh(server, url);
    }
    if (postgres_store_open(url, STR("tidings"), &store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return store;
}

/* Created before, because some cases run out of memory. */
#define LOGS 120
static char log_urls[LOGS][POSTGRES_URL];
static unsigned logs;

static struct changelog *make_log(const struct changelog_limits *limits, struct tidings_error *err)
{
    struct changelog *log = NULL;
    struct store *store = NULL;
    assert_true(logs < LOGS);
    if (postgres_store_open(log_urls[logs++], STR("tidings"), &store, err) < 0) {
        return NULL;
    }
    (void)store->ops->create_changelog(store, limits, &log, err);
    store->ops->destroy(store);
    return log;
}

static int run(struct postgres_server *p)
{
    server = p;
    for (size_t i = 0; i < LOGS; i++) {
        postgres_server_fresh(server, log_urls[i]);
    }
    int failed = changelog_suite("postgres", make_log);
    failed += kept_suite("kept in a database", open_kept);
    return failed;
}

int main(void)
{
    return postgres_server_run(run);
}
