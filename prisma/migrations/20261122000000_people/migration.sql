-- People who sign in to the console: who they are, how they sign in, and their sessions. The tables
-- of better-auth under our own names, with what it does not know of: roles, invitations, lock-outs.
-- Safe while the version before runs: it knows none of these tables.

CREATE TABLE "person" (
  "id" UUID NOT NULL,
  "email" TEXT COLLATE "C" NOT NULL,
  "email_verified" BOOLEAN NOT NULL DEFAULT false,
  "name" TEXT NOT NULL,
  "image" TEXT,
  "role" TEXT NOT NULL DEFAULT 'viewer',
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "joined_at" TIMESTAMPTZ(3),
  "disabled_at" TIMESTAMPTZ(3),
  "last_sign_in_at" TIMESTAMPTZ(3),
  "invited_by" TEXT,
  "invitation_hash" TEXT COLLATE "C",
  "invitation_expires_at" TIMESTAMPTZ(3),

  CONSTRAINT "person_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "person_email_check" CHECK ("email" = lower("email")),
  CONSTRAINT "person_role_check" CHECK ("role" IN ('viewer', 'client', 'operator', 'admin'))
);

CREATE UNIQUE INDEX "person_email_key" ON "person" ("email");
CREATE UNIQUE INDEX "person_invitation_hash_key" ON "person" ("invitation_hash");
CREATE INDEX "person_created_at_idx" ON "person" ("created_at", "id");

CREATE TABLE "person_session" (
  "id" UUID NOT NULL,
  "person_id" UUID NOT NULL,
  "token" TEXT COLLATE "C" NOT NULL,
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "seen_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "expires_at" TIMESTAMPTZ(3) NOT NULL,
  "ip_address" TEXT,
  "user_agent" TEXT,

  CONSTRAINT "person_session_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "person_session_person_id_fkey" FOREIGN KEY ("person_id") REFERENCES "person" ("id") ON DELETE CASCADE ON UPDATE NO ACTION
);

CREATE UNIQUE INDEX "person_session_token_key" ON "person_session" ("token");
CREATE INDEX "person_session_person_id_idx" ON "person_session" ("person_id");
CREATE INDEX "person_session_seen_at_idx" ON "person_session" ("seen_at");

CREATE TABLE "person_account" (
  "id" UUID NOT NULL,
  "person_id" UUID NOT NULL,
  "provider_id" TEXT COLLATE "C" NOT NULL,
  "account_id" TEXT COLLATE "C" NOT NULL,
  "password" TEXT,
  "access_token" TEXT,
  "refresh_token" TEXT,
  "id_token" TEXT,
  "access_token_expires_at" TIMESTAMPTZ(3),
  "refresh_token_expires_at" TIMESTAMPTZ(3),
  "scope" TEXT,
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT "person_account_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "person_account_person_id_fkey" FOREIGN KEY ("person_id") REFERENCES "person" ("id") ON DELETE CASCADE ON UPDATE NO ACTION
);

CREATE UNIQUE INDEX "person_account_provider_id_account_id_key" ON "person_account" ("provider_id", "account_id");
CREATE INDEX "person_account_person_id_idx" ON "person_account" ("person_id");

CREATE TABLE "person_verification" (
  "id" UUID NOT NULL,
  "identifier" TEXT COLLATE "C" NOT NULL,
  "value" TEXT NOT NULL,
  "expires_at" TIMESTAMPTZ(3) NOT NULL,
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT "person_verification_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "person_verification_identifier_key" ON "person_verification" ("identifier");
CREATE INDEX "person_verification_expires_at_idx" ON "person_verification" ("expires_at");

CREATE TABLE "sign_in_failure" (
  "email_hash" TEXT COLLATE "C" NOT NULL,
  "failure_count" INTEGER NOT NULL,
  "failed_at" TIMESTAMPTZ(3) NOT NULL,
  "locked_until" TIMESTAMPTZ(3),

  CONSTRAINT "sign_in_failure_pkey" PRIMARY KEY ("email_hash")
);

CREATE INDEX "sign_in_failure_failed_at_idx" ON "sign_in_failure" ("failed_at");

COMMENT ON TABLE "person" IS 'Somebody who may sign in to the console, or is invited to.';
COMMENT ON COLUMN "person"."email" IS 'In lower case: compared without regard to case.';
COMMENT ON COLUMN "person"."email_verified" IS 'Whether an identity provider has vouched for the address.';
COMMENT ON COLUMN "person"."image" IS 'Of better-auth; not used.';
COMMENT ON COLUMN "person"."role" IS 'What the person may do, at this moment: sessions hold no copy.';
COMMENT ON COLUMN "person"."joined_at" IS 'Since when the person has a way to sign in; null while invited.';
COMMENT ON COLUMN "person"."disabled_at" IS 'Since when the person may not sign in, and no session of theirs counts.';
COMMENT ON COLUMN "person"."invited_by" IS 'The actor who invited the person; null for one made with the command line.';
COMMENT ON COLUMN "person"."invitation_hash" IS 'SHA-256 of the secret of the one-time link; null once it was used or replaced.';
COMMENT ON COLUMN "person"."invitation_expires_at" IS 'Until when the link can be used.';
COMMENT ON TABLE "person_session" IS 'One browser that has signed in.';
COMMENT ON COLUMN "person_session"."token" IS 'What the signed cookie holds; without the signature it opens nothing.';
COMMENT ON COLUMN "person_session"."seen_at" IS 'When the session was last used, to within minutes: one that is idle for long ends.';
COMMENT ON COLUMN "person_session"."expires_at" IS 'When the session ends however much it is used.';
COMMENT ON TABLE "person_account" IS 'A way in which a person signs in: a password (provider credential), or an identity provider.';
COMMENT ON COLUMN "person_account"."account_id" IS 'The subject at the provider; the id of the person for a password.';
COMMENT ON COLUMN "person_account"."password" IS 'A salted scrypt hash; only of the provider credential.';
COMMENT ON COLUMN "person_account"."access_token" IS 'Of better-auth; never kept.';
COMMENT ON COLUMN "person_account"."refresh_token" IS 'Of better-auth; never kept.';
COMMENT ON COLUMN "person_account"."id_token" IS 'Of better-auth; never kept.';
COMMENT ON TABLE "person_verification" IS 'Sign-ins under way at an identity provider, each for ten minutes.';
COMMENT ON TABLE "sign_in_failure" IS 'Failed sign-ins in a row, by e-mail address, whether or not it is somebody''s. Removed by retention.';
COMMENT ON COLUMN "sign_in_failure"."email_hash" IS 'SHA-256 of the address in lower case: what was typed is not kept.';
COMMENT ON COLUMN "sign_in_failure"."failure_count" IS 'Since the last success, or the end of the last lock-out.';
COMMENT ON COLUMN "sign_in_failure"."locked_until" IS 'Until when no sign-in with this address is tried.';
