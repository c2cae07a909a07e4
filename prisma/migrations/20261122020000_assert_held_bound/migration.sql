-- leasehold_assert_held bounds the transaction that calls it: a process that is paused between the call
-- and its commit lets go of the lease at the latest when the lease would have expired, or after 10 s.
-- Safe while the version before runs: it changes no table, and the function keeps its signature.

-- Bounds the rest of the transaction as a whole, where the server can: from PostgreSQL 17 on. A limit that
-- the caller has set stays when it is the smaller one. It counts from the beginning of the transaction.
-- A running timer ignores a new value, so that it is stopped first.
CREATE FUNCTION lease_bound_whole_transaction(bound_ms int)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  set_ms int := extract(epoch FROM current_setting('transaction_timeout', true)::interval) * 1000;
  left_ms int;
BEGIN
  IF set_ms IS NULL THEN
    RETURN;
  END IF;
  IF set_ms > 0 THEN
    left_ms := set_ms - extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000;
    -- Not positive: it was set after the transaction had begun, and says nothing here.
    IF left_ms > 0 THEN
      bound_ms := least(bound_ms, left_ms);
    END IF;
  END IF;
  PERFORM set_config('transaction_timeout', '0', true);
  PERFORM set_config('transaction_timeout', bound_ms::text, true);
END
$$;

-- Bounds each statement and each pause of the transaction from here on, and the whole where the server
-- can. A limit that the caller has set stays when it is the smaller one.
CREATE FUNCTION lease_bound_transaction(bound_ms int)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  setting text;
  set_ms int;
BEGIN
  FOREACH setting IN ARRAY ARRAY['statement_timeout', 'idle_in_transaction_session_timeout'] LOOP
    set_ms := extract(epoch FROM current_setting(setting)::interval) * 1000;
    IF set_ms = 0 OR set_ms > bound_ms THEN
      PERFORM set_config(setting, bound_ms::text, true);
    END IF;
  END LOOP;
  PERFORM lease_bound_whole_transaction(bound_ms);
END
$$;

-- For services that share this database and speak another language: call it as the last statement
-- before commit. It raises unless the grant is in force, with this token, and from then until the
-- transaction ends nobody else is granted the resource, and no revoke or release of it commits.
-- The transaction must end within the remaining time of the lease, and within 10 s: the server ends it
-- otherwise. Called first as well it keeps the resource from being taken over during the work; a renewal
-- waits for the transaction then, so keep it shorter than the time between renewal and loss.
CREATE OR REPLACE FUNCTION leasehold_assert_held(lease_id uuid, token bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  bound_ms_max CONSTANT int := 10000;
  held record;
BEGIN
  SELECT l.fencing_token, l.released_at, l.end_reason, l.expires_at INTO held
  FROM lease l
  WHERE l.lease_id = leasehold_assert_held.lease_id
  FOR SHARE;
  IF NOT FOUND
    OR held.fencing_token <> leasehold_assert_held.token
    OR NOT lease_unexpired(held.released_at, held.end_reason, held.expires_at)
  THEN
    RAISE EXCEPTION 'leasehold: lease % with token % is not held', lease_id, token
      USING ERRCODE = 'LH001', HINT = 'Roll back: whatever this transaction did may conflict with the present holder.';
  END IF;
  PERFORM lease_bound_transaction(greatest(1, least(
    bound_ms_max,
    ceil(extract(epoch FROM held.expires_at - clock_timestamp()) * 1000)
  ))::int);
END
$$;

COMMENT ON FUNCTION lease_bound_whole_transaction(int) IS 'Ends the transaction within so many milliseconds, on PostgreSQL 17 and later.';
COMMENT ON FUNCTION lease_bound_transaction(int) IS 'Bounds each statement and each pause of the transaction from here on, and the whole on PostgreSQL 17 and later. Milliseconds.';
COMMENT ON FUNCTION leasehold_assert_held(uuid, bigint) IS 'Raises LH001 unless the grant is in force; call it last before commit, within the remaining time of the lease and 10 s.';
