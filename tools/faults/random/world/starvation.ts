/** Measures for how long processes wanted the processor and others had it. */
import { readFileSync } from 'node:fs';
import { machineMs } from '../../stage/machine-time.ts';
import type { Starved } from '../history.ts';

const SAMPLE_MS = 250;
const NS_PER_MS = 1e6;

export class StarvationMeter {
  readonly starved: Starved[] = [];
  readonly #sampling: NodeJS.Timeout;
  #waitedMs = new Map<number, number>();
  #sampledAtMs = machineMs();

  /** @param pids those that a run waits for, at each moment. */
  constructor(pids: () => readonly number[]) {
    this.#sampling = setInterval(() => {
      this.#sample(pids());
    }, SAMPLE_MS);
  }

  close(): void {
    clearInterval(this.#sampling);
  }

  #sample(pids: readonly number[]): void {
    const fromMs = this.#sampledAtMs;
    const untilMs = machineMs();
    const waitedMs = new Map(pids.map((pid) => [pid, queuedMs(pid)]));
    const added = [...waitedMs].map(([pid, ms]) => ms - (this.#waitedMs.get(pid) ?? ms));
    this.starved.push({ fromMs, untilMs, waitedMs: Math.max(0, ...added) });
    this.#waitedMs = waitedMs;
    this.#sampledAtMs = untilMs;
  }
}

/** For how long the main thread of a process was ready to run and did not, since it was started. */
function queuedMs(pid: number): number {
  try {
    const [, queuedNs = '0'] = readFileSync(`/proc/${String(pid)}/schedstat`, 'utf8').split(' ');
    return Number(queuedNs) / NS_PER_MS;
  } catch {
    return 0; // it has ended
  }
}
