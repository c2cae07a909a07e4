-- One idempotency key stands for one request, on every face: its record has a fingerprint of what was
-- asked, so that another request with the same key is told so.
-- Safe while the version before runs: it neither reads nor writes the column. A record without a
-- fingerprint is taken by its resource, or by the form of its answer, as that version takes it.

ALTER TABLE "lease_request" ADD COLUMN "fingerprint" TEXT COLLATE "C";

COMMENT ON COLUMN "lease_request"."fingerprint" IS 'Of everything that was asked for, and of nothing that a retry may change; null when the request was given up before it came.';
COMMENT ON COLUMN "lease_request"."resource" IS 'Face, namespace and name, with U+001F between; null when the request was given up before it came.';
COMMENT ON COLUMN "lease_request"."lease_id" IS 'Of the grant, or of the ticket that waits for it; null for a refusal, and when the request was given up before it came.';
COMMENT ON COLUMN "lease_request"."answer" IS 'The refusal, or what a connect was answered, or that the request was given up; null for the grant of a lease, whose row and events say what became of it, and while it waits.';
