-- Tokens can be bound to programs, a capacity and addresses, and have limits of their own.
-- Safe while the version before runs: it does not read these columns, and enforces no binding. Bind a
-- drone's token once all controllers are of this version.

ALTER TABLE "api_token" ADD COLUMN "programs" TEXT[];
ALTER TABLE "api_token" ADD COLUMN "capacity" INTEGER;
ALTER TABLE "api_token" ADD COLUMN "addresses" TEXT[];
ALTER TABLE "api_token" ADD COLUMN "limits" JSONB;

ALTER TABLE "api_token" ADD CONSTRAINT "api_token_capacity_check" CHECK ("capacity" >= 0);

COMMENT ON COLUMN "api_token"."programs" IS 'The programs that a drone may offer, or a client may start; null or empty for any.';
COMMENT ON COLUMN "api_token"."capacity" IS 'How many backends a drone may say it runs at once; null for any number.';
COMMENT ON COLUMN "api_token"."addresses" IS 'Where a drone''s backends may be: networks, each with an optional range of ports; null or empty for anywhere.';
COMMENT ON COLUMN "api_token"."limits" IS 'Limits of fair use in place of those of its role, by name; null for none.';
