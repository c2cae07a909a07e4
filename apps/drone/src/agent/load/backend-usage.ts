/** What each backend uses: by its control group where it has one, else by its processes. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { membersBy, readProcesses, type ProcessStat } from '../process-table.ts';
import { cpuUsOf, groupsOf, memoryOf } from './group-usage.ts';

/** A backend whose first process is known. */
export interface MeasuredBackend {
  readonly backendId: string;
  readonly pid: number;
  readonly isContainer: boolean;
}

export interface BackendUse {
  readonly backendId: string;
  readonly memoryBytes: number;
  /** Processors in use since the look before; left out at the first one. */
  readonly cpus?: number;
}

interface Reading {
  readonly atMs: number;
  readonly cpuUs: number;
  /** Two counts are compared only if they are of the same kind. */
  readonly isOfGroup: boolean;
}

/** How the kernel counts, of which a process is told at its start. */
const AUX_PAGE_BYTES = 6n;
const AUX_TICKS = 17n;

/** Looks at backends again and again. */
export class BackendMeter {
  readonly #proc: string;
  readonly #pageBytes: number;
  readonly #tickUs: number;
  #before = new Map<string, Reading>();

  /** `proc` is where the kernel shows processes. */
  constructor(proc = '/proc') {
    this.#proc = proc;
    this.#pageBytes = auxiliary(proc, AUX_PAGE_BYTES) ?? 4_096;
    this.#tickUs = 1_000_000 / (auxiliary(proc, AUX_TICKS) ?? 100);
  }

  /** Those of the backends that can be seen, those that use the most memory first. */
  look(backends: readonly MeasuredBackend[], nowMs: number): BackendUse[] {
    const before = this.#before;
    this.#before = new Map();
    if (backends.length === 0) return [];
    const membersOf = membersBy(readProcesses(this.#proc));
    return backends
      .flatMap((backend) => this.#lookAt(backend, membersOf(backend.pid), { before, nowMs }))
      .sort((a, b) => b.memoryBytes - a.memoryBytes);
  }

  #lookAt(
    { backendId, isContainer }: MeasuredBackend,
    members: readonly ProcessStat[],
    of: { readonly before: ReadonlyMap<string, Reading>; readonly nowMs: number },
  ): BackendUse | [] {
    // The first processes of a command prepare it, outside of its group. A container may make groups of its own inside.
    const inside = isContainer ? members[0] : members.at(-1);
    if (inside === undefined) return [];
    const groups = groupsOf(this.#folderOf(inside.pid), this.#folderOf('self'), (group) =>
      isContainer ? group !== '/' : path.basename(group) === backendId,
    );
    const sum = (field: 'ticks' | 'residentPages'): number =>
      members.reduce((all, member) => all + member[field], 0);
    const groupUs = cpuUsOf(groups);
    const cpuUs = groupUs ?? sum('ticks') * this.#tickUs;
    const reading = { atMs: of.nowMs, cpuUs, isOfGroup: groupUs !== undefined };
    this.#before.set(backendId, reading);
    const cpus = cpusBetween(of.before.get(backendId), reading);
    const memoryBytes = memoryOf(groups) ?? sum('residentPages') * this.#pageBytes;
    return {
      backendId,
      memoryBytes: Math.round(memoryBytes),
      ...(cpus !== undefined && { cpus }),
    };
  }

  #folderOf(pid: number | 'self'): string {
    return path.join(this.#proc, String(pid));
  }
}

/** With three decimals. Less was counted than before when a process has left the backend. */
function cpusBetween(before: Reading | undefined, now: Reading): number | undefined {
  if (before === undefined || before.isOfGroup !== now.isOfGroup) return undefined;
  const passedUs = (now.atMs - before.atMs) * 1_000;
  if (passedUs <= 0) return undefined;
  return Math.max(0, Math.round(((now.cpuUs - before.cpuUs) / passedUs) * 1_000) / 1_000);
}

/** A value of the auxiliary vector, which has pairs of numbers of 64 bits; undefined where that cannot be read. */
function auxiliary(proc: string, wanted: bigint): number | undefined {
  try {
    const vector = readFileSync(path.join(proc, 'self/auxv'));
    for (let at = 0; at + 16 <= vector.length; at += 16) {
      if (vector.readBigUInt64LE(at) === wanted) return Number(vector.readBigUInt64LE(at + 8));
    }
  } catch {
    // No Linux.
  }
  return undefined;
}
