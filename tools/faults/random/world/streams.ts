/** Readers of the event stream that go on from the last event that they received, whatever happens. */
import { setTimeout as pause } from 'node:timers/promises';
import { createControllerClient, leaseholdErrorOf } from '@leasehold/client';
import { EVENT_KINDS } from '@leasehold/keys-core';
import { machineMs } from '../../stage/machine-time.ts';

const AGAIN_MS = 200;

/** An event that was received. */
export interface Received {
  /** Of the database: numbers of events are used again after a restore. */
  readonly epoch: string;
  readonly id: number;
  readonly atMs: number;
}

/** A reader that stays with one controller. After a restore it begins again with the oldest event. */
export class StreamReader {
  readonly name: string;
  readonly received: Received[] = [];
  readonly #client: ReturnType<typeof createControllerClient>;
  readonly #ended: Promise<void>;
  #isClosed = false;

  constructor(name: string, url: string, token: string) {
    this.name = name;
    this.#client = createControllerClient({ url, token, transport: 'ws' });
    this.#ended = this.#read();
  }

  /** When it last received an event. */
  get lastAtMs(): number {
    return this.received.at(-1)?.atMs ?? -Infinity;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#client.close();
    await this.#ended;
  }

  async #read(): Promise<void> {
    let afterId = 'oldest';
    while (!this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#client.api.events.watch.subscribe(
          // All kinds, also those that a reader gets only if it names them.
          { afterId, kinds: [...EVENT_KINDS] },
          {
            onData: ({ id }) => {
              afterId = id;
              const [number = ''] = /\d+$/u.exec(id) ?? [];
              const epoch = id.slice(0, -number.length);
              this.received.push({ epoch, id: Number(number), atMs: machineMs() });
            },
            onError: (error) => {
              if (leaseholdErrorOf(error)?.code === 'events.other_epoch') afterId = 'oldest';
              resolve();
            },
            onComplete: () => {
              resolve();
            },
          },
        );
      });
      await pause(AGAIN_MS);
    }
  }
}
