/** Watches until when the database has promised each lease of a namespace, in the clock of this machine. */
import { setTimeout as pause } from 'node:timers/promises';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { machineMs } from '../../stage/machine-time.ts';

const SAMPLE_MS = 10;

/** One expiry that the database had. */
export interface SeenPromise {
  readonly leaseId: string;
  /** Never late, and early by no more than a sample took. */
  readonly expiresAtMs: number;
  readonly seenAtMs: number;
}

interface Row {
  readonly lease_id: string;
  readonly expires_at: string;
  readonly remaining_ms: number;
}

export class PromiseWatch {
  readonly #seen = new Map<string, SeenPromise>();
  readonly #client: pg.Client;
  readonly #namespace: string;
  #isClosed = false;
  #ended: Promise<void> = Promise.resolve();

  private constructor(client: pg.Client, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  static async open(databaseUrl: string, namespace: string): Promise<PromiseWatch> {
    const client = new pg.Client(connectionOf(databaseUrl));
    await client.connect();
    const watch = new PromiseWatch(client, namespace);
    watch.#ended = watch.#watch();
    return watch;
  }

  /** All that was seen of one grant. */
  of(leaseId: string): SeenPromise[] {
    return [...this.#seen.values()].filter((one) => one.leaseId === leaseId);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#ended;
    await this.#client.end();
  }

  async #watch(): Promise<void> {
    while (!this.#isClosed) {
      const askedAtMs = machineMs();
      const { rows } = await this.#client.query<Row>(
        `select lease_id::text, expires_at::text,
           extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as remaining_ms
         from lease where face = 'lease' and namespace = $1`,
        [this.#namespace],
      );
      const seenAtMs = machineMs();
      for (const { lease_id: leaseId, expires_at, remaining_ms } of rows) {
        const name = `${leaseId} ${expires_at}`;
        const expiresAtMs = askedAtMs + remaining_ms;
        const known = this.#seen.get(name);
        this.#seen.set(name, {
          ...{ leaseId, seenAtMs: known?.seenAtMs ?? seenAtMs },
          // A question that took less time says it better.
          expiresAtMs: Math.max(expiresAtMs, known?.expiresAtMs ?? -Infinity),
        });
      }
      await pause(SAMPLE_MS);
    }
  }
}
