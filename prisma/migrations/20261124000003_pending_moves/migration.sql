-- Moves between datacenters are carried out by the controllers of the datacenter that the key leaves: a
-- move that waits for a grant to end, or was cut short, is in the row of the reservation.
--
-- Controllers of the version before leave these columns alone, and carry out no such moves.
-- older versions may start
ALTER TABLE "reservation"
  ADD COLUMN "move_to" TEXT,
  ADD COLUMN "move_asked_by" TEXT,
  ADD COLUMN "move_asked_at" TIMESTAMPTZ(3),
  ADD COLUMN "move_asked_for" TEXT,
  ADD COLUMN "move_waits_for" UUID,
  ADD COLUMN "move_failure" TEXT;

COMMENT ON COLUMN "reservation"."move_to" IS 'The datacenter that the key is to move to. Null without such a request, and when the key has arrived.';
COMMENT ON COLUMN "reservation"."move_asked_by" IS 'Who asked for the move.';
COMMENT ON COLUMN "reservation"."move_asked_at" IS 'When it was asked for.';
COMMENT ON COLUMN "reservation"."move_asked_for" IS 'The reason that was given.';
COMMENT ON COLUMN "reservation"."move_waits_for" IS 'The grant that has to end first. Another grant ends the move.';
COMMENT ON COLUMN "reservation"."move_failure" IS 'The error code with which the move has ended, or ''cancelled''; null while it goes on.';

CREATE INDEX "reservation_pending_move_idx" ON "reservation" ("move_asked_at")
  WHERE "move_to" IS NOT NULL AND "move_failure" IS NULL;
