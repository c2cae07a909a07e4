create table runner (
  key text primary key,
  endpoint text not null,
  state text not null check (state in ('alive', 'dead')),
  -- The grant that made it alive.
  lease_id uuid not null
);
