-- Times since which nodes have their labels and domains. A schedule counts for them from then on.

ALTER TABLE node_label ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN domain_since BIGINT NOT NULL DEFAULT 0;
