-- Amounts of what filespaces hold, and the limits of domains on them.

CREATE TABLE amount(
    filespace BIGINT PRIMARY KEY, objects BIGINT NOT NULL, bytes BIGINT NOT NULL);
ALTER TABLE domain_detail ADD COLUMN objects_max BIGINT;
ALTER TABLE domain_detail ADD COLUMN bytes_max BIGINT;
