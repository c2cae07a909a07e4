/** Carries an attack out beside healthy callers, and judges the results. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attack, Yield } from './attack.ts';
import type { Latencies } from './healthy.ts';
import type { AttackStage } from './stage.ts';

/** What healthy callers may take at the 99th percentile: this, or a multiple of what they take idle. */
const P99_MS_MAX = 250;
const P99_TIMES_IDLE_MAX = 5;
/** How much more memory the controller may use afterwards. */
export const LEFT_MB_MAX = 100;
/** How long memory may take to come back: V8 looks for garbage after some half a minute with little to do. */
const SETTLE_MS_MAX = 60_000;
const LOOK_MS = 250;
/** What one attack may write into the controller's log. */
const LOG_BYTES_MAX = 1_024 * 1_024;

export interface Result {
  readonly attack: Attack;
  readonly yield: Yield;
  readonly latencies: Latencies;
  /** Resident memory of the controller, in MB. */
  readonly memory: { readonly before: number; readonly peak: number; readonly after: number };
  readonly logBytes: number;
  /** The promises that were broken; empty when all were kept. */
  readonly broken: readonly string[];
  /** Whether nothing was broken but the time that healthy callers may take, which a busy machine alone may exceed. */
  readonly isOnlySlow: boolean;
}

export interface CarryOutOptions {
  /** What healthy callers take when nobody attacks; left out, they are not timed. */
  readonly idle?: Latencies | undefined;
  readonly attackMs: number;
}

export async function carryOut(
  attack: Attack,
  stage: AttackStage,
  { idle, attackMs }: CarryOutOptions,
): Promise<Result> {
  const before = await stage.memoryMb();
  const logged = stage.controller().log().length;
  let peak = before;
  const looking = new AbortController();
  const watch = (async () => {
    while (!looking.signal.aborted) {
      peak = Math.max(peak, await stage.memoryMb());
      await sleep(LOOK_MS);
    }
  })();
  const [seen, ofCallers] = await Promise.all([
    attack.carryOut(stage, attackMs),
    stage.healthy.measure(attackMs),
  ]);
  looking.abort();
  await watch;
  const latencies = seen.beside ?? ofCallers;
  const after = await settledMb(() => stage.memoryMb(), before);
  const log = stage.controller().log().slice(logged);
  const measured = seen.beside === undefined ? [ofCallers] : [ofCallers, seen.beside];
  const slow = measured.flatMap((one) => slowOf(one, idle));
  const broken = [
    ...seen.got.map((what) => `it got ${what}`),
    ...(await stage.healthy.losses()),
    ...measured.flatMap(({ failed }) => failed.map((code) => `a healthy call failed: ${code}`)),
    ...slow,
    ...(after - before > LEFT_MB_MAX ? [`${String(after - before)} MB stayed in memory`] : []),
    ...(log.length > LOG_BYTES_MAX ? [`${String(log.length)} bytes were logged`] : []),
    ...errorsIn(log),
  ];
  return {
    attack,
    yield: seen,
    latencies,
    memory: { before, peak, after },
    logBytes: log.length,
    broken,
    isOnlySlow: slow.length > 0 && broken.length === slow.length,
  };
}

function slowOf({ p99 }: Latencies, idle: Latencies | undefined): string[] {
  if (idle === undefined) return [];
  const max = Math.max(P99_MS_MAX, P99_TIMES_IDLE_MAX * idle.p99);
  return p99 > max ? [`healthy p99 ${p99.toFixed(0)} ms, more than ${max.toFixed(0)} ms`] : [];
}

/** No attacker may write at `error`: such a line wakes somebody. */
function errorsIn(log: string): string[] {
  const lines = log.split('\n').filter((line) => /"level":(?:"error"|"fatal"|50|60)\b/u.test(line));
  return lines.slice(0, 1).map((line) => `${String(lines.length)} errors were logged: ${line}`);
}

/** The memory of a process once it has come back, or when that takes too long. */
export async function settledMb(read: () => Promise<number>, before: number): Promise<number> {
  const untilMs = performance.now() + SETTLE_MS_MAX;
  for (;;) {
    const now = await read();
    if (now - before <= LEFT_MB_MAX || performance.now() > untilMs) return now;
    await sleep(LOOK_MS);
  }
}
