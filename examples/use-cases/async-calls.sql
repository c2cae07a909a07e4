create table async_call (
  id bigint generated always as identity primary key,
  verb text not null,
  request jsonb not null,
  state text not null default 'pending'
    check (state in ('pending', 'executing', 'done', 'failed')),
  -- How often its execution may still begin.
  attempts_left int not null default 3,
  -- The grant under which it executes.
  lease_id uuid,
  response jsonb,
  error text
);

create index async_call_pending on async_call (id) where state = 'pending';
