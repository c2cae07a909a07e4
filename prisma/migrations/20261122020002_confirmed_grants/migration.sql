-- A caller may say that it will confirm what it is granted. Until its first renewal such a grant lasts
-- less than its TTL, so that one whose answer was lost is soon free again.
-- Safe while the version before runs: it changes no table. Where that version ends a grant that was never
-- confirmed, it leaves a row for its use case, as for any other.

-- Whether a grant has more than the short first term of one that is to be confirmed, which is 900 ms: less
-- than any TTL. The two instants are rounded to milliseconds, each for itself.
CREATE FUNCTION lease_confirmed(renewed_at timestamptz, expires_at timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN expires_at - renewed_at NOT BETWEEN interval '898 milliseconds' AND interval '902 milliseconds';

COMMENT ON FUNCTION lease_confirmed(timestamptz, timestamptz) IS 'False while a grant has its short first term, and when it has run out in it: nobody began to use it.';
COMMENT ON COLUMN "lease"."previous_end" IS 'How the grant before this one ended: released, expired, revoked or removed; lapsed or unconfirmed when it expired and this grant ended it; null for none.';
