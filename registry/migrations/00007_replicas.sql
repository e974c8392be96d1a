-- +goose Up
-- node is the name of the node that owns the workspace. It is '' for a workspace of a server
-- that has no cluster, and of a program of the version before, which does not know the column.
ALTER TABLE workspaces ADD COLUMN node TEXT NOT NULL DEFAULT '';
CREATE INDEX workspaces_node ON workspaces (node);

-- The replicas of a cluster, one row for each node. A row outlives the lease, to say since when
-- the node is gone: a program of the version before deletes leases that have run out.
CREATE TABLE replicas (
    node       TEXT   NOT NULL PRIMARY KEY,
    address    TEXT   NOT NULL,
    data       TEXT   NOT NULL,
    holder     TEXT   NOT NULL,
    joined_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE replicas;
DROP INDEX workspaces_node;
ALTER TABLE workspaces DROP COLUMN node;
