-- +goose Up
-- workspace is the id of the only workspace that the key of a share link shows; '' is a key of
-- its tenant.
ALTER TABLE api_keys ADD COLUMN workspace TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE api_keys DROP COLUMN workspace;
