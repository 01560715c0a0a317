-- Keys that enrol many nodes.

CREATE TABLE enrolment_key(
    hash BYTEA PRIMARY KEY, name TEXT COLLATE "C" NOT NULL, nodes_max BIGINT NOT NULL,
    nodes BIGINT NOT NULL, made BIGINT NOT NULL, made_by TEXT NOT NULL, expires BIGINT NOT NULL,
    revoked BIGINT, domain TEXT NOT NULL, option_set TEXT, names TEXT NOT NULL,
    labels TEXT NOT NULL);
CREATE UNIQUE INDEX enrolment_key_by_name ON enrolment_key(lower(name));
