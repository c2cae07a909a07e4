-- Refused connects and acquires leave a trace: how often, why, and who was refused last.
-- Controllers of the version before neither read nor write it.
-- older versions may start

CREATE TABLE "refusal" (
  "hour_at" timestamptz(3) NOT NULL,
  "face" text NOT NULL COLLATE "C",
  "namespace" text NOT NULL COLLATE "C",
  "name" text NOT NULL COLLATE "C",
  "code" text NOT NULL COLLATE "C",
  "count" bigint NOT NULL,
  "first_at" timestamptz(3) NOT NULL,
  "last_at" timestamptz(3) NOT NULL,
  "actor" text NOT NULL,
  "holder" text,
  "reason" text NOT NULL,
  CONSTRAINT "refusal_pkey" PRIMARY KEY ("hour_at", "face", "namespace", "name", "code")
) WITH (fillfactor = 80);
COMMENT ON TABLE "refusal" IS 'Refused connects and acquires of an hour, by resource and code. Kept for a week.';
COMMENT ON COLUMN "refusal"."hour_at" IS 'The beginning of the hour.';
COMMENT ON COLUMN "refusal"."code" IS 'The code of the error; held where somebody else has the lease.';
COMMENT ON COLUMN "refusal"."actor" IS 'Who was refused last: the name of its token, or of the person.';
COMMENT ON COLUMN "refusal"."holder" IS 'For whom it was asked then; null for a key.';
COMMENT ON COLUMN "refusal"."reason" IS 'What it was told then.';
CREATE INDEX "refusal_resource_idx" ON "refusal" ("face", "namespace", "name", "hour_at");
COMMENT ON INDEX "refusal_resource_idx" IS 'For the page of a resource.';
