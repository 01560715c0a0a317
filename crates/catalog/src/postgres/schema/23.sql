-- Sums of the digests of filespaces. Pages without a digest are found without reading the others.
--
-- Servers of this version keep the sums, and say so in their sessions. A batch of an earlier
-- version, which runs beside them during an upgrade, drops the sum; it is counted when it is asked
-- for.

CREATE TABLE digest_sum(filespace BIGINT PRIMARY KEY, sum BYTEA NOT NULL);
CREATE INDEX undigested ON digest(id) WHERE digest IS NULL;
CREATE FUNCTION drop_digest_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM digest_sum WHERE filespace = coalesce(NEW.id, OLD.id) >> 36;
    RETURN NULL;
END $$;
CREATE TRIGGER digest_sum_is_not_kept AFTER INSERT OR UPDATE OR DELETE ON digest
    FOR EACH ROW WHEN (current_setting('holdfast.keeps_sums', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION drop_digest_sum();
