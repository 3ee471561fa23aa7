/* SPDX-License-Identifier: MIT
 *
 * The tables of the store in PostgreSQL, and what is checked before any of them is used: the
 * encoding, whose they are, and whether this program knows their layout.
 *
 * Several nodes may come at once to a schema without tables. One makes them, in one transaction;
 * the others wait for an advisory lock, or where there is none, fail and find them when they look
 * again. Any role may take such a lock, and the key is no secret (it is made of the names of the
 * cluster and the schema): so the wait is short, and who waited in vain says who holds it and goes
 * on without, as where there is none.
 *
 * A newer program takes the steps that are missing while nodes of the version before go on, in one
 * transaction too. A step only adds (columns that have a default or may be missing, tables,
 * indexes): what older programs say in SQL goes on to mean the same. Where that cannot be, `oldest`
 * is raised, which waits until no older node lives; who comes later is refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/postgres_rows_private.h"

#define LAYOUT 4
#define OLDEST 1
#define LAY_OUT_TRIES 5                                /* others may be at it */
#define ADVISORY_NAME "tables of the tidings cluster " /* … and its name, and the schema's */
#define ADVISORY_WAIT "2000"                           /* ms */
#define LOCK_TIMEOUT "4000"                            /* ms, as of each session of ours */

/* `one`: tables of one row. Texts that strangers choose are bytes: text could not hold a NUL.
 * Digests stand for keys that may be longer than an index can hold. */
static const char *const steps[LAYOUT] = {
    "CREATE TABLE tidings_cluster(one int8 PRIMARY KEY CHECK (one=1), name text NOT NULL,"
    " id int8 NOT NULL, layout int8 NOT NULL, oldest int8 NOT NULL, secret bytea NOT NULL,"
    " copying text NOT NULL DEFAULT '', copy_kind int8 NOT NULL DEFAULT 0,"
    " copy_number int8 NOT NULL DEFAULT 0);"
    "CREATE TABLE tidings_state(one int8 PRIMARY KEY CHECK (one=1), position int8 NOT NULL,"
    " floor int8 NOT NULL, announced int8 NOT NULL, keys int8 NOT NULL, max_keys int8 NOT NULL,"
    " server int8 NOT NULL) WITH (fillfactor=10);"
    "CREATE UNLOGGED TABLE tidings_mark(one int8 PRIMARY KEY CHECK (one=1));"
    "CREATE TABLE tidings_breaks(position int8 PRIMARY KEY, kept int8 NOT NULL,"
    " lossy int8 NOT NULL, at int8 NOT NULL);"
    "CREATE TABLE tidings_runs(epoch int8 PRIMARY KEY, position int8 NOT NULL, last int8,"
    " until int8 NOT NULL);"
    "CREATE INDEX tidings_runs_position ON tidings_runs(position);"
    "CREATE TABLE tidings_versions(id text COLLATE \"C\" NOT NULL, vfrom int8 NOT NULL,"
    " position int8 NOT NULL UNIQUE, deleted int8 NOT NULL, created int8 NOT NULL,"
    " at int8 NOT NULL, since int8 NOT NULL, sum int8 NOT NULL, type text NOT NULL,"
    " tversion text NOT NULL, parent text NOT NULL, changed_by text NOT NULL,"
    " principal text NOT NULL, previous text NOT NULL, value text NOT NULL,"
    " PRIMARY KEY (id, vfrom));"
    "CREATE TABLE tidings_current(id text COLLATE \"C\" PRIMARY KEY, type text COLLATE \"C\" NOT"
    " NULL, tversion text COLLATE \"C\" NOT NULL, parent text COLLATE \"C\" NOT NULL,"
    " deleted int8 NOT NULL, position int8 NOT NULL) WITH (fillfactor=80);"
    "CREATE INDEX tidings_current_type ON tidings_current(type, tversion, id);"
    "CREATE INDEX tidings_current_parent ON tidings_current(parent, id);"
    "CREATE TABLE tidings_moved(position int8 PRIMARY KEY, id text COLLATE \"C\" NOT NULL,"
    " type text NOT NULL, tversion text NOT NULL, became text NOT NULL, vfrom int8 NOT NULL);"
    "CREATE TABLE tidings_types(position int8 PRIMARY KEY, name text COLLATE \"C\" NOT NULL,"
    " version text COLLATE \"C\" NOT NULL, schema text NOT NULL, description bytea NOT NULL,"
    " options text NOT NULL, UNIQUE (name, version));"
    "CREATE TABLE tidings_keys(owner bytea NOT NULL, key bytea NOT NULL, number int8 NOT NULL,"
    " at int8 NOT NULL, digest bytea NOT NULL, result bytea NOT NULL, PRIMARY KEY (owner, key));"
    "CREATE INDEX tidings_keys_number ON tidings_keys(number);"
    "CREATE INDEX tidings_keys_owner ON tidings_keys(owner, number);"
    "CREATE TABLE tidings_published(digest bytea PRIMARY KEY, uri bytea NOT NULL,"
    " position int8 NOT NULL UNIQUE, created int8 NOT NULL, size int8 NOT NULL,"
    " modified int8 NOT NULL, at int8 NOT NULL, priority int8 NOT NULL,"
    " subscribable int8 NOT NULL, etag bytea NOT NULL, name bytea NOT NULL, title bytea NOT NULL,"
    " description bytea NOT NULL, mime bytea NOT NULL, icons bytea NOT NULL,"
    " audience bytea NOT NULL, meta bytea NOT NULL, metadata bytea NOT NULL, content bytea);"
    "CREATE INDEX tidings_published_removed ON tidings_published(position) WHERE content IS NULL;"
    "CREATE UNLOGGED TABLE tidings_announced(position int8 PRIMARY KEY, kind int8 NOT NULL,"
    " change int8 NOT NULL, at int8 NOT NULL, modified int8 NOT NULL, size int8 NOT NULL,"
    " uri bytea NOT NULL, etag bytea NOT NULL, came_from bytea NOT NULL, target bytea NOT NULL,"
    " metadata bytea NOT NULL, checksum bytea NOT NULL, origin bytea NOT NULL);"
    "CREATE TABLE tidings_leases(name text PRIMARY KEY, holder text NOT NULL, until int8 NOT NULL);"
    "CREATE TABLE tidings_nodes(name text COLLATE \"C\" PRIMARY KEY, instance int8 NOT NULL,"
    " version text NOT NULL, state text NOT NULL, epoch int8 NOT NULL, followed int8 NOT NULL,"
    " begun int8 NOT NULL, until int8 NOT NULL);"
    "CREATE TABLE tidings_sessions(id text COLLATE \"C\" PRIMARY KEY, node text NOT NULL,"
    " state text NOT NULL, turn int8 NOT NULL, used int8 NOT NULL);"
    "CREATE INDEX tidings_sessions_used ON tidings_sessions(used);"
    "INSERT INTO tidings_mark(one) VALUES(1);"
    "INSERT INTO tidings_state VALUES(1, 0, 0, 0, 0, 0, 0)",
    /* What a node knows (none: 1), how far it was behind in ms when it wrote its row, and when a
     * type was added (0: not known). */
    "ALTER TABLE tidings_nodes ADD COLUMN layout int8, ADD COLUMN behind int8;"
    "ALTER TABLE tidings_types ADD COLUMN at int8 NOT NULL DEFAULT 0",
    /* Tasks: `run` is the epoch of the node that works on one, `owner` a digest of `client`. */
    "CREATE TABLE tidings_tasks(id text COLLATE \"C\" PRIMARY KEY, run int8 NOT NULL,"
    " owner bytea NOT NULL, client bytea NOT NULL, status text COLLATE \"C\" NOT NULL,"
    " created int8 NOT NULL, updated int8 NOT NULL, ttl int8 NOT NULL, until int8 NOT NULL,"
    " bytes int8 NOT NULL, message bytea NOT NULL, payload bytea NOT NULL,"
    " questions bytea NOT NULL, answers bytea NOT NULL);"
    "CREATE INDEX tidings_tasks_until ON tidings_tasks(until);"
    "CREATE INDEX tidings_tasks_running ON tidings_tasks(run)"
    " WHERE status IN ('working', 'input_required');"
    /* PostgreSQL reads the text of a CHECK again for each update: a tenth of what a commit costs
     * it besides waiting. */
    "ALTER TABLE tidings_state DROP CONSTRAINT IF EXISTS tidings_state_one_check",
    /* 0: nobody but lists is notified. */
    "ALTER TABLE tidings_announced ADD COLUMN subscribable int8 NOT NULL DEFAULT 1",
};

const struct postgres_layout postgres_layout = {.made = LAYOUT, .oldest = OLDEST, .steps = steps};

static bool has_state(const struct postgres_rows *s, const char *state)
{
    return strcmp(postgres_state(s->db), state) == 0;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static int not_ours(const struct postgres_rows *s, int code, struct tidings_error *err)
{
    return postgres_refuse(s->db, code, err);
}

/* 1: there is a cluster; its layout. 0: there are no tables. */
static int read_cluster(struct postgres_rows *s, const struct postgres_layout *l,
                        int64_t *ret_layout, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct tidings_error why = {0};
    int rc = postgres_ask(s->db, PG_CLUSTER, NULL, &r, &why);
    if (rc < 0 && has_state(s, "42P01")) {
        return 0;
    }
    if (rc < 0 && (has_state(s, "42703") || has_state(s, "42809"))) {
        (void)tidings_fail(err, TIDINGS_E_INVALID,
                           "it has a table 'tidings_cluster' that is not ours: name another "
                           "database, or another schema (?options=-csearch_path%%3DNAME)");
        return not_ours(s, TIDINGS_E_INVALID, err);
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", why.text);
    }
    if (postgres_rows(r) != 1) {
        postgres_free(r);
        (void)tidings_fail(err, TIDINGS_E_INVALID,
                           "the table 'tidings_cluster' is empty: put a "
                           "copy of the database in its place");
        return not_ours(s, TIDINGS_E_INVALID, err);
    }
    struct tidings_str name = postgres_str(r, 0, 0);
    uint64_t id = (uint64_t)postgres_int(r, 0, 1);
    int64_t layout = postgres_int(r, 0, 2), oldest = postgres_int(r, 0, 3);
    rc = 1;
    if (!str_eq(name, tidings_str(s->cluster))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "it holds the cluster '%.*s', not '%s': say --cluster %.*s, or name "
                          "another database or schema",
                          STR_ARG_MAX(name, 64), s->cluster, STR_ARG_MAX(name, 64));
    } else if (s->cluster_id != 0 && s->cluster_id != id) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "it is another one than before, with the same "
                          "name '%s': start the server again to use it",
                          s->cluster);
    } else if (layout > l->made && oldest > l->made) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                          "it has layout %lld, made by a newer tidings; this one knows layouts up "
                          "to %lld, and that can be used from %lld on: start the newer one",
                          (long long)layout, (long long)l->made, (long long)oldest);
    } else if (postgres_str(r, 0, 4).len > 0 && !s->is_target) {
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "a copy into it was begun and not ended: 'tidings store copy' with the "
                          "same names goes on with it");
    } else if (layout < 1) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "it has layout %lld: it is not ours",
                          (long long)layout);
    }
    s->cluster_id = rc == 1 ? id : s->cluster_id;
    *ret_layout = layout;
    postgres_free(r);
    return rc < 0 ? not_ours(s, rc, err) : rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Quotes are doubled; the name has no NUL. */
static void layout_put_quoted(struct buf *out, const char *text)
{
    buf_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'') {
            buf_putc(out, '\'');
        }
        buf_putc(out, *text);
    }
    buf_putc(out, '\'');
}

static int put_cluster(struct postgres_rows *s, const struct postgres_layout *l, struct buf *sql,
                       struct tidings_error *err)
{
    unsigned char random[8 + 32];
    int64_t id = 0;
    if (random_bytes(random, sizeof random) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "there is no randomness");
    }
    memcpy(&id, random, sizeof id);
    buf_puts(sql, STR("INSERT INTO tidings_cluster(one, name, id, layout, oldest, secret)"
                      " VALUES(1, "));
    layout_put_quoted(sql, s->cluster);
    buf_putf(sql, ", %lld, %lld, %lld, decode('", (long long)(id == 0 || id == INT64_MIN ? 1 : id),
             (long long)l->made, (long long)l->oldest);
    for (size_t i = 8; i < sizeof random; i++) {
        buf_putf(sql, "%02x", random[i]);
    }
    buf_puts(sql, STR("', 'hex'))"));
    return sql->failed ? tidings_fail(err, sql->failed, "out of memory") : 0;
}

/* Nodes that could not go on beside it must be gone. After the steps: then each row says what its
 * node knows, or that it is too old to say so. */
static int refuse_older(struct postgres_rows *s, const struct postgres_layout *l,
                        struct tidings_error *err)
{
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    if (l->oldest < 2) {
        return 0;
    }
    postgres_put_int(&v, l->oldest);
    int rc = postgres_ask(s->db, PG_OLDER_NODE, &v, &r, err);
    if (rc == 0 && postgres_rows(r) > 0) {
        struct tidings_str name = postgres_str(r, 0, 0), version = postgres_str(r, 0, 1);
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "the node '%.*s' of version %.*s still runs, and knows layouts up to "
                          "%lld only: stop it, or go over the version between",
                          STR_ARG_MAX(name, 64), STR_ARG_MAX(version, 32),
                          (long long)postgres_int(r, 0, 2));
        rc = not_ours(s, rc, err);
    }
    postgres_free(r);
    return rc;
}

/* The steps from `from` on, and that they were taken. */
static int take_steps(struct postgres_rows *s, const struct postgres_layout *l, int64_t from,
                      struct tidings_error *err)
{
    struct buf sql;
    buf_init_secret(&sql, 4096);
    int rc = 0;
    for (int64_t i = from; rc == 0 && i < l->made; i++) {
        rc = postgres_exec(s->db, l->steps[i], err);
    }
    if (rc == 0 && from == 0) {
        rc = put_cluster(s, l, &sql, err);
    } else {
        buf_putf(&sql, "UPDATE tidings_cluster SET layout=%lld, oldest=%lld", (long long)l->made,
                 (long long)l->oldest);
    }
    rc = rc == 0 && from < l->made ? postgres_exec(s->db, sql.ptr, err) : rc;
    buf_deinit(&sql);
    return rc;
}

/* The name of the lock without the schema, which the database adds. */
struct lock_name {
    char text[sizeof(ADVISORY_NAME) + POSTGRES_CLUSTER_MAX];
};

static struct lock_name lock_name(const struct postgres_rows *s)
{
    struct lock_name name;
    (void)snprintf(name.text, sizeof name.text, "%s%s", ADVISORY_NAME, s->cluster);
    return name;
}

static int begin_with_lock(struct postgres_rows *s, struct tidings_error *err)
{
    struct buf sql;
    buf_init(&sql, 4096);
    buf_puts(&sql, STR("BEGIN;SET LOCAL lock_timeout=" ADVISORY_WAIT
                       ";SELECT pg_advisory_xact_lock(hashtextextended("));
    layout_put_quoted(&sql, lock_name(s).text);
    buf_puts(&sql, STR("||current_schema(), 0));SET LOCAL lock_timeout=" LOCK_TIMEOUT));
    int rc = buf_check(&sql, "the statement", NULL, err);
    rc = rc == 0 ? postgres_exec(s->db, sql.ptr, err) : rc;
    buf_deinit(&sql);
    return rc;
}

/* The wait for the lock was in vain: log its holder. */
static void say_holder(struct postgres_rows *s)
{
    struct lock_name name = lock_name(s);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_put_str(&v, tidings_str(name.text));
    if (postgres_ask(s->db, PG_LOCK_HOLDER, &v, &r, NULL) == 0 && postgres_rows(r) == 1) {
        log_warn(LOG_STORE, "tables are made without the lock, which another session holds",
                 KV("database", postgres_redacted_url(s->db)), KV("pid", postgres_int(r, 0, 0)),
                 KV("user", postgres_str(r, 0, 1)), KV("application", postgres_str(r, 0, 2)),
                 KV("address", postgres_str(r, 0, 3)));
    }
    postgres_free(r);
}

/* Layout `from` (0: no tables) becomes ours. */
static int migrate(struct postgres_rows *s, const struct postgres_layout *l, int64_t from,
                   bool with_lock, struct tidings_error *err)
{
    int64_t layout = 0;
    bool looks = with_lock || from > 0, is_careful = with_lock && from == 0;
    int rc = with_lock ? begin_with_lock(s, err) : postgres_exec(s->db, "BEGIN", err);
    bool is_held = with_lock && rc < 0 && has_state(s, "55P03");
    /* Perhaps another did it while we waited; asking for a table that is not there would end the
     * transaction. */
    rc = rc == 0 && is_careful ? postgres_exec(s->db, "SAVEPOINT tidings_look", err) : rc;
    int found = rc == 0 && looks ? read_cluster(s, l, &layout, err) : 0;
    if (rc == 0 && is_careful) {
        rc = postgres_exec(s->db, "ROLLBACK TO SAVEPOINT tidings_look", err);
    }
    rc = rc == 0 && found < 0 ? found : rc;
    rc = rc == 0 ? take_steps(s, l, found == 1 ? layout : from, err) : rc;
    rc = rc == 0 ? refuse_older(s, l, err) : rc;
    rc = rc == 0 ? postgres_exec(s->db, "COMMIT", err) : rc;
    if (rc < 0 && postgres_is_connected(s->db)) {
        char state[6];
        (void)snprintf(state, sizeof state, "%s", postgres_state(s->db));
        (void)postgres_exec(s->db, "ROLLBACK", NULL);
        if (is_held) {
            say_holder(s);
        }
        /* Engines without such locks do without. */
        if (with_lock && (is_held || strcmp(state, "42883") == 0 || strcmp(state, "0A000") == 0)) {
            rc = migrate(s, l, from, false, err);
        }
    }
    return rc;
}

/* "Exists", conflicts, and who was in the way: another made them meanwhile, or will be done. */
static bool is_race(const struct postgres_rows *s, int rc)
{
    return rc == TIDINGS_E_EXISTS || has_state(s, "42P07") || has_state(s, "42701") ||
           has_state(s, "40001") || has_state(s, "40P01") || has_state(s, "55P03");
}

int postgres_rows_lay_out(struct postgres_rows *s, const struct postgres_layout *l,
                          struct tidings_error *err)
{
    const char *encoding = postgres_parameter(s->db, "server_encoding");
    if (encoding[0] != '\0' && strcmp(encoding, "UTF8") != 0 && strcmp(encoding, "utf8") != 0) {
        (void)tidings_fail(err, TIDINGS_E_INVALID,
                           "its encoding is %.32s: make one with UTF8 (createdb -E UTF8 -T "
                           "template0)",
                           encoding);
        return not_ours(s, TIDINGS_E_INVALID, err);
    }
    int rc = 0;
    for (int i = 0; i < LAY_OUT_TRIES; i++) {
        int64_t layout = 0;
        rc = read_cluster(s, l, &layout, err);
        if (rc < 0 || (rc == 1 && layout >= l->made)) {
            return rc < 0 ? rc : 0;
        }
        int64_t from = rc == 1 ? layout : 0;
        rc = migrate(s, l, from, true, err);
        if (rc < 0 && !is_race(s, rc)) {
            return rc;
        }
        if (rc == 0 && from > 0) {
            log_info(LOG_STORE, "tables brought up to date",
                     KV("database", postgres_redacted_url(s->db)), KV("from", from),
                     KV("to", l->made));
        }
    }
    return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_BUSY, "its tables cannot be made");
}
