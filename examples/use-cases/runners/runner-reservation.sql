create table runner_slot (
  runner text primary key,
  state text not null check (state in ('idle', 'reserved', 'assigned')),
  deployment text,
  -- The grant under which it is being reserved.
  lease_id uuid
);
