/**
 * Looks at the machine and at the backends every {@link LOOK_MS}, for the heartbeats. What cannot be found out is left
 * out: a heartbeat must never fail because of it.
 */
import { statfs } from 'node:fs/promises';
import os from 'node:os';
import type { Log } from '../log.ts';
import { BackendMeter, type BackendUse, type MeasuredBackend } from './backend-usage.ts';

const LOOK_MS = 10_000;
/** As many as a heartbeat may have: those that use the most memory. */
const USAGES_MAX = 500;
const CPUS_MAX = 65_536;

/** How much of the machine is in use. */
export interface MachineUse {
  readonly cpuShare: number;
  readonly processors: number;
  readonly memoryUsedBytes: number;
  readonly memoryBytes: number;
  readonly diskUsedBytes: number;
  readonly diskBytes: number;
}

/** Of all processors, since the machine was started. */
interface CpuTimes {
  readonly busyMs: number;
  readonly allMs: number;
  readonly processors: number;
}

export interface LoadWatchOptions {
  readonly stateDir: string;
  readonly backends: () => readonly MeasuredBackend[];
  readonly nowMs: () => number;
  readonly log: Log;
}

export class LoadWatch {
  readonly #options: LoadWatchOptions;
  readonly #meter = new BackendMeter();
  #timer: NodeJS.Timeout | undefined;
  #cpu = cpuTimes();
  #machine: MachineUse | undefined;
  #usage: BackendUse[] | undefined;

  constructor(options: LoadWatchOptions) {
    this.#options = options;
  }

  /** The last look; undefined before the second one, which is the first that can tell how busy processors are. */
  get machine(): MachineUse | undefined {
    return this.#machine;
  }

  /** What backends use, once for each look: the next call returns undefined until there was another one. */
  takeUsage(): BackendUse[] | undefined {
    const usage = this.#usage;
    this.#usage = undefined;
    return usage;
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async look(): Promise<void> {
    const { stateDir, backends, nowMs, log } = this.#options;
    try {
      this.#usage = this.#meter.look(backends(), nowMs()).slice(0, USAGES_MAX).map(bounded);
      const before = this.#cpu;
      this.#cpu = cpuTimes();
      this.#machine = await machineUse(stateDir, before, this.#cpu);
    } catch (error) {
      log.debug({ err: error }, 'the load could not be found out');
    }
  }
}

function bounded(use: BackendUse): BackendUse {
  return use.cpus === undefined ? use : { ...use, cpus: Math.min(use.cpus, CPUS_MAX) };
}

/** Undefined where a value is not a number, as on a machine that hides its processors. */
async function machineUse(
  stateDir: string,
  before: CpuTimes,
  now: CpuTimes,
): Promise<MachineUse | undefined> {
  const passedMs = now.allMs - before.allMs;
  if (now.processors === 0 || passedMs <= 0) return undefined;
  const share = (now.busyMs - before.busyMs) / passedMs;
  const { memoryBytes, freeBytes } = memory();
  const disk = await statfs(stateDir);
  const use = {
    cpuShare: Math.round(Math.min(1, Math.max(0, share)) * 1_000) / 1_000,
    processors: now.processors,
    memoryUsedBytes: Math.max(0, memoryBytes - freeBytes),
    memoryBytes,
    // As much as nobody can write any more; some is kept for root.
    diskUsedBytes: Math.max(0, disk.blocks - disk.bavail) * disk.bsize,
    diskBytes: disk.blocks * disk.bsize,
  };
  return Object.values(use).every((value) => Number.isFinite(value) && value >= 0) &&
    Number.isSafeInteger(use.diskBytes)
    ? use
    : undefined;
}

/** Of the machine, or of the container that the drone is in, whichever is less. */
function memory(): { memoryBytes: number; freeBytes: number } {
  const limit = process.constrainedMemory();
  const total = os.totalmem();
  const memoryBytes = limit > 0 ? Math.min(limit, total) : total;
  return { memoryBytes, freeBytes: Math.min(process.availableMemory(), memoryBytes) };
}

function cpuTimes(): CpuTimes {
  const cpus = os.cpus();
  const all = cpus.map(({ times }) => Object.values(times).reduce((sum, each) => sum + each, 0));
  const allMs = all.reduce((sum, each) => sum + each, 0);
  const idleMs = cpus.reduce((sum, { times }) => sum + times.idle, 0);
  return { busyMs: allMs - idleMs, allMs, processors: cpus.length };
}
