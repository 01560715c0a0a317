-- Numbers of drives that write at once.

ALTER TABLE library ADD COLUMN writers BIGINT NOT NULL DEFAULT 0;
