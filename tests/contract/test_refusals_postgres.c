/* SPDX-License-Identifier: MIT
 *
 * Rejections over PostgreSQL, with and without the lock. Commits fail while a deferred constraint
 * forbids every row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "cluster/postgres_store.h"
#include "contract/refusals_suite.h"
#include "support/postgres.h"

static struct postgres_server *server;
static char url[POSTGRES_URL], schema[32];

static struct store *open_rows(void)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
    if (postgres_store_open(url, STR("tidings"), &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    postgres_server_exec(server, schema,
                         "CREATE TABLE no_position (position bigint PRIMARY KEY);"
                         "CREATE TABLE no_status (status text PRIMARY KEY)");
    return r;
}

static void break_commits(bool fails)
{
    static bool is_broken;
    if (fails && !is_broken) {
        postgres_server_exec(server, schema,
                             "ALTER TABLE tidings_state ADD CONSTRAINT broken FOREIGN KEY(position)"
                             " REFERENCES no_position DEFERRABLE INITIALLY DEFERRED NOT VALID;"
                             "ALTER TABLE tidings_tasks ADD CONSTRAINT broken FOREIGN KEY(status)"
                             " REFERENCES no_status DEFERRABLE INITIALLY DEFERRED NOT VALID");
    } else if (!fails && is_broken) {
        postgres_server_exec(server, schema,
                             "ALTER TABLE tidings_state DROP CONSTRAINT broken;"
                             "ALTER TABLE tidings_tasks DROP CONSTRAINT broken");
    }
    is_broken = fails;
}

static int run(struct postgres_server *p)
{
    const struct refusals_store locked = {.open = open_rows, .break_commits = break_commits},
                                following = {.open = open_rows,
                                             .break_commits = break_commits,
                                             .follows = true};
    server = p;
    return refusals_suite("refusals in PostgreSQL", &locked) +
           refusals_suite("refusals in PostgreSQL, without the lock", &following);
}

int main(void)
{
    return postgres_server_run(run);
}
