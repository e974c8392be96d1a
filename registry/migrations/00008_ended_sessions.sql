-- +goose Up
-- The sessions of the page that people signed out of before they expired. After expires_at the row
-- of a session is of no use.
CREATE TABLE ended_sessions (
    id         TEXT   NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE ended_sessions;
