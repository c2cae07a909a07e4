import type pg from 'pg';

/** The grants to renew, and the drones to send heartbeats for. */
interface Kept {
  readonly renewedLeaseIds: readonly string[];
  /** Not renewed by anybody; they stay some seconds away from their end. */
  readonly blockedLeaseIds: readonly string[];
  readonly droneIds: readonly string[];
}

const HEARTBEAT_MS = 1_000;
const HEARTBEATS_PER_RENEWAL = 4;

/**
 * Does for seeded rows what their holders would: renews grants when a third of their time is over,
 * each at a time of its own, and sends heartbeats. A grant that somebody ended stays ended.
 * @returns how to stop.
 */
export function keepAlive(sql: pg.Pool, kept: Kept): () => void {
  let beats = 0;
  let isBusy = false;
  const beat = async (): Promise<void> => {
    beats += 1;
    const updates: Promise<unknown>[] = [
      sql.query(
        `update drone set heartbeat_at = clock_timestamp() where id = any($1) and lost_at is null`,
        [kept.droneIds],
      ),
    ];
    if (beats % HEARTBEATS_PER_RENEWAL === 0) updates.push(renew(sql, kept));
    // Grants are renewed also while a test has taken the drones away. A database that a test has stopped, or
    // that ended with the test, is no failure here.
    await Promise.allSettled(updates);
  };
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    void beat().finally(() => {
      isBusy = false;
    });
  }, HEARTBEAT_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
  };
}

async function renew(sql: pg.Pool, kept: Kept): Promise<void> {
  await sql.query(
    `update lease
     set renewed_at = clock_timestamp(), expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
     where lease_id = any($1::uuid[]) and renewable and end_reason is null and released_at is null
       and renewed_at < clock_timestamp() - least(ttl_ms / 3, 30000) * interval '1 millisecond'
         + random() * interval '9 seconds'`,
    [kept.renewedLeaseIds],
  );
  await sql.query(
    `update lease
     set renewed_at = clock_timestamp() - (ttl_ms - 24000) * interval '1 millisecond',
         expires_at = clock_timestamp() + interval '24 seconds'
     where lease_id = any($1::uuid[]) and end_reason is null and released_at is null
       and expires_at < clock_timestamp() + interval '14 seconds'`,
    [kept.blockedLeaseIds],
  );
}
