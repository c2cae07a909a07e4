-- Leasehold lives in a schema of its own, in a database that may be somebody else's. Its functions mean
-- its own tables, whatever their caller searches, and a service that may call leasehold_assert_held
-- needs no privilege on a table. When a migration runs, search_path is the schema.
-- Controllers of the version before must be stopped: their tables move to the schema before this.

-- Bodies that are text are read with the search_path of the call, unless the function has its own.
DO $$
DECLARE
  pinned regprocedure;
BEGIN
  FOR pinned IN
    SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosqlbody IS NULL
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path FROM CURRENT', pinned);
  END LOOP;
END
$$;

ALTER FUNCTION leasehold_assert_held(uuid, bigint) SECURITY DEFINER;
REVOKE EXECUTE ON FUNCTION leasehold_assert_held(uuid, bigint) FROM PUBLIC;
