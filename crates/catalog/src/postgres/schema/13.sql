-- Time since which a node's attempt pauses, as the node has confirmed it.

ALTER TABLE scheduled_event ADD COLUMN paused BIGINT;
