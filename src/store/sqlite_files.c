/* SPDX-License-Identifier: MIT
 *
 * What file mounts know, in SQLite. A directory is one row, which is written anew when one of its
 * names changed. A change is one row per URI, with a new position whenever it changes, like those
 * of published resources.
 *
 * Invariant: within an epoch positions of changes rise with their numbers.
 */
#include "store/sqlite_files.h"

#include "store/change.h"
#include "store/sqlite_private.h"

/* ---- statements ------------------------------------------------------------------------------ */

/* Run a statement with these parameters: numbers first, then texts, then bytes. */
struct files_parameters {
    int64_t numbers[4];
    struct tidings_str texts[1], bytes[2];
    int number_count, text_count, byte_count;
};

static void files_bind(struct sqlite3_stmt *st, const struct files_parameters *p)
{
    int at = 1;
    for (int i = 0; i < p->number_count; i++) {
        sqlite_bind_int(st, at++, p->numbers[i]);
    }
    for (int i = 0; i < p->text_count; i++) {
        sqlite_bind_str(st, at++, p->texts[i]);
    }
    for (int i = 0; i < p->byte_count; i++) {
        sqlite_bind_bytes(st, at++, &p->bytes[i]);
    }
}

static int files_run(struct sqlite_entities *s, enum statement which,
                     const struct files_parameters *p, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    if (rc < 0) {
        return rc;
    }
    files_bind(st, p);
    return sqlite_run(s->db, st, err);
}

static int files_run_on_mount(struct sqlite_entities *s, enum statement which, int64_t mount,
                              struct tidings_error *err)
{
    const struct files_parameters p = {.numbers = {mount}, .number_count = 1};
    return files_run(s, which, &p, err);
}

/* 0: there is none. */
static int find_mount(struct sqlite_entities *s, struct tidings_str prefix, int64_t *ret,
                      struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, FILE_MOUNT, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, prefix);
    rc = sqlite_step(s->db, st, err);
    *ret = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_reset(st);
    return rc < 0 ? rc : 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static int forget_mount(struct sqlite_entities *s, int64_t mount, struct tidings_error *err)
{
    static const enum statement each[] = {DROP_FILE_DIRECTORIES, DROP_FILE_SCOPES, DROP_FILE_TOLD,
                                          DROP_FILE_ROOT};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof each / sizeof *each; i++) {
        rc = files_run_on_mount(s, each[i], mount, err);
    }
    return rc;
}

static bool sqlite_files_is_mounted(struct tidings_str prefix, struct tidings_str settings,
                                    const struct file_mount_row *mounts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq(mounts[i].prefix, prefix) && str_eq(mounts[i].settings, settings)) {
            return true;
        }
    }
    return false;
}

/* One that does not count any more; 0: there is none. */
static int find_stale(struct sqlite_entities *s, const struct file_mount_row *mounts, size_t count,
                      int64_t *ret, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc =
        sqlite_prepare(s->db, "SELECT mount, prefix, settings FROM main.file_mounts", &st, err);
    *ret = 0;
    while (rc == 0 && *ret == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        rc = 0;
        if (!sqlite_files_is_mounted(sqlite_str(st, 1), sqlite_str(st, 2), mounts, count)) {
            *ret = sqlite_int(st, 0);
        }
    }
    sqlite_finalize(st);
    return rc;
}

int sqlite_files_set_mounts(struct entity_rows *rows, const struct file_mount_row *mounts,
                            size_t count, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    int64_t stale = 0;
    sqlite_entities_release(s);
    int rc = find_stale(s, mounts, count, &stale, err);
    while (rc == 0 && stale != 0) {
        rc = forget_mount(s, stale, err);
        rc = rc == 0 ? files_run_on_mount(s, DROP_FILE_MOUNT, stale, err) : rc;
        rc = rc == 0 ? find_stale(s, mounts, count, &stale, err) : rc;
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct sqlite3_stmt *st = NULL;
        rc = sqlite_statement(s, ADD_FILE_MOUNT, &st, err);
        if (rc == 0) {
            sqlite_bind_str(st, 1, mounts[i].prefix);
            sqlite_bind_str(st, 2, mounts[i].settings);
            rc = sqlite_run(s->db, st, err);
        }
    }
    return rc == 0 ? sqlite_statement_run(s, DROP_OLD_FILE_TOLD, err) : rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

static int put_change(struct sqlite_entities *s, const struct file_part_change *row,
                      struct tidings_error *err)
{
    const struct change *c = row->change;
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, PUT_FILE_CHANGE, &st, err);
    if (rc < 0) {
        return rc;
    }
    const int64_t numbers[] = {s->last_seq + 1,    (int64_t)c->epoch, (int64_t)c->seq,
                               (int64_t)row->kind, c->size,           c->modified_ms,
                               s->now_ms};
    const struct tidings_str texts[] = {c->uri, c->etag, c->from, c->target};
    int at = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sqlite_bind_int(st, at++, numbers[i]);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sqlite_bind_str(st, at++, texts[i]);
    }
    sqlite_bind_int(st, at, !c->is_mute);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

/* Of the oldest nothing is told any more, now or when the log may be longer. */
static int forget_old_changes(struct sqlite_entities *s, size_t max, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int64_t floor = s->last_seq - (int64_t)max;
    int rc = floor > 0 ? sqlite_statement(s, OLD_FILE_CHANGE, &st, err) : 0;
    if (rc < 0 || floor <= 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, floor);
    rc = sqlite_step(s->db, st, err);
    sqlite_reset(st);
    if (rc == 1) {
        rc = files_run_on_mount(s, DROP_FILE_CHANGES, floor, err);
        rc = rc == 0 ? files_run_on_mount(s, RAISE_FLOOR, floor, err) : rc;
    }
    return rc;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int write_directories(struct sqlite_entities *s, int64_t mount, const struct file_part *part,
                             struct tidings_error *err)
{
    int rc = 0;
    struct tidings_str path, record, rest = buf_str(&part->gone);
    while (rc == 0 && rest.len > 0) {
        path = str_cut(rest, '\0', &rest, NULL);
        const struct files_parameters p = {
            .numbers = {mount}, .number_count = 1, .bytes = {path}, .byte_count = 1};
        rc = files_run(s, DROP_FILE_DIRECTORY, &p, err);
    }
    for (size_t at = 0; rc == 0 && file_part_next(part, &at, &path, &record);) {
        const struct files_parameters p = {
            .numbers = {mount}, .number_count = 1, .bytes = {path, record}, .byte_count = 2};
        rc = files_run(s, PUT_FILE_DIRECTORY, &p, err);
    }
    const struct files_parameters root = {
        .numbers = {mount, (int64_t)part->root_print, (int64_t)part->device}, .number_count = 3};
    return rc == 0 ? files_run(s, PUT_FILE_ROOT, &root, err) : rc;
}

/* With a whole one it is certain how far this epoch came, and what is known. */
static int write_marks(struct sqlite_entities *s, int64_t mount, const struct file_part *part,
                       int64_t position, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < part->scope_count; i++) {
        const struct files_parameters p = {
            .numbers = {mount, (int64_t)part->epoch, (int64_t)part->scopes[i].number, position},
            .number_count = 4,
            .texts = {part->scopes[i].uri},
            .text_count = 1,
        };
        rc = files_run(s, PUT_FILE_SCOPE, &p, err);
    }
    const struct files_parameters told = {
        .numbers = {mount, (int64_t)part->epoch, (int64_t)part->number}, .number_count = 3};
    return rc == 0 ? files_run(s, PUT_FILE_TOLD, &told, err) : rc;
}

int sqlite_files_write(struct entity_rows *rows, const struct file_part *part,
                       struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    int64_t mount = 0, position = s->last_seq;
    sqlite_entities_release(s);
    int rc = find_mount(s, part->prefix, &mount, err);
    if (rc < 0 || mount == 0) {
        return rc;
    }
    rc = part->is_reset ? forget_mount(s, mount, err) : 0;
    for (size_t i = 0; rc == 0 && i < part->change_count; i++) {
        rc = put_change(s, &part->changes[i], err);
    }
    rc = rc == 0 ? write_directories(s, mount, part, err) : rc;
    rc = rc == 0 && part->is_whole ? write_marks(s, mount, part, position, err) : rc;
    return rc == 0 && part->change_count > 0 ? forget_old_changes(s, part->change_max, err) : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

int sqlite_files_root(struct entity_rows *rows, struct tidings_str prefix, struct saved_root *ret,
                      struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    *ret = (struct saved_root){0};
    sqlite_entities_release(s);
    int rc = sqlite_statement(s, FILE_MOUNT, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, prefix);
    rc = sqlite_step(s->db, st, err);
    if (rc == 1) {
        *ret = (struct saved_root){.print = (uint64_t)sqlite_int(st, 1),
                                   .device = (uint64_t)sqlite_int(st, 2),
                                   .is_known = sqlite_int(st, 3) != 0};
    }
    sqlite_reset(st);
    return rc < 0 ? rc : 0;
}

int sqlite_files_each(struct entity_rows *rows, struct tidings_str prefix, saved_directory_fn fn,
                      void *user, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_prepare(s->db,
                            "SELECT d.path, d.names FROM main.file_mounts m JOIN"
                            " main.file_directories d ON d.mount=m.mount WHERE m.prefix=?1 ORDER BY"
                            " d.mount, d.path",
                            &st, err);
    if (rc == 0) {
        sqlite_bind_str(st, 1, prefix);
    }
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        rc = fn(user, sqlite_bytes(st, 0), sqlite_bytes(st, 1));
    }
    sqlite_finalize(st);
    return rc;
}
