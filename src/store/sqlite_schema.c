/* SPDX-License-Identifier: MIT
 *
 * Layouts of a SQLite store: identifies the program and layout of a database, and migrates an older
 * one.
 *
 * Stores have an application id, and the number of their layout as user version. Both are lost when
 * a database is dumped as SQL and restored, and older stores have no application id. These are
 * recognized by their shape: the names of their tables, columns and indexes are compared with those
 * that the steps create in an empty database in memory. All other databases belong to other
 * programs.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"
#include "store/sqlite.h"
#include "store/sqlite_internal.h"

/* ---------------------------------------------------------------------------------------------- */

/* The first number that a statement returns. */
static int sqlite_layout_number(struct sqlite *db, const char *sql, int64_t *ret,
                                struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(db, sql, &st, err);
    rc = rc == 0 ? sqlite_step(db, st, err) : rc;
    *ret = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Everything except SQLite's own objects and the mark of a copy (store/copy.c). */
#define MADE "name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
static const char shape[] =
    "SELECT m.type || ' ' || m.name, coalesce((SELECT group_concat(c.name) FROM"
    " pragma_table_info(m.name) c), '') FROM main.sqlite_master m WHERE m." MADE
    " AND m.name<>'copying' ORDER BY m.type, m.name";

/* 1: both have the same tables, columns and indexes. 0: they differ. */
static int sqlite_layout_same(struct sqlite *one, struct sqlite *other, struct tidings_error *err)
{
    struct sqlite3_stmt *a = NULL, *b = NULL;
    int rc = sqlite_prepare(one, shape, &a, err);
    rc = rc == 0 ? sqlite_prepare(other, shape, &b, err) : rc;
    bool is_same = rc == 0;
    for (bool has_more = true; rc == 0 && is_same && has_more;) {
        int left = sqlite_step(one, a, err);
        int right = left < 0 ? left : sqlite_step(other, b, err);
        rc = right < 0 ? right : 0;
        has_more = left == 1;
        is_same = left == right && (!has_more || (str_eq(sqlite_str(a, 0), sqlite_str(b, 0)) &&
                                                  str_eq(sqlite_str(a, 1), sqlite_str(b, 1))));
    }
    sqlite_finalize(a);
    sqlite_finalize(b);
    return rc < 0 ? rc : is_same;
}

/* The layout whose shape the database has; -1: none. 0: it is empty. */
static int sqlite_layout_find(struct sqlite *db, const struct sqlite_layout *layout, int64_t *ret,
                              struct tidings_error *err)
{
    struct sqlite *model = NULL;
    int rc = sqlite_open(":memory:", &model, err);
    rc = rc == 0 ? sqlite_layout_same(db, model, err) : rc;
    int i = 0;
    while (rc == 0 && i < layout->count) {
        rc = sqlite_exec(model, layout->steps[i], err);
        rc = rc == 0 ? sqlite_layout_same(db, model, err) : rc;
        i++;
    }
    *ret = rc == 1 ? i : -1;
    sqlite_close(model);
    return rc < 0 ? rc : 0;
}

/* ---- identification -------------------------------------------------------------------------- */

static const char *sqlite_layout_program(int64_t id)
{
    static const struct {
        int64_t id;
        const char *name;
    } programs[] = {
        {0x0f055111, "Fossil"},       {0x0f055112, "Fossil"},
        {0x0f055113, "Fossil"},       {0x42654462, "Bentley BeSQLite"},
        {0x47503130, "GeoPackage"},   {0x47503131, "GeoPackage"},
        {0x47504b47, "GeoPackage"},   {0x4d504258, "MBTiles"},
        {0x5f4d544e, "Monotone"},     {0x45737269, "Esri"},
        {0x53514c53, "SQLiteStudio"},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (programs[i].id == id) {
            return programs[i].name;
        }
    }
    return NULL;
}

/* The first of its tables, in characters that are safe on a terminal. */
#define TABLES_MAX 4
#define NAME_MAX_SHOWN 32u
static void sqlite_layout_tables(struct sqlite *db, char *out, size_t size)
{
    struct sqlite3_stmt *st = NULL;
    size_t n = 0;
    out[0] = '\0';
    int rc = sqlite_prepare(db,
                            "SELECT name FROM main.sqlite_master WHERE type='table' AND " MADE
                            " ORDER BY rowid LIMIT 5",
                            &st, NULL);
    for (int i = 0; rc == 0 && sqlite_step(db, st, NULL) == 1; i++) {
        struct tidings_str name = sqlite_str(st, 0);
        size_t len = name.len < NAME_MAX_SHOWN ? name.len : NAME_MAX_SHOWN;
        if (n + len + 8 > size || i == TABLES_MAX) {
            (void)snprintf(out + n, size - n, ", …");
            break;
        }
        n += (size_t)snprintf(out + n, size - n, "%s", i == 0 ? "tables " : ", ");
        for (size_t j = 0; j < len; j++) {
            char c = name.ptr[j];
            out[n++] = c > ' ' && c < 0x7f ? c : '?';
        }
        out[n] = '\0';
    }
    sqlite_finalize(st);
}

static int sqlite_layout_refuse(struct sqlite *db, int64_t id, struct tidings_error *err)
{
    char tables[180], whose[64];
    const char *program = sqlite_layout_program(id);
    sqlite_layout_tables(db, tables, sizeof tables);
    if (program) {
        (void)snprintf(whose, sizeof whose, "%s%s", program, tables[0] ? "; " : "");
    } else if (id != 0) {
        (void)snprintf(whose, sizeof whose, "application id 0x%08x%s", (unsigned)id,
                       tables[0] ? "; " : "");
    } else {
        (void)snprintf(whose, sizeof whose, "%s", tables[0] ? "" : "without tables");
    }
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "it is a database of another program (%s%s), left as it is: name another "
                        "file",
                        whose, tables);
}

/* The number of its layout; 0: it is empty. */
static int sqlite_layout_of(struct sqlite *db, const struct sqlite_layout *layout, int64_t *ret,
                            struct tidings_error *err)
{
    int64_t id = 0, version = 0, found = -1;
    int rc = sqlite_layout_number(db, "PRAGMA application_id", &id, err);
    rc = rc == 0 ? sqlite_layout_number(db, "PRAGMA user_version", &version, err) : rc;
    bool is_marked = id == SQLITE_APPLICATION_ID && version > 0;
    if (rc == 0 && !is_marked && (id == 0 || id == SQLITE_APPLICATION_ID)) {
        rc = sqlite_layout_find(db, layout, &found, err);
    }
    *ret = is_marked ? version : found;
    if (rc < 0) {
        return rc;
    }
    if (!is_marked && (found < 0 || (version != 0 && version != found))) {
        return sqlite_layout_refuse(db, id, err);
    }
    if (*ret > layout->count) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the database has layout %lld, made by a newer tidings; this one knows "
                            "layouts up to %d",
                            (long long)*ret, layout->count);
    }
    return 0;
}

int sqlite_check_ours(const char *path, const struct sqlite_layout *layout,
                      struct tidings_error *err)
{
    struct stat st;
    struct sqlite *db = NULL;
    struct tidings_error why = {0};
    int64_t version;
    bool is_there = stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    if (!is_there || sqlite_peek(path, &db, NULL) < 0) {
        return 0;
    }
    int rc = sqlite_layout_of(db, layout, &version, &why);
    sqlite_close(db);
    if (rc != TIDINGS_E_INVALID && rc != TIDINGS_E_UNSUPPORTED) {
        return 0;
    }
    return tidings_fail(err, rc, "database '%.300s': %s", path, why.text);
}

int sqlite_check_shape(struct sqlite *db, const struct sqlite_layout *layout,
                       struct tidings_error *err)
{
    int64_t version = 0, found = 0;
    int rc = sqlite_layout_number(db, "PRAGMA user_version", &version, err);
    rc = rc == 0 ? sqlite_layout_find(db, layout, &found, err) : rc;
    return rc < 0 || found == version
               ? rc
               : tidings_fail(
                     err, TIDINGS_E_INVALID,
                     "its tables are not those of layout %lld: something else changed them",
                     (long long)version);
}

/* ---- migration ------------------------------------------------------------------------------- */

int sqlite_lay_out(struct sqlite *db, const struct sqlite_layout *layout, struct tidings_error *err)
{
    int64_t version = 0;
    int rc = sqlite_layout_of(db, layout, &version, err);
    if (rc < 0) {
        sqlite_leave_log(db);
        return rc;
    }
    rc = sqlite_exec(db, "BEGIN IMMEDIATE", err);
    for (int64_t i = version; rc == 0 && i < layout->count; i++) {
        rc = sqlite_exec(db, layout->steps[i], err);
    }
    char set[96];
    (void)snprintf(set, sizeof set, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                   SQLITE_APPLICATION_ID, layout->count);
    rc = rc == 0 ? sqlite_exec(db, set, err) : rc;
    rc = rc == 0 ? sqlite_exec(db, "COMMIT", err) : rc;
    if (rc < 0) {
        sqlite_roll_back(db);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * The SQL of the entity store: the tables of the file, those in memory beside them, and every
 * statement that is used more than once. store/sqlite_store.c documents them.
 */

static const char *const steps[] = {
    /* The long columns of `log` and `published` come last. `moved`: entities that left their URI
     * with a new version of their type; the old one. `floor`: changes up to this number have been
     * dropped. `first`: the first position of an epoch. `file_told`: for each epoch, the number up
     * to which all announced changes of a mount are certainly stored. */
    "CREATE TABLE log(seq INTEGER PRIMARY KEY, id TEXT, vfrom INTEGER, replaces INTEGER,"
    " forget INTEGER, type TEXT, tversion TEXT, parent TEXT, deleted INTEGER, created INTEGER,"
    " at INTEGER, since INTEGER, sum INTEGER, old_parent TEXT, changed_by TEXT, principal TEXT, "
    "previous TEXT,"
    " value TEXT);"
    "CREATE TABLE versions(id TEXT, vfrom INTEGER, seq INTEGER, PRIMARY KEY(id, vfrom))"
    " WITHOUT ROWID;"
    "CREATE TABLE current(id TEXT PRIMARY KEY, type TEXT, tversion TEXT, parent TEXT,"
    " deleted INTEGER, seq INTEGER) WITHOUT ROWID;"
    "CREATE INDEX current_type ON current(type, tversion, id);"
    "CREATE INDEX current_parent ON current(parent, id);"
    "CREATE TABLE types(number INTEGER PRIMARY KEY, seq INTEGER, name TEXT, version TEXT,"
    " schema TEXT, description TEXT, options TEXT, UNIQUE(name, version));"
    "CREATE TABLE keys(owner TEXT, key TEXT, number INTEGER, at INTEGER, digest TEXT, text TEXT,"
    " PRIMARY KEY(owner, key)) WITHOUT ROWID;"
    "CREATE INDEX keys_number ON keys(number);"
    "CREATE INDEX keys_owner ON keys(owner, number);"
    "CREATE TABLE state(applied INTEGER, keys INTEGER, floor INTEGER);"
    "INSERT INTO state VALUES(0, 0, 0);"
    "CREATE TABLE moved(seq INTEGER PRIMARY KEY, id TEXT, type TEXT, tversion TEXT, became TEXT,"
    " vfrom INTEGER);"
    "CREATE TABLE epochs(number INTEGER PRIMARY KEY, epoch INTEGER, first INTEGER, last INTEGER);"
    "CREATE TABLE published(seq INTEGER PRIMARY KEY, uri TEXT UNIQUE, created INTEGER, etag TEXT,"
    " size INTEGER, modified INTEGER, name TEXT, title TEXT, description TEXT, mime TEXT,"
    " icons TEXT, audience TEXT, priority INTEGER, subscribable INTEGER, at INTEGER,"
    " meta TEXT, metadata TEXT, content BLOB);"
    "CREATE INDEX published_removed ON published(seq) WHERE content IS NULL;"
    "CREATE TABLE file_mounts(mount INTEGER PRIMARY KEY, prefix TEXT UNIQUE, settings TEXT,"
    " root INTEGER, device INTEGER);"
    "CREATE TABLE file_directories(mount INTEGER, path BLOB, names BLOB, UNIQUE(mount, path));"
    "CREATE TABLE file_scopes(mount INTEGER, uri TEXT, epoch INTEGER, number INTEGER,"
    " position INTEGER, PRIMARY KEY(mount, uri)) WITHOUT ROWID;"
    "CREATE TABLE file_told(mount INTEGER, epoch INTEGER, number INTEGER,"
    " PRIMARY KEY(mount, epoch)) WITHOUT ROWID;"
    "CREATE TABLE file_changes(seq INTEGER PRIMARY KEY, epoch INTEGER, number INTEGER,"
    " kind INTEGER, size INTEGER, modified INTEGER, at INTEGER, subscribable INTEGER,"
    " uri TEXT UNIQUE, etag TEXT, came_from TEXT, target TEXT, created INTEGER,"
    " created_epoch INTEGER, created_number INTEGER);"
    "CREATE TABLE tasks(id TEXT PRIMARY KEY, client TEXT, status TEXT, created INTEGER,"
    " updated INTEGER, ttl INTEGER, expires INTEGER, message TEXT, payload TEXT) WITHOUT ROWID;"
    "CREATE INDEX tasks_expires ON tasks(expires);",
};

const struct sqlite_layout sqlite_store_layout = {
    .steps = steps,
    .count = sizeof steps / sizeof *steps,
};

static const char in_memory[] =
    "CREATE TABLE temp.fresh(id TEXT, vfrom INTEGER, seq INTEGER, PRIMARY KEY(id, vfrom))"
    " WITHOUT ROWID;"
    "CREATE TABLE temp.gone(id TEXT, vfrom INTEGER, PRIMARY KEY(id, vfrom)) WITHOUT ROWID;";

#define NOT_GONE " AND NOT EXISTS(SELECT 1 FROM temp.gone g WHERE g.id=v.id AND g.vfrom=v.vfrom)"
#define COLUMNS_BEHIND_ID                                                                          \
    "l.vfrom, l.type, l.tversion, l.parent, l.deleted, l.changed_by, l.previous, l.value,"         \
    " l.created, l.since, l.principal, l.sum, l.old_parent"
#define COLUMNS "l.id, " COLUMNS_BEHIND_ID
/* Reading never writes: `current` without the entities that have newer versions, and the newest of
 * those. Both are in the order of ids and are merged, so that the cost of a page depends only on
 * its size. `of(t)`: selects entities by the columns of table t. */
#define LISTED(of)                                                                                 \
    "SELECT c.id, " COLUMNS_BEHIND_ID " FROM main.current c JOIN main.log l ON l.seq=c.seq"        \
    " WHERE c.id>?1 AND (?2 OR c.deleted=0)" of(                                                   \
        "c") " AND NOT EXISTS(SELECT 1 FROM temp.fresh f WHERE f.id=c.id)"                         \
             " UNION ALL SELECT f.id, " COLUMNS_BEHIND_ID                                          \
             " FROM temp.fresh f CROSS JOIN main.log l ON l.seq=f.seq WHERE f.id>?1 AND NOT "      \
             "EXISTS("                                                                             \
             "SELECT 1 FROM temp.fresh n WHERE n.id=f.id AND n.vfrom>f.vfrom)"                     \
             " AND (?2 OR l.deleted=0)" of("l") " ORDER BY 1"
/* For a change of a file (kinds: enum tidings_change_kind). */
#define SINCE_CREATED(now, before)                                                                 \
    "CASE WHEN excluded.kind<>0 THEN NULL WHEN c.kind=1 THEN c." now " ELSE c." before " END"
#define OF_ALL(t) ""
#define OF_TYPE(t) " AND " t ".type=?3"
#define OF_VERSION(t) OF_TYPE(t) " AND " t ".tversion=?4"
#define OF_PARENT(t) " AND " t ".parent=?5"
#define OF_TYPE_PARENT(t) OF_TYPE(t) OF_PARENT(t)
#define OF_VERSION_PARENT(t) OF_VERSION(t) OF_PARENT(t)

static const char *const statements[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [APPEND] =
        "INSERT INTO main.log(seq, id, vfrom, replaces, forget, type, tversion, parent,"
        " deleted, changed_by, previous, value, created, at, since, principal, sum,"
        " old_parent) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18)",
    [ADD_MOVED] = "INSERT INTO main.moved VALUES(?1,?2,?3,?4,?5,?6)",
    [ADD_FRESH] = "INSERT INTO temp.fresh VALUES(?1, ?2, ?3)",
    [REMOVE_FRESH] = "DELETE FROM temp.fresh WHERE id=?1 AND vfrom=?2",
    [ADD_GONE] = "INSERT OR IGNORE INTO temp.gone SELECT id, vfrom FROM main.versions v WHERE"
                 " id=?1 AND vfrom=?2",
    [FRESH_AT] = "SELECT seq, vfrom FROM temp.fresh WHERE id=?1 AND vfrom<=?2 ORDER BY vfrom DESC"
                 " LIMIT 1",
    [FRESH_AFTER] = "SELECT seq, vfrom FROM temp.fresh WHERE id=?1 AND vfrom>?2 ORDER BY vfrom"
                    " LIMIT 1",
    [FRESH_COUNT] = "SELECT count(*), 0 FROM temp.fresh WHERE id=?1 AND vfrom>=?2",
    [FRESH_NTH] = "SELECT seq, vfrom FROM temp.fresh WHERE id=?1 ORDER BY vfrom DESC LIMIT 1"
                  " OFFSET ?2",
    [KNOWN_NTH] = "SELECT seq, vfrom FROM main.versions v WHERE id=?1" NOT_GONE
                  " ORDER BY vfrom DESC LIMIT 1 OFFSET ?2",
    [KNOWN_AT] = "SELECT seq, vfrom FROM main.versions v WHERE id=?1 AND vfrom<=?2" NOT_GONE
                 " ORDER BY vfrom DESC LIMIT 1",
    [KNOWN_AFTER] = "SELECT seq, vfrom FROM main.versions v WHERE id=?1 AND vfrom>?2" NOT_GONE
                    " ORDER BY vfrom LIMIT 1",
    [ROW] = "SELECT " COLUMNS " FROM main.log l WHERE l.seq=?1",
    [LIST_ALL] = LISTED(OF_ALL),
    [LIST_TYPE] = LISTED(OF_TYPE),
    [LIST_VERSION] = LISTED(OF_VERSION),
    [LIST_PARENT] = LISTED(OF_PARENT),
    [LIST_TYPE_PARENT] = LISTED(OF_TYPE_PARENT),
    [LIST_VERSION_PARENT] = LISTED(OF_VERSION_PARENT),
    [PUT_TYPE] = "INSERT INTO main.types(name, version, schema, description, options, seq)"
                 " VALUES(?1,?2,?3,?4,?5,?6)",
    [TYPES] = "SELECT name, version, schema, description, options FROM main.types ORDER BY name,"
              " number",
    [COUNT_KEY] = "UPDATE main.state SET keys=keys+1",
    [PUT_KEY] = "INSERT OR REPLACE INTO main.keys(owner, key, number, at, digest, text)"
                " VALUES(?1, ?2, (SELECT keys FROM main.state), ?3, ?4, ?5)",
    [FIND_KEY] = "SELECT owner, key, at, digest, text FROM main.keys WHERE owner=?1 AND key=?2",
    /* A few at a time, so that no write pays for many. */
    [DROP_AGED_KEYS] = "DELETE FROM main.keys WHERE at<=?1 AND (owner, key) IN (SELECT owner, key"
                       " FROM main.keys ORDER BY number LIMIT 8)",
    /* All keys of an owner except the newest. */
    [DROP_OLDER_KEYS] = "DELETE FROM main.keys WHERE owner=?1 AND number<=(SELECT number FROM"
                        " main.keys WHERE owner=?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
    [KEY_COUNT] = "SELECT count(*) FROM main.keys",
    [MOST_KEYS] = "SELECT owner, count(*) FROM main.keys GROUP BY owner"
                  " ORDER BY count(*) DESC, min(number) LIMIT 1",
    [PUBLISH] =
        "INSERT OR REPLACE INTO main.published(seq, uri, created, etag, size, modified, name,"
        " title, description, mime, icons, audience, priority, subscribable, at, content, metadata,"
        " meta)"
        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18)",
    [FORGET_REMOVED] = "DELETE FROM main.published WHERE content IS NULL AND seq<=?1",
    [RAISE_FLOOR] = "UPDATE main.state SET floor=max(floor, ?1)",
    [OLD_REMOVED] = "SELECT seq FROM main.published WHERE content IS NULL ORDER BY seq DESC LIMIT 1"
                    " OFFSET ?1",
    [TASK_HAS_ENDED] = "SELECT 1 FROM main.tasks WHERE id=?1 AND status NOT IN ('working',"
                       " 'input_required')",
    [PUT_TASK] = "INSERT OR REPLACE INTO main.tasks VALUES(?1,?2,?3,?4,?5,?6,?4+?6,?7,?8)",
    [SWEEP_TASKS] = "DELETE FROM main.tasks WHERE expires<=?1",
    [FILE_MOUNT] = "SELECT mount, root, device, root IS NOT NULL FROM main.file_mounts WHERE"
                   " prefix=?1",
    [ADD_FILE_MOUNT] = "INSERT OR IGNORE INTO main.file_mounts(prefix, settings) VALUES(?1, ?2)",
    [DROP_FILE_MOUNT] = "DELETE FROM main.file_mounts WHERE mount=?1",
    [DROP_FILE_ROOT] = "UPDATE main.file_mounts SET root=NULL, device=NULL WHERE mount=?1",
    [PUT_FILE_ROOT] = "UPDATE main.file_mounts SET root=?2, device=?3 WHERE mount=?1",
    [PUT_FILE_DIRECTORY] = "INSERT OR REPLACE INTO main.file_directories VALUES(?1, ?2, ?3)",
    [DROP_FILE_DIRECTORY] = "DELETE FROM main.file_directories WHERE mount=?1 AND path=?2",
    [DROP_FILE_DIRECTORIES] = "DELETE FROM main.file_directories WHERE mount=?1",
    /* A known scope keeps its first time. */
    [PUT_FILE_SCOPE] = "INSERT OR IGNORE INTO main.file_scopes(mount, epoch, number, position, uri)"
                       " VALUES(?1, ?2, ?3, ?4, ?5)",
    [DROP_FILE_SCOPES] = "DELETE FROM main.file_scopes WHERE mount=?1",
    [PUT_FILE_TOLD] = "INSERT OR REPLACE INTO main.file_told VALUES(?1, ?2, ?3)",
    [DROP_FILE_TOLD] = "DELETE FROM main.file_told WHERE mount=?1",
    [DROP_OLD_FILE_TOLD] = "DELETE FROM main.file_told WHERE epoch NOT IN (SELECT epoch FROM"
                           " main.epochs)",
    /* A file that was created and then updated counts as created for clients that have not received
     * the creation. */
    [PUT_FILE_CHANGE] =
        "INSERT INTO main.file_changes AS c(seq, epoch, number, kind, size, modified, at, uri,"
        " etag, came_from, target, subscribable)"
        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"
        " ON CONFLICT(uri) DO UPDATE SET subscribable=excluded.subscribable,"
        " created=" SINCE_CREATED(
            "seq",
            "created") ","
                       " created_epoch=" SINCE_CREATED(
                           "epoch",
                           "created_epoch") ","
                                            " created_number=" SINCE_CREATED(
                                                "number",
                                                "created_number") ","
                                                                  " seq=excluded.seq, "
                                                                  "epoch=excluded.epoch, "
                                                                  "number=excluded.number, "
                                                                  "kind=excluded.kind,"
                                                                  " size=excluded.size, "
                                                                  "modified=excluded.modified, "
                                                                  "at=excluded.at, "
                                                                  "etag=excluded.etag,"
                                                                  " came_from=excluded.came_from, "
                                                                  "target=excluded.target",
    [OLD_FILE_CHANGE] = "SELECT 1 FROM main.file_changes WHERE seq<=?1 LIMIT 1",
    [DROP_FILE_CHANGES] = "DELETE FROM main.file_changes WHERE seq<=?1",
    /* Copies arrive in the order of positions, which is also the order of an entity's versions. */
    [TRANSFER_ADD_VERSION] = "INSERT INTO main.versions SELECT id, vfrom, seq FROM main.log WHERE"
                             " seq=?1",
    [TRANSFER_SET_CURRENT] = "INSERT OR REPLACE INTO main.current SELECT id, type, tversion,"
                             " parent, deleted, seq FROM main.log WHERE seq=?1",
    [TRANSFER_SET_APPLIED] = "UPDATE main.state SET applied=?1",
    [TRANSFER_PUT_RUN] = "INSERT INTO main.epochs(epoch, first, last) SELECT ?1, ?2,"
                         " CASE WHEN ?3>=0 THEN ?3 END WHERE NOT EXISTS(SELECT 1 FROM main.epochs"
                         " WHERE epoch=?1)",
    [TRANSFER_SET_MARK] = "UPDATE main.copying SET kind=?1, number=?2",
    [TRANSFER_SET_STATE] = "UPDATE main.state SET applied=?1, floor=?2",
};

/* Statements are prepared on first use: opening a store costs only what it needs. */
int sqlite_statement(struct sqlite_store *s, enum statement which, struct sqlite3_stmt **ret,
                     struct tidings_error *err)
{
    if (!s->statements[which]) {
        int rc = sqlite_prepare(s->db, statements[which], &s->statements[which], err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret = s->statements[which];
    return 0;
}

int sqlite_statement_run(struct sqlite_store *s, enum statement which, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    return rc < 0 ? rc : sqlite_run(s->db, st, err);
}

int sqlite_store_lay_out(struct sqlite_store *s, struct tidings_error *err)
{
    int rc = sqlite_lay_out(s->db, &sqlite_store_layout, err);
    rc = rc == 0 ? sqlite_exec(s->db, in_memory, err) : rc;
    /* Temporary tables expire prepared statements; the one of sqlite_roll_back is prepared again by
     * running it. */
    rc = rc == 0 ? sqlite_exec(s->db, "BEGIN", err) : rc;
    if (rc == 0) {
        sqlite_roll_back(s->db);
    }
    return rc;
}
