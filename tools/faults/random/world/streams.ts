/** Readers of the event stream that go on from the last event that they received, whatever happens. */
import { setTimeout as pause } from 'node:timers/promises';
import { createControllerClient } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';

const AGAIN_MS = 200;

/** A reader that stays with one controller. */
export class StreamReader {
  readonly name: string;
  readonly ids: number[] = [];
  readonly #client: ReturnType<typeof createControllerClient>;
  readonly #ended: Promise<void>;
  #lastAtMs = -Infinity;
  #isClosed = false;

  constructor(name: string, url: string, token: string) {
    this.name = name;
    this.#client = createControllerClient({ url, token, transport: 'ws' });
    this.#ended = this.#read();
  }

  /** When it last received an event. */
  get lastAtMs(): number {
    return this.#lastAtMs;
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
          { afterId },
          {
            onData: ({ id }) => {
              afterId = id;
              this.#lastAtMs = machineMs();
              // The number of the event; before it is the database epoch.
              this.ids.push(Number(id.split(/\D+/u).at(-1)));
            },
            onError: () => {
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
