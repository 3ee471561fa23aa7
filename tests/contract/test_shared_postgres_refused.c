/* SPDX-License-Identifier: MIT
 *
 * A database that cannot be used as a store: each reason has an error message that names it and the
 * remedy, no partial state remains, and the password is never shown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cluster/postgres_store.h"
#include "support/postgres.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL], schema[32];

static void new_schema(void)
{
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
}

static void check_refused(const char *at, const char *cluster, int code, const char *says)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    assert_int_equal(postgres_store_open(at, tidings_str(cluster), &store, &err), code);
    assert_null(store);
    if (!strstr(err.text, says)) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
    assert_null(strstr(err.text, "secret"));
    assert_null(strstr(err.text, "hunter2"));
}

static const char *tcp(const char *user, const char *database)
{
    static char out[POSTGRES_URL];
    (void)snprintf(out, sizeof out, "postgres://%s@127.0.0.1:%d/%s", user,
                   postgres_server_port(server), database);
    return out;
}

static void connect_rejects_invalid_url(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "mysql://a",
        "postgres:/x",
        "postgres://u:hunter2%zz@h/d",
        "postgres://u:hunter2@h:1/d?nonsense=1",
        "postgresql://u:hunter2@[::1/d",
        "host=x password=hunter2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_refused(bad[i], "tidings", TIDINGS_E_INVALID, "postgres://USER@HOST:PORT/DATABASE");
    }
    assert_true(postgres_store_is_url(STR("postgres://x")));
    assert_true(postgres_store_is_url(STR("postgresql://x")));
    assert_false(postgres_store_is_url(STR("/var/lib/x.db")));
}

static void connect_rejects_invalid_or_other_cluster_name(void **state)
{
    (void)state;
    new_schema();
    check_refused(url, "", TIDINGS_E_INVALID, "the name of a cluster");
    check_refused(url, "a;b", TIDINGS_E_INVALID, "the name of a cluster");
    struct tidings_error err = {0};
    struct store *store = NULL;
    assert_int_equal(postgres_store_open(url, STR("it's"), &store, &err), 0);
    store->ops->destroy(store);
    check_refused(url, "tidings", TIDINGS_E_INVALID, "it holds the cluster 'it's', not 'tidings'");
}

static void connect_fails_if_no_server_listens(void **state)
{
    (void)state;
    check_refused("postgres://u:hunter2@127.0.0.1:1/d", "tidings", TIDINGS_E_BUSY,
                  "Connection refused: is it running");
    check_refused("postgres://u:hunter2@/d?host=/nonexistent", "tidings", TIDINGS_E_BUSY,
                  "is it running");
}

static void connect_rejects_wrong_credentials(void **state)
{
    (void)state;
    check_refused(tcp("guarded:hunter2", "tidings"), "tidings", TIDINGS_E_DENIED,
                  "password authentication failed for user \"guarded\": check user and password");
    check_refused(tcp("guarded", "tidings"), "tidings", TIDINGS_E_DENIED, "no password supplied");
    check_refused(tcp("nobody:hunter2", "tidings"), "tidings", TIDINGS_E_DENIED,
                  "role \"nobody\" does not exist");
    check_refused(tcp("tidings:hunter2", "nowhere"), "tidings", TIDINGS_E_NOTFOUND,
                  "database \"nowhere\" does not exist: make the database first");
}

static void error_shows_address_without_password(void **state)
{
    (void)state;
    char says[64];
    (void)snprintf(says, sizeof says, "database 'postgres://guarded@127.0.0.1:%d/tidings'",
                   postgres_server_port(server));
    check_refused(tcp("guarded:hunter2", "tidings"), "tidings", TIDINGS_E_DENIED, says);
}

static void connect_fails_without_table_privileges(void **state)
{
    (void)state;
    check_refused(tcp("reader", "tidings"), "tidings", TIDINGS_E_DENIED,
                  "permission denied for schema public: give the user rights");
    new_schema();
    store_close(store_open(url));
    char at[POSTGRES_URL], sql[64];
    (void)snprintf(sql, sizeof sql, "GRANT USAGE ON SCHEMA %s TO reader", schema);
    postgres_server_exec(server, schema, sql);
    (void)snprintf(at, sizeof at, "%s?options=-csearch_path%%3D%s", tcp("reader", "tidings"),
                   schema);
    check_refused(at, "tidings", TIDINGS_E_DENIED, "permission denied for table tidings_cluster");
}

static void connect_fails_without_schema(void **state)
{
    (void)state;
    char at[POSTGRES_URL];
    (void)snprintf(at, sizeof at, "%s?options=-csearch_path%%3Dmissing", tcp("tidings", "tidings"));
    check_refused(at, "tidings", TIDINGS_E_NOTFOUND, "make the schema first");
}

static void connect_rejects_foreign_tables(void **state)
{
    (void)state;
    new_schema();
    postgres_server_exec(server, schema, "CREATE TABLE tidings_cluster(x int)");
    check_refused(url, "tidings", TIDINGS_E_INVALID, "'tidings_cluster' that is not ours");
    new_schema();
    postgres_server_exec(server, schema, "CREATE TABLE tidings_sessions(x int)");
    check_refused(url, "tidings", TIDINGS_E_IO, "\"tidings_sessions\" already exists");
    /* None of the other tables was created. */
    assert_int_equal(postgres_server_number(server, schema,
                                            "SELECT count(*) FROM information_schema.tables WHERE"
                                            " table_schema=current_schema()"),
                     1);
    new_schema();
    store_close(store_open(url));
    postgres_server_exec(server, schema, "DELETE FROM tidings_cluster");
    check_refused(url, "tidings", TIDINGS_E_INVALID, "'tidings_cluster' is empty");
    new_schema();
    store_close(store_open(url));
    postgres_server_exec(server, schema, "DELETE FROM tidings_state");
    check_refused(url, "tidings", TIDINGS_E_INVALID, "'tidings_state' is empty");
}

static void connect_rejects_incompatible_layout(void **state)
{
    (void)state;
    new_schema();
    store_close(store_open(url));
    postgres_server_exec(server, schema, "UPDATE tidings_cluster SET layout=9, oldest=1");
    store_close(store_open(url)); /* newer, and this one may run beside it */
    postgres_server_exec(server, schema, "UPDATE tidings_cluster SET layout=9, oldest=8");
    check_refused(url, "tidings", TIDINGS_E_UNSUPPORTED,
                  "it has layout 9, made by a newer tidings; this one knows layouts up to 1");
    postgres_server_exec(server, schema, "UPDATE tidings_cluster SET layout=-1, oldest=-1");
    check_refused(url, "tidings", TIDINGS_E_INVALID, "layout -1: it is not ours");
}

/* The first writable host of several is used. */
static void connect_tries_hosts_in_turn(void **state)
{
    (void)state;
    char at[POSTGRES_URL];
    new_schema();
    (void)snprintf(
        at, sizeof at,
        "postgres://tidings@127.0.0.1:1,127.0.0.1:%d/tidings?options=-csearch_path%%3D%s",
        postgres_server_port(server), schema);
    store_close(store_open(at));
    postgres_server_exec(server, "", "ALTER ROLE reader SET default_transaction_read_only=on");
    check_refused(tcp("reader", "tidings"), "tidings", TIDINGS_E_BUSY,
                  "it is a standby; name the primary, or all hosts");
}

static void connect_rejects_other_encoding(void **state)
{
    (void)state;
    postgres_server_exec(server, "",
                         "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
                         " TEMPLATE template0");
    check_refused(tcp("tidings", "latin"), "tidings", TIDINGS_E_INVALID, "its encoding is LATIN1");
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_rejects_invalid_url),
        cmocka_unit_test(connect_rejects_invalid_or_other_cluster_name),
        cmocka_unit_test(connect_fails_if_no_server_listens),
        cmocka_unit_test(connect_rejects_wrong_credentials),
        cmocka_unit_test(error_shows_address_without_password),
        cmocka_unit_test(connect_fails_without_table_privileges),
        cmocka_unit_test(connect_fails_without_schema),
        cmocka_unit_test(connect_rejects_foreign_tables),
        cmocka_unit_test(connect_rejects_incompatible_layout),
        cmocka_unit_test(connect_tries_hosts_in_turn),
        cmocka_unit_test(connect_rejects_other_encoding),
    };
    return cmocka_run_group_tests_name("databases that are refused", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
