/* SPDX-License-Identifier: MIT
 *
 * Published resources in SQLite: one row per URI, which gets a new number whenever it changes: so
 * the table is in the order of the changes, and reading what changed since is a scan from there.
 */
#include "store/sqlite_published.h"

#include "base/str.h"
#include "store/sqlite_private.h"

#define FORGET_EVERY 256u /* removals between two looks at how many are remembered */

int sqlite_published_write(struct sqlite_entities *s, const struct published_row *row,
                           const struct tidings_str *content, struct tidings_error *err)
{
    const struct tidings_resource *about = &row->about;
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_statement(s, PUBLISH, &st, err);
    if (rc < 0) {
        return rc;
    }
    const struct tidings_str texts[] = {about->name,      about->title, about->description,
                                        about->mime_type, about->icons, about->audience};
    sqlite_bind_int(st, 1, s->last_seq + 1);
    sqlite_bind_str(st, 2, about->uri);
    sqlite_bind_int(st, 3, row->created);
    sqlite_bind_str(st, 4, about->etag);
    sqlite_bind_int(st, 5, about->size);
    sqlite_bind_int(st, 6, about->modified_ms);
    for (int i = 0; i < 6; i++) {
        sqlite_bind_str(st, 7 + i, texts[i]);
    }
    sqlite_bind_int(st, 13, kept_priority(about));
    sqlite_bind_int(st, 14, !about->not_subscribable);
    sqlite_bind_int(st, 15, s->now_ms);
    sqlite_bind_bytes(st, 16, content);
    sqlite_bind_str(st, 17, row->metadata);
    sqlite_bind_str(st, 18, about->meta);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

int sqlite_published_put(struct entity_rows *rows, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    int rc = sqlite_published_write(s, row, &row->content, err);
    *ret_position = (uint64_t)s->last_seq;
    return rc;
}

/* Of the removed only the newest are remembered; who comes back from before that must look again.
 */
static int forget_removed(struct sqlite_entities *s, struct tidings_error *err)
{
    static const enum statement both[] = {FORGET_REMOVED, RAISE_FLOOR};
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, OLD_REMOVED, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, KEPT_MAX_REMOVED);
    rc = sqlite_step(s->db, st, err);
    int64_t oldest = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_reset(st);
    for (size_t i = 0; rc == 1 && i < 2; i++) {
        int made = sqlite_statement(s, both[i], &st, err);
        if (made == 0) {
            sqlite_bind_int(st, 1, oldest);
            made = sqlite_run(s->db, st, err);
        }
        rc = made < 0 ? made : 1;
    }
    return rc < 0 ? rc : 0;
}

int sqlite_published_remove(struct entity_rows *rows, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    const struct tidings_resource *about = &gone->about;
    const struct published_row row = {
        .about = {.uri = about->uri, .not_subscribable = about->not_subscribable},
        .metadata = gone->metadata,
    };
    int rc = sqlite_published_write(s, &row, NULL, err);
    *ret_position = (uint64_t)s->last_seq;
    if (rc == 0 && ++s->n_removed % FORGET_EVERY == 0) {
        rc = forget_removed(s, err);
    }
    return rc;
}

int sqlite_published_each(struct entity_rows *rows, published_row_fn fn, void *user,
                          struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite *db = s->db;
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc =
        sqlite_prepare(db,
                       "SELECT uri, etag, size, modified, name, title, description, mime,"
                       " icons, audience, priority, subscribable, content, meta FROM main.published"
                       " WHERE content IS NOT NULL",
                       &st, err);
    while (rc == 0 && (rc = sqlite_step(db, st, err)) == 1) {
        struct published_row row = {
            .about =
                {
                    .uri = sqlite_str(st, 0),
                    .etag = sqlite_str(st, 1),
                    .size = sqlite_int(st, 2),
                    .has_size = true,
                    .modified_ms = sqlite_int(st, 3),
                    .name = sqlite_str(st, 4),
                    .title = sqlite_str(st, 5),
                    .description = sqlite_str(st, 6),
                    .mime_type = sqlite_str(st, 7),
                    .icons = sqlite_str(st, 8),
                    .audience = sqlite_str(st, 9),
                    .not_subscribable = sqlite_int(st, 11) == 0,
                    .meta = sqlite_str(st, 13),
                },
            .content = sqlite_bytes(st, 12),
        };
        kept_set_priority(&row.about, sqlite_int(st, 10));
        rc = fn(user, &row, err);
        rc = rc < 0 ? rc : 0;
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}
