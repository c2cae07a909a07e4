-- What controllers keep for gateways, which have no database: the keys that tokens of people are signed with,
-- what such a token may start, which tokens are refused, and who uses what. Controllers of the previous version
-- know nothing of it, and go on as before.
-- older versions may start

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

  constraint gateway_pkey primary key (id)
) with (fillfactor = 50);
comment on table gateway is 'Gateways that report, each since its first report.';
comment on column gateway.connections is 'Requests in progress and open WebSockets.';
comment on column gateway.requests is 'All that it has reported.';

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
