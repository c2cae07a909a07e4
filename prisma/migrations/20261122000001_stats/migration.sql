-- Numbers for the overview: what happened in each ten seconds of the last day, by face.
-- Safe while the version before runs: it knows nothing of these tables, and its acts are rolled up
-- from its events; only what has no event (renewals, denials, waits) is counted by new controllers.

CREATE TABLE "stats_bucket" (
  "bucket_at" TIMESTAMPTZ(3) NOT NULL,
  "face" TEXT COLLATE "C" NOT NULL,
  "grants" BIGINT NOT NULL DEFAULT 0,
  "releases" BIGINT NOT NULL DEFAULT 0,
  "expiries" BIGINT NOT NULL DEFAULT 0,
  "revocations" BIGINT NOT NULL DEFAULT 0,
  "denials" BIGINT NOT NULL DEFAULT 0,
  "renewals" BIGINT NOT NULL DEFAULT 0,
  "refused_renewals" BIGINT NOT NULL DEFAULT 0,
  "waits" BIGINT[],
  "handovers" BIGINT[],

  CONSTRAINT "stats_bucket_pkey" PRIMARY KEY ("bucket_at", "face"),
  CONSTRAINT "stats_bucket_face_check" CHECK ("face" IN ('key', 'lease', 'environment'))
);

-- The newest bucket is added to every few seconds, in its page.
ALTER TABLE "stats_bucket" SET (fillfactor = 70);

CREATE TABLE "stats_cursor" (
  "only_row" BOOLEAN NOT NULL DEFAULT true,
  "through_id" BIGINT NOT NULL,

  CONSTRAINT "stats_cursor_pkey" PRIMARY KEY ("only_row"),
  CONSTRAINT "stats_cursor_only_row_check" CHECK ("only_row")
);

-- From now on: a table of millions of events must not be counted through first.
INSERT INTO "stats_cursor" ("through_id")
SELECT greatest(
  coalesce((SELECT max(v."id") FROM "lease_event" v), 0),
  (SELECT m."removed_through_id" FROM "lease_event_mark" m)
);

COMMENT ON TABLE "stats_bucket" IS 'What happened in ten seconds of the database''s clock, by face. Kept for a day.';
COMMENT ON COLUMN "stats_bucket"."bucket_at" IS 'The beginning of the ten seconds.';
COMMENT ON COLUMN "stats_bucket"."grants" IS 'With releases, expiries and revocations: from lease_event, each event once.';
COMMENT ON COLUMN "stats_bucket"."denials" IS 'With renewals, waits and handovers: counted by controllers as they answer. One that is killed loses what it has not written yet.';
COMMENT ON COLUMN "stats_bucket"."waits" IS 'How many waits were of which length: a histogram whose bounds are in stats/histogram.ts; null for none.';
COMMENT ON COLUMN "stats_bucket"."handovers" IS 'The same, from the end of a grant to the grant of who waited.';
COMMENT ON TABLE "stats_cursor" IS 'Up to which event stats_bucket counts. Whoever adds events locks it.';
