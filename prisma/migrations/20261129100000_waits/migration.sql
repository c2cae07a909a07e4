-- What became of those who waited in line, for people who ask what made callers wait.
--
-- Controllers of the previous version go on as before: a trigger records their waits, too.
-- older versions may start

create table lease_wait (
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  ended_at timestamptz(3) not null,
  ticket_id uuid not null,
  began_at timestamptz(3) not null,
  waiter text not null,
  outcome text not null,

  constraint lease_wait_pkey primary key (face, namespace, name, ended_at, ticket_id)
);
create index lease_wait_ended_at_idx on lease_wait (ended_at);
comment on table lease_wait is 'Waits in line for leases and environments that are over, kept for a day.';
comment on column lease_wait.ticket_id is 'Of its ticket, and of the grant that it became, if it was granted.';
comment on column lease_wait.outcome is 'granted; gave_up: its time was over, or its caller cancelled it; superseded; lapsed: its caller was gone.';
comment on index lease_wait_ended_at_idx is 'Finds what was waited for lately, and what is to be removed.';

-- By a trigger, because many statements take tickets away; a grant that nobody waited for takes none, and pays nothing.
-- By its owner's rights: who may take leases need not be able to read what others waited for. Nothing may fail for it.
-- Each look is limited to a row, so that it is one probe of an index whenever it was planned.
create function lease_waiter_note_wait()
returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
  values (
    old.face, old.namespace, old.name, least(clock_timestamp(), old.valid_until), old.ticket_id,
    old.created_at, old.waiter,
    case
      when (select true from lease l where l.lease_id = old.ticket_id limit 1) then 'granted'
      when (
        select true from lease_event e
        where e.lease_id = old.ticket_id and e.kind = 'superseded'
        limit 1
      ) then 'superseded'
      when old.valid_until <= clock_timestamp() then 'lapsed'
      else 'gave_up'
    end
  )
  on conflict do nothing;
  return null;
end
$$;
revoke execute on function lease_waiter_note_wait() from public;
comment on function lease_waiter_note_wait() is 'Records the wait of a ticket that is taken away.';

-- Tickets for keys hold no place in line.
create trigger lease_waiter_gone
after delete on lease_waiter
for each row when (old.face <> 'key')
execute function lease_waiter_note_wait();
comment on trigger lease_waiter_gone on lease_waiter is 'Waits are recorded when they are over.';
