-- +goose Up
-- Times are nanoseconds since 1970. JSON is text, so that both databases keep
-- it as it was written.
CREATE TABLE workspaces (
    id         TEXT   NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL,
    owner      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    ref        TEXT   NOT NULL,
    pending    TEXT   NOT NULL,
    failure    TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    worker     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL
);

CREATE UNIQUE INDEX workspaces_name ON workspaces (owner, name) WHERE name <> '' AND state <> 'destroyed';

-- A registry that runs somewhere, until its lease ends.
CREATE TABLE holders (
    id         TEXT   NOT NULL PRIMARY KEY,
    host       TEXT   NOT NULL,
    pid        BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Which of them holds which workspace.
CREATE TABLE holds (
    workspace TEXT NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (workspace, holder)
);

CREATE INDEX holds_holder ON holds (holder);

-- +goose Down
DROP TABLE holds;
DROP TABLE holders;
DROP TABLE workspaces;
