-- Rules by which a node lets another node read.
CREATE TABLE read_rule(
    node BIGINT NOT NULL, reader TEXT COLLATE "C" NOT NULL, archives BIGINT NOT NULL,
    path BYTEA NOT NULL, since BIGINT NOT NULL, PRIMARY KEY(node, reader, archives, path));
