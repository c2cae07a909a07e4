-- A request whose caller fell silent at its turn is given up by its controller, unless the caller has
-- sent it again and been told of its grant: then it has the lease.
-- older versions may start
ALTER TABLE "lease_request" ADD COLUMN "grant_repeated_at" TIMESTAMPTZ(3);

COMMENT ON COLUMN "lease_request"."grant_repeated_at" IS 'When a repeated request was first answered with the grant. Its controller no longer gives such a grant back.';
