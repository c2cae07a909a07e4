-- What the backends of a drone use, as it reported it last: written with a heartbeat every ten seconds at most.
-- Controllers of the version before neither read nor write it.
-- older versions may start

ALTER TABLE "drone" ADD COLUMN "usage" jsonb, ADD COLUMN "usage_at" timestamptz(3);
COMMENT ON COLUMN "drone"."usage" IS 'By the id of each backend: bytes of memory, and processors in use or null.';
COMMENT ON COLUMN "drone"."usage_at" IS 'When it was reported.';
