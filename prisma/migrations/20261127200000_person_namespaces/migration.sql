-- The namespaces that a person is limited to, by the groups that an identity provider names.
-- Controllers of the version before do not limit people: map groups to namespaces once all are of this version.
-- older versions may start

ALTER TABLE "person" ADD COLUMN "namespaces" text[] COLLATE "C";
COMMENT ON COLUMN "person"."namespaces" IS 'The namespaces, with their children, that the person is limited to; null: none. Set by the groups of an identity provider.';
