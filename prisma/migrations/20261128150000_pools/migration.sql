-- Pools: scopes of leases that several callers hold at once, by permits or shared.
--
-- Controllers of the previous version go on as before. They grant nothing of a pool: to them its own row is held back
-- without end. They renew, release and revoke what is held of it, and show each slot as a lease of its own.
-- older versions may start

alter table lease add column pool text collate "C", add column mode text;
alter table lease add constraint lease_pool_check check (
  num_nulls(pool, mode) in (0, 2) and (mode is null or mode in ('permit', 'shared', 'exclusive'))
) not valid;
comment on column lease.pool is 'The scope that this row is a part of, when several may hold it at once. The scope''s own row has its own name here, and is never granted: stops_by holds it back without end, and its fencing token is the largest of the pool. Each other row, a slot, is what one of them holds. Null for a lease that one holds at a time.';
comment on column lease.mode is 'Of a slot, how it is held: permit, shared or exclusive. Of the scope''s own row, what kind of pool it is: permit or shared.';

alter table lease_waiter add column mode text;
comment on column lease_waiter.mode is 'How it is to be held: permit or shared; null for a lease that one holds at a time.';

alter table lease_declaration
  add column permits_per_key integer,
  add column permits_total integer,
  add column permits_by text,
  add column permits_principal text collate "C",
  add constraint lease_declaration_permits_check check (
    permits_per_key > 0 and permits_total > 0
    and (permits_per_key is null) = (permits_by is null)
    and (permits_per_key is not null or num_nonnulls(permits_total, permits_principal) = 0)
  ) not valid;
comment on column lease_declaration.permits_per_key is 'How many may hold one key at once; null for one.';
comment on column lease_declaration.permits_total is 'How many may hold keys of the namespace at once, together; null for no limit.';
comment on column lease_declaration.permits_by is 'The service that has declared the numbers, or the operator who has set them.';
comment on column lease_declaration.permits_principal is 'Whose declarations change the numbers; null once an operator has set them.';
