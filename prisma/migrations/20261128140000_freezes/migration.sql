-- Freezes of environments: times in which nobody may acquire one.
--
-- Controllers of the previous version go on as before, and know nothing of freezes: they grant a frozen environment.
-- A freeze holds once all controllers, and all services with a coordinator of their own, have this version.
-- older versions may start

create table environment_freeze (
  freeze_id uuid not null,
  namespace text collate "C" not null,
  name text collate "C",
  action text,
  reason text not null,
  schedule text,
  duration_ms bigint,
  zone text,
  window_from timestamptz(3) not null,
  window_until timestamptz(3) not null,
  ends_at timestamptz(3) not null,
  pass_roles text[],
  pass_people text[],
  created_by text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  removed_by text,
  removed_at timestamptz(3),
  removed_reason text,

  constraint environment_freeze_pkey primary key (freeze_id),
  constraint environment_freeze_pass_check check (num_nulls(pass_roles, pass_people) = 0),
  constraint environment_freeze_window_check check (window_from < window_until),
  constraint environment_freeze_schedule_check check (num_nulls(schedule, duration_ms, zone) in (0, 3))
);
create index environment_freeze_place_idx on environment_freeze (namespace, ends_at) where removed_at is null;
create index environment_freeze_created_at_idx on environment_freeze (created_at, freeze_id);
comment on table environment_freeze is 'Times in which nobody may acquire an environment. Rows are changed under the lock of the table that environment_freezes_on takes.';
comment on column environment_freeze.namespace is 'Of the environment; without a name, of all environments in it and below it.';
comment on column environment_freeze.name is 'The environment; null: all of the namespace, children included.';
comment on column environment_freeze.action is 'The only action that is frozen; null for all.';
comment on column environment_freeze.reason is 'What refused callers are told.';
comment on column environment_freeze.schedule is 'When each window begins, as five fields of cron by the clock of the zone; null for a freeze with one window.';
comment on column environment_freeze.duration_ms is 'How long a recurring window lasts, by the clock of the zone.';
comment on column environment_freeze.zone is 'The IANA time zone of a recurring freeze.';
comment on column environment_freeze.window_from is 'When the window begins: the only one; of a recurring freeze, the newest one that was computed.';
comment on column environment_freeze.window_until is 'When it ends. A recurring freeze whose window is over stops everybody until its next one is computed.';
comment on column environment_freeze.ends_at is 'When the freeze itself is over: with its only window; infinity while it recurs.';
comment on column environment_freeze.pass_roles is 'The roles that may override it.';
comment on column environment_freeze.pass_people is 'Who else may override it: names of tokens, and addresses of people.';
comment on column environment_freeze.removed_at is 'When somebody ended it; null until then. The row is kept for the history.';

-- Volatile, so that it sees what was committed before it is called, and not only before its statement began.
create function environment_freezes_on(of_namespace text, of_name text, for_action text)
returns setof environment_freeze language plpgsql volatile as $$
begin
  -- Until the end of the transaction. Who adds a freeze takes the table in EXCLUSIVE mode: it waits for all
  -- grants that have looked without seeing it, and all others see it.
  lock table environment_freeze in row share mode;
  return query
    select f.*
    from environment_freeze f
    where f.removed_at is null and f.ends_at > clock_timestamp()
      and f.namespace = any(array(
        -- The namespace, and all those above it up to the root.
        select array_to_string((string_to_array(of_namespace, '.'))[1:n], '.')
        from generate_series(0, cardinality(string_to_array(of_namespace, '.'))) n
      ))
      and (f.name is null or (f.namespace = of_namespace and f.name = of_name))
      and (f.action is null or f.action = for_action)
      -- Within its window. One that is over and was not followed by the next yet stops everybody too.
      and f.window_from <= clock_timestamp();
end
$$ set search_path from current;
comment on function environment_freezes_on(text, text, text) is 'The freezes that stop an acquire of the environment for the action now; and recurring ones whose window is over, of which it is not known whether they do. Keeps new freezes out until the transaction ends.';

create function environment_freeze_passes(pass_roles text[], pass_people text[], override jsonb)
returns boolean language sql immutable parallel safe
return coalesce(
  override ->> 'role' = any(pass_roles) or override ->> 'actor' = any(pass_people), false);
comment on function environment_freeze_passes(text[], text[], jsonb) is 'Whether who asks, with a role and a name, may override a freeze. Null asks for no override.';
