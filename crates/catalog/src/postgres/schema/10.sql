-- Progress of events, and the time until which somebody looks at them.

ALTER TABLE scheduled_event ADD COLUMN watched BIGINT NOT NULL DEFAULT 0;
ALTER TABLE scheduled_event ADD COLUMN progress TEXT NOT NULL DEFAULT '';
