-- How many routes a gateway has, for people to look at. Controllers of the previous version leave it out, and the
-- default stands for what they do not report.
-- older versions may start

alter table gateway add column routes bigint not null default 0;
comment on column gateway.routes is 'The keys that it leads to, when it was last seen.';
