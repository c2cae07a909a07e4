-- Where a drone keeps what its backends write, so that an operator who looks for a log is told.
-- Safe while the version before runs: the column has no rule, and nothing is rewritten.
ALTER TABLE "drone" ADD COLUMN "log_folder" TEXT;

COMMENT ON COLUMN "drone"."log_folder" IS 'The folder on the drone''s machine with its backends'' output; null where the drone does not say.';
COMMENT ON COLUMN "drone"."load" IS 'What the newest heartbeat said: how many backends run, and how long the heartbeat before it took.';
