-- Datacenters that were given up: what this one knows of them, and until when this one may start without
-- having asked whether it is one of them.
--
-- A controller of the version before does not ask: a datacenter with such a controller can be given up only
-- by somebody who is certain that it is gone. A controller of this version starts without etcd only after one
-- of this version has been in touch with etcd.
-- older versions may start
ALTER TABLE "reservation_membership"
  ADD COLUMN "confirmed_at" TIMESTAMPTZ(3),
  ADD COLUMN "confirmed_until" TIMESTAMPTZ(3);

COMMENT ON COLUMN "reservation_membership"."confirmed_at" IS 'When etcd was last asked whether this datacenter was given up, and it was not. Null before the first time.';
COMMENT ON COLUMN "reservation_membership"."confirmed_until" IS 'Until when a controller may start without asking again.';

CREATE TABLE "reservation_given_up" (
  "datacenter" TEXT COLLATE "C" NOT NULL,
  "given_up" JSONB NOT NULL,

  CONSTRAINT "reservation_given_up_pkey" PRIMARY KEY ("datacenter")
);

COMMENT ON TABLE "reservation_given_up" IS 'Datacenters whose keys may be given other homes, as the reservation store has them.';
