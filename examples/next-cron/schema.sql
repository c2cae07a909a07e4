-- When a replica first knew the job. Its instants count from then on.
create table cron_job (
  name text primary key,
  since timestamptz not null default now()
);

-- One row for each due instant that was carried out.
create table cron_run (
  job text not null references cron_job (name),
  due_at timestamptz not null,
  replica text not null,
  fencing_token bigint not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (job, due_at)
);

-- What the job of this example changes.
create table account (
  id text primary key,
  cents bigint not null
);
insert into account values ('savings', 0);
