-- +goose Up
-- Which store this is. It has one row, made when the store is.
CREATE TABLE identity (
    one        BIGINT NOT NULL PRIMARY KEY,
    id         TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE identity;
