/* SPDX-License-Identifier: MIT
 *
 * The tables of the store in PostgreSQL, and the checks before their use: the encoding, the
 * cluster, and whether this program supports their layout.
 *
 * Several nodes may find a schema without tables at the same time. One creates them, in one
 * transaction. The others wait for an advisory lock. Without advisory locks they fail and find the
 * tables on a retry. Any role may take such a lock, and the key is not secret (it is derived from
 * the names of the cluster and the schema). Therefore the wait is short; after a timeout the node
 * logs the holder and continues as without advisory locks.
 *
 * A newer program takes the missing steps while older nodes keep running, again in one transaction.
 * Steps only add (optional columns or columns with a default, tables, indexes), so the SQL of older
 * programs keeps its meaning. If that is impossible, `oldest` is raised: the upgrade waits until no
 * older node lives, and older nodes can no longer start.
 */
#include "cluster/postgres_schema.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The SQL of the store in PostgreSQL: every prepared statement, portable to compatible engines
 * where possible.
 */

/* The clock of the database, which all nodes share. */
#define NOW_MS "(extract(epoch FROM now())*1000)::int8"

/* The same, but the current time instead of the start of the transaction. */
#define CLOCK_MS "(extract(epoch FROM clock_timestamp())*1000)::int8"

/* The age of the oldest change after that position; 0: there is none. Ignores changes of unknown
 * time. */
#define FIRST_AT(table, position)                                                                  \
    "(SELECT at FROM " table " c WHERE c.position>" position " ORDER BY c.position LIMIT 1)"
#define FIRST_OF_ALL(position)                                                                     \
    FIRST_AT("tidings_versions", position)                                                         \
    " UNION ALL " FIRST_AT("tidings_log", position) " UNION ALL " FIRST_AT("tidings_announced",    \
                                                                           position)
#define BEHIND(position)                                                                           \
    "coalesce((SELECT greatest(" CLOCK_MS                                                          \
    "-min(at), 1) FROM (" FIRST_OF_ALL(position) ") o"                                             \
                                                 " WHERE at>0 HAVING count(*)>0), 0)"

/* A version: the id and the start in its record (cluster/log_record.h) have separate columns. */
#define COLUMNS "v.id, v.vfrom, v.record, v.previous, v.value"
#define ENDS                                                                                       \
    ", coalesce((SELECT min(n.vfrom) FROM tidings_versions n WHERE n.id=v.id AND"                  \
    " n.vfrom>v.vfrom), 253370764800000)" /* TIMELINE_FOREVER */
#define LISTED(of)                                                                                 \
    "SELECT " COLUMNS " FROM tidings_current c JOIN tidings_versions v ON v.position=c.position"   \
    " WHERE c.id>$1::text AND ($2::int8=1 OR c.deleted=0)" of " ORDER BY c.id LIMIT 64"

/* Inserts a version and makes it current. $3: its position. */
#define VERSION_COLUMNS "id, vfrom, position, at, record, previous, value"
#define CURRENT_COLUMNS "id, type, tversion, parent, deleted, position"
#define VERSION                                                                                    \
    "$1::text, $2::int8, $3::int8, $4::int8, $5::bytea, $6::text, $7::text, $8::text, $9::text,"   \
    " $10::text, $11::int8"
#define VERSIONS                                                                                   \
    "unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::bytea[], $6::text[], $7::text[],"  \
    " $8::text[], $9::text[], $10::text[], $11::int8[])"
/* `rows`: one version, or versions of different entities. */
#define ADD_VERSIONS(rows)                                                                         \
    "u(" VERSION_COLUMNS ", type, tversion, parent, deleted) AS (" rows                            \
    "), v AS (INSERT INTO tidings_versions(" VERSION_COLUMNS ") SELECT " VERSION_COLUMNS           \
    " FROM u)"
#define ADD_CURRENT                                                                                \
    "INSERT INTO tidings_current(" CURRENT_COLUMNS ") SELECT " CURRENT_COLUMNS                     \
    " FROM u ON CONFLICT (id) DO UPDATE SET type=excluded.type, tversion=excluded.tversion,"       \
    " parent=excluded.parent, deleted=excluded.deleted, position=excluded.position"

/* A batch without the lock. It takes the position if the counter is still where the batch began,
 * and everything else depends on that. Returns one row like PG_LOCK, or none if the counter has
 * moved. PG_NOTIFY_IF sees the mark if this was committed. */
#define COUNTERS "position, floor, announced, keys, max_keys"
#define COUNTERS_OF_S "s.position, s.floor, s.announced, s.keys, s.max_keys, s.clock"
#define TAKE_POSITION(to, from)                                                                    \
    "WITH s AS (UPDATE tidings_state SET position=" to "::int8 WHERE one=1 AND position=" from     \
    "::int8 RETURNING " COUNTERS "), "
#define TOOK_POSITION(mark, also)                                                                  \
    " SELECT " COUNTERS ", " CLOCK_MS ", set_config('tidings.batch', " mark "::text, false)" also  \
    " FROM s"
#define LAZILY ", set_config('synchronous_commit', 'off', true)"
#define ANNOUNCED_COLUMNS "position, at, record"
#define ANNOUNCEMENT "$1::int8, $2::int8, $3::bytea"
#define ANNOUNCEMENTS "unnest($1::int8[], $2::int8[], $3::bytea[])"
#define INTO_ANNOUNCED "a AS (INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") SELECT "

/* The changes of one table after $1, up to the counter. Nodes never write longer records; the limit
 * bounds memory against untrusted rows. Values are included if they have at most $2 bytes. */
#define TAKEN "(SELECT position FROM tidings_state WHERE one=1)"
#define FITS "octet_length(c.value)+octet_length(c.previous)<=$2::int8"
#define AFTER(table, values)                                                                       \
    "(SELECT c.position, c.record, " values " FROM " table " c WHERE c.position>$1::int8 AND"      \
    " c.position<=s.position AND octet_length(c.record)<=2097152 ORDER BY c.position LIMIT 1000)"
#define NO_VALUES "'' AS previous, '' AS value"
#define IF_FITS                                                                                    \
    "CASE WHEN " FITS " THEN c.previous ELSE '' END AS previous, CASE WHEN " FITS                  \
    " THEN c.value ELSE '' END AS value"

#define NEWEST(table) "(SELECT position FROM " table " ORDER BY position DESC LIMIT $1::int8+1)"

/* Removed rows lose their records, which are no longer followed. */
#define WITHOUT_RECORDS(gone)                                                                      \
    "WITH gone AS (" gone " RETURNING position) DELETE FROM tidings_log WHERE position IN"         \
    " (SELECT position FROM gone)"
/* If a row gets another position, removes the record at the previous one. */
#define WITHOUT_RECORD(table, is_it)                                                               \
    "WITH gone AS (DELETE FROM tidings_log WHERE position=(SELECT position FROM " table            \
    " WHERE " is_it ")) "

/* Nodes never write longer values (store/store.h); the limit protects them from rows of other
 * programs. A run lives until it has ended, or its node has been silent for too long. */
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
    /* Sets a mark of this batch that a rollback removes, and that the statement below checks. */
    [PG_SET_STATE_AND_BATCH_ID] =
        "UPDATE tidings_state SET position=$1::int8, floor=$2::int8, announced=$3::int8,"
        " keys=$4::int8, max_keys=$5::int8 WHERE one=1"
        " RETURNING set_config('tidings.batch', $6::text, false)",
    [PG_NOTIFY] = "SELECT pg_notify($1::text, $2::text)",
    [PG_NOTIFY_IF] = "SELECT pg_notify($1::text, $2::text) WHERE"
                     " current_setting('tidings.batch', true)=$3::text",
    [PG_COMMIT_PUT] = TAKE_POSITION("$12", "$13")
        ADD_VERSIONS("SELECT " VERSION " FROM s") ", c"
                                                  " AS (" ADD_CURRENT ")" TOOK_POSITION("$14", ""),
    [PG_COMMIT_PUT_MANY] = TAKE_POSITION("$12", "$13") ADD_VERSIONS(
        "SELECT n.* FROM s, " VERSIONS " n") ", c AS (" ADD_CURRENT ")" TOOK_POSITION("$14", ""),
    [PG_COMMIT_ANNOUNCE] = TAKE_POSITION("$4", "$5") INTO_ANNOUNCED ANNOUNCEMENT
    " FROM s)" TOOK_POSITION("$6", LAZILY),
    [PG_COMMIT_ANNOUNCE_MANY] = TAKE_POSITION("$4", "$5") INTO_ANNOUNCED
    "u.* FROM s, " ANNOUNCEMENTS " u)" TOOK_POSITION("$6", LAZILY),
    [PG_COMMIT_NOTHING] =
        "SELECT " COUNTERS ", " CLOCK_MS " FROM tidings_state WHERE one=1 AND position=$1::int8",
    [PG_SCOPE] = "SELECT secret, (extract(epoch FROM pg_postmaster_start_time())*1000000)::int8,"
                 " (SELECT oid::int8 FROM pg_database WHERE datname=current_database()),"
                 " 'tidings_state'::regclass::oid::int8 FROM tidings_cluster WHERE one=1",
    [PG_CLUSTER] = "SELECT name, id, layout, oldest, copying FROM tidings_cluster WHERE one=1",
    [PG_STATE] = "SELECT " COUNTERS ", " CLOCK_MS ", server,"
                 " (SELECT count(*) FROM tidings_mark) FROM tidings_state WHERE one=1",
    [PG_SERVER] = "SELECT system_identifier::text || substr(pg_walfile_name(pg_current_wal_lsn()),"
                  " 1, 8) FROM pg_control_system()",
    [PG_LOG] = "INSERT INTO tidings_log(" ANNOUNCED_COLUMNS ") VALUES(" ANNOUNCEMENT ")",
    [PG_UNLOG] = "DELETE FROM tidings_log WHERE position=$1::int8",
    [PG_PUT] = "WITH " ADD_VERSIONS("SELECT " VERSION) " " ADD_CURRENT,
    [PG_PUT_MANY] = "WITH " ADD_VERSIONS("SELECT * FROM " VERSIONS " n") " " ADD_CURRENT,
    [PG_PUT_REPLACING] =
        "WITH gone AS (DELETE FROM tidings_versions WHERE id=$1::text AND vfrom="
        "(SELECT max(vfrom) FROM tidings_versions WHERE id=$1::text)), " ADD_VERSIONS(
            "SELECT " VERSION) " " ADD_CURRENT,
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
                    " options) VALUES($1::int8, $2::text, $3::text, $4::text, $5::bytea, $6::text)"
                    " ON CONFLICT (name, version) DO NOTHING RETURNING position",
    [PG_TYPES] = "SELECT name, version, schema, description, options FROM tidings_types"
                 " ORDER BY name, position",
    [PG_PUT_KEY] = "INSERT INTO tidings_keys(owner, key, number, at, digest, result)"
                   " VALUES($1::bytea, $2::bytea, $3::int8, $4::int8, $5::bytea, $6::bytea)"
                   " ON CONFLICT (owner, key) DO UPDATE SET number=excluded.number, at=excluded.at,"
                   " digest=excluded.digest, result=excluded.result",
    [PG_FIND_KEY] = "SELECT at, digest, result FROM tidings_keys WHERE owner=$1::bytea AND"
                    " key=$2::bytea",
    /* Only some at a time, so that no write pays for many. */
    [PG_DROP_AGED_KEYS] = "DELETE FROM tidings_keys WHERE at<=$1::int8 AND (owner, key) IN (SELECT"
                          " owner, key FROM tidings_keys ORDER BY number LIMIT 256)",
    /* All keys of an owner but the newest. */
    [PG_DROP_OLDER_KEYS] = "DELETE FROM tidings_keys WHERE owner=$1::bytea AND number<=(SELECT"
                           " number FROM tidings_keys WHERE owner=$1::bytea ORDER BY number DESC"
                           " LIMIT 1 OFFSET $2::int8)",
    [PG_KEY_COUNT] = "SELECT count(*) FROM tidings_keys",
    [PG_MOST_KEYS] = "SELECT owner, count(*) FROM tidings_keys GROUP BY owner"
                     " ORDER BY count(*) DESC, min(number) LIMIT 1",
    [PG_PUBLISH] = WITHOUT_RECORD(
        "tidings_published",
        "digest=$1::bytea") "INSERT INTO tidings_published(digest, uri, position, created, etag, "
                            "size, modified, name,"
                            " title, description, mime, icons, audience, meta, metadata, priority, "
                            "subscribable, at,"
                            " content) VALUES($1::bytea, $2::bytea, $3::int8, $4::int8, $5::bytea, "
                            "$6::int8, $7::int8,"
                            " $8::bytea, $9::bytea, $10::bytea, $11::bytea, $12::bytea, "
                            "$13::bytea, $14::bytea,"
                            " $15::bytea, $16::int8, $17::int8, $18::int8, $19::bytea) ON CONFLICT "
                            "(digest) DO UPDATE"
                            " SET position=excluded.position, created=excluded.created, "
                            "etag=excluded.etag,"
                            " size=excluded.size, modified=excluded.modified, name=excluded.name,"
                            " title=excluded.title, description=excluded.description, "
                            "mime=excluded.mime,"
                            " icons=excluded.icons, audience=excluded.audience, meta=excluded.meta,"
                            " metadata=excluded.metadata, priority=excluded.priority,"
                            " subscribable=excluded.subscribable, at=excluded.at, "
                            "content=excluded.content",
    [PG_OLD_REMOVED] = "SELECT position FROM tidings_published WHERE content IS NULL ORDER BY"
                       " position DESC LIMIT 1 OFFSET $1::int8",
    [PG_FORGET_REMOVED] = WITHOUT_RECORDS("DELETE FROM tidings_published WHERE content IS NULL AND"
                                          " position<=$1::int8"),
    [PG_PUBLISHED] = "SELECT position, uri, etag, size, modified, name, title, description, mime,"
                     " icons, audience, meta, metadata, priority, subscribable, created, content"
                     " FROM tidings_published WHERE position>$1::int8 AND content IS NOT NULL"
                     " ORDER BY position LIMIT 64",
    [PG_PUBLISHED_ONE] =
        "SELECT position, uri, etag, size, modified, name, title, description, mime, icons,"
        " audience, meta, metadata, priority, subscribable, created, content FROM tidings_published"
        " WHERE position=$1::int8 AND content IS NOT NULL",
    [PG_FOLLOW] =
        "SELECT " COUNTERS_OF_S ", x.position, x.record, x.previous, x.value FROM"
        " (SELECT " COUNTERS ", " CLOCK_MS " AS clock FROM tidings_state WHERE one=1) s"
        " LEFT JOIN LATERAL (" AFTER("tidings_versions", IF_FITS) " UNION ALL " AFTER(
            "tidings_log",
            NO_VALUES) " UNION ALL " AFTER("tidings_announced",
                                           NO_VALUES) ") x ON true ORDER BY x.position LIMIT 1000",
    [PG_FLOOR] = "SELECT position FROM (" NEWEST("tidings_versions") " UNION ALL " NEWEST(
        "tidings_log") " UNION ALL " NEWEST("tidings_announced") ") x ORDER BY position DESC LIMIT "
                                                                 "1"
                                                                 " OFFSET $1::int8",
    [PG_ANNOUNCE] = "INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") VALUES(" ANNOUNCEMENT ")",
    [PG_ANNOUNCE_MANY] =
        "INSERT INTO tidings_announced(" ANNOUNCED_COLUMNS ") SELECT * FROM " ANNOUNCEMENTS,
    [PG_OLD_ANNOUNCED] = "SELECT position FROM tidings_announced ORDER BY position DESC LIMIT 1"
                         " OFFSET $1::int8",
    [PG_FORGET_ANNOUNCED] = "DELETE FROM tidings_announced WHERE position<=$1::int8",
    [PG_DATA_LOSSES] = "SELECT kept, position, lossy FROM tidings_breaks ORDER BY position DESC"
                       " LIMIT $1::int8",
    [PG_ADD_DATA_LOSS] = "INSERT INTO tidings_breaks(position, kept, lossy, at) VALUES($1::int8,"
                         " $2::int8, $3::int8, " NOW_MS ")",
    [PG_DROP_DATA_LOSSES] =
        WITHOUT_RECORDS("DELETE FROM tidings_breaks WHERE position<=(SELECT position"
                        " FROM tidings_breaks ORDER BY position DESC LIMIT 1 OFFSET"
                        " $1::int8)"),
    [PG_SET_CRASH_MARK] = "INSERT INTO tidings_mark(one) VALUES(1) ON CONFLICT (one) DO NOTHING",
    [PG_SET_SERVER] = "UPDATE tidings_state SET server=$1::int8 WHERE one=1",
    [PG_INCARNATIONS] =
        "SELECT epoch, coalesce(last, -1) FROM tidings_runs ORDER BY position DESC, epoch"
        " LIMIT $1::int8",
    [PG_DEAD_RUNS] =
        "SELECT epoch, position FROM tidings_runs WHERE last IS NULL AND until<=" NOW_MS,
    [PG_END_DEAD_RUN] = "UPDATE tidings_runs SET last=$2::int8, position=$3::int8 WHERE"
                        " epoch=$1::int8 AND last IS NULL AND until<=" NOW_MS,
    [PG_ADD_INCARNATION] =
        "INSERT INTO tidings_runs(epoch, position, until) VALUES($1::int8, $2::int8,"
        " " NOW_MS "+$3::int8)",
    [PG_KEEP_INCARNATION] =
        "UPDATE tidings_runs SET until=" NOW_MS "+$2::int8 WHERE epoch=$1::int8 AND"
        " last IS NULL RETURNING epoch",
    [PG_REVIVE_INCARNATION] = WITHOUT_RECORD(
        "tidings_runs", "epoch=$1::int8") "INSERT INTO tidings_runs(epoch, position, until) "
                                          "VALUES($1::int8, $2::int8,"
                                          " " NOW_MS
                                          "+$3::int8) ON CONFLICT (epoch) DO UPDATE SET last=NULL,"
                                          " position=excluded.position, until=excluded.until",
    [PG_END_INCARNATION] =
        "UPDATE tidings_runs SET last=$2::int8 WHERE epoch=$1::int8 AND last IS NULL",
    [PG_DROP_INCARNATIONS] = WITHOUT_RECORDS(
        "DELETE FROM tidings_runs WHERE last IS NOT NULL AND position<=(SELECT"
        " position FROM tidings_runs ORDER BY position DESC LIMIT 1 OFFSET $1::int8)"),
    /* As lease_may_be_given decides; $4: how long no lease is granted after a loss of durable
     * changes. */
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
    [PG_NODES] = "SELECT left(name, 128), left(version, 128), left(state, 4096), epoch,"
                 " least(greatest(followed, 0), " TAKEN "), begun, until-" NOW_MS
                 ", behind, " BEHIND("n.followed") " FROM tidings_nodes n"
                                                   " WHERE until>" NOW_MS
                                                   "-86400000 ORDER BY name LIMIT 1000",
    [PG_OLDER_NODE] = "SELECT name, version, layout FROM tidings_nodes WHERE until>" NOW_MS
                      " AND layout<$1::int8 ORDER BY name LIMIT 1",
    [PG_LOCK_HOLDER] =
        "SELECT a.pid::int8, coalesce(a.usename::text, ''), coalesce(a.application_name, ''),"
        " coalesce(host(a.client_addr), '') FROM pg_locks l JOIN pg_stat_activity a ON a.pid=l.pid,"
        " (SELECT hashtextextended($1::text||current_schema(), 0) AS n) k"
        " WHERE l.locktype='advisory' AND l.granted AND l.objsubid=1 AND l.database="
        "(SELECT oid FROM pg_database WHERE datname=current_database())"
        " AND l.classid::int8=((k.n>>32)&4294967295) AND l.objid::int8=(k.n&4294967295) LIMIT 1",
    [PG_AGE_NODES] = "DELETE FROM tidings_nodes WHERE until<=" NOW_MS "-86400000",
    /* If it was never taken by another node, its creator writes it. */
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
    [PG_TRANSFER_VERSIONS] = "SELECT v.position, " COLUMNS " FROM tidings_versions v WHERE"
                             " v.position>$1::int8 ORDER BY v.position LIMIT 256",
    [PG_TRANSFER_MOVED] = "SELECT position, record FROM tidings_log WHERE substr(record, 1, 1)="
                          "'\\x01'::bytea AND position>$1::int8 ORDER BY position LIMIT 256",
    [PG_TRANSFER_PUBLISHED] =
        "SELECT position, uri, etag, size, modified, name, title, description, mime, icons,"
        " audience, meta, metadata, priority, subscribable, created, content, at,"
        " CASE WHEN content IS NULL THEN 1 ELSE 0 END::int8 FROM tidings_published WHERE"
        " position>$1::int8 ORDER BY position LIMIT 256",
    [PG_TRANSFER_INCARNATIONS] =
        "SELECT n, epoch, position, last FROM (SELECT row_number() OVER (ORDER BY position, epoch)"
        " AS n, epoch, position, coalesce(last, -1) AS last FROM tidings_runs WHERE position>="
        "coalesce((SELECT max(position) FROM tidings_breaks WHERE lossy<>0), 0)) r WHERE "
        "n>$1::int8 ORDER BY n",
    [PG_TRANSFER_FIND] = "SELECT copying, copy_kind, copy_number, (SELECT position FROM"
                         " tidings_state), (SELECT count(*) FROM tidings_runs) FROM"
                         " tidings_cluster WHERE one=1",
    [PG_TRANSFER_BEGIN] = "UPDATE tidings_cluster SET copying=$1::text, copy_kind=0,"
                          " copy_number=-9223372036854775808 WHERE one=1",
    [PG_TRANSFER_PUT_INCARNATION] =
        "INSERT INTO tidings_runs(epoch, position, last, until) VALUES($1::int8,"
        " $2::int8, $3::int8, 0) ON CONFLICT (epoch) DO NOTHING",
    [PG_TRANSFER_MARK] = "UPDATE tidings_cluster SET copy_kind=$1::int8, copy_number=$2::int8"
                         " WHERE one=1",
};

/* ---------------------------------------------------------------------------------------------- */

#define LAYOUT 1
#define OLDEST 1
#define LAY_OUT_TRIES 5                                /* other nodes may do the same */
#define ADVISORY_NAME "tables of the tidings cluster " /* … plus both names */
#define ADVISORY_WAIT "2000"                           /* ms */
#define LOCK_TIMEOUT "4000"                            /* ms, for the sessions of all nodes */

/* Each change has a position, and a row in one of three tables: tidings_versions (entities),
 * tidings_announced (announcements, which are bounded and removed by a crash), tidings_log (the
 * rest). cluster/log_record.h defines `record`.
 *
 * `one`: tables of one row. Tables that each commit writes have no CHECK, because PostgreSQL parses
 * its text for each update, which costs a tenth of a commit without waiting. Untrusted strings are
 * bytes, because text cannot hold a NUL. Digests replace keys that may be too long for an index. */
static const char *const steps[LAYOUT] = {
    "CREATE TABLE tidings_cluster(one int8 PRIMARY KEY CHECK (one=1), name text NOT NULL,"
    " id int8 NOT NULL, layout int8 NOT NULL, oldest int8 NOT NULL, secret bytea NOT NULL,"
    " copying text NOT NULL DEFAULT '', copy_kind int8 NOT NULL DEFAULT 0,"
    " copy_number int8 NOT NULL DEFAULT 0);"
    "CREATE TABLE tidings_state(one int8 PRIMARY KEY, position int8 NOT NULL,"
    " floor int8 NOT NULL, announced int8 NOT NULL, keys int8 NOT NULL, max_keys int8 NOT NULL,"
    " server int8 NOT NULL) WITH (fillfactor=10);"
    "CREATE UNLOGGED TABLE tidings_mark(one int8 PRIMARY KEY CHECK (one=1));"
    "CREATE TABLE tidings_breaks(position int8 PRIMARY KEY, kept int8 NOT NULL,"
    " lossy int8 NOT NULL, at int8 NOT NULL);"
    "CREATE TABLE tidings_runs(epoch int8 PRIMARY KEY, position int8 NOT NULL, last int8,"
    " until int8 NOT NULL);"
    "CREATE INDEX tidings_runs_position ON tidings_runs(position);"
    "CREATE TABLE tidings_versions(id text COLLATE \"C\" NOT NULL, vfrom int8 NOT NULL,"
    " position int8 NOT NULL UNIQUE, at int8 NOT NULL, record bytea NOT NULL,"
    " previous text NOT NULL, value text NOT NULL, PRIMARY KEY (id, vfrom));"
    "CREATE TABLE tidings_log(position int8 PRIMARY KEY, at int8 NOT NULL, record bytea NOT NULL);"
    "CREATE UNLOGGED TABLE tidings_announced(position int8 PRIMARY KEY, at int8 NOT NULL,"
    " record bytea NOT NULL);"
    "CREATE TABLE tidings_current(id text COLLATE \"C\" PRIMARY KEY, type text COLLATE \"C\" NOT"
    " NULL, tversion text COLLATE \"C\" NOT NULL, parent text COLLATE \"C\" NOT NULL,"
    " deleted int8 NOT NULL, position int8 NOT NULL) WITH (fillfactor=80);"
    "CREATE INDEX tidings_current_type ON tidings_current(type, tversion, id);"
    "CREATE INDEX tidings_current_parent ON tidings_current(parent, id);"
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
    "CREATE TABLE tidings_leases(name text PRIMARY KEY, holder text NOT NULL, until int8 NOT NULL);"
    "CREATE TABLE tidings_nodes(name text COLLATE \"C\" PRIMARY KEY, instance int8 NOT NULL,"
    " version text NOT NULL, state text NOT NULL, epoch int8 NOT NULL, followed int8 NOT NULL,"
    " begun int8 NOT NULL, until int8 NOT NULL, layout int8 NOT NULL, behind int8 NOT NULL);"
    "CREATE TABLE tidings_sessions(id text COLLATE \"C\" PRIMARY KEY, node text NOT NULL,"
    " state text NOT NULL, turn int8 NOT NULL, used int8 NOT NULL);"
    "CREATE INDEX tidings_sessions_used ON tidings_sessions(used);"
    /* `run`: the epoch of the node that works on the task; `owner`: a digest of `client`. */
    "CREATE TABLE tidings_tasks(id text COLLATE \"C\" PRIMARY KEY, run int8 NOT NULL,"
    " owner bytea NOT NULL, client bytea NOT NULL, status text COLLATE \"C\" NOT NULL,"
    " created int8 NOT NULL, updated int8 NOT NULL, ttl int8 NOT NULL, until int8 NOT NULL,"
    " bytes int8 NOT NULL, message bytea NOT NULL, payload bytea NOT NULL,"
    " questions bytea NOT NULL, answers bytea NOT NULL);"
    "CREATE INDEX tidings_tasks_until ON tidings_tasks(until);"
    "CREATE INDEX tidings_tasks_running ON tidings_tasks(run)"
    " WHERE status IN ('working', 'input_required');"
    "INSERT INTO tidings_mark(one) VALUES(1);"
    "INSERT INTO tidings_state VALUES(1, 0, 0, 0, 0, 0, 0)",
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

/* 1: there is a cluster with this layout. 0: there are no tables. */
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
        rc = tidings_fail(
            err, TIDINGS_E_BUSY,
            "an unfinished copy is in it; 'tidings store copy' with the same names resumes it");
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

/* Checks that no nodes live that are too old for the new layout. */
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

/* Performs the steps from `from` on, and records them. */
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

/* Migrates layout `from` (0: no tables) to the current one. */
static int migrate(struct postgres_store *s, const struct postgres_layout *l, int64_t from,
                   bool with_lock, struct tidings_error *err)
{
    int64_t layout = 0;
    bool looks = with_lock || from > 0, is_careful = with_lock && from == 0;
    int rc = with_lock ? begin_with_lock(s, err) : postgres_exec(s->db, "BEGIN", err);
    bool is_held = with_lock && rc < 0 && has_state(s, "55P03");
    /* Another node may have done it during the wait. Querying a missing table would abort the
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
        /* Engines without such locks continue without. */
        if (with_lock && (is_held || strcmp(state, "42883") == 0 || strcmp(state, "0A000") == 0)) {
            rc = migrate(s, l, from, false, err);
        }
    }
    return rc;
}

/* Returns true for "exists", conflicts and lock timeouts: another node made the tables, or is doing
 * so. */
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
