-- Events of a time and of a schedule are found without reading those that are newer.

DROP INDEX scheduled_event_by_time;
CREATE INDEX scheduled_event_by_time ON scheduled_event(planned, id);
CREATE INDEX scheduled_event_by_schedule ON scheduled_event(lower(schedule), id);
