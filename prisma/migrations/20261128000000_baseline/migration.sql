-- The tables of Leasehold 0.1.0.
--
-- Text that identifies something is collate "C": it is compared byte for byte, and every batch
-- statement locks in one order that neither a locale nor an upgrade of one can change. Bodies of functions
-- that are text are read with the search_path of the call, unless the function has its own.

-- Grants: who holds what, what happened, who waits.

-- The one place that says whether a grant is in force. The database's clock decides, read when the
-- row is judged and not when the transaction began; at equality the grant is expired.
create function lease_unexpired(released_at timestamptz, end_reason text, expires_at timestamptz)
returns boolean language sql volatile parallel safe
return released_at is null and end_reason is null and clock_timestamp() < expires_at;

-- The one place that says whether a resource may be granted. `stops_by` holds a key back that was
-- ended by force while its backend may still run.
create function lease_takable(released_at timestamptz, end_reason text, expires_at timestamptz, stops_by timestamptz)
returns boolean language sql volatile parallel safe
return not (released_at is null and end_reason is null and clock_timestamp() < expires_at)
  and (stops_by is null or stops_by <= clock_timestamp());

-- Whether a grant has more than the short first term of one that is to be confirmed, which is 900 ms: less
-- than any TTL. The two instants are rounded to milliseconds, each for itself.
create function lease_confirmed(renewed_at timestamptz, expires_at timestamptz)
returns boolean language sql immutable parallel safe
return expires_at - renewed_at not between interval '898 milliseconds' and interval '902 milliseconds';
comment on function lease_confirmed(timestamptz, timestamptz) is 'False while a grant has its short first term, and when it has run out in it: nobody began to use it.';

-- Whether a namespace lies within one of `limits`, a JSON list of namespaces, children included;
-- null limits nothing. By starts_with and never by like: `user2` is no child of `user`.
create function lease_is_within(namespace text, limits jsonb)
returns boolean language sql immutable parallel safe
return limits is null or exists (
  select from jsonb_array_elements_text(limits) as allowed (parent)
  where allowed.parent = '' or namespace = allowed.parent or starts_with(namespace, allowed.parent || '.')
);

-- The next fencing token after `previous`: greater by construction, and not behind the clock, so
-- that neither a step of the clock nor a lost row can give one token twice. With integers, at a tenth of the cost of
-- numeric: epoch seconds as float8 are off by less than a quarter of a microsecond, so the rounded microseconds are exact.
create function lease_next_token(previous bigint)
returns bigint language sql volatile parallel safe
return greatest(
  coalesce(previous, 0) + 1,
  (date_part('epoch', clock_timestamp()) * 1000000)::bigint / 1000
);

-- Renewals change no indexed column and leave room in their page, so that they stay HOT. What the next grant
-- of a resource mostly repeats comes first, and what it changes after it: of an update, PostgreSQL logs what is
-- between the first byte that changes and the last one.
create table lease (
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  home_reservation text collate "C",
  principal text collate "C" not null,
  holder text not null,
  tag text not null default '',
  comment text,
  metadata jsonb,
  ttl_ms integer not null,
  renew_after_ms integer not null,
  soft_after_ms integer not null,
  hard_after_ms integer not null,
  renewable boolean not null default true,
  lease_id uuid not null,
  previous_lease_id uuid,
  previous_fencing_token bigint,
  previous_end text,
  fencing_token bigint not null,
  granted_at timestamptz(3) not null,
  renewed_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  released_at timestamptz(3),
  end_reason text,
  stops_by timestamptz(3),
  pool text collate "C",
  mode text,

  -- No checks: PostgreSQL parses each of them again for every statement that writes a row, which was a twentieth of
  -- what a grant costs.
  constraint lease_pkey primary key (face, namespace, name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create unique index lease_lease_id_key on lease (lease_id);
comment on table lease is 'One row per resource, kept after release. Phase is computed, never stored.';
comment on column lease.lease_id is 'This grant. Its unique index is full: fenced transactions rest on that.';
comment on column lease.previous_end is 'How the grant before this one ended: released, expired, revoked or removed; lapsed or unconfirmed when it expired and this grant ended it; null for none. With the other two of the former grant it is for the statement that writes it: one that knows it already leaves all three as they are.';
comment on column lease.fencing_token is 'Grows with every grant, stays the same under renewal.';
comment on column lease.principal is 'Who is authenticated as the owner: a drone id for keys, an API token id otherwise.';
comment on column lease.tag is 'Plane''s tag of a key; the action that an environment is leased for.';
comment on column lease.ttl_ms is 'The ladder of this grant, whatever the configuration says later: renew, soft, hard, expiry after a renewal.';
comment on column lease.renewable is 'Plane''s allow_renew: false blocks renewal.';
comment on column lease.end_reason is 'released, expired, revoked or removed; null while the grant has not been ended.';
comment on column lease.stops_by is 'A key ended by force is not granted before this moment, unless its backend was reported gone.';
comment on column lease.home_reservation is 'The reservation under which a key is granted. When it names one of another datacenter, the key has moved there and the row is sealed: nothing is granted on it. Null on other faces.';
comment on column lease.pool is 'The scope that this row is a part of, when several may hold it at once. The scope''s own row has its own name here, and is never granted: stops_by holds it back without end, and its fencing token is the largest of the pool. Each other row, a slot, is what one of them holds. Null for a lease that one holds at a time.';
comment on column lease.mode is 'Of a slot, how it is held: permit, shared or exclusive. Of the scope''s own row, what kind of pool it is: permit or shared.';

-- What has a fixed length comes first: between texts it would be padded.
create table lease_event (
  id bigserial not null,
  at timestamptz(3) not null default clock_timestamp(),
  fencing_token bigint not null,
  lease_id uuid not null,
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  kind text not null,
  actor text not null,
  reason text,
  detail jsonb,

  constraint lease_event_pkey primary key (id)
);
create index lease_event_lease_id_idx on lease_event (lease_id);
create index lease_event_resource_idx on lease_event (face, namespace, name, id);
create index lease_event_at_idx on lease_event (at);
create index lease_event_revoked_idx on lease_event (id)
  where kind in ('revoked', 'renewal_blocked');
comment on table lease_event is 'Append-only. The id is assigned after the row lock, so order by id is the order of what happened to a resource.';

create table lease_event_mark (
  only_row boolean not null default true,
  removed_through_id bigint not null,

  constraint lease_event_mark_pkey primary key (only_row),
  constraint lease_event_mark_only_row_check check (only_row)
);
comment on table lease_event_mark is 'Up to where events have been removed: whoever resumes from before has lost some, and is told so.';
comment on column lease_event_mark.removed_through_id is 'The greatest id of a removed event; 0 while none was.';

-- Monotonic: of two removals at once the second waits for the row and judges it again.
create function lease_event_note_removed()
returns trigger language plpgsql set search_path from current as $$
begin
  update lease_event_mark m set removed_through_id = g.last
  from (select max(id) as last from gone) g
  where g.last > m.removed_through_id;
  return null;
end
$$;

create function lease_event_note_truncated()
returns trigger language plpgsql set search_path from current as $$
begin
  update lease_event_mark m set removed_through_id = greatest(
    m.removed_through_id,
    (select s.last_value from lease_event_id_seq s where s.is_called)
  );
  return null;
end
$$;

create trigger lease_event_removed
after delete on lease_event referencing old table as gone
for each statement execute function lease_event_note_removed();

create trigger lease_event_truncated
after truncate on lease_event
for each statement execute function lease_event_note_truncated();

insert into lease_event_mark (removed_through_id) values (0);

-- What a request is found by: 128 bits of SHA-256 of its sender and its idempotency key. Every grant writes
-- one, so that it is narrow. Null without a key.
create function lease_request_id(principal text, idempotency_key text)
returns uuid language sql stable parallel safe
return encode(
  substr(sha256(convert_to(length(principal) || ':' || principal || idempotency_key, 'UTF8')), 1, 16), 'hex'
)::uuid;

-- Without an index on created_at, which every grant would have to keep up to date: see retention.
create table lease_request (
  id uuid not null,
  lease_id uuid,
  created_at timestamptz(3) not null default clock_timestamp(),
  grant_repeated_at timestamptz(3),
  face text collate "C",
  fingerprint text collate "C",
  answer jsonb,
  lease_count smallint,

  constraint lease_request_pkey primary key (id)
);
comment on table lease_request is 'One idempotency key, one attempt, one answer. Kept for 24 h.';
comment on column lease_request.id is 'Of its sender and its idempotency key: lease_request_id.';
comment on column lease_request.lease_id is 'Of the grant, or of the ticket that waits for it; null for a refusal, and when the request was given up before it came.';
comment on column lease_request.answer is 'The refusal, or what a connect was answered, or that the request was given up; null for the grant of a lease, whose row and events say what became of it, and while it waits.';
comment on column lease_request.face is 'Null when the request was given up before it came.';
comment on column lease_request.fingerprint is 'Of everything that was asked for, and of nothing that a retry may change; null when the request was given up before it came.';
comment on column lease_request.grant_repeated_at is 'When a repeated request was first answered with the grant. Its controller no longer gives such a grant back.';
comment on column lease_request.lease_count is 'How many leases it asks for together, whose ids follow lease_id; null for one.';

create table lease_waiter (
  id bigserial not null,
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  ticket_id uuid not null,
  waiter text not null,
  principal text collate "C" not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  valid_until timestamptz(3) not null,
  mode text,
  action text,
  comment text,
  priority smallint not null default 0,
  is_newest_first boolean not null default false,
  override jsonb,
  request_id uuid,

  constraint lease_waiter_pkey primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
create unique index lease_waiter_ticket_id_key on lease_waiter (ticket_id);
create index lease_waiter_resource_idx on lease_waiter (face, namespace, name, id);
comment on table lease_waiter is 'Tickets of callers that wait, in the order of lease_waiter_place; one that is not prolonged lapses.';
comment on column lease_waiter.ticket_id is 'Also the lease id of the grant that the ticket will become.';
comment on column lease_waiter.mode is 'How it is to be held: permit or shared; null for a lease that one holds at a time.';
comment on column lease_waiter.action is 'What an environment is waited for; null on other faces.';
comment on column lease_waiter.comment is 'What the caller says for those who find it in line; of an environment.';
comment on column lease_waiter.priority is 'Those with a greater one come before all others.';
comment on column lease_waiter.is_newest_first is 'Whether it stands before those that came earlier, instead of after them.';
comment on column lease_waiter.override is 'The role, the name and the reason of a caller that may pass freezes; null for none.';
comment on column lease_waiter.request_id is 'Of its record in lease_request; null on tickets of other faces than environments.';

-- A request for several leases takes one number, and the 63 after it: its tickets lie next to each other, and nobody's
-- between them. So two such requests are in the same order in every line that both are in.
alter sequence lease_waiter_id_seq increment by 64;

-- One number, so that a place is compared, sorted and sent as one. Exact for ids below 2^50.
create function lease_waiter_place(w lease_waiter)
returns bigint language sql immutable parallel safe
return case when w.is_newest_first then - w.id else w.id end - w.priority * 1125899906842624::bigint;
comment on function lease_waiter_place(lease_waiter) is 'The place of a ticket in its line, the smallest first: a greater priority, then those that asked to be the newest first, the newest of them first, then the others, the oldest first.';

-- A crowd in one line makes PostgreSQL expect a crowd in every line, and read the whole table for each. By
-- this setting it expects one ticket for each name. It takes effect when statistics are gathered.
alter table lease_waiter alter column name set (n_distinct = -1);
analyze lease_waiter;

-- What became of those who waited in line. A wait ended with a grant if its ticket became one, although another may have
-- the lease by now: its event tells, not the row of the lease.
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
revoke execute on function lease_waiter_note_wait() from public;
comment on function lease_waiter_note_wait() is 'Records the wait of a ticket that is taken away.';

-- Tickets for keys hold no place in line.
create trigger lease_waiter_gone
after delete on lease_waiter
for each row when (old.face <> 'key')
execute function lease_waiter_note_wait();
comment on trigger lease_waiter_gone on lease_waiter is 'Waits are recorded when they are over.';

create table lease_token_floor (
  only_row boolean not null default true,
  floor bigint not null,

  constraint lease_token_floor_pkey primary key (only_row),
  constraint lease_token_floor_only_row_check check (only_row)
);
comment on table lease_token_floor is 'One row: what fencing tokens of resources without a row must exceed.';
comment on column lease_token_floor.floor is 'The largest fencing token of a lease row that was deleted; 0 for none.';

insert into lease_token_floor (floor) values (0);

-- Bounds the rest of the transaction as a whole, where the server can: from PostgreSQL 17 on. A limit that
-- the caller has set stays when it is the smaller one. It counts from the beginning of the transaction.
-- A running timer ignores a new value, so that it is stopped first.
create function lease_bound_whole_transaction(bound_ms int)
returns void language plpgsql volatile set search_path from current as $$
declare
  set_ms int := extract(epoch from current_setting('transaction_timeout', true)::interval) * 1000;
  left_ms int;
begin
  if set_ms is null then
    return;
  end if;
  if set_ms > 0 then
    left_ms := set_ms - extract(epoch from clock_timestamp() - transaction_timestamp()) * 1000;
    -- Not positive: it was set after the transaction had begun, and says nothing here.
    if left_ms > 0 then
      bound_ms := least(bound_ms, left_ms);
    end if;
  end if;
  perform set_config('transaction_timeout', '0', true);
  perform set_config('transaction_timeout', bound_ms::text, true);
end
$$;
comment on function lease_bound_whole_transaction(integer) is 'Ends the transaction within so many milliseconds, on PostgreSQL 17 and later.';

-- Bounds each statement and each pause of the transaction from here on, and the whole where the server
-- can. A limit that the caller has set stays when it is the smaller one.
create function lease_bound_transaction(bound_ms int)
returns void language plpgsql volatile set search_path from current as $$
declare
  setting text;
  set_ms int;
begin
  foreach setting in array array['statement_timeout', 'idle_in_transaction_session_timeout'] loop
    set_ms := extract(epoch from current_setting(setting)::interval) * 1000;
    if set_ms = 0 or set_ms > bound_ms then
      perform set_config(setting, bound_ms::text, true);
    end if;
  end loop;
  perform lease_bound_whole_transaction(bound_ms);
end
$$;
comment on function lease_bound_transaction(integer) is 'Bounds each statement and each pause of the transaction from here on, and the whole on PostgreSQL 17 and later. Milliseconds.';

-- For services that share this database and speak another language: call it as the last statement
-- before commit. It raises unless the grant is in force, with this token, and from then until the
-- transaction ends nobody else is granted the resource, and no revoke or release of it commits.
-- The transaction must end within the remaining time of the lease, and within 10 s: the server ends it
-- otherwise. Called first as well it keeps the resource from being taken over during the work; a renewal
-- waits for the transaction then, so keep it shorter than the time between renewal and loss.
create function leasehold_assert_held(lease_id uuid, token bigint)
returns void language plpgsql volatile security definer set search_path from current as $$
declare
  bound_ms_max constant int := 10000;
  held record;
begin
  select l.fencing_token, l.released_at, l.end_reason, l.expires_at into held
  from lease l
  where l.lease_id = leasehold_assert_held.lease_id
  for share;
  if not found
    or held.fencing_token <> leasehold_assert_held.token
    or not lease_unexpired(held.released_at, held.end_reason, held.expires_at)
  then
    raise exception 'leasehold: lease % with token % is not held', lease_id, token
      using errcode = 'LH001', hint = 'Roll back: whatever this transaction did may conflict with the present holder.';
  end if;
  perform lease_bound_transaction(greatest(1, least(
    bound_ms_max,
    ceil(extract(epoch from held.expires_at - clock_timestamp()) * 1000)
  ))::int);
end
$$;
revoke execute on function leasehold_assert_held(uuid, bigint) from public;
comment on function leasehold_assert_held(uuid, bigint) is 'Raises LH001 unless the grant is in force; call it last before commit, within the remaining time of the lease and 10 s.';

-- Locks the grant's row FOR KEY SHARE: a renewal changes no key column and passes, a takeover waits. Then
-- judges, by the clock, and bounds the transaction by the remaining time of the lease. No row: the grant
-- is not in force, or its token is another one.
create function leasehold_fence(lease_id uuid, token bigint, bound_ms_max int)
returns table (expires_at timestamptz, bound_ms int)
language plpgsql volatile security definer set search_path from current as $$
declare
  held record;
begin
  select l.fencing_token, l.released_at, l.end_reason, l.expires_at into held
  from lease l
  where l.lease_id = leasehold_fence.lease_id
  for key share;
  if not found
    or held.fencing_token <> token
    or not lease_unexpired(held.released_at, held.end_reason, held.expires_at)
  then
    return;
  end if;
  expires_at := held.expires_at;
  bound_ms := greatest(1, least(
    bound_ms_max,
    ceil(extract(epoch from held.expires_at - clock_timestamp()) * 1000)
  ));
  perform set_config('statement_timeout', bound_ms::text, true);
  perform set_config('idle_in_transaction_session_timeout', bound_ms::text, true);
  perform lease_bound_whole_transaction(bound_ms);
  return next;
end
$$;
revoke execute on function leasehold_fence(uuid, bigint, int) from public;
comment on function leasehold_fence(uuid, bigint, integer) is 'Begins fenced work: locks the grant, judges it, and bounds the transaction, in milliseconds. No row: it is not in force.';

-- Whether the grant has not been ended since: the last statement before the commit. Locks the row FOR
-- SHARE: a revoke or a release that came first is waited for and seen, a later one waits for the commit.
create function leasehold_fence_holds(lease_id uuid, token bigint)
returns boolean
language plpgsql volatile security definer set search_path from current as $$
begin
  perform from lease l
  where l.lease_id = leasehold_fence_holds.lease_id and l.fencing_token = token
    and l.released_at is null and l.end_reason is null
  for share;
  return found;
end
$$;
revoke execute on function leasehold_fence_holds(uuid, bigint) from public;
comment on function leasehold_fence_holds(uuid, bigint) is 'Ends fenced work: whether the grant has not been ended. Call it last before commit.';

-- Leases of services: declarations, and callbacks of grants that expired.

create table lease_declaration (
  namespace text collate "C" not null,
  ttl_ms integer not null,
  description text,
  declared_by text not null,
  principal text collate "C" not null,
  declared_at timestamptz(3) not null default clock_timestamp(),
  permits_per_key integer,
  permits_total integer,
  permits_by text,
  permits_principal text collate "C",

  constraint lease_declaration_pkey primary key (namespace),
  constraint lease_declaration_permits_check check (
    permits_per_key > 0 and permits_total > 0
    and (permits_per_key is null) = (permits_by is null)
    and (permits_per_key is not null or num_nonnulls(permits_total, permits_principal) = 0)
  )
);
comment on table lease_declaration is 'Leases that services declare, for people to see what there is.';
comment on column lease_declaration.permits_per_key is 'How many may hold one key at once; null for one.';
comment on column lease_declaration.permits_total is 'How many may hold keys of the namespace at once, together; null for no limit.';
comment on column lease_declaration.permits_by is 'The service that has declared the numbers, or the operator who has set them.';
comment on column lease_declaration.permits_principal is 'Whose declarations change the numbers; null once an operator has set them.';

create table lease_reap (
  lease_id uuid not null,
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  fencing_token bigint not null,
  expired_at timestamptz(3) not null default clock_timestamp(),
  attempts integer not null default 0,
  next_attempt_at timestamptz(3),
  last_error text,

  constraint lease_reap_pkey primary key (lease_id)
);
create index lease_reap_namespace_idx on lease_reap (namespace, expired_at);
create index lease_reap_expired_at_idx on lease_reap (expired_at);
create index lease_reap_failing_idx on lease_reap (expired_at, lease_id) where attempts > 0;
comment on table lease_reap is 'One row per lease-face grant that expired and whose use case has not been called.';
comment on column lease_reap.attempts is 'How often the callback of its use case has failed.';

-- Environments: freezes, and requests that supersede others.

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

-- The database: which life of it this is, and whether it has gone back or its clock has jumped.

create table database_epoch (
  only_row boolean not null default true,
  epoch integer not null,
  system_identifier text not null,
  timeline integer not null,
  token uuid not null,
  hold_off_until timestamptz(3),
  longest_ttl_ms integer not null,
  settled_until timestamptz(3) not null default clock_timestamp(),
  hold_off_cause text,
  witness_secret text not null default gen_random_uuid()::text || gen_random_uuid()::text,
  hold_off_since timestamptz(3),
  identified_run bigint,

  constraint database_epoch_pkey primary key (only_row),
  constraint database_epoch_only_row_check check (only_row)
);
comment on table database_epoch is 'Which life of the database this is. A restore or a failover with loss starts another, with a hold-off.';
comment on column database_epoch.settled_until is 'Every grant that expired up to here did so on a clock that was watched.';
comment on column database_epoch.hold_off_cause is 'Why grants are or were last held off: what showed that the database had changed.';
comment on column database_epoch.witness_secret is 'Signs what drones and clients are told of the database, so that nobody can make up a restore.';
comment on column database_epoch.identified_run is 'The run of the server, as its start in epoch microseconds, in which the system identifier was last seen to be this one: it cannot change within a run.';
comment on column database_epoch.hold_off_since is 'When the latest hold-off began; null when there was none.';

-- Which history of the database this is: the timeline changes with every promotion of a standby.
create function database_timeline()
returns integer language sql volatile
return ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int;

create table database_witness (
  id uuid not null,
  beat bigint not null,
  at timestamptz(3) not null,
  watched_since timestamptz(3),
  key_ladder_ms integer[],

  constraint database_witness_pkey primary key (id)
);
comment on table database_witness is 'One row per process that grants, written by it alone, about once a second: it shows whether the database has gone back. Removed by retention two days after its last beat.';
comment on column database_witness.beat is 'Grows by one with each beat.';
comment on column database_witness.at is 'When the newest beat was written.';
comment on column database_witness.watched_since is 'Since when this process has watched the database''s clock without a jump, as of the newest beat; null when it is not sure.';
comment on column database_witness.key_ladder_ms is 'When keys that this controller grants are renewed, stopped softly and hard, and expire: milliseconds. Null for a process that grants no keys.';

create table clock_jump (
  id bigserial not null,
  at timestamptz(3) not null,
  jump_ms bigint not null,
  unsure_until timestamptz(3) not null,

  constraint clock_jump_pkey primary key (id)
);
comment on table clock_jump is 'Steps of the database clock, one row for each process that has met one.';
comment on column clock_jump.at is 'When it was met, by the clock after the step.';
comment on column clock_jump.jump_ms is 'How far the clock stepped; negative when it stepped back.';
comment on column clock_jump.unsure_until is 'Until when the expiry of a grant from before the step may not be believed.';

-- The fleet: drones, their backends, and what they are asked.

-- A heartbeat every few seconds for each drone, the same way.
create table drone (
  id text collate "C" not null,
  datacenter text not null,
  clock_id uuid not null,
  session bigint not null,
  version text not null,
  programs jsonb not null,
  capacity integer not null,
  draining boolean not null default false,
  lost_at timestamptz(3),
  registered_at timestamptz(3) not null,
  local_time_ms double precision,
  heartbeat_at timestamptz(3),
  load jsonb,
  log_folder text,
  isolation jsonb,
  stopped_session bigint,
  stopped_at timestamptz(3),
  usage jsonb,
  usage_at timestamptz(3),
  refused_at timestamptz(3),

  constraint drone_pkey primary key (id)
) with (fillfactor = 50);
comment on table drone is 'A machine that runs backends, with the newest reading of its clock.';
comment on column drone.clock_id is 'Which clock local_time_ms was read from: a new one voids the reading.';
comment on column drone.load is 'What the newest heartbeat said: how many backends run, and how long the heartbeat before it took.';
comment on column drone.log_folder is 'The folder on the drone''s machine with its backends'' output; null where the drone does not say.';
comment on column drone.isolation is 'What the drone''s machine provides: users of their own for programs, namespaces, no new privileges. Null where the drone does not say.';
comment on column drone.stopped_session is 'The session in which it said that it stops. It is back when its session is another one.';
comment on column drone.stopped_at is 'When it said that it stops.';
comment on column drone.usage is 'By the id of each backend: bytes of memory, and processors in use or null.';
comment on column drone.usage_at is 'When it was reported.';
comment on column drone.refused_at is 'When it last refused to start a backend; null for never.';

create table drone_question (
  id uuid not null,
  drone_id text collate "C" not null,
  asked_at timestamptz(3) not null default clock_timestamp(),
  request jsonb not null,
  answer jsonb,

  constraint drone_question_pkey primary key (id)
);
create index drone_question_drone_id_idx on drone_question (drone_id) where answer is null;
comment on index drone_question_drone_id_idx is 'What a drone has not answered yet, read with its outbox.';
comment on table drone_question is 'Questions to drones about the output of backends, each until it is answered or given up.';
comment on column drone_question.request is 'Which part of which output is wanted: LogRequest.';
comment on column drone_question.answer is 'What the drone has answered: LogPage.';

-- A use updates the row without moving it to another page.
create table backend (
  id text collate "C" not null,
  drone_id text collate "C" not null,
  datacenter text not null,
  clock_id uuid not null,
  program text not null,
  args jsonb not null,
  env jsonb not null,
  lifetime_limit_seconds integer,
  namespace text collate "C" not null,
  name text collate "C" not null,
  tag text not null,
  lease_id uuid not null,
  fencing_token bigint not null,
  status text not null,
  status_rank integer not null,
  reason text,
  address text,
  exit_code integer,
  created_at timestamptz(3) not null default clock_timestamp(),
  status_at timestamptz(3) not null default clock_timestamp(),
  image text,
  output text,
  idle_stop_seconds integer,
  last_used_at timestamptz(3),
  stop_asked_at timestamptz(3),

  constraint backend_pkey primary key (id)
) with (fillfactor = 85);
create unique index backend_lease_id_key on backend (lease_id);
create index backend_drone_id_status_rank_idx on backend (drone_id, status_rank);
create index backend_key_idx on backend (namespace, name, created_at);
create index backend_terminated_at_idx on backend (status_at) where status = 'terminated';
comment on table backend is 'One run of a program, under one grant of a key.';
comment on column backend.clock_id is 'Which life of the drone''s warden it belongs to: when the warden is gone, so is the backend.';
comment on column backend.image is 'The image that a container is made of, as its drone reported it; null for a command of the machine.';
comment on column backend.output is 'The last lines that it wrote, if it ended without being asked to; control characters are escapes.';
comment on column backend.idle_stop_seconds is 'After how long without a use it is stopped, counted from when it is ready; null for never.';
comment on column backend.last_used_at is 'The last use that is known; null without idle stop.';
comment on column backend.stop_asked_at is 'When it was found idle and asked to stop. From then on nobody is sent to it.';

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

create table backend_state (
  id bigserial not null,
  backend_id text collate "C" not null,
  status text not null,
  reason text,
  address text,
  exit_code integer,
  detail text,
  at timestamptz(3) not null default clock_timestamp(),

  constraint backend_state_pkey primary key (id)
);
create index backend_state_backend_id_idx on backend_state (backend_id, id);
comment on table backend_state is 'The states a backend was reported in, as they arrived.';

create table backend_action (
  id bigserial not null,
  backend_id text collate "C" not null,
  drone_id text collate "C" not null,
  kind text not null,
  payload jsonb not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  acked_at timestamptz(3),
  cancelled_at timestamptz(3),

  constraint backend_action_pkey primary key (id)
);
-- Only what is still to be sent: an outbox is read far more often than its history.
create index backend_action_drone_id_idx on backend_action (drone_id, id)
  where acked_at is null and cancelled_at is null;
create index backend_action_backend_id_idx on backend_action (backend_id, id);
create index backend_action_closed_at_idx on backend_action (coalesce(acked_at, cancelled_at));
comment on table backend_action is 'The outbox towards drones: resent until acknowledged or cancelled.';

create table key_failure (
  namespace text collate "C" not null,
  name text collate "C" not null,
  failures integer not null,
  since timestamptz(3) not null,
  failed_at timestamptz(3) not null,
  backend_id text collate "C" not null,
  start_at timestamptz(3) not null,

  constraint key_failure_pkey primary key (namespace, name)
);
create index key_failure_failed_at_idx on key_failure (failed_at);
comment on index key_failure_failed_at_idx is 'For the removal of old rows.';
comment on table key_failure is 'Keys whose newest backends have failed, until one does not or an operator resets it.';
comment on column key_failure.failures is 'How many have failed in a row.';
comment on column key_failure.since is 'When the first of them failed.';
comment on column key_failure.failed_at is 'When the last of them failed.';
comment on column key_failure.backend_id is 'The last of them.';
comment on column key_failure.start_at is 'No backend is started before this.';

-- Access: tokens, people, and what they did.

create table api_token (
  id uuid not null,
  name text collate "C" not null,
  secret_hash text not null,
  role text not null,
  namespaces text[],
  drone_id text collate "C",
  created_by text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  programs text[],
  capacity integer,
  addresses text[],
  limits jsonb,

  constraint api_token_pkey primary key (id),
  constraint api_token_capacity_check check (capacity >= 0)
);
create unique index api_token_secret_hash_key on api_token (secret_hash);
comment on table api_token is 'Secrets of programs, as SHA-256. Revoked ones are kept.';
comment on column api_token.programs is 'The programs that a drone may offer, or a client may start; null or empty for any.';
comment on column api_token.capacity is 'How many backends a drone may say it runs at once; null for any number.';
comment on column api_token.addresses is 'Where a drone''s backends may be: networks, each with an optional range of ports; null or empty for anywhere.';
comment on column api_token.limits is 'Limits of fair use in place of those of its role, by name; null for none.';

create table audit (
  id bigserial not null,
  at timestamptz(3) not null default clock_timestamp(),
  actor text not null,
  role text not null,
  action text not null,
  resource text not null,
  reason text,
  source text,
  detail jsonb,

  constraint audit_pkey primary key (id)
);
create index audit_at_idx on audit (at);
comment on table audit is 'What operators did, and why.';

create table person (
  id uuid not null,
  email text collate "C" not null,
  email_verified boolean not null default false,
  name text not null,
  image text,
  role text not null default 'viewer',
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),
  joined_at timestamptz(3),
  disabled_at timestamptz(3),
  last_sign_in_at timestamptz(3),
  invited_by text,
  invitation_hash text collate "C",
  invitation_expires_at timestamptz(3),
  session_epoch integer not null default 0,
  namespaces text[] collate "C",

  constraint person_pkey primary key (id),
  constraint person_email_check check (email = lower(email)),
  constraint person_role_check check (role in ('viewer', 'client', 'operator', 'admin'))
);
create unique index person_email_key on person (email);
create unique index person_invitation_hash_key on person (invitation_hash);
create index person_created_at_idx on person (created_at, id);
comment on table person is 'Somebody who may sign in to the console, or is invited to.';
comment on column person.email is 'In lower case: compared without regard to case.';
comment on column person.email_verified is 'Whether an identity provider has vouched for the address.';
comment on column person.image is 'Of better-auth; not used.';
comment on column person.role is 'What the person may do, at this moment: sessions hold no copy.';
comment on column person.joined_at is 'Since when the person has a way to sign in; null while invited.';
comment on column person.disabled_at is 'Since when the person may not sign in, and no session of theirs counts.';
comment on column person.invited_by is 'The actor who invited the person; null for one made with the command line.';
comment on column person.invitation_hash is 'SHA-256 of the secret of the one-time link; null once it was used or replaced.';
comment on column person.invitation_expires_at is 'Until when the link can be used.';
comment on column person.session_epoch is 'Grows when all sessions are ended: those of an earlier one do not count.';
comment on column person.namespaces is 'The namespaces, with their children, that the person is limited to; null: none. Set by the groups of an identity provider.';

create table person_session (
  id uuid not null,
  person_id uuid not null,
  token text collate "C" not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),
  seen_at timestamptz(3) not null default clock_timestamp(),
  expires_at timestamptz(3) not null,
  ip_address text,
  user_agent text,
  epoch integer not null default 0,

  constraint person_session_pkey primary key (id),
  constraint person_session_person_id_fkey foreign key (person_id) references person (id) on delete cascade
);
create unique index person_session_token_key on person_session (token);
create index person_session_person_id_idx on person_session (person_id);
create index person_session_seen_at_idx on person_session (seen_at);
comment on table person_session is 'One browser that has signed in.';
comment on column person_session.token is 'What the signed cookie holds; without the signature it opens nothing.';
comment on column person_session.seen_at is 'When the session was last used, to within minutes: one that is idle for long ends.';
comment on column person_session.expires_at is 'When the session ends however much it is used.';
comment on column person_session.epoch is 'The session_epoch of its person before the password was looked at.';

create table person_account (
  id uuid not null,
  person_id uuid not null,
  provider_id text collate "C" not null,
  account_id text collate "C" not null,
  password text,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz(3),
  refresh_token_expires_at timestamptz(3),
  scope text,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),

  constraint person_account_pkey primary key (id),
  constraint person_account_person_id_fkey foreign key (person_id) references person (id) on delete cascade
);
create unique index person_account_provider_id_account_id_key
  on person_account (provider_id, account_id);
create index person_account_person_id_idx on person_account (person_id);
create unique index person_account_oidc_person_id_key on person_account (person_id)
  where provider_id = 'oidc';
comment on table person_account is 'A way in which a person signs in: a password (provider credential), or an identity provider.';
comment on column person_account.account_id is 'Issuer, a space, and subject at the provider; the id of the person for a password.';
comment on column person_account.password is 'A salted scrypt hash; only of the provider credential.';
comment on column person_account.access_token is 'Of better-auth; never kept.';
comment on column person_account.refresh_token is 'Of better-auth; never kept.';
comment on column person_account.id_token is 'Of better-auth; never kept.';

create table person_verification (
  id uuid not null,
  identifier text collate "C" not null,
  value text not null,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),

  constraint person_verification_pkey primary key (id)
);
create unique index person_verification_identifier_key on person_verification (identifier);
create index person_verification_expires_at_idx on person_verification (expires_at);
comment on table person_verification is 'Sign-ins under way at an identity provider, each for ten minutes.';

create table sign_in_failure (
  email_hash text collate "C" not null,
  failure_count integer not null,
  failed_at timestamptz(3) not null,
  locked_until timestamptz(3),
  source text collate "C" not null default '',
  counted_since timestamptz(3) not null default clock_timestamp(),

  constraint sign_in_failure_pkey primary key (email_hash, source)
);
create index sign_in_failure_failed_at_idx on sign_in_failure (failed_at);
comment on table sign_in_failure is 'Failed sign-ins, by e-mail address and by where they came from, whether or not the address is somebody''s. Removed by retention.';
comment on column sign_in_failure.email_hash is 'SHA-256 of the address in lower case: what was typed is not kept.';
comment on column sign_in_failure.failure_count is 'Since counted_since.';
comment on column sign_in_failure.locked_until is 'Until when no sign-in with this address is tried, from there.';
comment on column sign_in_failure.source is 'The network that the tries came from; empty for all of them together; change-password for those of somebody who is signed in.';
comment on column sign_in_failure.counted_since is 'When the count began; it begins anew when it is over.';

-- Reservations: in which datacenter a key lives.

create table reservation (
  reservation_id text collate "C" not null,
  key text collate "C" not null,
  namespace text collate "C",
  name text collate "C",
  state text not null default 'active',
  chain text[],
  activated_by text not null,
  activated_at timestamptz(3) not null default clock_timestamp(),
  moved_at timestamptz(3),
  moved_by text,
  move_reason text,
  move_to text,
  move_asked_by text,
  move_asked_at timestamptz(3),
  move_asked_for text,
  move_waits_for uuid,
  move_failure text,

  constraint reservation_pkey primary key (reservation_id),
  constraint reservation_moved_check check ((state = 'moved') = (moved_at is not null)),
  constraint reservation_state_check check (state in ('active', 'moved'))
);
create unique index reservation_active_key_key on reservation (key) where state = 'active';
create index reservation_key_idx on reservation (key, reservation_id);
create index reservation_pending_move_idx on reservation (move_asked_at)
  where move_to is not null and move_failure is null;
comment on table reservation is 'Reservations that live or have lived in this datacenter. One that is not here accepts no grant.';
comment on column reservation.key is 'The reserved list of strings as JSON: ["a/b"] is not ["a","b"].';
comment on column reservation.namespace is 'Of the key that it is the home of; null when the list names no key.';
comment on column reservation.chain is 'The reservations that it came from, the first one first.';
comment on column reservation.move_to is 'The datacenter that the key is to move to. Null without such a request, and when the key has arrived.';
comment on column reservation.move_asked_by is 'Who asked for the move.';
comment on column reservation.move_asked_at is 'When it was asked for.';
comment on column reservation.move_asked_for is 'The reason that was given.';
comment on column reservation.move_waits_for is 'The grant that has to end first. Another grant ends the move.';
comment on column reservation.move_failure is 'The error code with which the move has ended, or ''cancelled''; null while it goes on.';

create table reservation_home (
  key text collate "C" not null,
  reservation_id text collate "C" not null,
  recorded_at timestamptz(3) not null default clock_timestamp(),

  constraint reservation_home_pkey primary key (key)
);
create index reservation_home_newest_idx
  on reservation_home (split_part(reservation_id, '.', 1), recorded_at);
comment on table reservation_home is 'The first reservation of each key. With one datacenter this is the reservation store; with several, what was learned of the store.';

create table reservation_pointer (
  from_id text collate "C" not null,
  to_id text collate "C" not null,
  token_floor bigint not null,
  recorded_at timestamptz(3) not null default clock_timestamp(),

  constraint reservation_pointer_pkey primary key (from_id),
  constraint reservation_pointer_elsewhere_check check (from_id <> to_id)
);
create index reservation_pointer_newest_idx
  on reservation_pointer (split_part(from_id, '.', 1), recorded_at);
comment on table reservation_pointer is 'Where a reservation moved to. Written once: a row is never changed.';
comment on column reservation_pointer.token_floor is 'Fencing tokens of the new home are greater than this.';

create table reservation_datacenter (
  name text collate "C" not null,
  cluster_id uuid not null,

  constraint reservation_datacenter_pkey primary key (name)
);
comment on table reservation_datacenter is 'Which database has which datacenter name. Used when PostgreSQL is the reservation store.';

create table reservation_membership (
  only_row boolean not null default true,
  cluster_id uuid not null default gen_random_uuid(),
  datacenter text collate "C",
  store_id text,
  synced_epoch integer,
  confirmed_at timestamptz(3),
  confirmed_until timestamptz(3),

  constraint reservation_membership_pkey primary key (only_row),
  constraint reservation_membership_only_row_check check (only_row)
);
comment on table reservation_membership is 'This datacenter as the reservation store knows it: its cluster id, the store it publishes to (null: its own PostgreSQL, ''publishing'': an etcd that has not been told everything yet, else the cluster id of the etcd that has), and the epoch in which it last read its pointers back.';
comment on column reservation_membership.confirmed_at is 'When etcd was last asked whether this datacenter was given up, and it was not. Null before the first time.';
comment on column reservation_membership.confirmed_until is 'Until when a controller may start without asking again.';

insert into reservation_membership default values;

create table reservation_given_up (
  datacenter text collate "C" not null,
  given_up jsonb not null,

  constraint reservation_given_up_pkey primary key (datacenter)
);
comment on table reservation_given_up is 'Datacenters whose keys may be given other homes, as the reservation store has them.';

-- Gateways, which have no database: the keys that tokens of people are signed with, what such a token may start, which
-- tokens are refused, and who uses what.

create table gateway_key (
  kid text collate "C" not null,
  public_x text not null,
  private_d text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  retired_at timestamptz(3),
  until timestamptz(3),

  constraint gateway_key_pkey primary key (kid),
  constraint gateway_key_until_check check ((retired_at is null) = (until is null))
);
-- Of two controllers that make the first key at once, one does.
create unique index gateway_key_current_key on gateway_key ((true)) where retired_at is null;
comment on table gateway_key is 'Ed25519 keys that gateway tokens are signed with. The one that is not retired signs; the others only verify.';
comment on column gateway_key.public_x is 'base64url, as the member x of a JSON Web Key.';
comment on column gateway_key.private_d is 'base64url, as the member d of a JSON Web Key. It leaves the controllers never.';
comment on column gateway_key.until is 'When the last token that it may have signed is over; null while it signs.';
comment on index gateway_key_current_key is 'At most one key signs.';

create table gateway_start (
  id text collate "C" not null,
  spec jsonb not null,
  until timestamptz(3) not null,

  constraint gateway_start_pkey primary key (id)
);
create index gateway_start_until_idx on gateway_start (until);
comment on table gateway_start is 'What tokens may start: they have only its id, because everybody can read a token.';
comment on column gateway_start.id is 'A hash of the spec: equal ones are one row.';
comment on column gateway_start.until is 'When the last token that names it is over, or later.';

create table gateway_revocation (
  id uuid not null,
  place bigserial not null,
  namespace text collate "C" not null,
  name text collate "C",
  user_name text collate "C",
  lease_id uuid,
  at timestamptz(3) not null,
  until timestamptz(3) not null,
  revoked_by text not null,
  reason text not null,

  constraint gateway_revocation_pkey primary key (id),
  constraint gateway_revocation_some_check check (num_nonnulls(name, user_name, lease_id) > 0)
);
create unique index gateway_revocation_place_key on gateway_revocation (place);
create unique index gateway_revocation_what_key on gateway_revocation (
  namespace, coalesce(name, ''), coalesce(user_name, ''), coalesce(lease_id::text, '')
);
create index gateway_revocation_until_idx on gateway_revocation (until);
comment on table gateway_revocation is 'Each refuses the tokens that were issued up to a moment and have all that is given.';
comment on column gateway_revocation.place is 'In the order in which they were committed: whoever adds one locks the table.';
comment on column gateway_revocation.namespace is 'Children included; the root for all.';
comment on column gateway_revocation.name is 'Of the key; null for any.';
comment on column gateway_revocation.user_name is 'The user that a token names; null for any.';
comment on column gateway_revocation.lease_id is 'The only grant that a token is for; null for any.';
comment on column gateway_revocation.until is 'When every token that it may refuse is over.';
comment on index gateway_revocation_what_key is 'The same again only moves its moment.';

create table gateway (
  id text collate "C" not null,
  version text not null,
  connections bigint not null,
  requests bigint not null,
  started_at timestamptz(3) not null default clock_timestamp(),
  seen_at timestamptz(3) not null,
  routes bigint not null default 0,

  constraint gateway_pkey primary key (id)
) with (fillfactor = 50);
comment on table gateway is 'Gateways that report, each since its first report.';
comment on column gateway.connections is 'Requests in progress and open WebSockets.';
comment on column gateway.requests is 'All that it has reported.';
comment on column gateway.routes is 'The keys that it leads to, when it was last seen.';

create table gateway_use (
  lease_id uuid not null,
  gateway_id text collate "C" not null,
  connections bigint not null,
  users bigint not null,
  requests bigint not null,
  requests_per_second double precision not null,
  at timestamptz(3) not null,

  constraint gateway_use_pkey primary key (lease_id, gateway_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
comment on table gateway_use is 'Who uses the backend of a grant through a gateway, for people to look at. Nothing is decided by it.';
comment on column gateway_use.requests is 'All that the gateway has reported of the grant.';
comment on column gateway_use.requests_per_second is 'An average of the last seconds before the report.';
comment on column gateway_use.at is 'When it was last written: every few seconds while nothing changes.';

-- Acts on many grants.

create table bulk (
  id uuid not null,
  action text not null,
  mode text,
  reason text not null,
  actor text not null,
  principal text collate "C" not null,
  role text not null,
  source text,
  namespaces text[],
  state text not null default 'running',
  total integer not null,
  done_count integer not null default 0,
  failed_count integer not null default 0,
  started_at timestamptz(3) not null default clock_timestamp(),
  ended_at timestamptz(3),

  constraint bulk_pkey primary key (id),
  constraint bulk_action_check check (action in ('revoke', 'blockRenewal', 'allowRenewal')),
  constraint bulk_state_check check (state in ('running', 'aborted', 'done'))
);
create index bulk_running_idx on bulk (started_at) where state = 'running';
create index bulk_ended_at_idx on bulk (ended_at);
comment on table bulk is 'One act on many grants. The controller that carries it out has the lease "bulk:" and its id in the namespace "leasehold".';
comment on column bulk.principal is 'With actor, role, source and namespaces: for whom its acts are done.';
comment on column bulk.done_count is 'Items that were carried out, failed ones too; counted by the statement that records them.';

create table bulk_item (
  bulk_id uuid not null,
  place integer not null,
  lease_id uuid not null,
  fencing_token bigint not null,
  done_at timestamptz(3),
  code text,

  constraint bulk_item_pkey primary key (bulk_id, place),
  constraint bulk_item_bulk_id_fkey foreign key (bulk_id) references bulk (id)
);
create index bulk_item_open_idx on bulk_item (bulk_id, place) where done_at is null;
create index bulk_item_failed_idx on bulk_item (bulk_id, place) where code is not null;
comment on table bulk_item is 'One grant of a bulk action, frozen as it was chosen.';
comment on column bulk_item.fencing_token is 'As it was shown: a grant with another token is not this one.';
comment on column bulk_item.code is 'Why it failed: a code of the registry, or gone; null while it is open, and when it is done.';

-- Figures, refusals and health.

create table stats_bucket (
  bucket_at timestamptz(3) not null,
  face text collate "C" not null,
  grants bigint not null default 0,
  releases bigint not null default 0,
  expiries bigint not null default 0,
  revocations bigint not null default 0,
  denials bigint not null default 0,
  renewals bigint not null default 0,
  refused_renewals bigint not null default 0,
  waits bigint[],
  handovers bigint[],

  constraint stats_bucket_pkey primary key (bucket_at, face),
  constraint stats_bucket_face_check check (face in ('key', 'lease', 'environment'))
) with (fillfactor = 70);
comment on table stats_bucket is 'What happened in ten seconds of the database''s clock, by face. Kept for a day.';
comment on column stats_bucket.bucket_at is 'The beginning of the ten seconds.';
comment on column stats_bucket.grants is 'With releases, expiries and revocations: from lease_event, each event once.';
comment on column stats_bucket.denials is 'With renewals, waits and handovers: counted by controllers as they answer. One that is killed loses what it has not written yet.';
comment on column stats_bucket.waits is 'How many waits were of which length: a histogram whose bounds are in stats/histogram.ts; null for none.';
comment on column stats_bucket.handovers is 'The same, from the end of a grant to the grant of who waited.';

create table stats_cursor (
  only_row boolean not null default true,
  through_id bigint not null,

  constraint stats_cursor_pkey primary key (only_row),
  constraint stats_cursor_only_row_check check (only_row)
);
comment on table stats_cursor is 'Up to which event stats_bucket counts. Whoever adds events locks it.';

insert into stats_cursor (through_id) values (0);

create table refusal (
  hour_at timestamptz(3) not null,
  face text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  code text collate "C" not null,
  count bigint not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  actor text not null,
  holder text,
  reason text not null,

  constraint refusal_pkey primary key (hour_at, face, namespace, name, code)
) with (fillfactor = 80);
create index refusal_resource_idx on refusal (face, namespace, name, hour_at);
comment on index refusal_resource_idx is 'For the page of a resource.';
comment on table refusal is 'Refused connects and acquires of an hour, by resource and code. Kept for a week.';
comment on column refusal.hour_at is 'The beginning of the hour.';
comment on column refusal.code is 'The code of the error; held where somebody else has the lease.';
comment on column refusal.actor is 'Who was refused last: the name of its token, or of the person.';
comment on column refusal.holder is 'For whom it was asked then; null for a key.';
comment on column refusal.reason is 'What it was told then.';

-- A table, and not an index of lease_event, which every grant would have to keep up to date.
create table refused_renewal (
  at timestamptz(3) not null,
  event_id bigint not null,

  constraint refused_renewal_pkey primary key (at, event_id)
);
comment on table refused_renewal is 'The events of the kind renewal_refused, by time. Kept as long as events.';
comment on column refused_renewal.at is 'The instant of the event.';
comment on column refused_renewal.event_id is 'The id of the row of lease_event; no foreign key, which would be checked for every event that is removed.';

create table health (
  only_row boolean not null default true,
  is_healthy boolean not null,
  since timestamptz(3) not null,
  judged_at timestamptz(3) not null,

  constraint health_pkey primary key (only_row),
  constraint health_only_row_check check (only_row)
);
comment on table health is 'The latest judgement of the system: whether an operator needs to look at something. One row, or none before the first judgement.';
comment on column health.is_healthy is 'False while something needs attention.';
comment on column health.since is 'Since when every judgement was the same, without a longer time in which nobody judged.';
comment on column health.judged_at is 'When a controller judged last.';

create table webhook (
  only_row boolean not null default true,
  audit_id bigint not null,
  alarms jsonb not null,
  tries integer not null default 0,
  next_try_at timestamptz(3),
  last_error text,
  sent_at timestamptz(3),

  constraint webhook_pkey primary key (only_row),
  constraint webhook_only_row_check check (only_row)
);
comment on table webhook is 'What the webhook has been told: one row, once a webhook is configured.';
comment on column webhook.audit_id is 'The last entry of the audit that was sent, or passed over.';
comment on column webhook.alarms is 'The alarms that it was told of and that have not ended: their texts, by what they are about.';
comment on column webhook.tries is 'How often the next message has failed.';
comment on column webhook.next_try_at is 'Nothing is sent before this.';
comment on column webhook.sent_at is 'When the last message arrived.';

-- Search: names by any part of them, in a table that one controller fills after the fact. No extension is needed.

-- Lower case for more than ASCII, whatever the locale of the database.
do $$
declare
  unicode text := (
    select format('COLLATE pg_catalog.%I', collname)
    from pg_collation
    where collname in ('pg_c_utf8', 'und-x-icu') and collnamespace = 'pg_catalog'::regnamespace
      and collencoding in (-1, (select encoding from pg_database where datname = current_database()))
    order by collname
    limit 1
  );
begin
  execute format(
    'CREATE FUNCTION search_folded(what text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE '
    'RETURN lower(what %s)', coalesce(unicode, ''));
end
$$;
comment on function search_folded(text) is 'A text in lower case: two texts that differ only in case are found by each other.';

-- Not strict: a condition on each of a million rows is read as if it were written out.
create function search_text(namespace text, name text) returns text
  language sql immutable parallel safe
return search_folded(
  case
    when namespace = '' and strpos(name, '/') = 0 then name
    when strpos(namespace, '/') = 0 and strpos(namespace, '%') = 0 then namespace || '/' || name
    else replace(regexp_replace(namespace, '%(?=2F|25)', '%25', 'g'), '/', '%2F') || '/' || name
  end);
comment on function search_text(text, text) is 'A name in a namespace as it is printed, folded.';

create function search_words(what text) returns text
  language sql immutable parallel safe
return chr(1) || translate(what, '/.-_:@#,+% ', repeat(chr(1), 11));
comment on function search_words(text) is 'A folded text with a mark before each word.';

-- Not for parallel workers: a search would wait until they have started, for longer than it takes.
create function search_grams(what text) returns tsvector
  language sql immutable strict parallel unsafe
return array_to_tsvector(
  array(select substr(what, i, 3) from generate_series(1, char_length(what)) as i)
  || array(
    select chr(1) || substr(what, i, 2)
    from generate_series(1, char_length(what)) as i
    where i = 1 or strpos('/.-_:@#,+% ', substr(what, i - 1, 1)) > 0));
comment on function search_grams(text) is 'The pieces of a folded text: three characters from each place, and the first two of each word after a mark.';

create function search_query(what text, is_word boolean) returns tsquery
  language sql immutable strict parallel safe
return (
  select string_agg(
    '''' || replace(replace(g.gram, '\', '\\'), '''', '''''') || ''''
    || case when char_length(g.gram) < 3 then ':*' else '' end, ' & ')
  from (
    -- Each third one, and the last, cover the text: more would only be compared with each other.
    select substr(what, i, 3) as gram
    from generate_series(1, greatest(1, char_length(what) - 2)) as i
    where i % 3 = 1 or i = char_length(what) - 2
    union all
    select chr(1) || substr(what, 1, 2) where is_word
  ) as g
)::tsquery;
comment on function search_query(text, boolean) is 'The pieces that a text must have to contain this one; with true, at the beginning of a word.';

create table search_name (
  kind text collate "C" not null,
  namespace text collate "C" not null,
  name text collate "C" not null,
  text text collate "C" not null,
  name_at smallint not null,

  constraint search_name_pkey primary key (kind, namespace, name)
);
create index search_name_begin_idx
  on search_name ((char_length(text) - name_at), substr(text, name_at));
-- New pieces are merged a megabyte at a time: one by one took seven times as long. Searches read what is pending.
create index search_name_grams_idx
  on search_name using gin (search_grams(text)) with (gin_pending_list_limit = 1024);
comment on table search_name is 'The names that a search finds. Filled after the fact: a name may be missing for a moment, and one whose resource is gone may still be there.';
comment on column search_name.kind is 'key, lease, environment or backend.';
comment on column search_name.namespace is 'Of the resource; of a backend, that of its key.';
comment on column search_name.name is 'Of the resource; of a backend, its id.';
comment on column search_name.text is 'What is searched: the name as it is printed, folded.';
comment on column search_name.name_at is 'Where in the text the name begins, from 1.';

create table search_mark (
  part text collate "C" not null,
  through_id bigint,
  place text[],
  walked_at timestamptz(3),

  constraint search_mark_pkey primary key (part)
);
comment on table search_mark is 'How far search_name is filled. What fills it locks the row of the part.';
comment on column search_mark.part is 'events: names of new grants. leases, backends: all rows, again and again. names: removal of what is gone.';
comment on column search_mark.through_id is 'The event up to which names of grants are there.';
comment on column search_mark.place is 'The key of the row that a walk has reached; null at the beginning.';
comment on column search_mark.walked_at is 'When a walk last came to the end; null before the first time.';

insert into search_mark (part, through_id) values
  ('events', 0), ('leases', null), ('backends', null), ('names', null);
