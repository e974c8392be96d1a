-- +goose Up
-- API keys. hash is the SHA-256 of the text of a key, in hexadecimal digits.
CREATE TABLE api_keys (
    id         TEXT   NOT NULL PRIMARY KEY,
    hash       TEXT   NOT NULL UNIQUE,
    tenant     TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE api_keys;
