-- The session in which a drone has said goodbye, and when. It counts for that session alone: a drone that comes back
-- has a new one. Controllers of the version before neither read nor write it: there, such a drone is unreachable.
-- older versions may start

ALTER TABLE "drone" ADD COLUMN "stopped_session" bigint, ADD COLUMN "stopped_at" timestamptz(3);
COMMENT ON COLUMN "drone"."stopped_session" IS 'The session in which it said that it stops. It is back when its session is another one.';
COMMENT ON COLUMN "drone"."stopped_at" IS 'When it said that it stops.';
