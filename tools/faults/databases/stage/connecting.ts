/** A caller that connects to keys all the time, one after the other. */
import { setTimeout as pause } from 'node:timers/promises';
import { leaseholdErrorOf, type ControllerApi } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';
import type { Answer } from '../../stage/stage.ts';

const BETWEEN_MS = 20;

export class Connecting {
  /** The newest answer for each backend, in the order of the first. */
  readonly answers = new Map<string, Answer>();
  readonly heldOffAtMs: number[] = [];
  readonly #apis: readonly ControllerApi[];
  readonly #program: string;
  readonly #keys: string[];
  readonly #run: Promise<void>;
  #isOver = false;

  constructor(apis: readonly ControllerApi[], of: { program: string; keys: readonly string[] }) {
    this.#apis = apis;
    this.#program = of.program;
    this.#keys = [...of.keys];
    this.#run = this.#connect();
  }

  /** One more key from now on. */
  add(key: string): void {
    this.#keys.push(key);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#run;
  }

  async #connect(): Promise<void> {
    for (let round = 0; !this.#isOver; round += 1) {
      const api = this.#apis[round % this.#apis.length] as ControllerApi;
      const name = this.#keys[round % this.#keys.length] ?? '';
      try {
        const answer = await api.keys.connect.mutate({
          key: { name },
          spawn: { program: this.#program },
          waitMs: 0,
        });
        this.answers.set(answer.backendId, answer);
      } catch (error) {
        const { code } = leaseholdErrorOf(error) ?? {};
        if (code === 'grant.hold_off') this.heldOffAtMs.push(machineMs());
      }
      await pause(BETWEEN_MS);
    }
  }
}
