-- What failed backends have written last, and questions to drones about the output of backends.
-- Controllers of the version before neither read nor write any of it: their lists and failures are without output.
-- older versions may start

ALTER TABLE "backend" ADD COLUMN "output" text;
COMMENT ON COLUMN "backend"."output" IS 'The last lines that it wrote, if it ended without being asked to; control characters are escapes.';

CREATE TABLE "drone_question" (
  "id" uuid NOT NULL,
  "drone_id" text NOT NULL COLLATE "C",
  "asked_at" timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  "request" jsonb NOT NULL,
  "answer" jsonb,
  CONSTRAINT "drone_question_pkey" PRIMARY KEY ("id")
);
COMMENT ON TABLE "drone_question" IS 'Questions to drones about the output of backends, each until it is answered or given up.';
COMMENT ON COLUMN "drone_question"."request" IS 'Which part of which output is wanted: LogRequest.';
COMMENT ON COLUMN "drone_question"."answer" IS 'What the drone has answered: LogPage.';
CREATE INDEX "drone_question_drone_id_idx" ON "drone_question" ("drone_id") WHERE "answer" IS NULL;
COMMENT ON INDEX "drone_question_drone_id_idx" IS 'What a drone has not answered yet, read with its outbox.';
