-- Operators see which callbacks of expired leases fail. Few rows, so that looking for them costs nothing
-- however many callbacks nobody has claimed.
-- older versions may start
CREATE INDEX "lease_reap_failing_idx" ON "lease_reap" ("expired_at", "lease_id") WHERE "attempts" > 0;
