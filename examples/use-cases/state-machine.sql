create table purchase (
  id text primary key,
  state text not null check (state in ('new', 'paid', 'shipped', 'cancelled'))
);
