-- A crowd in one line makes PostgreSQL expect a crowd in every line: with 5,000 tickets for one lease it
-- read the whole table once for each row of a list, and once for each grant of another lease. By this
-- setting it expects one ticket for each name, and looks lines up in `lease_waiter_resource_idx`.
-- Controllers of the version before go on, faster.
-- older versions may start

ALTER TABLE "lease_waiter" ALTER COLUMN "name" SET (n_distinct = -1);

-- The setting takes effect when statistics are gathered.
ANALYZE "lease_waiter";
