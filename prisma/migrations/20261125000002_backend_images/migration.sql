-- The image of a backend that is a container. Controllers of the previous version neither read nor
-- write it: they go on as before, and backends that they record have none.
-- older versions may start

alter table backend add column image text;

comment on column backend.image is
  'The image that a container is made of, as its drone reported it; null for a command of the machine.';
