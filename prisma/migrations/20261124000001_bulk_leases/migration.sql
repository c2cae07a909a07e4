-- The controller that carries out a bulk action has a lease, "bulk:" and its id, in the namespace
-- "leasehold". The claim that was kept in these columns goes.
--
-- Leases and keys are not concerned. Controllers of the version before that still run refuse to start bulk
-- actions, with `internal.error`, until they are replaced. They stop those that they carry out, and the
-- first controller of this version takes them over: two versions never carry out the same one.
ALTER TABLE "bulk" DROP COLUMN "runner", DROP COLUMN "runner_until";

COMMENT ON TABLE "bulk" IS 'One act on many grants. The controller that carries it out has the lease "bulk:" and its id in the namespace "leasehold".';
