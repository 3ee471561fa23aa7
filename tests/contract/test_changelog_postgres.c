/* SPDX-License-Identifier: MIT
 *
 * The change log beside a database of PostgreSQL keeps the contract of change logs, and the
 * database that of what outlives the program.
 */
#include "contract/changelog_suite.c"

#include "cluster/postgres_store.h"
#include "contract/kept_suite.h"
#include "support/postgres.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

static struct entity_rows *open_kept(bool is_fresh)
{
    struct tidings_error err = {0};
    struct entity_rows *rows = NULL;
    if (is_fresh) {
        postgres_server_fresh(server, url);
    }
    if (entity_postgres_open(url, STR("tidings"), &rows, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return rows;
}

/* Made before: memory lacks in some cases. */
#define LOGS 120
static char log_urls[LOGS][POSTGRES_URL];
static unsigned logs;

static struct changelog *make_log(const struct changelog_limits *limits, struct tidings_error *err)
{
    struct changelog *log = NULL;
    struct entity_rows *rows = NULL;
    assert_true(logs < LOGS);
    if (entity_postgres_open(log_urls[logs++], STR("tidings"), &rows, err) < 0) {
        return NULL;
    }
    (void)rows->kept->create_changelog(rows, limits, &log, err);
    rows->ops->destroy(rows);
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
