-- A wait ended with a grant if its ticket became one, although another may have the lease by now: its event tells, not the
-- row of the lease.
--
-- Controllers of the previous version go on as before: what they read is recorded as before.
-- older versions may start

-- By its owner's rights, as before. Each look is limited to a row, so that it is one probe of an index whenever it was
-- planned.
create or replace function lease_waiter_note_wait()
returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
  values (
    old.face, old.namespace, old.name, least(clock_timestamp(), old.valid_until), old.ticket_id,
    old.created_at, old.waiter,
    case
      when (
        select true from lease_event e
        where e.lease_id = old.ticket_id and e.kind in ('granted', 'taken_over')
        limit 1
      ) then 'granted'
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
