/* SPDX-License-Identifier: MIT
 *
 * The change log beside a file: an implementation of store/changelog.h whose cursors outlive the
 * program for what the file keeps.
 *
 * Announcing never waits for the disk. What is durable was written before it is announced, by
 * whoever keeps it, and the file says in which order: after a start the log is made again from it
 * (sqlite_changes_each gives the changes, the caller appends them). What is written here is one row
 * per start: the epoch that begins, and how far the one before it came. So a cursor is accepted
 * when its epoch is one that this very file went through and its position one that the file had
 * reached in it; in a copy that was put back, what happened after the copy was made is not known,
 * and cursors from then are refused.
 */
#ifndef STORE_SQLITE_CHANGELOG_H
#define STORE_SQLITE_CHANGELOG_H

#include "store/changelog.h"
#include "store/entity_rows.h"

#define SQLITE_MAX_EPOCHS 1000u /* starts that are remembered */

/* `rows` of entity_sqlite_open, outside of batches; they are not needed any more afterwards. */
int changelog_sqlite_create(struct entity_rows *rows, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);

enum kept_kind {
    KEPT_ENTITY,    /* `version`; `was`: the version its type had before, when that was another */
    KEPT_MOVED,     /* the same, of an entity that left the URI it had as `was`. Parent and writer
                     * are missing when that version is forgotten, the version of its type (empty)
                     * in files of before */
    KEPT_TYPES,     /* the registry of types changed */
    KEPT_PUBLISHED, /* `uri` … `modified_ms` */
    KEPT_FILE,      /* the same, and `came_from`, `target`; or it says that changes of files may
                     * have been missed: as struct change says it, by its URI */
};

/* One change that the file knows. */
struct kept_change {
    enum kept_kind kind;
    uint64_t position;
    struct entity_version version; /* without value and previous */
    struct tidings_str was;
    struct tidings_str uri, etag, came_from, target;
    struct tidings_str metadata; /* of what is published, as its writer gave it; or empty */
    int64_t size, modified_ms;
    int64_t at_ms; /* when it was written, Unix time; 0: not known */
    bool created, removed;
};

/* What changed at the newest `max` positions, oldest first. *ret_floor: what happened up to this
 * one is not among them. Return false to stop. */
typedef bool (*kept_change_fn)(void *user, const struct kept_change *change);
int sqlite_changes_each(struct entity_rows *rows, size_t max, uint64_t *ret_floor,
                        kept_change_fn fn, void *user, struct tidings_error *err);

#endif
