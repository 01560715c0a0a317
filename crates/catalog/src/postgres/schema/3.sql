-- Partitions of the bulk tables by policy domain. The rows of a filespace lie in the partitions of
-- the block that contains its number: the first block has the numbers below 2^26, each other block
-- has 2^16 numbers.

CREATE TABLE block(
    number BIGINT PRIMARY KEY, domain BIGINT NOT NULL,
    -- Number of the next filespace.
    next BIGINT NOT NULL);

ALTER TABLE directory RENAME TO directory_block0;
ALTER INDEX directory_pkey RENAME TO directory_block0_pkey;
CREATE TABLE directory(
    LIKE directory_block0 INCLUDING STORAGE,
    PRIMARY KEY(filespace, path, first)) PARTITION BY RANGE(filespace);
ALTER TABLE directory ATTACH PARTITION directory_block0 FOR VALUES FROM (MINVALUE) TO (67108864);

ALTER TABLE page RENAME TO page_block0;
ALTER INDEX page_pkey RENAME TO page_block0_pkey;
CREATE TABLE page(
    LIKE page_block0 INCLUDING STORAGE,
    PRIMARY KEY(id)) PARTITION BY RANGE(id);
ALTER TABLE page ATTACH PARTITION page_block0 FOR VALUES FROM (MINVALUE) TO (4611686018427387904);

ALTER TABLE digest RENAME TO digest_block0;
ALTER INDEX digest_pkey RENAME TO digest_block0_pkey;
CREATE TABLE digest(
    LIKE digest_block0 INCLUDING STORAGE,
    PRIMARY KEY(id)) PARTITION BY RANGE(id);
ALTER TABLE digest ATTACH PARTITION digest_block0 FOR VALUES FROM (MINVALUE) TO (4611686018427387904);

ALTER TABLE version RENAME TO version_block0;
ALTER INDEX version_pkey RENAME TO version_block0_pkey;
CREATE TABLE version(
    LIKE version_block0 INCLUDING STORAGE,
    PRIMARY KEY(filespace, directory, name, deactivated, inserted)) PARTITION BY RANGE(filespace);
ALTER TABLE version ATTACH PARTITION version_block0 FOR VALUES FROM (MINVALUE) TO (67108864);

ALTER TABLE ending RENAME TO ending_block0;
ALTER INDEX ending_pkey RENAME TO ending_block0_pkey;
CREATE TABLE ending(
    LIKE ending_block0 INCLUDING STORAGE,
    PRIMARY KEY(filespace, day, directory)) PARTITION BY RANGE(filespace);
ALTER TABLE ending ATTACH PARTITION ending_block0 FOR VALUES FROM (MINVALUE) TO (67108864);

-- The view is made again, because the old view still reads the renamed tables.
CREATE OR REPLACE VIEW occupancy AS SELECT
    node.name AS node_name,
    CASE WHEN substring(filespace.name FROM 1 FOR 7) = '\x00737061636500' THEN 'SpMg'
         WHEN substring(filespace.name FROM 1 FOR 1) = '\x00' THEN 'Arch' ELSE 'Bkup' END AS type,
    filespace.id AS filespace_id, filespace.name AS filespace_name,
    coalesce((SELECT sum(objects) FROM directory WHERE directory.filespace = filespace.id), 0)
        AS num_files,
    (SELECT count(*) FROM version WHERE version.filespace = filespace.id) AS num_inactive
    FROM filespace JOIN node ON node.id = filespace.node;
