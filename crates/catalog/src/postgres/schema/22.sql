-- Last contacts of nodes.

CREATE TABLE node_contact(
    node BIGINT PRIMARY KEY, seen BIGINT NOT NULL, address TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL);
