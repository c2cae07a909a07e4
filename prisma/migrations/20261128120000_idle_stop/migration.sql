-- Backends that stop when nobody uses them.
--
-- Running controllers of the previous version notice nothing: what they start has no idle stop. They send callers to a
-- backend without noting that as a use, so it may be stopped for idleness although they have just returned it.
--
-- older versions may start

alter table backend
  add column idle_stop_seconds integer,
  add column last_used_at timestamptz(3),
  add column stop_asked_at timestamptz(3);
comment on column backend.idle_stop_seconds is 'After how long without a use it is stopped, counted from when it is ready; null for never.';
comment on column backend.last_used_at is 'The last use that is known; null without idle stop.';
comment on column backend.stop_asked_at is 'When it was found idle and asked to stop. From then on nobody is sent to it.';

-- A use updates the row without moving it to another page.
alter table backend set (fillfactor = 85);

-- Apart from the backends, so that a use changes no indexed column, and so that no index of a large table is built.
create table idle_check (
  backend_id text collate "C" not null,
  due_at timestamptz(3) not null,

  constraint idle_check_pkey primary key (backend_id)
) with (fillfactor = 50);
create index idle_check_due_at_idx on idle_check (due_at);
comment on table idle_check is 'When each backend with an idle stop is looked at next: never later than it can be idle.';
comment on column idle_check.due_at is 'Uses do not move it: who looks finds them, and sets the next time.';
comment on index idle_check_due_at_idx is 'What is due, read twice a second by each controller.';
