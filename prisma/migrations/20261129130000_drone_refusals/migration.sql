-- A drone that has just refused to start a backend is chosen last for the next one.
--
-- Running controllers of the previous version notice nothing: they neither write the column nor read it.
--
-- older versions may start

alter table drone add column refused_at timestamptz(3);
comment on column drone.refused_at is 'When it last refused to start a backend; null for never.';
