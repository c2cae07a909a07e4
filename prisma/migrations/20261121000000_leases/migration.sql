-- Leases for services: waiting in line, declarations, callbacks of expired grants, revocations that
-- reach their holders, and the assertion that services in other languages call.
-- Safe while the version before runs: columns have defaults, and nothing is rewritten.

-- A callback that failed is tried again, alone and later, and shown.
ALTER TABLE "lease_reap" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "lease_reap" ADD COLUMN "next_attempt_at" TIMESTAMPTZ(3);
ALTER TABLE "lease_reap" ADD COLUMN "last_error" TEXT;

-- What a key was used for, so that it is not taken for a request about something else.
ALTER TABLE "lease_request" ADD COLUMN "resource" TEXT COLLATE "C";

-- For dropping what nobody claimed.
CREATE INDEX "lease_reap_expired_at_idx" ON "lease_reap" ("expired_at");

-- What a holder must hear of at once. Few rows, so that looking for them costs nothing.
CREATE INDEX "lease_event_revoked_idx" ON "lease_event" ("id")
  WHERE "kind" IN ('revoked', 'renewal_blocked');

-- Tickets are prolonged a few times a second, in a page with room, without touching an index.
ALTER TABLE "lease_waiter" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE "lease_declaration" (
  "namespace" TEXT COLLATE "C" NOT NULL,
  "ttl_ms" INTEGER NOT NULL,
  "description" TEXT,
  "declared_by" TEXT NOT NULL,
  "principal" TEXT COLLATE "C" NOT NULL,
  "declared_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT "lease_declaration_pkey" PRIMARY KEY ("namespace")
);

-- For services that share this database and speak another language: call it as the last statement
-- before commit. It raises unless the grant is in force, with this token, and from then until the
-- transaction ends nobody else is granted the resource, and no revoke or release of it commits.
-- Called first as well it keeps the resource from being taken over during the work; a renewal waits
-- for the transaction then, so keep it shorter than the time between renewal and loss.
CREATE FUNCTION leasehold_assert_held(lease_id uuid, token bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
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
END
$$;

COMMENT ON COLUMN "lease"."tag" IS 'Plane''s tag of a key; the action that an environment is leased for.';
COMMENT ON COLUMN "lease_waiter"."ticket_id" IS 'Also the lease id of the grant that the ticket will become.';
COMMENT ON COLUMN "lease_request"."lease_id" IS 'Of the grant, or of the ticket that waits for it; null when the request was given up before it came.';
COMMENT ON COLUMN "lease_request"."answer" IS 'The refusal that was answered; null for a grant, whose row and events say what became of it, and while it waits.';
COMMENT ON COLUMN "lease_request"."resource" IS 'Face, namespace and name, with U+001F between; null for keys.connect.';
COMMENT ON COLUMN "lease_reap"."attempts" IS 'How often the callback of its use case has failed.';
COMMENT ON TABLE "lease_declaration" IS 'Leases that services declare, for people to see what there is.';
COMMENT ON FUNCTION leasehold_assert_held(uuid, bigint) IS 'Raises LH001 unless the grant is in force; call it last before commit.';
