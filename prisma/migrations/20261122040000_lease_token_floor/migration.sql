-- Rows of resources that have long been free are deleted. The largest token of a deleted row stays
-- here, so that tokens grow even if the database's clock was ahead when the row was deleted.
-- Safe while the version before runs: it does not read this table. Its own deletions are bounded by
-- the clock alone, as before.

CREATE TABLE "lease_token_floor" (
  "only_row" BOOLEAN NOT NULL DEFAULT true,
  "floor" BIGINT NOT NULL,

  CONSTRAINT "lease_token_floor_pkey" PRIMARY KEY ("only_row"),
  CONSTRAINT "lease_token_floor_only_row_check" CHECK ("only_row")
);

INSERT INTO "lease_token_floor" ("floor") VALUES (0);

COMMENT ON TABLE "lease_token_floor" IS 'One row: what fencing tokens of resources without a row must exceed.';
COMMENT ON COLUMN "lease_token_floor"."floor" IS 'The largest fencing token of a lease row that was deleted; 0 for none.';
