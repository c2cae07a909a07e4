-- What alarms on the overview need: since when new grants are held off, and the steps of the database's
-- clock that controllers have met.
--
-- Controllers of the version before note no steps. A hold-off that one of them begins has no beginning, or
-- that of the hold-off before it.
-- older versions may start
ALTER TABLE "database_epoch" ADD COLUMN "hold_off_since" TIMESTAMPTZ(3);

COMMENT ON COLUMN "database_epoch"."hold_off_since" IS 'When the latest hold-off began; null when there was none.';

CREATE TABLE "clock_jump" (
  "id" BIGSERIAL NOT NULL,
  "at" TIMESTAMPTZ(3) NOT NULL,
  "jump_ms" BIGINT NOT NULL,
  "unsure_until" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "clock_jump_pkey" PRIMARY KEY ("id")
);

COMMENT ON TABLE "clock_jump" IS 'Steps of the database clock, one row for each process that has met one.';
COMMENT ON COLUMN "clock_jump"."at" IS 'When it was met, by the clock after the step.';
COMMENT ON COLUMN "clock_jump"."jump_ms" IS 'How far the clock stepped; negative when it stepped back.';
COMMENT ON COLUMN "clock_jump"."unsure_until" IS 'Until when the expiry of a grant from before the step may not be believed.';
