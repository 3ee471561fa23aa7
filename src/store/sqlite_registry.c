/* SPDX-License-Identifier: MIT
 *
 * Types of entities in SQLite: a small table, written as it is.
 */
#include "base/str.h"
#include "store/sqlite_private.h"

int sqlite_entities_put_type(struct entity_rows *rows, const struct entity_type_row *row,
                             struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, PUT_TYPE, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, row->name);
    sqlite_bind_str(st, 2, row->version);
    sqlite_bind_str(st, 3, row->schema);
    sqlite_bind_str(st, 4, row->description);
    sqlite_bind_str(st, 5, row->options);
    sqlite_bind_int(st, 6, s->last_seq + 1);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    if (rc == TIDINGS_E_EXISTS) {
        return tidings_fail(err, rc, "entity type '%.*s@%.*s' already exists", STR_ARG(row->name),
                            STR_ARG(row->version));
    }
    return rc;
}

int sqlite_entities_types(struct entity_rows *rows, entity_type_fn fn, void *user,
                          struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, TYPES, &st, err);
    if (rc < 0) {
        return rc;
    }
    while ((rc = sqlite_step(s->db, st, err)) == 1) {
        const struct entity_type_row row = {
            .name = sqlite_str(st, 0),
            .version = sqlite_str(st, 1),
            .schema = sqlite_str(st, 2),
            .description = sqlite_str(st, 3),
            .options = sqlite_str(st, 4),
        };
        if (!fn(user, &row)) {
            rc = 0;
            break;
        }
    }
    sqlite_reset(st);
    return rc;
}
