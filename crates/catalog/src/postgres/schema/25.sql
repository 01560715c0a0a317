-- Last calls of agents. An agent that polls is away only after it has missed several.

CREATE TABLE node_poll(
    node BIGINT PRIMARY KEY, polled BIGINT NOT NULL, minutes BIGINT NOT NULL);
