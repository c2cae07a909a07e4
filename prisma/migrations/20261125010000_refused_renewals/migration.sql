-- Refused renewals can be listed: each is an event, and its place here finds it among millions of others.
-- A table, and not an index of "lease_event": building one would stop grants for as long as it reads them.
-- Controllers of the version before neither read nor write it, and count refused renewals as before.
-- older versions may start

CREATE TABLE "refused_renewal" (
  "at" TIMESTAMPTZ(3) NOT NULL,
  "event_id" BIGINT NOT NULL,

  CONSTRAINT "refused_renewal_pkey" PRIMARY KEY ("at", "event_id")
);

COMMENT ON TABLE "refused_renewal" IS 'The events of the kind renewal_refused, by time. Kept as long as events.';
COMMENT ON COLUMN "refused_renewal"."at" IS 'The instant of the event.';
COMMENT ON COLUMN "refused_renewal"."event_id" IS 'The id of the row of lease_event; no foreign key, which would be checked for every event that is removed.';
