-- What is removed for its age is found by its age: a statement that looked through all that is kept was cancelled on a
-- large table, and nothing was removed.
-- older versions may start
CREATE INDEX "backend_terminated_at_idx" ON "backend" ("status_at") WHERE "status" = 'terminated';
CREATE INDEX "backend_action_closed_at_idx" ON "backend_action" ((coalesce("acked_at", "cancelled_at")));
