/** What backends wrote about themselves, beside what the database calls alive. */
import type { FaultSeen, History, Violation } from '../history.ts';
import { livesOf, type Life } from '../../stage/testimony.ts';

/** What a program that was suspended with its drone may still do when it wakes: promise 7. */
const WAKING_MS_MAX = 500;
/** From an expiry to the row that records it: a round of the reaper with its jitter, and its work. */
const RECORDING_MS_MAX = 2_500;

/** I1: no two backends of a key live at once. I2: their tokens grow. */
export function checkLives({ testimony, faults }: History): Violation[] {
  const keys = new Set(testimony.map(({ key }) => key));
  const wakings = faults.filter(({ name }) => name === 'F8').map(({ untilMs }) => untilMs);
  return [...keys].flatMap((key) => {
    const lives = livesOf(testimony, key);
    return lives.slice(1).flatMap((life, index) => between(lives[index] as Life, life, wakings));
  });
}

function between(former: Life, life: Life, wakings: readonly number[]): Violation[] {
  const violations: Violation[] = [];
  const text = `${life.key}: ${life.backend} after ${former.backend}`;
  const overlapMs = former.lastAtMs - life.firstAtMs;
  const isWaking = wakings.some(
    (atMs) => former.lastAtMs >= atMs && former.lastAtMs <= atMs + WAKING_MS_MAX,
  );
  if (overlapMs >= 0 && !isWaking) {
    const how = `which still wrote ${overlapMs.toFixed(0)} ms later`;
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

/** I16: a backend that is called alive has an unexpired grant, or its end is recorded soon. */
export function checkBare({ bare, faults }: History): Violation[] {
  return bare.flatMap(({ backendId, sinceMs, untilMs }): Violation[] => {
    const calmMs = untilMs - Math.max(sinceMs, lastRecovery(faults, sinceMs, untilMs));
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
