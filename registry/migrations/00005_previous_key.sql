-- +goose Up
-- previous_hash is that of the text before the last rotation, which is accepted until
-- previous_until.
ALTER TABLE api_keys ADD COLUMN previous_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN previous_until BIGINT NOT NULL DEFAULT 0;
CREATE INDEX api_keys_previous_hash ON api_keys (previous_hash);

-- +goose Down
DROP INDEX api_keys_previous_hash;
ALTER TABLE api_keys DROP COLUMN previous_until;
ALTER TABLE api_keys DROP COLUMN previous_hash;
