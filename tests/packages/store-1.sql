-- A store of layout 1, with what the program of 2026-11-17 02:00 (commit b8e380bd) wrote into a store of its own layout,
-- copied column by column and dumped by sqlite3: what packages.sh has a newer program open. The steps were
--     tidings entity add-type User@1 …, put User@1/ann {"age": 6}, put User@1/bob {"age": 3}, publish app:///note (hello),
--     the cursor ecae35c08e1ab671.7.4 was given out,
--     tidings entity put User@1/ann {"age": 7}, rm User@1/bob, publish app:///note (again).
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE log(seq INTEGER PRIMARY KEY, id TEXT, vfrom INTEGER, replaces INTEGER, forget INTEGER, type TEXT, tversion TEXT, parent TEXT, deleted INTEGER, created INTEGER, at INTEGER, since INTEGER, sum INTEGER, old_parent TEXT, changed_by TEXT, principal TEXT, previous TEXT, value TEXT);
INSERT INTO log VALUES(2,'ann',1794931351854,-9223372036854775808,-9223372036854775808,'User','1','',0,1,1794931351854,1794931351854,-3041961059678800662,'','[{"userId":"anonymous"}]','','','{"age":6}');
INSERT INTO log VALUES(3,'bob',1794931351918,-9223372036854775808,-9223372036854775808,'User','1','',0,1,1794931351918,1794931351918,9028936412745437492,'','[{"userId":"anonymous"}]','','','{"age":3}');
INSERT INTO log VALUES(5,'ann',1794931354129,-9223372036854775808,-9223372036854775808,'User','1','',0,0,1794931354129,1794931354129,1671317906019941858,'','[{"userId":"anonymous"}]','','{"age":6}','{"age":7}');
INSERT INTO log VALUES(6,'bob',1794931354255,-9223372036854775808,-9223372036854775808,'User','1','',1,0,1794931354255,1794931354255,3507008030597180596,'','[{"userId":"anonymous"}]','','{}','{"age":3}');
CREATE TABLE versions(id TEXT, vfrom INTEGER, seq INTEGER, PRIMARY KEY(id, vfrom)) WITHOUT ROWID;
INSERT INTO versions VALUES('ann',1794931351854,2);
INSERT INTO versions VALUES('bob',1794931351918,3);
CREATE TABLE current(id TEXT PRIMARY KEY, type TEXT, tversion TEXT, parent TEXT, deleted INTEGER, seq INTEGER) WITHOUT ROWID;
INSERT INTO "current" VALUES('ann','User','1','',0,2);
INSERT INTO "current" VALUES('bob','User','1','',0,3);
CREATE TABLE types(number INTEGER PRIMARY KEY, seq INTEGER, name TEXT, version TEXT, schema TEXT, description TEXT, options TEXT, UNIQUE(name, version));
INSERT INTO types VALUES(1,1,'User','1','{"type":"object","properties":{"age":{"type":"integer"}}}','','');
CREATE TABLE keys(owner TEXT, key TEXT, number INTEGER, at INTEGER, digest TEXT, text TEXT, PRIMARY KEY(owner, key)) WITHOUT ROWID;
CREATE TABLE state(applied INTEGER, keys INTEGER, floor INTEGER);
INSERT INTO state VALUES(4,0,0);
CREATE TABLE moved(seq INTEGER PRIMARY KEY, id TEXT, type TEXT, tversion TEXT, became TEXT, vfrom INTEGER);
CREATE TABLE epochs(number INTEGER PRIMARY KEY, epoch INTEGER, first INTEGER, last INTEGER);
INSERT INTO epochs VALUES(1,-1392116133676796303,0,NULL);
CREATE TABLE published(seq INTEGER PRIMARY KEY, uri TEXT UNIQUE, created INTEGER, etag TEXT, size INTEGER, modified INTEGER, name TEXT, title TEXT, description TEXT, mime TEXT, icons TEXT, audience TEXT, priority INTEGER, subscribable INTEGER, at INTEGER, meta TEXT, metadata TEXT, content BLOB);
INSERT INTO published VALUES(7,'app:///note',0,'6-f9e0fa76b7ce3e45d13b36d53db41f76',6,1794931354336,'note','','','text/plain','','',-4616189618054758400,1,1794931354336,'','',X'616761696e0a');
CREATE TABLE file_mounts(mount INTEGER PRIMARY KEY, prefix TEXT UNIQUE, settings TEXT, root INTEGER, device INTEGER);
CREATE TABLE file_directories(mount INTEGER, path BLOB, names BLOB, UNIQUE(mount, path));
CREATE TABLE file_scopes(mount INTEGER, uri TEXT, epoch INTEGER, number INTEGER, position INTEGER, PRIMARY KEY(mount, uri)) WITHOUT ROWID;
CREATE TABLE file_told(mount INTEGER, epoch INTEGER, number INTEGER, PRIMARY KEY(mount, epoch)) WITHOUT ROWID;
CREATE TABLE file_changes(seq INTEGER PRIMARY KEY, epoch INTEGER, number INTEGER, kind INTEGER, size INTEGER, modified INTEGER, at INTEGER, subscribable INTEGER, uri TEXT UNIQUE, etag TEXT, came_from TEXT, target TEXT, created INTEGER, created_epoch INTEGER, created_number INTEGER);
CREATE TABLE tasks(id TEXT PRIMARY KEY, client TEXT, status TEXT, created INTEGER, updated INTEGER, ttl INTEGER, expires INTEGER, message TEXT, payload TEXT) WITHOUT ROWID;
CREATE INDEX current_type ON current(type, tversion, id);
CREATE INDEX current_parent ON current(parent, id);
CREATE INDEX keys_number ON keys(number);
CREATE INDEX keys_owner ON keys(owner, number);
CREATE INDEX published_removed ON published(seq) WHERE content IS NULL;
CREATE INDEX tasks_expires ON tasks(expires);
COMMIT;
PRAGMA application_id=1953064041;
PRAGMA user_version=1;
