-- Keys whose backends fail one after another: how often, and when the next may be started.
-- Controllers of the version before neither count failures nor wait: they start such a key at once.
-- older versions may start

CREATE TABLE "key_failure" (
  "namespace" text NOT NULL COLLATE "C",
  "name" text NOT NULL COLLATE "C",
  "failures" integer NOT NULL,
  "since" timestamptz(3) NOT NULL,
  "failed_at" timestamptz(3) NOT NULL,
  "backend_id" text NOT NULL COLLATE "C",
  "start_at" timestamptz(3) NOT NULL,
  CONSTRAINT "key_failure_pkey" PRIMARY KEY ("namespace", "name")
);
COMMENT ON TABLE "key_failure" IS 'Keys whose newest backends have failed, until one does not or an operator resets it.';
COMMENT ON COLUMN "key_failure"."failures" IS 'How many have failed in a row.';
COMMENT ON COLUMN "key_failure"."since" IS 'When the first of them failed.';
COMMENT ON COLUMN "key_failure"."failed_at" IS 'When the last of them failed.';
COMMENT ON COLUMN "key_failure"."backend_id" IS 'The last of them.';
COMMENT ON COLUMN "key_failure"."start_at" IS 'No backend is started before this.';
CREATE INDEX "key_failure_failed_at_idx" ON "key_failure" ("failed_at");
COMMENT ON INDEX "key_failure_failed_at_idx" IS 'For the removal of old rows.';
