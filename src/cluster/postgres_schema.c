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

#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The SQL of the store in PostgreSQL: every statement that is prepared. What engines of the same
 * protocol share, where possible.
 */

/* Of the database's clock, which all nodes have in common. */
#define NOW_MS "(extract(epoch FROM now())*1000)::int8"

/* The same, when it is asked and not when the transaction began. */
#define CLOCK_MS "(extract(epoch FROM clock_timestamp())*1000)::int8"

/* How old the oldest change after that position is; 0: there is none. Changes of which is not known
 * when they were made do not count. */
#define FIRST_AT(table, position)                                                                  \
    "(SELECT at FROM " table " c WHERE c.position>" position " ORDER BY c.position LIMIT 1)"
#define FIRST_OF_ALL(position)                                                                     \
    FIRST_AT("tidings_versions", position)                                                         \
    " UNION ALL " FIRST_AT("tidings_published", position) " UNION ALL " FIRST_AT(                  \
        "tidings_announced", position) " UNION ALL " FIRST_AT("tidings_types", position)
#define BEHIND(position)                                                                           \
    "coalesce((SELECT greatest(" CLOCK_MS                                                          \
    "-min(at), 1) FROM (" FIRST_OF_ALL(position) ") o"                                             \
                                                 " WHERE at>0 HAVING count(*)>0), 0)"

#define COLUMNS                                                                                    \
    "v.id, v.vfrom, v.type, v.tversion, v.parent, v.deleted, v.changed_by, v.previous, v.value,"   \
    " v.created, v.since, v.principal, v.sum"
#define ENDS                                                                                       \
    ", coalesce((SELECT min(n.vfrom) FROM tidings_versions n WHERE n.id=v.id AND"                  \
    " n.vfrom>v.vfrom), 253370764800000)" /* TIMELINE_FOREVER */
#define LISTED(of)                                                                                 \
    "SELECT " COLUMNS " FROM tidings_current c JOIN tidings_versions v ON v.position=c.position"   \
    " WHERE c.id>$1::text AND ($2::int8=1 OR c.deleted=0)" of " ORDER BY c.id LIMIT 64"

/* A version, and which is the current one. $3: its position. */
#define VERSION_COLUMNS                                                                            \
    "id, vfrom, position, type, tversion, parent, deleted, created, at, since, sum, changed_by,"   \
    " principal, previous, value"
#define CURRENT_COLUMNS "id, type, tversion, parent, deleted, position"
#define IS_CURRENT                                                                                 \
    " ON CONFLICT (id) DO UPDATE SET type=excluded.type, tversion=excluded.tversion,"              \
    " parent=excluded.parent, deleted=excluded.deleted, position=excluded.position"
#define ADD_VERSION                                                                                \
    "v AS (INSERT INTO tidings_versions(" VERSION_COLUMNS ") VALUES(" VERSION                      \
    ")) INSERT INTO tidings_current(" CURRENT_COLUMNS ") VALUES(" CURRENT ")" IS_CURRENT
/* The same of many versions, each of another entity. */
#define ADD_VERSIONS                                                                               \
    "v AS (INSERT INTO tidings_versions(" VERSION_COLUMNS ") SELECT * FROM " VERSIONS              \
    " RETURNING " CURRENT_COLUMNS ") INSERT INTO tidings_current(" CURRENT_COLUMNS                 \
    ") SELECT " CURRENT_COLUMNS " FROM v" IS_CURRENT

/* A batch without the lock: the position is taken if it still is where the batch began, and
 * everything else depends on that. One row, as PG_LOCK gives it; none: it is elsewhere. The mark is
 * seen by PG_NOTIFY_IF and PG_NOTIFY_ROWS if this was committed. */
#define COUNTERS "position, floor, announced, keys, max_keys"
#define TAKE_POSITION(to, from)                                                                    \
    "WITH s AS (UPDATE tidings_state SET position=" to "::int8 WHERE one=1 AND position=" from     \
    "::int8 RETURNING " COUNTERS "), "
#define TOOK_POSITION(mark, also)                                                                  \
    " SELECT " COUNTERS ", " CLOCK_MS ", set_config('tidings.batch', " mark "::text, false)" also  \
    " FROM s"
#define LAZILY ", set_config('synchronous_commit', 'off', true)"
#define VERSION                                                                                    \
    "$1::text, $2::int8, $3::int8, $4::text, $5::text, $6::text, $7::int8, $8::int8, $9::int8,"    \
    " $10::int8, $11::int8, $12::text, $13::text, $14::text, $15::text"
#define VERSIONS                                                                                   \
    "unnest($1::text[], $2::int8[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::int8[],"   \
    " $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::text[], $14::text[],"    \
    " $15::text[])"
#define CURRENT "$1::text, $4::text, $5::text, $6::text, $7::int8, $3::int8"
#define ANNOUNCED_COLUMNS                                                                          \
    "position, kind, change, at, modified, size, uri, etag, came_from, target, metadata, "         \
    "checksum,"                                                                                    \
    " origin, subscribable"
#define ANNOUNCEMENT                                                                               \
    "$1::int8, $2::int8, $3::int8, $4::int8, $5::int8, $6::int8, $7::bytea, $8::bytea, $9::bytea," \
    " $10::bytea, $11::bytea, $12::bytea, $13::bytea, $14::int8"
#define ANNOUNCEMENTS                                                                              \
    "unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bytea[],"  \
    " $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], "          \
    "$14::int8[])"

#define INTO_VERSIONS "v AS (INSERT INTO tidings_versions(" VERSION_COLUMNS ") SELECT "
#define INTO_CURRENT "c AS (INSERT INTO tidings_current(" CURRENT_COLUMNS ") SELECT "
#define INTO_ANNOUNCED "a AS (INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") SELECT "

/* The changes of one table after $1, as columns that all have: kind, position, from or modified or
 * epoch, size or last, at, removed, created; id, type, version, parent, changed by, old type
 * version, principal; URI, etag, came from, target, metadata, checksum, origin; kind of change,
 * subscribable; since, sum (0: the next two have more than $2 bytes), previous, value. */
#define TAKEN                                                                                      \
    "(SELECT position FROM tidings_state WHERE one=1)" /* nobody has taken a later one             \
                                                        */
#define AFTER_IF(columns, from, position, also)                                                    \
    "(SELECT " columns " FROM " from " WHERE " position ">$1::int8 AND " position "<=" TAKEN also  \
    " ORDER BY " position " LIMIT 1000)"
#define AFTER(columns, from, position) AFTER_IF(columns, from, position, "")
/* Nodes write nothing so long; who does would have them read it. */
#define IS_SHORT                                                                                   \
    " AND octet_length(v.type)+octet_length(v.tversion)+octet_length(v.parent)"                    \
    "+octet_length(v.changed_by)+octet_length(v.principal)<=1048576"
#define NO_ENTITY "'', '', '', '', '', '', ''"
#define NO_RESOURCE "''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea"
#define NO_CHANGE ", 0::int8, 1::int8"
#define NO_VALUE ", 0::int8, 0::int8, '', ''"
#define FITS "octet_length(v.value)+octet_length(v.previous)<=$2::int8"
#define ENTITIES_AS(was, from)                                                                     \
    AFTER_IF("0::int8, v.position, v.vfrom, 0::int8, v.at, v.deleted, v.created, v.id, v.type,"    \
             " v.tversion, v.parent, v.changed_by, " was ", v.principal, " NO_RESOURCE NO_CHANGE   \
             ", v.since, CASE WHEN " FITS " THEN v.sum ELSE 0 END, CASE WHEN " FITS                \
             " THEN v.previous ELSE '' END, CASE WHEN " FITS " THEN v.value ELSE '' END",          \
             from, "v.position", IS_SHORT)
#define CHANGED_ENTITIES                                                                           \
    ENTITIES_AS("coalesce(m.tversion, '')",                                                        \
                "tidings_versions v LEFT JOIN tidings_moved m ON m.position=v.position-1 AND"      \
                " m.id=v.id")
/* Without what moved, which has a position of its own. */
#define RECENT_ENTITIES ENTITIES_AS("''", "tidings_versions v")
#define CHANGED_MOVED                                                                              \
    AFTER("1::int8, m.position, m.vfrom, 0::int8, coalesce(v.at, 0), 0::int8, 0::int8, m.id,"      \
          " m.type, m.became, coalesce(v.parent, ''), coalesce(v.changed_by, '[]'), m.tversion,"   \
          " coalesce(v.principal, ''), " NO_RESOURCE NO_CHANGE NO_VALUE,                           \
          "tidings_moved m LEFT JOIN tidings_versions v ON v.position=m.position+1 AND v.id=m.id", \
          "m.position")
#define CHANGED_TYPES                                                                              \
    AFTER("2::int8, position, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, " NO_ENTITY             \
          ", " NO_RESOURCE NO_CHANGE NO_VALUE,                                                     \
          "tidings_types", "position")
#define SHORT_URI "substr(uri, 1, 8192), substr(etag, 1, 1024)"
#define SHORT_METADATA "substr(metadata, 1, 1048576)"
#define CHANGED_PUBLISHED                                                                          \
    AFTER("3::int8, position, modified, size, at, CASE WHEN content IS NULL THEN 1::int8 ELSE"     \
          " 0::int8 END, created, " NO_ENTITY ", " SHORT_URI ", ''::bytea, ''::bytea,"             \
          " " SHORT_METADATA ", ''::bytea, ''::bytea, 0::int8, subscribable" NO_VALUE,             \
          "tidings_published", "position")
#define CHANGED_ANNOUNCED                                                                          \
    AFTER("CASE WHEN kind IN (6, 9) THEN kind ELSE 5::int8 END, position, modified, size, at,"     \
          " 0::int8, 0::int8, " NO_ENTITY ", " SHORT_URI ", substr(came_from, 1, 8192),"           \
          " substr(target, 1, 8192), " SHORT_METADATA ", substr(checksum, 1, 1024),"               \
          " substr(origin, 1, 1024), change, subscribable" NO_VALUE,                               \
          "tidings_announced", "position")
#define CHANGED_RUNS                                                                               \
    AFTER("7::int8, position, epoch, coalesce(last, -1), 0::int8, 0::int8, 0::int8, " NO_ENTITY    \
          ", " NO_RESOURCE NO_CHANGE NO_VALUE,                                                     \
          "tidings_runs", "position")
#define CHANGED_BREAKS                                                                             \
    AFTER("8::int8, position, kept, lossy, 0::int8, 0::int8, 0::int8, " NO_ENTITY                  \
          ", " NO_RESOURCE NO_CHANGE NO_VALUE,                                                     \
          "tidings_breaks", "position")

#define NEWEST(table) "(SELECT position FROM " table " ORDER BY position DESC LIMIT $1::int8+1)"
#define NEWEST_ENTITIES NEWEST("tidings_versions")
#define NEWEST_MOVED NEWEST("tidings_moved")
#define NEWEST_TYPES NEWEST("tidings_types")
#define NEWEST_PUBLISHED NEWEST("tidings_published")
#define NEWEST_ANNOUNCED NEWEST("tidings_announced")

/* Nodes write nothing so long (store/store.h); who does would have them read it. A run lives until
 * it ended, or its node did not say for too long that it does. */
#define TASK_COLUMNS                                                                               \
    "t.id, t.client, t.status, t.message, t.payload, t.questions, t.answers, t.created, "          \
    "t.updated,"                                                                                   \
    " t.ttl, CASE WHEN " TASK_LIVES " THEN 0::int8 ELSE 1::int8 END"
#define TASK_RUNS "t.status IN ('working', 'input_required')"
#define TASK_LIVES                                                                                 \
    "EXISTS(SELECT 1 FROM tidings_runs r WHERE r.epoch=t.run AND r.last IS NULL AND "              \
    "r.until>" NOW_MS ")"
#define TASK_IS_SHORT                                                                              \
    "octet_length(t.id)<=128 AND octet_length(t.client)<=4096 AND octet_length(t.status)<=32 AND"  \
    " octet_length(t.message)<=4096 AND octet_length(t.payload)<=67108864 AND"                     \
    " octet_length(t.questions)<=41943040 AND octet_length(t.answers)<=41943040"

const char *const postgres_statements[PG_STATEMENTS] = {
    [PG_BEGIN] = "BEGIN",
    [PG_LOCK] = "SELECT " COUNTERS ", " CLOCK_MS " FROM tidings_state WHERE one=1 FOR UPDATE",
    [PG_COMMIT] = "COMMIT",
    [PG_ROLLBACK] = "ROLLBACK",
    [PG_LAZY] = "SET LOCAL synchronous_commit TO off",
    [PG_SET_STATE] = "UPDATE tidings_state SET position=$1::int8, floor=$2::int8,"
                     " announced=$3::int8, keys=$4::int8, max_keys=$5::int8 WHERE one=1",
    /* With a mark of this batch that is rolled back with it, and is asked for below. */
    [PG_SET_STATE_MARKED] =
        "UPDATE tidings_state SET position=$1::int8, floor=$2::int8, announced=$3::int8,"
        " keys=$4::int8, max_keys=$5::int8 WHERE one=1"
        " RETURNING set_config('tidings.batch', $6::text, false)",
    [PG_NOTIFY] = "SELECT pg_notify($1::text, $2::text)",
    [PG_NOTIFY_IF] = "SELECT pg_notify($1::text, $2::text) WHERE"
                     " current_setting('tidings.batch', true)=$3::text",
    [PG_COMMIT_PUT] = TAKE_POSITION("$16", "$17") INTO_VERSIONS VERSION
    " FROM s), " INTO_CURRENT CURRENT " FROM s" IS_CURRENT ")" TOOK_POSITION("$18", ""),
    [PG_COMMIT_PUT_MANY] = TAKE_POSITION("$16", "$17") INTO_VERSIONS
    "u.* FROM s, " VERSIONS " u RETURNING " CURRENT_COLUMNS "), " INTO_CURRENT CURRENT_COLUMNS
    " FROM v" IS_CURRENT ")" TOOK_POSITION("$18", ""),
    [PG_COMMIT_ANNOUNCE] = TAKE_POSITION("$15", "$16") INTO_ANNOUNCED ANNOUNCEMENT
    " FROM s)" TOOK_POSITION("$17", LAZILY),
    [PG_COMMIT_ANNOUNCE_MANY] = TAKE_POSITION("$15", "$16") INTO_ANNOUNCED
    "u.* FROM s, " ANNOUNCEMENTS " u)" TOOK_POSITION("$17", LAZILY),
    [PG_COMMIT_NOTHING] =
        "SELECT " COUNTERS ", " CLOCK_MS " FROM tidings_state WHERE one=1 AND position=$1::int8",
    /* The rows first: who reads both at different times need not ask for the position then. */
    [PG_NOTIFY_ROWS] = "SELECT pg_notify($1::text, $2::text), pg_notify($3::text, $4::text) WHERE"
                       " current_setting('tidings.batch', true)=$5::text",
    [PG_PLACE] = "SELECT secret, (extract(epoch FROM pg_postmaster_start_time())*1000000)::int8,"
                 " (SELECT oid::int8 FROM pg_database WHERE datname=current_database()),"
                 " 'tidings_state'::regclass::oid::int8 FROM tidings_cluster WHERE one=1",
    [PG_CLUSTER] = "SELECT name, id, layout, oldest, copying FROM tidings_cluster WHERE one=1",
    [PG_STATE] = "SELECT " COUNTERS ", " CLOCK_MS ", server,"
                 " (SELECT count(*) FROM tidings_mark) FROM tidings_state WHERE one=1",
    [PG_SERVER] = "SELECT system_identifier::text || substr(pg_walfile_name(pg_current_wal_lsn()),"
                  " 1, 8) FROM pg_control_system()",
    [PG_ADD_MOVED] = "INSERT INTO tidings_moved(position, id, type, tversion, became, vfrom)"
                     " VALUES($1::int8, $2::text, $3::text, $4::text, $5::text, $6::int8)",
    [PG_PUT] = "WITH " ADD_VERSION,
    [PG_PUT_MANY] = "WITH " ADD_VERSIONS,
    [PG_PUT_REPLACING] =
        "WITH gone AS (DELETE FROM tidings_versions WHERE id=$1::text AND vfrom="
        "(SELECT max(vfrom) FROM tidings_versions WHERE id=$1::text)), " ADD_VERSION,
    [PG_FORGET] = "DELETE FROM tidings_versions WHERE id=$1::text AND vfrom<(SELECT max(vfrom)"
                  " FROM tidings_versions WHERE id=$1::text AND vfrom<=$2::int8)",
    [PG_FIND] = "SELECT " COLUMNS " FROM tidings_versions v WHERE v.id=$1::text"
                " ORDER BY v.vfrom DESC LIMIT 1",
    [PG_FIND_AT] = "SELECT " COLUMNS ENDS " FROM tidings_versions v WHERE v.id=$1::text AND"
                   " v.vfrom<=$2::int8 ORDER BY v.vfrom DESC LIMIT 1",
    [PG_NTH] = "SELECT vfrom FROM tidings_versions WHERE id=$1::text ORDER BY vfrom DESC LIMIT 1"
               " OFFSET $2::int8",
    [PG_HISTORY] = "SELECT " COLUMNS ENDS " FROM tidings_versions v WHERE v.id=$1::text AND"
                   " v.vfrom>=$2::int8 ORDER BY v.vfrom LIMIT 64",
    [PG_IDS] = "SELECT id FROM tidings_current WHERE id>$1::text ORDER BY id LIMIT 5000",
    [PG_LIST_ALL] = LISTED(""),
    [PG_LIST_TYPE] = LISTED(" AND c.type=$3::text"),
    [PG_LIST_VERSION] = LISTED(" AND c.type=$3::text AND c.tversion=$4::text"),
    [PG_LIST_PARENT] = LISTED(" AND c.parent=$3::text"),
    [PG_LIST_TYPE_PARENT] = LISTED(" AND c.type=$3::text AND c.parent=$4::text"),
    [PG_LIST_VERSION_PARENT] =
        LISTED(" AND c.type=$3::text AND c.tversion=$4::text AND c.parent=$5::text"),
    [PG_PUT_TYPE] = "INSERT INTO tidings_types(position, name, version, schema, description,"
                    " options, at) VALUES($1::int8, $2::text, $3::text, $4::text, $5::bytea,"
                    " $6::text, $7::int8)"
                    " ON CONFLICT (name, version) DO NOTHING RETURNING position",
    [PG_TYPES] = "SELECT name, version, schema, description, options FROM tidings_types"
                 " ORDER BY name, position",
    [PG_PUT_KEY] = "INSERT INTO tidings_keys(owner, key, number, at, digest, result)"
                   " VALUES($1::bytea, $2::bytea, $3::int8, $4::int8, $5::bytea, $6::bytea)"
                   " ON CONFLICT (owner, key) DO UPDATE SET number=excluded.number, at=excluded.at,"
                   " digest=excluded.digest, result=excluded.result",
    [PG_FIND_KEY] = "SELECT at, digest, result FROM tidings_keys WHERE owner=$1::bytea AND"
                    " key=$2::bytea",
    /* A few at a time, so that no write pays for many. */
    [PG_DROP_AGED_KEYS] = "DELETE FROM tidings_keys WHERE at<=$1::int8 AND (owner, key) IN (SELECT"
                          " owner, key FROM tidings_keys ORDER BY number LIMIT 256)",
    /* All of an owner's but the newest. */
    [PG_DROP_OLDER_KEYS] = "DELETE FROM tidings_keys WHERE owner=$1::bytea AND number<=(SELECT"
                           " number FROM tidings_keys WHERE owner=$1::bytea ORDER BY number DESC"
                           " LIMIT 1 OFFSET $2::int8)",
    [PG_KEY_COUNT] = "SELECT count(*) FROM tidings_keys",
    [PG_MOST_KEYS] = "SELECT owner, count(*) FROM tidings_keys GROUP BY owner"
                     " ORDER BY count(*) DESC, min(number) LIMIT 1",
    [PG_PUBLISH] =
        "INSERT INTO tidings_published(digest, uri, position, created, etag, size, modified, name,"
        " title, description, mime, icons, audience, meta, metadata, priority, subscribable, at,"
        " content) VALUES($1::bytea, $2::bytea, $3::int8, $4::int8, $5::bytea, $6::int8, $7::int8,"
        " $8::bytea, $9::bytea, $10::bytea, $11::bytea, $12::bytea, $13::bytea, $14::bytea,"
        " $15::bytea, $16::int8, $17::int8, $18::int8, $19::bytea) ON CONFLICT (digest) DO UPDATE"
        " SET position=excluded.position, created=excluded.created, etag=excluded.etag,"
        " size=excluded.size, modified=excluded.modified, name=excluded.name,"
        " title=excluded.title, description=excluded.description, mime=excluded.mime,"
        " icons=excluded.icons, audience=excluded.audience, meta=excluded.meta,"
        " metadata=excluded.metadata, priority=excluded.priority,"
        " subscribable=excluded.subscribable, at=excluded.at, content=excluded.content",
    [PG_OLD_REMOVED] = "SELECT position FROM tidings_published WHERE content IS NULL ORDER BY"
                       " position DESC LIMIT 1 OFFSET $1::int8",
    [PG_FORGET_REMOVED] = "DELETE FROM tidings_published WHERE content IS NULL AND"
                          " position<=$1::int8",
    [PG_PUBLISHED] = "SELECT position, uri, etag, size, modified, name, title, description, mime,"
                     " icons, audience, meta, metadata, priority, subscribable, created, content"
                     " FROM tidings_published WHERE position>$1::int8 AND content IS NOT NULL"
                     " ORDER BY position LIMIT 64",
    [PG_PUBLISHED_ONE] =
        "SELECT position, uri, etag, size, modified, name, title, description, mime, icons,"
        " audience, meta, metadata, priority, subscribable, created, content FROM tidings_published"
        " WHERE position=$1::int8 AND content IS NOT NULL",
    [PG_CHANGES] = CHANGED_ENTITIES " UNION ALL " CHANGED_MOVED " UNION ALL " CHANGED_TYPES
                                    " UNION ALL " CHANGED_PUBLISHED " UNION ALL " CHANGED_ANNOUNCED
                                    " UNION ALL " CHANGED_RUNS " UNION ALL " CHANGED_BREAKS
                                    " ORDER BY 2 LIMIT 1000",
    /* Two of seven, and one: most of the time all there is. */
    [PG_RECENT] = RECENT_ENTITIES " UNION ALL " CHANGED_ANNOUNCED " ORDER BY 2 LIMIT 1000",
    [PG_ENTITIES] =
        "SELECT v.position, v.vfrom, v.at, v.deleted, v.created, v.id, v.type, v.tversion,"
        " v.parent, v.changed_by, v.principal, v.since, CASE WHEN " FITS
        " THEN v.sum ELSE 0 END, CASE WHEN " FITS " THEN v.previous ELSE '' END, CASE WHEN " FITS
        " THEN v.value ELSE '' END FROM tidings_versions v WHERE v.position>$1::int8 AND"
        " v.position<=" TAKEN IS_SHORT " ORDER BY v.position LIMIT 1000",
    [PG_FLOOR] =
        "SELECT position FROM (" NEWEST_ENTITIES " UNION ALL " NEWEST_MOVED
        " UNION ALL " NEWEST_TYPES " UNION ALL " NEWEST_PUBLISHED " UNION ALL " NEWEST_ANNOUNCED
        ") x ORDER BY position DESC LIMIT 1 OFFSET $1::int8",
    [PG_ANNOUNCE] = "INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") VALUES(" ANNOUNCEMENT ")",
    [PG_ANNOUNCE_MANY] =
        "INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") SELECT * FROM " ANNOUNCEMENTS,
    [PG_OLD_ANNOUNCED] = "SELECT position FROM tidings_announced ORDER BY position DESC LIMIT 1"
                         " OFFSET $1::int8",
    [PG_FORGET_ANNOUNCED] = "DELETE FROM tidings_announced WHERE position<=$1::int8",
    [PG_BREAKS] = "SELECT kept, position, lossy FROM tidings_breaks ORDER BY position DESC"
                  " LIMIT $1::int8",
    [PG_ADD_BREAK] = "INSERT INTO tidings_breaks(position, kept, lossy, at) VALUES($1::int8,"
                     " $2::int8, $3::int8, " NOW_MS ")",
    [PG_DROP_BREAKS] = "DELETE FROM tidings_breaks WHERE position<=(SELECT position FROM"
                       " tidings_breaks ORDER BY position DESC LIMIT 1 OFFSET $1::int8)",
    [PG_SET_MARK] = "INSERT INTO tidings_mark(one) VALUES(1) ON CONFLICT (one) DO NOTHING",
    [PG_SET_SERVER] = "UPDATE tidings_state SET server=$1::int8 WHERE one=1",
    [PG_RUNS] = "SELECT epoch, coalesce(last, -1) FROM tidings_runs ORDER BY position DESC, epoch"
                " LIMIT $1::int8",
    [PG_END_RUNS] = "UPDATE tidings_runs SET last=$1::int8, position=$2::int8 WHERE last IS NULL"
                    " AND until<=" NOW_MS,
    [PG_ADD_RUN] = "INSERT INTO tidings_runs(epoch, position, until) VALUES($1::int8, $2::int8,"
                   " " NOW_MS "+$3::int8)",
    [PG_KEEP_RUN] = "UPDATE tidings_runs SET until=" NOW_MS "+$2::int8 WHERE epoch=$1::int8 AND"
                    " last IS NULL RETURNING epoch",
    [PG_REVIVE_RUN] = "INSERT INTO tidings_runs(epoch, position, until) VALUES($1::int8, $2::int8,"
                      " " NOW_MS "+$3::int8) ON CONFLICT (epoch) DO UPDATE SET last=NULL,"
                      " position=excluded.position, until=excluded.until",
    [PG_END_RUN] = "UPDATE tidings_runs SET last=$2::int8 WHERE epoch=$1::int8 AND last IS NULL",
    [PG_DROP_RUNS] = "DELETE FROM tidings_runs WHERE last IS NOT NULL AND position<=(SELECT"
                     " position FROM tidings_runs ORDER BY position DESC LIMIT 1 OFFSET $1::int8)",
    /* As lease_may_be_given decides; $4: how long none is given after durable changes were lost. */
    [PG_LEASE] =
        "INSERT INTO tidings_leases(name, holder, until) SELECT $1::text, $2::text, " NOW_MS
        "+$3::int8 WHERE NOT EXISTS(SELECT 1 FROM tidings_breaks WHERE lossy=1 AND at>" NOW_MS
        "-$4::int8) ON CONFLICT (name) DO UPDATE SET holder=excluded.holder,"
        " until=excluded.until WHERE tidings_leases.holder=excluded.holder OR"
        " tidings_leases.until<=" NOW_MS " RETURNING until",
    [PG_LEASE_OF] = "SELECT until-" NOW_MS " FROM tidings_leases WHERE name=$1::text",
    [PG_RELEASE] = "DELETE FROM tidings_leases WHERE name=$1::text AND holder=$2::text",
    [PG_PUT_NODE] =
        "INSERT INTO tidings_nodes(name, instance, version, state, epoch, followed, begun, until,"
        " layout, behind) VALUES($1::text, $2::int8, $3::text, $4::text, $5::int8, "
        "$6::int8, " NOW_MS ", " NOW_MS "+$7::int8, $8::int8, " BEHIND(
            "$6::int8") ") ON CONFLICT (name) DO UPDATE SET instance=excluded.instance,"
                        " version=excluded.version, state=excluded.state, epoch=excluded.epoch,"
                        " followed=excluded.followed, begun=CASE WHEN "
                        "tidings_nodes.instance=excluded.instance THEN"
                        " tidings_nodes.begun ELSE excluded.begun END, until=excluded.until,"
                        " layout=excluded.layout, behind=excluded.behind WHERE"
                        " tidings_nodes.instance=excluded.instance OR tidings_nodes.until<=" NOW_MS
                        " RETURNING begun",
    [PG_DROP_NODE] = "DELETE FROM tidings_nodes WHERE name=$1::text AND instance=$2::int8",
    [PG_NODES] =
        "SELECT left(name, 128), left(version, 128), left(state, 4096), epoch,"
        " least(greatest(followed, 0), " TAKEN "), begun, until-" NOW_MS
        ", coalesce(behind, -1), " BEHIND("n.followed") " FROM tidings_nodes n"
                                                        " WHERE until>" NOW_MS
                                                        "-86400000 ORDER BY name LIMIT 1000",
    [PG_OLDER_NODE] =
        "SELECT name, version, coalesce(layout, 1) FROM tidings_nodes WHERE until>" NOW_MS
        " AND coalesce(layout, 1)<$1::int8 ORDER BY name LIMIT 1",
    [PG_LOCK_HOLDER] =
        "SELECT a.pid::int8, coalesce(a.usename::text, ''), coalesce(a.application_name, ''),"
        " coalesce(host(a.client_addr), '') FROM pg_locks l JOIN pg_stat_activity a ON a.pid=l.pid,"
        " (SELECT hashtextextended($1::text||current_schema(), 0) AS n) k"
        " WHERE l.locktype='advisory' AND l.granted AND l.objsubid=1 AND l.database="
        "(SELECT oid FROM pg_database WHERE datname=current_database())"
        " AND l.classid::int8=((k.n>>32)&4294967295) AND l.objid::int8=(k.n&4294967295) LIMIT 1",
    [PG_AGE_NODES] = "DELETE FROM tidings_nodes WHERE until<=" NOW_MS "-86400000",
    /* One that was never taken is written by who made it. */
    [PG_ADD_SESSION] = "INSERT INTO tidings_sessions(id, node, state, turn, used) VALUES($1::text,"
                       " $2::text, $3::text, 0, " NOW_MS ") ON CONFLICT (id) DO UPDATE SET"
                       " state=excluded.state, used=excluded.used WHERE tidings_sessions.turn=0 AND"
                       " tidings_sessions.node=excluded.node"
                       " RETURNING turn",
    [PG_PUT_SESSION] = "UPDATE tidings_sessions SET state=$2::text, used=" NOW_MS
                       " WHERE id=$1::text AND turn=$3::int8 AND node=$4::text RETURNING turn",
    [PG_TAKE_SESSION] = "UPDATE tidings_sessions SET node=$2::text, turn=turn+1, used=" NOW_MS
                        " WHERE id=$1::text RETURNING id, node,"
                        " CASE WHEN octet_length(state)<=262144 THEN state ELSE '' END, turn, used",
    [PG_DROP_SESSION] = "DELETE FROM tidings_sessions WHERE id=$1::text",
    [PG_AGE_SESSIONS] = "DELETE FROM tidings_sessions WHERE used<=" NOW_MS "-$1::int8",
    [PG_SECRET] = "SELECT secret FROM tidings_cluster WHERE one=1",
    [PG_TASK_ROOM] = "SELECT count(*)::int8, coalesce(sum(bytes), 0)::int8,"
                     " (count(*) FILTER (WHERE owner=$1::bytea))::int8,"
                     " coalesce(sum(bytes) FILTER (WHERE owner=$1::bytea), 0)::int8"
                     " FROM tidings_tasks",
    [PG_PUT_TASK] =
        "INSERT INTO tidings_tasks AS t(id, run, owner, client, status, created, updated, ttl,"
        " until, bytes, message, payload, questions, answers) VALUES($1::text, $2::int8,"
        " $3::bytea, $4::bytea, $5::text, $6::int8, $7::int8, $8::int8, $9::int8, $10::int8,"
        " $11::bytea, $12::bytea, $13::bytea, ''::bytea) ON CONFLICT (id) DO UPDATE SET"
        " status=excluded.status, updated=excluded.updated, ttl=excluded.ttl,"
        " until=CASE WHEN excluded.ttl<=0 THEN excluded.until ELSE greatest(t.until,"
        " excluded.until) END, bytes=excluded.bytes, message=excluded.message,"
        " payload=excluded.payload, questions=excluded.questions WHERE " TASK_RUNS
        " RETURNING t.id",
    [PG_FIND_TASK] = "SELECT " TASK_COLUMNS " FROM tidings_tasks t WHERE t.id=$1::text AND t.until>"
                     "$2::int8 AND " TASK_IS_SHORT,
    [PG_TASKS] =
        "SELECT " TASK_COLUMNS " FROM tidings_tasks t WHERE t.id>$1::text AND " TASK_IS_SHORT
        " ORDER BY t.id LIMIT 16",
    [PG_TASK_ANSWERS] = "UPDATE tidings_tasks SET answers=$2::bytea WHERE id=$1::text",
    [PG_SWEEP_TASKS] = "DELETE FROM tidings_tasks WHERE until<=$1::int8",
    [PG_STALE_TASKS] =
        "SELECT 1 WHERE EXISTS(SELECT 1 FROM tidings_tasks WHERE until<=" NOW_MS
        ") OR EXISTS(SELECT 1 FROM tidings_tasks t WHERE " TASK_RUNS " AND NOT " TASK_LIVES ")",
    [PG_OLD_TASKS] = "DELETE FROM tidings_tasks WHERE id IN (SELECT id FROM tidings_tasks WHERE"
                     " until<=$1::int8 ORDER BY until LIMIT $2::int8) RETURNING substr(id, 1, 128)",
    [PG_LOST_TASKS] = "UPDATE tidings_tasks SET status=$1::text, message=$2::bytea,"
                      " payload=$3::bytea, bytes=octet_length($3::bytea), questions=''::bytea,"
                      " answers=''::bytea, updated=$4::int8, ttl=greatest(until, $5::int8)-until"
                      "+ttl, until=greatest(until, $5::int8) WHERE id IN (SELECT t.id FROM"
                      " tidings_tasks t WHERE " TASK_RUNS " AND NOT " TASK_LIVES
                      " LIMIT $6::int8) RETURNING substr(id, 1, 128)",
    [PG_LIVE_NODE] = "SELECT name FROM tidings_nodes WHERE until>" NOW_MS " LIMIT 1",
    [PG_TRANSFER_TYPES] = "SELECT position, name, version, schema, description, options FROM"
                          " tidings_types WHERE position>$1::int8 ORDER BY position LIMIT 256",
    [PG_TRANSFER_VERSIONS] =
        "SELECT position, id, vfrom, type, tversion, parent, deleted, created, at, since,"
        " changed_by, principal, previous, value, sum FROM tidings_versions WHERE position>$1::int8"
        " ORDER BY position LIMIT 256",
    [PG_TRANSFER_MOVED] = "SELECT position, id, type, tversion, became, vfrom FROM tidings_moved"
                          " WHERE position>$1::int8 ORDER BY position LIMIT 256",
    [PG_TRANSFER_PUBLISHED] =
        "SELECT position, uri, etag, size, modified, name, title, description, mime, icons,"
        " audience, meta, metadata, priority, subscribable, created, content, at,"
        " CASE WHEN content IS NULL THEN 1 ELSE 0 END::int8 FROM tidings_published WHERE"
        " position>$1::int8 ORDER BY position LIMIT 256",
    [PG_TRANSFER_RUNS] =
        "SELECT n, epoch, position, last FROM (SELECT row_number() OVER (ORDER BY position, epoch)"
        " AS n, epoch, position, coalesce(last, -1) AS last FROM tidings_runs WHERE position>="
        "coalesce((SELECT max(position) FROM tidings_breaks WHERE lossy<>0), 0)) r WHERE "
        "n>$1::int8 ORDER BY n",
    [PG_TRANSFER_FIND] = "SELECT copying, copy_kind, copy_number, (SELECT position FROM"
                         " tidings_state), (SELECT count(*) FROM tidings_runs) FROM"
                         " tidings_cluster WHERE one=1",
    [PG_TRANSFER_BEGIN] = "UPDATE tidings_cluster SET copying=$1::text, copy_kind=0,"
                          " copy_number=-9223372036854775808 WHERE one=1",
    [PG_TRANSFER_PUT_RUN] =
        "INSERT INTO tidings_runs(epoch, position, last, until) VALUES($1::int8,"
        " $2::int8, $3::int8, 0) ON CONFLICT (epoch) DO NOTHING",
    [PG_TRANSFER_MARK] = "UPDATE tidings_cluster SET copy_kind=$1::int8, copy_number=$2::int8"
                         " WHERE one=1",
};

/* ---------------------------------------------------------------------------------------------- */

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

static bool has_state(const struct postgres_store *s, const char *state)
{
    return strcmp(postgres_state(s->db), state) == 0;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static int not_ours(const struct postgres_store *s, int code, struct tidings_error *err)
{
    return postgres_refuse(s->db, code, err);
}

/* 1: there is a cluster; its layout. 0: there are no tables. */
static int read_cluster(struct postgres_store *s, const struct postgres_layout *l,
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

static int put_cluster(struct postgres_store *s, const struct postgres_layout *l, struct buf *sql,
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
static int refuse_older(struct postgres_store *s, const struct postgres_layout *l,
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
static int take_steps(struct postgres_store *s, const struct postgres_layout *l, int64_t from,
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

static struct lock_name lock_name(const struct postgres_store *s)
{
    struct lock_name name;
    (void)snprintf(name.text, sizeof name.text, "%s%s", ADVISORY_NAME, s->cluster);
    return name;
}

static int begin_with_lock(struct postgres_store *s, struct tidings_error *err)
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
static void say_holder(struct postgres_store *s)
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
static int migrate(struct postgres_store *s, const struct postgres_layout *l, int64_t from,
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
static bool is_race(const struct postgres_store *s, int rc)
{
    return rc == TIDINGS_E_EXISTS || has_state(s, "42P07") || has_state(s, "42701") ||
           has_state(s, "40001") || has_state(s, "40P01") || has_state(s, "55P03");
}

int postgres_store_lay_out(struct postgres_store *s, const struct postgres_layout *l,
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
