package filestore

// schemaVersion is stored in the database's user_version.
const schemaVersion = 2

// schema creates the tables. File names are blobs, because they are bytes and sort as
// bytes. The triggers ensure that an object is either the content of a file or in a
// table of objects to delete.
const schema = `
CREATE TABLE store (id TEXT NOT NULL) STRICT;

CREATE TABLE workspace (
	id        TEXT PRIMARY KEY,
	namespace TEXT NOT NULL,
	revision  INTEGER NOT NULL,
	policy    TEXT NOT NULL,
	boot      TEXT NOT NULL,
	damaged   INTEGER NOT NULL,
	root      INTEGER NOT NULL,
	session   TEXT NOT NULL,
	origin    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE node (
	id     INTEGER PRIMARY KEY AUTOINCREMENT,
	ws     TEXT NOT NULL,
	parent INTEGER NOT NULL,
	name   BLOB NOT NULL,
	type   TEXT NOT NULL,
	mode   INTEGER NOT NULL,
	size   INTEGER NOT NULL,
	mtime  INTEGER NOT NULL,
	target BLOB,
	digest TEXT,
	object TEXT
) STRICT;
CREATE UNIQUE INDEX node_child ON node (parent, name);
CREATE INDEX node_ws ON node (ws, size);
CREATE INDEX node_object ON node (object) WHERE object IS NOT NULL;

CREATE TABLE content (
	node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
	data BLOB NOT NULL
) STRICT;

CREATE TABLE pending (
	object TEXT PRIMARY KEY,
	ws     TEXT NOT NULL,
	writer TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE garbage (object TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TRIGGER node_removed AFTER DELETE ON node
WHEN old.object IS NOT NULL AND NOT EXISTS (SELECT 1 FROM node WHERE object = old.object)
BEGIN
	INSERT OR IGNORE INTO garbage VALUES (old.object);
END;

CREATE TRIGGER node_replaced AFTER UPDATE OF object ON node
WHEN old.object IS NOT NULL AND old.object IS NOT new.object AND NOT EXISTS (SELECT 1 FROM node WHERE object = old.object)
BEGIN
	INSERT OR IGNORE INTO garbage VALUES (old.object);
END;
`

// fromVersion1 adds the session and the origin of a workspace.
const fromVersion1 = `
ALTER TABLE workspace ADD COLUMN session TEXT NOT NULL DEFAULT '';
ALTER TABLE workspace ADD COLUMN origin TEXT NOT NULL DEFAULT '';
PRAGMA user_version = 2;
`
