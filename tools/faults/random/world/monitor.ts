/** Asks all the time whether everything works: so it shows how long a fault is felt. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';
import { readTestimony } from '../../stage/testimony.ts';
import type { Reach, Starved } from '../history.ts';
import type { SharedDatacenters } from './datacenters.ts';
import type { Fleet } from './fleet.ts';
import { StarvationMeter } from './starvation.ts';
import type { StreamReader } from './streams.ts';
import { KEYS, NAMESPACE, PROGRAM } from './workers/settings.ts';

const ROUND_MS = 250;
const ANSWER_MS_MAX = 2_000;
const PROBE_TTL_MS = 1_000;

const METER_MS = 50;
/** A process that is not scheduled for so long may miss what is promised within a second. */
const STALL_MS = 300;

export interface Stall {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** One round of questions, and what worked in it from its beginning on. */
interface Round {
  readonly beganAtMs: number;
  readonly endedAtMs: number;
  readonly working: ReadonlySet<Reach>;
}

export class Monitor {
  readonly #fleet: Fleet;
  readonly #shared: SharedDatacenters | undefined;
  readonly #readers: readonly StreamReader[];
  readonly #rounds: Round[] = [];
  readonly #ended: Promise<void>;
  readonly #stalls: Stall[] = [];
  readonly #meter: NodeJS.Timeout;
  readonly #starvation: StarvationMeter;
  #isClosed = false;

  constructor(
    fleet: Fleet,
    readers: readonly StreamReader[],
    shared: SharedDatacenters | undefined,
  ) {
    this.#fleet = fleet;
    this.#shared = shared;
    this.#readers = readers;
    this.#ended = this.#ask();
    this.#starvation = new StarvationMeter(() => fleet.pids);
    let tickedAtMs = machineMs();
    this.#meter = setInterval(() => {
      const nowMs = machineMs();
      if (nowMs - tickedAtMs > STALL_MS) {
        this.#stalls.push({ fromMs: tickedAtMs, untilMs: nowMs });
      }
      tickedAtMs = nowMs;
    }, METER_MS);
  }

  /** When the machine had no time for this process, and so for none of this run. */
  get stalls(): readonly Stall[] {
    return this.#stalls;
  }

  get starved(): readonly Starved[] {
    return this.#starvation.starved;
  }

  /** When all of this worked again after a moment; Infinity if it has not so far. */
  recoveredAtMs(reaches: readonly Reach[], sinceMs: number): number {
    const latest = reaches.map((reach) => {
      if (reach === 'datacenters') return this.#shared?.recoveredAtMs(sinceMs) ?? Infinity;
      const round = this.#rounds.find(
        ({ beganAtMs, working }) => beganAtMs >= sinceMs && working.has(reach),
      );
      return round?.endedAtMs ?? Infinity;
    });
    return Math.max(sinceMs, ...latest);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#meter);
    this.#starvation.close();
    await this.#ended;
  }

  async #ask(): Promise<void> {
    while (!this.#isClosed) {
      const beganAtMs = machineMs();
      const [leases, keys] = await Promise.all([this.#leasesWork(), this.#keysWork(beganAtMs)]);
      // The grants of this round are events that each reader receives soon.
      const stream = this.#readers.every(({ lastAtMs }) => lastAtMs >= beganAtMs);
      const working = new Set<Reach>();
      if (leases && this.#workersWork(beganAtMs)) working.add('leases');
      if (keys) working.add('keys');
      if (stream) working.add('stream');
      this.#rounds.push({ beganAtMs, endedAtMs: machineMs(), working });
      await pause(ROUND_MS);
    }
  }

  #api(index: number): ControllerApi {
    const url = this.#fleet.controllers[index]?.url ?? '';
    const { token } = this.#fleet;
    const options = { url, token, transport: 'http', callTimeoutMs: ANSWER_MS_MAX } as const;
    return createControllerClient(options).api;
  }

  /** Each controller grants and releases. */
  async #leasesWork(): Promise<boolean> {
    const answers = this.#fleet.controllers.map(async (_controller, index) => {
      const api = this.#api(index);
      const answer = await api.leases.acquire.mutate({
        namespace: [NAMESPACE, 'probe'],
        key: randomUUID(),
        ttlMs: PROBE_TTL_MS,
        holder: 'monitor',
        localTimeMs: machineMs(),
      });
      if (answer.outcome !== 'granted') return false;
      const { leaseId, fencingToken } = answer.lease;
      return (await api.leases.release.mutate({ leaseId, fencingToken })).outcome === 'released';
    });
    return isAll(answers);
  }

  /** Each worker has been answered within a while; those that share wait for each other, and may be answered later. */
  #workersWork(sinceMs: number): boolean {
    const current = new Map(this.#fleet.diaries.map((diary) => [diary.process, diary]));
    for (const diary of current.values()) diary.read();
    const others = [...current.values()].filter(
      ({ process: name }) => this.#fleet.workers.get(name)?.role !== 'sharer',
    );
    return others.every(({ lastDoneAtMs }) => lastDoneAtMs >= sinceMs - ROUND_MS * 4);
  }

  /** Each key has a backend that lives, and is known to a controller. */
  async #keysWork(sinceMs: number): Promise<boolean> {
    const lives = new Set(
      readTestimony(this.#fleet.testimonyFile)
        .slice(-LINES_LOOKED_AT)
        .filter(({ atMs }) => atMs >= sinceMs - ROUND_MS)
        .map(({ backend }) => backend),
    );
    const answers = KEYS.map(async (name, index) => {
      const { backendId } = await this.#api(
        index % this.#fleet.controllers.length,
      ).keys.connect.mutate({ key: { name }, spawn: { program: PROGRAM }, waitMs: 0 });
      return lives.has(backendId);
    });
    return isAll(answers);
  }
}

/** More than all backends write between two rounds. */
const LINES_LOOKED_AT = 2_000;

async function isAll(answers: readonly Promise<boolean>[]): Promise<boolean> {
  const settled = await Promise.allSettled(answers);
  return settled.every((one) => one.status === 'fulfilled' && one.value);
}
