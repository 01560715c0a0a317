-- The last restore drills of each node.

CREATE TABLE drill(
    node BIGINT NOT NULL, is_good BIGINT NOT NULL, ended BIGINT NOT NULL, objects BIGINT NOT NULL,
    bytes BIGINT NOT NULL, damaged BIGINT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY(node, is_good));
