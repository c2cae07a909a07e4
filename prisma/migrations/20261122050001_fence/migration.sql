-- The beginning and the end of fenced work as functions, for services that have no privilege on a table.
-- Safe while the version before runs: it changes no table and no function.
-- older versions may start

-- Locks the grant's row FOR KEY SHARE: a renewal changes no key column and passes, a takeover waits. Then
-- judges, by the clock, and bounds the transaction by the remaining time of the lease. No row: the grant
-- is not in force, or its token is another one.
CREATE FUNCTION leasehold_fence(lease_id uuid, token bigint, bound_ms_max int)
RETURNS TABLE (expires_at timestamptz, bound_ms int)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  held record;
BEGIN
  SELECT l.fencing_token, l.released_at, l.end_reason, l.expires_at INTO held
  FROM lease l
  WHERE l.lease_id = leasehold_fence.lease_id
  FOR KEY SHARE;
  IF NOT FOUND
    OR held.fencing_token <> token
    OR NOT lease_unexpired(held.released_at, held.end_reason, held.expires_at)
  THEN
    RETURN;
  END IF;
  expires_at := held.expires_at;
  bound_ms := greatest(1, least(
    bound_ms_max,
    ceil(extract(epoch FROM held.expires_at - clock_timestamp()) * 1000)
  ));
  PERFORM set_config('statement_timeout', bound_ms::text, true);
  PERFORM set_config('idle_in_transaction_session_timeout', bound_ms::text, true);
  PERFORM lease_bound_whole_transaction(bound_ms);
  RETURN NEXT;
END
$$;

-- Whether the grant has not been ended since: the last statement before the commit. Locks the row FOR
-- SHARE: a revoke or a release that came first is waited for and seen, a later one waits for the commit.
CREATE FUNCTION leasehold_fence_holds(lease_id uuid, token bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM FROM lease l
  WHERE l.lease_id = leasehold_fence_holds.lease_id AND l.fencing_token = token
    AND l.released_at IS NULL AND l.end_reason IS NULL
  FOR SHARE;
  RETURN FOUND;
END
$$;

REVOKE EXECUTE ON FUNCTION leasehold_fence(uuid, bigint, int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION leasehold_fence_holds(uuid, bigint) FROM PUBLIC;

COMMENT ON FUNCTION leasehold_fence(uuid, bigint, int) IS 'Begins fenced work: locks the grant, judges it, and bounds the transaction, in milliseconds. No row: it is not in force.';
COMMENT ON FUNCTION leasehold_fence_holds(uuid, bigint) IS 'Ends fenced work: whether the grant has not been ended. Call it last before commit.';
