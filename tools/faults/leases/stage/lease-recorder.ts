/**
 * Watches the keys of a database while a fault happens: until when each grant was promised, in the
 * clock of this machine, and whether a backend was ever called alive without a grant (I16).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { machineMs } from '../../stage/machine-time.ts';

const SAMPLE_MS = 50;

/** What was seen of one grant. */
export interface RecordedGrant {
  readonly key: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  /** The latest promise. Never early, and late by no more than a sample took. */
  readonly expiresAtMs: number;
  readonly firstSeenAtMs: number;
  /** How many different expiries were seen. */
  readonly promiseCount: number;
}

interface Sample {
  readonly key: string;
  readonly lease_id: string;
  readonly token: string;
  readonly holder: string;
  readonly expires_at: string;
  readonly remaining_ms: number;
}

interface Recorded extends RecordedGrant {
  readonly expiresAt: string;
}

export class LeaseRecorder {
  readonly #databaseUrl: string;
  readonly #grants = new Map<string, Recorded>();
  /** Since when a backend that is called alive has had no grant; and the longest such time. */
  readonly #withoutSinceMs = new Map<string, number>();
  readonly #longestWithoutMs = new Map<string, number>();
  readonly #ended: Promise<void>;
  #client: pg.Client | undefined;
  #isClosed = false;

  constructor(databaseUrl: string) {
    this.#databaseUrl = databaseUrl;
    this.#ended = this.#record();
  }

  grant(leaseId: string): RecordedGrant | undefined {
    return this.#grants.get(leaseId);
  }

  /** How long a backend that was called starting, waiting or ready had no unexpired grant. */
  longestWithoutGrantMs(backendId: string): number {
    return this.#longestWithoutMs.get(backendId) ?? 0;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#ended;
    await this.#client?.end().catch(() => undefined);
  }

  async #record(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#sample(await this.#connected());
      } catch {
        // The database is what fails in some of these tests: the next sample connects again.
        this.#client?.end().catch(() => undefined);
        this.#client = undefined;
      }
      await pause(SAMPLE_MS);
    }
  }

  async #connected(): Promise<pg.Client> {
    if (this.#client !== undefined) return this.#client;
    const client = new pg.Client(connectionOf(this.#databaseUrl));
    client.on('error', () => {
      this.#client = undefined;
    });
    await client.connect();
    this.#client = client;
    return client;
  }

  async #sample(client: pg.Client): Promise<void> {
    const grants = await client.query<Sample>(`
      select name as key, lease_id::text, fencing_token::text as token, holder,
        expires_at::text, extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as remaining_ms
      from lease
      where face = 'key' and end_reason is null and released_at is null`);
    const sampledAtMs = machineMs();
    for (const row of grants.rows) this.#note(row, sampledAtMs);
    const bare = await client.query<{ id: string }>(`
      select b.id
      from backend b
      left join lease l on l.lease_id = b.lease_id and l.holder = b.drone_id
        and (
          (l.released_at is null and l.end_reason is null and clock_timestamp() < l.expires_at)
          -- Ended by force, and held back because its holder may not know of it.
          or clock_timestamp() < l.stops_by
        )
      where b.status in ('starting', 'waiting', 'ready') and l.lease_id is null`);
    this.#noteBare(new Set(bare.rows.map((row) => row.id)), machineMs());
  }

  #note(row: Sample, sampledAtMs: number): void {
    const known = this.#grants.get(row.lease_id);
    const expiresAtMs = sampledAtMs + row.remaining_ms;
    const isSame = known?.expiresAt === row.expires_at;
    this.#grants.set(row.lease_id, {
      key: row.key,
      leaseId: row.lease_id,
      fencingToken: row.token,
      holder: row.holder,
      expiresAt: row.expires_at,
      expiresAtMs: isSame ? Math.min(known.expiresAtMs, expiresAtMs) : expiresAtMs,
      firstSeenAtMs: known?.firstSeenAtMs ?? sampledAtMs,
      promiseCount: (known?.promiseCount ?? 0) + (isSame ? 0 : 1),
    });
  }

  #noteBare(bareIds: ReadonlySet<string>, atMs: number): void {
    for (const id of this.#withoutSinceMs.keys()) {
      if (!bareIds.has(id)) this.#withoutSinceMs.delete(id);
    }
    for (const id of bareIds) {
      const sinceMs = this.#withoutSinceMs.get(id) ?? atMs;
      this.#withoutSinceMs.set(id, sinceMs);
      this.#longestWithoutMs.set(id, Math.max(atMs - sinceMs, this.#longestWithoutMs.get(id) ?? 0));
    }
  }
}
