-- Failures to sign in are counted by where they come from too; sessions know which change of the
-- password they began after; nobody signs in with two accounts of one identity provider.
-- While the version before runs it cannot count failures: its sign-ins with a password fail.

ALTER TABLE "sign_in_failure" ADD COLUMN "source" TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE "sign_in_failure" ADD COLUMN "counted_since" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp();
ALTER TABLE "sign_in_failure" DROP CONSTRAINT "sign_in_failure_pkey";
ALTER TABLE "sign_in_failure" ADD CONSTRAINT "sign_in_failure_pkey" PRIMARY KEY ("email_hash", "source");

ALTER TABLE "person" ADD COLUMN "session_epoch" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "person_session" ADD COLUMN "epoch" INTEGER NOT NULL DEFAULT 0;

CREATE UNIQUE INDEX "person_account_oidc_person_id_key" ON "person_account" ("person_id") WHERE "provider_id" = 'oidc';

COMMENT ON TABLE "sign_in_failure" IS 'Failed sign-ins, by e-mail address and by where they came from, whether or not the address is somebody''s. Removed by retention.';
COMMENT ON COLUMN "sign_in_failure"."source" IS 'The network that the tries came from; empty for all of them together; change-password for those of somebody who is signed in.';
COMMENT ON COLUMN "sign_in_failure"."counted_since" IS 'When the count began; it begins anew when it is over.';
COMMENT ON COLUMN "sign_in_failure"."failure_count" IS 'Since counted_since.';
COMMENT ON COLUMN "sign_in_failure"."locked_until" IS 'Until when no sign-in with this address is tried, from there.';
COMMENT ON COLUMN "person"."session_epoch" IS 'Grows when all sessions are ended: those of an earlier one do not count.';
COMMENT ON COLUMN "person_session"."epoch" IS 'The session_epoch of its person before the password was looked at.';
