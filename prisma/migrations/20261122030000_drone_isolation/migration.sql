-- How far a drone keeps programs from itself, so that an operator sees which machines do not.
-- Safe while the version before runs: the column has no rule, and nothing is rewritten.
ALTER TABLE "drone" ADD COLUMN "isolation" JSONB;

COMMENT ON COLUMN "drone"."isolation" IS 'What the drone''s machine provides: users of their own for programs, namespaces, no new privileges. Null where the drone does not say.';
