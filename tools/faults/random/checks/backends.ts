/** What backends wrote about themselves, beside what the database calls alive. */
import type { FaultSeen, History, Violation } from '../history.ts';
import { starvedMs } from './recovery.ts';
import { livesOf, type Life, type TestimonyLine } from '../../stage/testimony.ts';

/** What a program that was suspended with its drone may still do when it wakes: promise 7. */
const WAKING_MS_MAX = 500;
/** A program is woken before the others of its drone, and a fault ends when all are awake. */
const WAKE_CALLS_MS = 250;
/** From an expiry to the row that records it: a round of the reaper with its jitter, and its work. */
const RECORDING_MS_MAX = 2_500;

/** I1: no two backends of a key live at once. I2: their tokens grow. */
export function checkLives({ testimony, faults }: History): Violation[] {
  const keys = new Set(testimony.map(({ key }) => key));
  const wakings = faults.filter(({ name }) => name === 'F8').map(({ untilMs }) => untilMs);
  return [...keys].flatMap((key) => {
    const lines = testimony.filter((line) => line.key === key);
    const lives = livesOf(lines, key);
    return lives
      .slice(1)
      .flatMap((life, index) => between(lives[index] as Life, life, lines, wakings));
  });
}

function between(
  former: Life,
  life: Life,
  lines: readonly TestimonyLine[],
  wakings: readonly number[],
): Violation[] {
  const violations: Violation[] = [];
  const text = `${life.key}: ${life.backend} after ${former.backend}`;
  const late = lines.filter((line) => {
    const isLate = line.backend === former.backend && line.atMs >= life.firstAtMs;
    return isLate && !wakings.some((atMs) => isJustAfter(line.atMs, atMs));
  });
  const last = late.at(-1);
  if (last !== undefined) {
    const how = `which still wrote ${(last.atMs - life.firstAtMs).toFixed(0)} ms later`;
    violations.push({ invariant: 'I1', atMs: life.firstAtMs, text: `${text}, ${how}` });
  }
  if (life.token <= former.token) {
    violations.push({
      invariant: 'I2',
      atMs: life.firstAtMs,
      text: `${text} has no greater token`,
    });
  }
  return violations;
}

function isJustAfter(atMs: number, wakingMs: number): boolean {
  return atMs >= wakingMs - WAKE_CALLS_MS && atMs <= wakingMs + WAKING_MS_MAX;
}

/** I16: a backend that is called alive has an unexpired grant, or its end is recorded soon. */
export function checkBare({ bare, faults, starved }: History): Violation[] {
  return bare.flatMap(({ backendId, sinceMs, untilMs }): Violation[] => {
    const fromMs = Math.max(sinceMs, lastRecovery(faults, sinceMs, untilMs));
    const calmMs = untilMs - fromMs - starvedMs(starved, fromMs, untilMs);
    if (calmMs <= RECORDING_MS_MAX) return [];
    const text = `${backendId} was called alive for ${calmMs.toFixed(0)} ms without a grant`;
    return [{ invariant: 'I16', atMs: untilMs, text }];
  });
}

function lastRecovery(faults: readonly FaultSeen[], fromMs: number, untilMs: number): number {
  const ends = faults
    .filter((fault) => fault.fromMs < untilMs && fault.recoveredAtMs > fromMs)
    .map((fault) => fault.recoveredAtMs);
  return Math.max(-Infinity, ...ends);
}
