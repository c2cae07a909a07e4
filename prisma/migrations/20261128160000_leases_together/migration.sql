-- Several leases at once: one request for up to 64 leases, which are granted together or not at all.
--
-- Controllers of the previous version go on as before. Tickets that they make have numbers that are 64 apart, in the
-- same order. When one of them gives up a request for several leases, it ends the first of them: the others
-- end by themselves, places in line within half a second, grants with their TTL.
-- older versions may start

-- A request for several leases takes one number, and the 63 after it: its tickets lie next to each other, and nobody's
-- between them. So two such requests are in the same order in every line that both are in.
alter sequence lease_waiter_id_seq increment by 64;

alter table lease_request
  add column lease_count smallint;
comment on column lease_request.lease_count is 'How many leases it asks for together, whose ids follow lease_id; null for one.';
