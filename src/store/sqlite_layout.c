/* SPDX-License-Identifier: MIT
 *
 * Whose a SQLite database is and which layout it has, and bringing an older one up to date.
 *
 * Ours are marked with an application id, and with the number of their layout as user version. Both
 * are lost when a database is dumped as SQL and restored, and older ones have no application id.
 * Those are known by their shape: the names of their tables, columns and indexes are compared with
 * what the steps make of an empty database in memory. Anything else is another program's.
 */
#include "store/sqlite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"

/* The first number that a statement yields. */
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

/* Everything that somebody made, but the mark of a copy (store/sqlite_transfer.c). */
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

/* ---- whose it is ----------------------------------------------------------------------------- */

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

/* The first of its tables, in letters that a terminal shows. */
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

/* Which layout it has; 0: it is empty. */
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

/* ---- bringing it up to date ------------------------------------------------------------------ */

int sqlite_migrate(struct sqlite *db, const struct sqlite_layout *layout, struct tidings_error *err)
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
