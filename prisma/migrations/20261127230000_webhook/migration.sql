-- What the webhook has been told. Controllers of the version before tell nothing.
-- older versions may start

CREATE TABLE "webhook" (
  "only_row" boolean NOT NULL DEFAULT true,
  "audit_id" bigint NOT NULL,
  "alarms" jsonb NOT NULL,
  "tries" integer NOT NULL DEFAULT 0,
  "next_try_at" timestamptz(3),
  "last_error" text,
  "sent_at" timestamptz(3),
  CONSTRAINT "webhook_pkey" PRIMARY KEY ("only_row"),
  CONSTRAINT "webhook_only_row_check" CHECK ("only_row")
);
COMMENT ON TABLE "webhook" IS 'What the webhook has been told: one row, once a webhook is configured.';
COMMENT ON COLUMN "webhook"."audit_id" IS 'The last entry of the audit that was sent, or passed over.';
COMMENT ON COLUMN "webhook"."alarms" IS 'The alarms that it was told of and that have not ended: their texts, by what they are about.';
COMMENT ON COLUMN "webhook"."tries" IS 'How often the next message has failed.';
COMMENT ON COLUMN "webhook"."next_try_at" IS 'Nothing is sent before this.';
COMMENT ON COLUMN "webhook"."sent_at" IS 'When the last message arrived.';
