-- Where a key lives: reservations, the pointers of those that moved away, and the seal on a key's lease.
-- Nothing is rewritten. Controllers of the version before must be stopped first: they grant keys
-- without asking where the key lives.

ALTER TABLE "lease" ADD COLUMN "home_reservation" TEXT COLLATE "C";

-- CreateTable
CREATE TABLE "reservation" (
    "reservation_id" TEXT COLLATE "C" NOT NULL,
    "key" TEXT COLLATE "C" NOT NULL,
    "namespace" TEXT COLLATE "C",
    "name" TEXT COLLATE "C",
    "state" TEXT NOT NULL DEFAULT 'active',
    "chain" TEXT[],
    "activated_by" TEXT NOT NULL,
    "activated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "moved_at" TIMESTAMPTZ(3),
    "moved_by" TEXT,
    "move_reason" TEXT,

    CONSTRAINT "reservation_pkey" PRIMARY KEY ("reservation_id"),
    CONSTRAINT "reservation_state_check" CHECK ("state" IN ('active', 'moved')),
    CONSTRAINT "reservation_moved_check" CHECK (("state" = 'moved') = ("moved_at" IS NOT NULL))
);

-- CreateTable
CREATE TABLE "reservation_home" (
    "key" TEXT COLLATE "C" NOT NULL,
    "reservation_id" TEXT COLLATE "C" NOT NULL,
    "recorded_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "reservation_home_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "reservation_pointer" (
    "from_id" TEXT COLLATE "C" NOT NULL,
    "to_id" TEXT COLLATE "C" NOT NULL,
    "token_floor" BIGINT NOT NULL,
    "recorded_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "reservation_pointer_pkey" PRIMARY KEY ("from_id"),
    CONSTRAINT "reservation_pointer_elsewhere_check" CHECK ("from_id" <> "to_id")
);

-- CreateTable
CREATE TABLE "reservation_datacenter" (
    "name" TEXT COLLATE "C" NOT NULL,
    "cluster_id" UUID NOT NULL,

    CONSTRAINT "reservation_datacenter_pkey" PRIMARY KEY ("name")
);

-- CreateTable
CREATE TABLE "reservation_membership" (
    "only_row" BOOLEAN NOT NULL DEFAULT true,
    "cluster_id" UUID NOT NULL DEFAULT gen_random_uuid(),
    "datacenter" TEXT COLLATE "C",
    "store_id" TEXT,
    "synced_epoch" INTEGER,

    CONSTRAINT "reservation_membership_pkey" PRIMARY KEY ("only_row"),
    CONSTRAINT "reservation_membership_only_row_check" CHECK ("only_row")
);

INSERT INTO "reservation_membership" DEFAULT VALUES;

-- One home at a time within a datacenter too.
CREATE UNIQUE INDEX "reservation_active_key_key" ON "reservation" ("key") WHERE "state" = 'active';

-- What a datacenter wrote down last of its own: a start asks a store that may have been restored for it.
CREATE INDEX "reservation_home_newest_idx" ON "reservation_home" (split_part("reservation_id", '.', 1), "recorded_at");
CREATE INDEX "reservation_pointer_newest_idx" ON "reservation_pointer" (split_part("from_id", '.', 1), "recorded_at");

-- CreateIndex
CREATE INDEX "reservation_key_idx" ON "reservation"("key", "reservation_id");

COMMENT ON COLUMN "lease"."home_reservation" IS 'The reservation under which a key is granted. When it names one of another datacenter, the key has moved there and the row is sealed: nothing is granted on it. Null on other faces, and on keys from before there were reservations.';
COMMENT ON TABLE "reservation" IS 'Reservations that live or have lived in this datacenter. One that is not here accepts no grant.';
COMMENT ON COLUMN "reservation"."key" IS 'The reserved list of strings as JSON: ["a/b"] is not ["a","b"].';
COMMENT ON COLUMN "reservation"."namespace" IS 'Of the key that it is the home of; null when the list names no key.';
COMMENT ON COLUMN "reservation"."chain" IS 'The reservations that it came from, the first one first.';
COMMENT ON TABLE "reservation_home" IS 'The first reservation of each key. With one datacenter this is the reservation store; with several, what was learned of the store.';
COMMENT ON TABLE "reservation_pointer" IS 'Where a reservation moved to. Written once: a row is never changed.';
COMMENT ON COLUMN "reservation_pointer"."token_floor" IS 'Fencing tokens of the new home are greater than this.';
COMMENT ON TABLE "reservation_datacenter" IS 'Which database has which datacenter name. Used when PostgreSQL is the reservation store.';
COMMENT ON TABLE "reservation_membership" IS 'This datacenter as the reservation store knows it: its cluster id, the store it publishes to (null: its own PostgreSQL, ''publishing'': an etcd that has not been told everything yet, else the cluster id of the etcd that has), and the epoch in which it last read its pointers back.';
