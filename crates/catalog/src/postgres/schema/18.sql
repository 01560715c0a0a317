-- Agents that attend at one of several servers.

CREATE TABLE attendant(
    node BIGINT PRIMARY KEY, server BIGINT NOT NULL REFERENCES server ON DELETE CASCADE,
    number BIGINT NOT NULL, place BYTEA NOT NULL, address TEXT COLLATE "C" NOT NULL);
CREATE INDEX attendant_by_server ON attendant(server);
