-- Callers wait in line for environments, in an order, and newer requests supersede older ones.
--
-- Controllers of the previous version write and read tickets as before: for leases and keys nothing has changed. They
-- grant an environment although others wait for it: lines of environments hold once all controllers have this version.
-- older versions may start

alter table lease_waiter
  add column action text,
  add column comment text,
  add column priority smallint not null default 0,
  add column is_newest_first boolean not null default false,
  add column override jsonb,
  add column request_id uuid;
comment on table lease_waiter is 'Tickets of callers that wait, in the order of lease_waiter_place; one that is not prolonged lapses.';
comment on column lease_waiter.action is 'What an environment is waited for; null on other faces.';
comment on column lease_waiter.comment is 'What the caller says for those who find it in line; of an environment.';
comment on column lease_waiter.priority is 'Those with a greater one come before all others.';
comment on column lease_waiter.is_newest_first is 'Whether it stands before those that came earlier, instead of after them.';
comment on column lease_waiter.override is 'The role, the name and the reason of a caller that may pass freezes; null for none.';
comment on column lease_waiter.request_id is 'Of its record in lease_request; null on tickets of other faces than environments.';

-- One number, so that a place is compared, sorted and sent as one. Exact for ids below 2^50.
create function lease_waiter_place(w lease_waiter)
returns bigint language sql immutable parallel safe
return case when w.is_newest_first then - w.id else w.id end - w.priority * 1125899906842624::bigint;
comment on function lease_waiter_place(lease_waiter) is 'The place of a ticket in its line, the smallest first: a greater priority, then those that asked to be the newest first, the newest of them first, then the others, the oldest first.';
