-- The kernel, the fleet, access. The first migration: nothing runs before it.
-- Text that identifies something is collate "C": it is compared byte for byte, and every batch
-- statement locks in one order that neither a locale nor an upgrade of one can change.

-- CreateTable
CREATE TABLE "api_token" (
    "id" UUID NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "secret_hash" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "namespaces" TEXT[],
    "drone_id" TEXT COLLATE "C",
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_token_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "audit" (
    "id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "actor" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "resource" TEXT NOT NULL,
    "reason" TEXT,
    "source" TEXT,
    "detail" JSONB,

    CONSTRAINT "audit_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "drone" (
    "id" TEXT COLLATE "C" NOT NULL,
    "datacenter" TEXT NOT NULL,
    "clock_id" UUID NOT NULL,
    "session" BIGINT NOT NULL,
    "version" TEXT NOT NULL,
    "programs" JSONB NOT NULL,
    "capacity" INTEGER NOT NULL,
    "draining" BOOLEAN NOT NULL DEFAULT false,
    "lost_at" TIMESTAMPTZ(3),
    "registered_at" TIMESTAMPTZ(3) NOT NULL,
    "local_time_ms" DOUBLE PRECISION,
    "heartbeat_at" TIMESTAMPTZ(3),
    "load" JSONB,

    CONSTRAINT "drone_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "backend" (
    "id" TEXT COLLATE "C" NOT NULL,
    "drone_id" TEXT COLLATE "C" NOT NULL,
    "datacenter" TEXT NOT NULL,
    "clock_id" UUID NOT NULL,
    "program" TEXT NOT NULL,
    "args" JSONB NOT NULL,
    "env" JSONB NOT NULL,
    "lifetime_limit_seconds" INTEGER,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "tag" TEXT NOT NULL,
    "lease_id" UUID NOT NULL,
    "fencing_token" BIGINT NOT NULL,
    "status" TEXT NOT NULL,
    "status_rank" INTEGER NOT NULL,
    "reason" TEXT,
    "address" TEXT,
    "exit_code" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "status_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "backend_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "backend_state" (
    "id" BIGSERIAL NOT NULL,
    "backend_id" TEXT COLLATE "C" NOT NULL,
    "status" TEXT NOT NULL,
    "reason" TEXT,
    "address" TEXT,
    "exit_code" INTEGER,
    "detail" TEXT,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "backend_state_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "backend_action" (
    "id" BIGSERIAL NOT NULL,
    "backend_id" TEXT COLLATE "C" NOT NULL,
    "drone_id" TEXT COLLATE "C" NOT NULL,
    "kind" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "acked_at" TIMESTAMPTZ(3),
    "cancelled_at" TIMESTAMPTZ(3),

    CONSTRAINT "backend_action_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "lease" (
    "face" TEXT COLLATE "C" NOT NULL,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "lease_id" UUID NOT NULL,
    "previous_lease_id" UUID,
    "previous_fencing_token" BIGINT,
    "previous_end" TEXT,
    "fencing_token" BIGINT NOT NULL,
    "holder" TEXT NOT NULL,
    "principal" TEXT COLLATE "C" NOT NULL,
    "tag" TEXT NOT NULL DEFAULT '',
    "comment" TEXT,
    "metadata" JSONB,
    "ttl_ms" INTEGER NOT NULL,
    "renew_after_ms" INTEGER NOT NULL,
    "soft_after_ms" INTEGER NOT NULL,
    "hard_after_ms" INTEGER NOT NULL,
    "granted_at" TIMESTAMPTZ(3) NOT NULL,
    "renewed_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "renewable" BOOLEAN NOT NULL DEFAULT true,
    "released_at" TIMESTAMPTZ(3),
    "end_reason" TEXT,
    "stops_by" TIMESTAMPTZ(3),

    CONSTRAINT "lease_pkey" PRIMARY KEY ("face","namespace","name")
);

-- CreateTable
CREATE TABLE "lease_event" (
    "id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "face" TEXT COLLATE "C" NOT NULL,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "lease_id" UUID NOT NULL,
    "fencing_token" BIGINT NOT NULL,
    "kind" TEXT NOT NULL,
    "actor" TEXT NOT NULL,
    "reason" TEXT,
    "detail" JSONB,

    CONSTRAINT "lease_event_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "lease_request" (
    "principal" TEXT COLLATE "C" NOT NULL,
    "idempotency_key" TEXT COLLATE "C" NOT NULL,
    "lease_id" UUID,
    "answer" JSONB,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "lease_request_pkey" PRIMARY KEY ("principal","idempotency_key")
);

-- CreateTable
CREATE TABLE "lease_waiter" (
    "id" BIGSERIAL NOT NULL,
    "face" TEXT COLLATE "C" NOT NULL,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "ticket_id" UUID NOT NULL,
    "waiter" TEXT NOT NULL,
    "principal" TEXT COLLATE "C" NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "valid_until" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "lease_waiter_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "lease_reap" (
    "lease_id" UUID NOT NULL,
    "face" TEXT COLLATE "C" NOT NULL,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "fencing_token" BIGINT NOT NULL,
    "expired_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "lease_reap_pkey" PRIMARY KEY ("lease_id")
);

-- CreateTable
CREATE TABLE "database_epoch" (
    "only_row" BOOLEAN NOT NULL DEFAULT true,
    "epoch" INTEGER NOT NULL,
    "system_identifier" TEXT NOT NULL,
    "timeline" INTEGER NOT NULL,
    "token" UUID NOT NULL,
    "hold_off_until" TIMESTAMPTZ(3),
    "longest_ttl_ms" INTEGER NOT NULL,

    CONSTRAINT "database_epoch_pkey" PRIMARY KEY ("only_row")
);

-- CreateIndex
CREATE UNIQUE INDEX "api_token_secret_hash_key" ON "api_token"("secret_hash");

-- CreateIndex
CREATE INDEX "audit_at_idx" ON "audit"("at");

-- CreateIndex
CREATE UNIQUE INDEX "backend_lease_id_key" ON "backend"("lease_id");

-- CreateIndex
CREATE INDEX "backend_drone_id_status_rank_idx" ON "backend"("drone_id", "status_rank");

-- CreateIndex
CREATE INDEX "backend_key_idx" ON "backend"("namespace", "name", "created_at");

-- CreateIndex
CREATE INDEX "backend_state_backend_id_idx" ON "backend_state"("backend_id", "id");

-- CreateIndex
-- Only what is still to be sent: an outbox is read far more often than its history.
CREATE INDEX "backend_action_drone_id_idx" ON "backend_action"("drone_id", "id") WHERE "acked_at" IS NULL AND "cancelled_at" IS NULL;

-- CreateIndex
CREATE INDEX "backend_action_backend_id_idx" ON "backend_action"("backend_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "lease_lease_id_key" ON "lease"("lease_id");

-- CreateIndex
CREATE INDEX "lease_event_lease_id_idx" ON "lease_event"("lease_id");

-- CreateIndex
CREATE INDEX "lease_event_resource_idx" ON "lease_event"("face", "namespace", "name", "id");

-- CreateIndex
CREATE INDEX "lease_event_at_idx" ON "lease_event"("at");

-- CreateIndex
CREATE INDEX "lease_request_created_at_idx" ON "lease_request"("created_at");

-- CreateIndex
CREATE UNIQUE INDEX "lease_waiter_ticket_id_key" ON "lease_waiter"("ticket_id");

-- CreateIndex
CREATE INDEX "lease_waiter_resource_idx" ON "lease_waiter"("face", "namespace", "name", "id");

-- CreateIndex
CREATE INDEX "lease_reap_namespace_idx" ON "lease_reap"("namespace", "expired_at");


-- Renewals change no indexed column and leave room in their page, so that they stay HOT.
ALTER TABLE "lease" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- A heartbeat every few seconds for each drone, the same way.
ALTER TABLE "drone" SET (fillfactor = 50);

ALTER TABLE "lease" ADD CONSTRAINT "lease_face_check" CHECK ("face" IN ('key', 'lease', 'environment'));
ALTER TABLE "lease" ADD CONSTRAINT "lease_ladder_check"
  CHECK (0 < "renew_after_ms" AND "renew_after_ms" < "soft_after_ms"
    AND "soft_after_ms" <= "hard_after_ms" AND "hard_after_ms" < "ttl_ms");
ALTER TABLE "database_epoch" ADD CONSTRAINT "database_epoch_only_row_check" CHECK ("only_row");

-- The one place that says whether a grant is in force. The database's clock decides, read when the
-- row is judged and not when the transaction began; at equality the grant is expired.
CREATE FUNCTION lease_unexpired(released_at timestamptz, end_reason text, expires_at timestamptz)
RETURNS boolean LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN released_at IS NULL AND end_reason IS NULL AND clock_timestamp() < expires_at;

-- The one place that says whether a resource may be granted. `stops_by` holds a key back that was
-- ended by force while its backend may still run.
CREATE FUNCTION lease_takable(released_at timestamptz, end_reason text, expires_at timestamptz, stops_by timestamptz)
RETURNS boolean LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN NOT (released_at IS NULL AND end_reason IS NULL AND clock_timestamp() < expires_at)
  AND (stops_by IS NULL OR stops_by <= clock_timestamp());

-- Whether a namespace lies within one of `limits`, a JSON list of namespaces, children included;
-- null limits nothing. By starts_with and never by like: `user2` is no child of `user`.
CREATE FUNCTION lease_is_within(namespace text, limits jsonb)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN limits IS NULL OR EXISTS (
  SELECT FROM jsonb_array_elements_text(limits) AS allowed (parent)
  WHERE allowed.parent = '' OR namespace = allowed.parent OR starts_with(namespace, allowed.parent || '.')
);

-- Which history of the database this is: the timeline changes with every promotion of a standby.
CREATE FUNCTION database_timeline()
RETURNS integer LANGUAGE sql VOLATILE
RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int;

-- Whether new grants are held off: for a time after a restore or a failover was noted, and from the
-- first moment in which the database is another one than was noted.
CREATE FUNCTION database_holds_off(hold_off_until timestamptz, system_identifier text, timeline integer)
RETURNS boolean LANGUAGE sql VOLATILE
RETURN coalesce(hold_off_until > clock_timestamp(), false)
  OR timeline <> database_timeline()
  OR system_identifier <> (SELECT s.system_identifier::text FROM pg_control_system() AS s);

-- The next fencing token after `previous`: greater by construction, and not behind the clock, so
-- that neither a step of the clock nor a lost row can give one token twice.
CREATE FUNCTION lease_next_token(previous bigint)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN greatest(coalesce(previous, 0) + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

COMMENT ON TABLE "lease" IS 'One row per resource, kept after release. Phase is computed, never stored.';
COMMENT ON COLUMN "lease"."lease_id" IS 'This grant. Its unique index is full: fenced transactions rest on that.';
COMMENT ON COLUMN "lease"."fencing_token" IS 'Grows with every grant, stays the same under renewal.';
COMMENT ON COLUMN "lease"."previous_end" IS 'How the grant before this one ended: released, expired, revoked, removed, or null for none.';
COMMENT ON COLUMN "lease"."principal" IS 'Who is authenticated as the owner: a drone id for keys, an API token id otherwise.';
COMMENT ON COLUMN "lease"."ttl_ms" IS 'The ladder of this grant, whatever the configuration says later: renew, soft, hard, expiry after a renewal.';
COMMENT ON COLUMN "lease"."renewable" IS 'Plane''s allow_renew: false blocks renewal.';
COMMENT ON COLUMN "lease"."end_reason" IS 'released, expired, revoked or removed; null while the grant has not been ended.';
COMMENT ON COLUMN "lease"."stops_by" IS 'A key ended by force is not granted before this moment, unless its backend was reported gone.';
COMMENT ON TABLE "lease_event" IS 'Append-only. The id is assigned after the row lock, so order by id is the order of what happened to a resource.';
COMMENT ON TABLE "lease_request" IS 'One idempotency key, one attempt, one answer. Kept for 24 h.';
COMMENT ON TABLE "lease_waiter" IS 'Tickets of callers that wait, in order of id; one that is not prolonged lapses.';
COMMENT ON TABLE "lease_reap" IS 'One row per lease-face grant that expired and whose use case has not been called.';
COMMENT ON TABLE "database_epoch" IS 'Which life of the database this is. A restore or a failover with loss starts another, with a hold-off.';
COMMENT ON TABLE "drone" IS 'A machine that runs backends, with the newest reading of its clock.';
COMMENT ON COLUMN "drone"."clock_id" IS 'Which clock local_time_ms was read from: a new one voids the reading.';
COMMENT ON TABLE "backend" IS 'One run of a program, under one grant of a key.';
COMMENT ON COLUMN "backend"."clock_id" IS 'Which life of the drone''s warden it belongs to: when the warden is gone, so is the backend.';
COMMENT ON TABLE "backend_state" IS 'The states a backend was reported in, as they arrived.';
COMMENT ON TABLE "backend_action" IS 'The outbox towards drones: resent until acknowledged or cancelled.';
COMMENT ON TABLE "api_token" IS 'Secrets of programs, as SHA-256. Revoked ones are kept.';
COMMENT ON TABLE "audit" IS 'What operators did, and why.';
