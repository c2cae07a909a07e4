-- Leasehold lives in a schema of its own, in a database that may be somebody else's. Its functions
-- mean its own tables, whatever their caller searches, and a service that may call
-- leasehold_assert_held needs no privilege on a table. A migration sees the schema in search_path.
-- Controllers of the version before must be stopped: their tables move to the schema before this.

ALTER FUNCTION lease_event_note_removed() SET search_path FROM CURRENT;
ALTER FUNCTION lease_event_note_truncated() SET search_path FROM CURRENT;

ALTER FUNCTION leasehold_assert_held(uuid, bigint) SECURITY DEFINER SET search_path FROM CURRENT;
REVOKE EXECUTE ON FUNCTION leasehold_assert_held(uuid, bigint) FROM PUBLIC;
