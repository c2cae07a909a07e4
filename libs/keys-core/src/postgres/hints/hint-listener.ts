/**
 * Receives the hints of other controllers. LISTEN needs a session of its own, so behind a pooler in
 * transaction mode there is no listener: that costs the speed of hints, and nothing else.
 */
import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';
import type { Clock } from '../../kernel/clock.ts';
import { hintChannelOf, type HeardHints } from './hints.ts';

const RECONNECT_MS = 1_000;

export interface HintListenerOptions {
  readonly databaseUrl: string;
  readonly hints: HeardHints;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/** Listens, and connects again when the connection is lost, until it is closed. */
export class HintListener {
  readonly #options: HintListenerOptions;
  readonly #listening: Promise<void>;
  #isClosed = false;
  #client: pg.Client | undefined;
  #cancelReconnect: (() => void) | undefined;

  constructor(options: HintListenerOptions) {
    this.#options = options;
    this.#listening = this.#listen();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelReconnect?.();
    await this.#listening;
    await this.#client?.end().catch(this.#options.onError);
  }

  async #listen(): Promise<void> {
    if (this.#isClosed) return;
    const { databaseUrl, hints, onError } = this.#options;
    const { schema, ...connection } = connectionOf(databaseUrl);
    const client = new pg.Client({ ...connection, keepAlive: true });
    this.#client = client;
    let isOver = false;
    const onEnd = (): void => {
      if (isOver) return;
      isOver = true;
      void client.end().catch(onError);
      this.#reconnectLater();
    };
    client.on('error', onEnd);
    client.on('end', onEnd);
    client.on('notification', (message) => {
      for (const topic of topicsOf(message.payload ?? '')) hints.deliver(topic);
    });
    try {
      await client.connect();
      await client.query(`listen ${hintChannelOf(schema)}`);
      hints.deliverAll();
    } catch (error) {
      onError(error);
      onEnd();
    }
  }

  #reconnectLater(): void {
    if (this.#isClosed) return;
    const { clock } = this.#options;
    this.#cancelReconnect = clock.at(clock.nowMs() + RECONNECT_MS, () => void this.#listen());
  }
}

function topicsOf(payload: string): string[] {
  try {
    const topics: unknown = JSON.parse(payload);
    return Array.isArray(topics) ? topics.filter((topic) => typeof topic === 'string') : [];
  } catch {
    // Any client that may connect may notify: what is not ours is ignored.
    return [];
  }
}
