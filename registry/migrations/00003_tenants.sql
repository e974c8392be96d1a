-- +goose Up
-- A program of the version before writes rows without a tenant and without an end.
ALTER TABLE workspaces ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN annotations TEXT NOT NULL DEFAULT 'null';
ALTER TABLE workspaces ADD COLUMN end_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN on_end TEXT NOT NULL DEFAULT '';

DROP INDEX workspaces_name;
CREATE UNIQUE INDEX workspaces_name ON workspaces (tenant, owner, name) WHERE name <> '' AND state <> 'destroyed';
CREATE INDEX workspaces_end ON workspaces (end_at) WHERE end_at > 0;

-- +goose Down
DROP INDEX workspaces_end;
DROP INDEX workspaces_name;
CREATE UNIQUE INDEX workspaces_name ON workspaces (owner, name) WHERE name <> '' AND state <> 'destroyed';
ALTER TABLE workspaces DROP COLUMN on_end;
ALTER TABLE workspaces DROP COLUMN end_at;
ALTER TABLE workspaces DROP COLUMN annotations;
ALTER TABLE workspaces DROP COLUMN tenant;
