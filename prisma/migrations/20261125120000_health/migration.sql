-- Since when the system is as it is: healthy, or not.
--
-- Controllers of the version before do not know this table. While only they run, nothing is judged, and it is not
-- known since when the system is healthy.
-- older versions may start

CREATE TABLE "health" (
  "only_row" BOOLEAN NOT NULL DEFAULT true,
  "is_healthy" BOOLEAN NOT NULL,
  "since" TIMESTAMPTZ(3) NOT NULL,
  "judged_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "health_pkey" PRIMARY KEY ("only_row"),
  CONSTRAINT "health_only_row_check" CHECK ("only_row")
);

COMMENT ON TABLE "health" IS 'The latest judgement of the system: whether an operator needs to look at something. One row, or none before the first judgement.';
COMMENT ON COLUMN "health"."is_healthy" IS 'False while something needs attention.';
COMMENT ON COLUMN "health"."since" IS 'Since when every judgement was the same, without a longer time in which nobody judged.';
COMMENT ON COLUMN "health"."judged_at" IS 'When a controller judged last.';
