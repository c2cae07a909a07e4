/** What a run comes to, small enough to be kept. */
import { everRecorded } from '../checks/eras.ts';
import { recoveryMs } from '../checks/recovery.ts';
import { BUSY, type FaultSeen, type History, type Invariant, type Violation } from '../history.ts';
import { commandOf, type RunOptions } from '../options.ts';
import { INVARIANTS, judgedTimes } from './judged.ts';

export interface FaultFigures {
  readonly name: string;
  readonly target: string;
  /** From the beginning of the run. */
  readonly fromS: number;
  readonly untilS: number;
  readonly recoveredS: number;
  /** From its end, or from that of the last fault that was in the way. */
  readonly recoveryMs: number;
  /** How often each invariant was judged while it lasted and was felt. */
  readonly judged: Readonly<Record<Invariant, number>>;
}

export interface RunFigures {
  readonly lengthS: number;
  readonly operationsCount: number;
  readonly unknownCount: number;
  readonly eventsCount: number;
  /** For how long the machine had no time for it. */
  readonly busyMs: number;
  readonly judged: Readonly<Record<Invariant, number>>;
  readonly faults: readonly FaultFigures[];
  readonly violations: readonly (Omit<Violation, 'atMs'> & { readonly atS: number })[];
  /** Replies, by the second of the run. */
  readonly repliesPerS: readonly number[];
}

export function figuresOf(history: History, violations: readonly Violation[]): RunFigures {
  const { beganAtMs, endedAtMs, operations, holds, writes, faults } = history;
  const own = faults.filter(({ name }) => name !== BUSY);
  const stalls = faults.filter(({ name }) => name === BUSY);
  const secondOf = (atMs: number): number => (atMs - beganAtMs) / 1_000;
  const lengthS = secondOf(endedAtMs);
  const repliesPerS = Array.from({ length: Math.ceil(lengthS) }, () => 0);
  const doneAtMs = [
    ...operations.map(({ repliedAtMs }) => repliedAtMs),
    ...holds.map(({ fromMs }) => fromMs),
  ];
  for (const atMs of doneAtMs) {
    const second = Math.floor(secondOf(atMs));
    if (second < repliesPerS.length) repliesPerS[second] = (repliesPerS[second] ?? 0) + 1;
  }
  const times = judgedTimes(history);
  const judgedBetween = (fromMs: number, untilMs: number): Record<Invariant, number> =>
    countsOf(times, (atMs) => atMs >= fromMs && atMs <= untilMs);
  return {
    lengthS,
    operationsCount: operations.length + holds.length + writes.length,
    unknownCount: operations.filter(({ answer }) => answer.outcome === 'unknown').length,
    eventsCount: everRecorded(history).length,
    busyMs: stalls.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0),
    judged: judgedBetween(-Infinity, Infinity),
    faults: own.map((fault) => ({
      name: fault.name,
      target: fault.target,
      fromS: secondOf(fault.fromMs),
      untilS: secondOf(fault.untilMs),
      recoveredS: secondOf(Math.min(fault.recoveredAtMs, endedAtMs)),
      recoveryMs: recoveryMs(fault, faults),
      judged: judgedBetween(fault.fromMs, fault.recoveredAtMs),
    })),
    violations: violations.map(({ atMs, ...rest }) => ({ ...rest, atS: secondOf(atMs) })),
    repliesPerS,
  };
}

function countsOf(
  times: Readonly<Record<Invariant, readonly number[]>>,
  isWanted: (atMs: number) => boolean,
): Record<Invariant, number> {
  const counts = INVARIANTS.map((invariant) => [
    invariant,
    times[invariant].filter(isWanted).length,
  ]);
  return Object.fromEntries(counts) as Record<Invariant, number>;
}

/** The last line of a run. */
export function lineOf(options: RunOptions, figures: RunFigures): string {
  const worst = worstOf(figures.faults.map((one) => one.recoveryMs));
  return [
    `${String(figures.violations.length)} violations`,
    `${String(figures.operationsCount)} operations (${String(figures.unknownCount)} of unknown outcome)`,
    `${String(figures.eventsCount)} events`,
    `${String(figures.faults.length)} faults`,
    `${(figures.busyMs / 1_000).toFixed(1)} s without processor`,
    `recovery ${worst}`,
    commandOf(options),
  ].join(', ');
}

export function worstOf(recoveriesMs: readonly number[]): string {
  if (recoveriesMs.length === 0) return 'not measured';
  const sorted = recoveriesMs.toSorted((a, b) => a - b);
  const median = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return `${secondsOf(median)} in the median, ${secondsOf(sorted.at(-1) ?? 0)} at worst`;
}

function secondsOf(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** Those of a name belong together in a table. */
export function kindOf({ name, target }: Pick<FaultSeen, 'name' | 'target'>): string {
  return `${name} ${target.slice(target.indexOf(':') + 2)}`;
}
