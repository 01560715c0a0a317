-- Versions of option sets. The statements of the version in force are also in `option_set`, where
-- servers of the previous version read and write them.

ALTER TABLE option_set ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE option_set ADD COLUMN stage TEXT;
CREATE TABLE option_set_version(
    name TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body BYTEA NOT NULL,
    options TEXT NOT NULL, changed BIGINT NOT NULL, changed_by TEXT NOT NULL,
    comment TEXT NOT NULL, in_force BIGINT, PRIMARY KEY(name, version));
INSERT INTO option_set_version SELECT lower(name), 1, body, '[]', 0, '', '', 0 FROM option_set;
