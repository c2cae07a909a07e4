-- One act on many grants that were chosen and shown before, carried out even if its controller dies.
-- Safe while the version before runs: it knows nothing of these tables.

CREATE TABLE "bulk" (
  "id" UUID NOT NULL,
  "action" TEXT NOT NULL,
  "mode" TEXT,
  "reason" TEXT NOT NULL,
  "actor" TEXT NOT NULL,
  "principal" TEXT COLLATE "C" NOT NULL,
  "role" TEXT NOT NULL,
  "source" TEXT,
  "namespaces" TEXT[],
  "state" TEXT NOT NULL DEFAULT 'running',
  "total" INTEGER NOT NULL,
  "done_count" INTEGER NOT NULL DEFAULT 0,
  "failed_count" INTEGER NOT NULL DEFAULT 0,
  "started_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "ended_at" TIMESTAMPTZ(3),
  "runner" UUID,
  "runner_until" TIMESTAMPTZ(3),

  CONSTRAINT "bulk_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "bulk_action_check" CHECK ("action" IN ('revoke', 'blockRenewal', 'allowRenewal')),
  CONSTRAINT "bulk_state_check" CHECK ("state" IN ('running', 'aborted', 'done'))
);

-- Those that are still to be carried out: a handful at most.
CREATE INDEX "bulk_running_idx" ON "bulk" ("started_at") WHERE "state" = 'running';
-- For removing old ones.
CREATE INDEX "bulk_ended_at_idx" ON "bulk" ("ended_at");

CREATE TABLE "bulk_item" (
  "bulk_id" UUID NOT NULL,
  "place" INTEGER NOT NULL,
  "lease_id" UUID NOT NULL,
  "fencing_token" BIGINT NOT NULL,
  "done_at" TIMESTAMPTZ(3),
  "code" TEXT,

  CONSTRAINT "bulk_item_pkey" PRIMARY KEY ("bulk_id", "place"),
  CONSTRAINT "bulk_item_bulk_id_fkey" FOREIGN KEY ("bulk_id") REFERENCES "bulk" ("id")
);

CREATE INDEX "bulk_item_open_idx" ON "bulk_item" ("bulk_id", "place") WHERE "done_at" IS NULL;
CREATE INDEX "bulk_item_failed_idx" ON "bulk_item" ("bulk_id", "place") WHERE "code" IS NOT NULL;

COMMENT ON TABLE "bulk" IS 'One act on many grants. Whether its runner is dead is computed from runner_until, never stored.';
COMMENT ON COLUMN "bulk"."principal" IS 'With actor, role, source and namespaces: for whom its acts are done.';
COMMENT ON COLUMN "bulk"."done_count" IS 'Items that were carried out, failed ones too; counted by the statement that records them.';
COMMENT ON COLUMN "bulk"."runner" IS 'The controller that carries it out; null once it has let go.';
COMMENT ON COLUMN "bulk"."runner_until" IS 'After this another controller may take it over.';
COMMENT ON TABLE "bulk_item" IS 'One grant of a bulk action, frozen as it was chosen.';
COMMENT ON COLUMN "bulk_item"."fencing_token" IS 'As it was shown: a grant with another token is not this one.';
COMMENT ON COLUMN "bulk_item"."code" IS 'Why it failed: a code of the registry, or gone; null while it is open, and when it is done.';
