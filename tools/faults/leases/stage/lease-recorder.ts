/**
 * Watches the keys of a database, and the leases of namespaces, while a fault happens: until when each grant
 * was promised, in the clock of this machine, and whether a backend was ever called alive without a grant (I16).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { machineMs } from '../../stage/machine-time.ts';

const SAMPLE_MS = 50;

/** One expiry that the database had. */
interface SeenPromise {
  readonly expiresAt: string;
  readonly seenAtMs: number;
  /** When it is, between asking and the answer: the sample that took the least time says it best. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

interface Sample {
  readonly lease_id: string;
  readonly expires_at: string;
  readonly remaining_ms: number;
}

export class LeaseRecorder {
  readonly #databaseUrl: string;
  /** By grant, the latest last. */
  readonly #promises = new Map<string, SeenPromise[]>();
  readonly #namespaces: string[] = [];
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

  /** Watches the leases of a namespace too. */
  watch(namespace: string): void {
    this.#namespaces.push(namespace);
  }

  /** All that was promised to one grant, the latest last. */
  promises(leaseId: string): readonly SeenPromise[] {
    return this.#promises.get(leaseId) ?? [];
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
    const askedAtMs = machineMs();
    const { rows } = await client.query<Sample>(
      `select lease_id::text, expires_at::text,
        extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as remaining_ms
      from lease
      where end_reason is null and released_at is null
        and (face = 'key' or (face = 'lease' and namespace = any($1)))`,
      [this.#namespaces],
    );
    const seenAtMs = machineMs();
    for (const row of rows) this.#note(row, askedAtMs, seenAtMs);
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

  #note(row: Sample, askedAtMs: number, seenAtMs: number): void {
    const known = this.promises(row.lease_id);
    const former = known.at(-1);
    const isSame = former?.expiresAt === row.expires_at;
    const [notBeforeMs, notAfterMs] = [askedAtMs + row.remaining_ms, seenAtMs + row.remaining_ms];
    const promise = {
      expiresAt: row.expires_at,
      seenAtMs: isSame ? former.seenAtMs : seenAtMs,
      notBeforeMs: isSame ? Math.max(former.notBeforeMs, notBeforeMs) : notBeforeMs,
      notAfterMs: isSame ? Math.min(former.notAfterMs, notAfterMs) : notAfterMs,
    };
    this.#promises.set(row.lease_id, [...(isSame ? known.slice(0, -1) : known), promise]);
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
