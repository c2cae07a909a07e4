-- Up to where events have been removed, so that a reader who resumes from before is told that some are
-- gone. Kept by a trigger: it is right whoever removes events, also by hand.
-- Safe while the version before runs: its own removal of old events is noted too.

CREATE TABLE "lease_event_mark" (
  "only_row" BOOLEAN NOT NULL DEFAULT true,
  "removed_through_id" BIGINT NOT NULL,

  CONSTRAINT "lease_event_mark_pkey" PRIMARY KEY ("only_row"),
  CONSTRAINT "lease_event_mark_only_row_check" CHECK ("only_row")
);

-- What was removed before this migration is everything before the oldest event, or all there were.
INSERT INTO "lease_event_mark" ("removed_through_id")
SELECT coalesce(
  (SELECT min(v."id") - 1 FROM "lease_event" v),
  (SELECT CASE WHEN s."is_called" THEN s."last_value" ELSE 0 END FROM "lease_event_id_seq" s)
);

-- Monotonic: of two removals at once the second waits for the row and judges it again.
CREATE FUNCTION lease_event_note_removed()
RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE "lease_event_mark" m SET "removed_through_id" = g.last
  FROM (SELECT max("id") AS last FROM gone) g
  WHERE g.last > m."removed_through_id";
  RETURN NULL;
END
$$;

CREATE TRIGGER "lease_event_removed"
AFTER DELETE ON "lease_event" REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION lease_event_note_removed();

CREATE FUNCTION lease_event_note_truncated()
RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE "lease_event_mark" m SET "removed_through_id" = greatest(
    m."removed_through_id",
    (SELECT s."last_value" FROM "lease_event_id_seq" s WHERE s."is_called")
  );
  RETURN NULL;
END
$$;

CREATE TRIGGER "lease_event_truncated"
AFTER TRUNCATE ON "lease_event"
FOR EACH STATEMENT EXECUTE FUNCTION lease_event_note_truncated();

COMMENT ON TABLE "lease_event_mark" IS 'Up to where events have been removed: whoever resumes from before has lost some, and is told so.';
COMMENT ON COLUMN "lease_event_mark"."removed_through_id" IS 'The greatest id of a removed event; 0 while none was.';
