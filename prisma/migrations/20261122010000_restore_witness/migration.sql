-- What controllers know of the database beside it: whether it has gone back to an earlier state, and
-- since when its clock has been watched.
-- Safe while the version before runs: it ignores the new columns and the new table. What it grants is
-- not guarded by them, so stop it soon.

-- CreateTable
CREATE TABLE "database_witness" (
    "id" UUID NOT NULL,
    "beat" BIGINT NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL,
    "watched_since" TIMESTAMPTZ(3),

    CONSTRAINT "database_witness_pkey" PRIMARY KEY ("id")
);

-- Before this version nothing says what was watched. What ran out by now did so under the version before.
ALTER TABLE "database_epoch" ADD COLUMN "settled_until" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp();
ALTER TABLE "database_epoch" ADD COLUMN "hold_off_cause" TEXT;
-- 244 random bits.
ALTER TABLE "database_epoch" ADD COLUMN "witness_secret" TEXT NOT NULL DEFAULT gen_random_uuid()::text || gen_random_uuid()::text;

-- Whether the database has lost something that a witness had seen in it: the witness's own row is
-- missing or behind, or the write-ahead log is. Within one run of the server the log is compared as it
-- is now. After a restart it is compared with where the newest checkpoint began: whatever was written
-- before the restart and is not lost lies before that.
-- A row that is missing because it was removed for its age tells nothing.
CREATE FUNCTION database_is_behind(witness uuid, seen_beat bigint, seen_at timestamptz, seen_run bigint, seen_position pg_lsn)
RETURNS boolean LANGUAGE sql VOLATILE
RETURN coalesce(
    (SELECT w."beat" < seen_beat FROM "database_witness" w WHERE w."id" = witness),
    seen_at > clock_timestamp() - interval '47 hours'
  )
  OR seen_position > CASE
    WHEN seen_run = floor(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
      THEN pg_current_wal_flush_lsn()
    ELSE (SELECT c.redo_lsn FROM pg_control_checkpoint() AS c)
  END;

COMMENT ON TABLE "database_witness" IS 'One row per process that grants, written by it alone, about once a second: it shows whether the database has gone back. Removed by retention two days after its last beat.';
COMMENT ON COLUMN "database_witness"."beat" IS 'Grows by one with each beat.';
COMMENT ON COLUMN "database_witness"."at" IS 'When the newest beat was written.';
COMMENT ON COLUMN "database_witness"."watched_since" IS 'Since when this process has watched the database''s clock without a jump, as of the newest beat; null when it is not sure.';
COMMENT ON COLUMN "database_epoch"."settled_until" IS 'Every grant that expired up to here did so on a clock that was watched.';
COMMENT ON COLUMN "database_epoch"."hold_off_cause" IS 'Why grants are or were last held off: what showed that the database had changed.';
COMMENT ON COLUMN "database_epoch"."witness_secret" IS 'Signs what drones and clients are told of the database, so that nobody can make up a restore.';
COMMENT ON FUNCTION database_is_behind(uuid, bigint, timestamptz, bigint, pg_lsn) IS 'Whether the database has lost what a witness saw in it.';
