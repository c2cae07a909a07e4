create table account (
  id text primary key,
  balance bigint not null,
  -- The largest token that was shown to this row.
  fencing_token bigint not null default 0
);
