-- Which ladder each controller gives to keys, so that one that is configured differently is found.
-- Safe while the version before runs: it does not write the column.
-- older versions may start

ALTER TABLE "database_witness" ADD COLUMN "key_ladder_ms" INTEGER[];

COMMENT ON COLUMN "database_witness"."key_ladder_ms" IS 'When keys that this controller grants are renewed, stopped softly and hard, and expire: milliseconds. Null for a process that grants no keys.';
