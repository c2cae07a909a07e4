-- Which request for an environment has last superseded others, so that one of those that has lost its grant since, and asks
-- anew, does not come after it.
--
-- Controllers of the previous version go on as before: what they let supersede others is not recorded. Who was superseded
-- by it and had lost a grant may still come after it, until all controllers have this version.
-- older versions may start

create table environment_superseding (
  namespace text collate "C" not null,
  name text collate "C" not null,
  action text collate "C" not null,
  priority smallint not null,
  at timestamptz(3) not null,
  after_event_id bigint not null,
  request_id uuid not null,
  refusal jsonb not null,

  constraint environment_superseding_pkey primary key (namespace, name, action, priority)
);
create index environment_superseding_at_idx on environment_superseding (at);
comment on table environment_superseding is 'The newest request of each priority that has superseded others, for each environment and action; kept for longer than anybody waits.';
comment on column environment_superseding.at is 'When it has, by the clock of the database.';
comment on column environment_superseding.after_event_id is 'The newest id in lease_event then: a grant with this id or a smaller one was made before.';
comment on column environment_superseding.request_id is 'Of its record in lease_request: it does not supersede itself.';
comment on column environment_superseding.refusal is 'What those are answered that it has superseded.';
comment on index environment_superseding_at_idx is 'Finds what is to be removed.';
