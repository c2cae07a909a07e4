/** Judges what callers were told, by the event stream and by their tokens. */
import type { FaultStage } from '../../stage/stage.ts';
import type { Grant } from '../../leases/stage/words.ts';
import { LOAD, type Acknowledged } from './load.ts';

/** What was acknowledged and is not in the event stream. */
export async function missing(
  on: FaultStage,
  kinds: readonly string[],
  said: readonly Acknowledged[],
): Promise<Acknowledged[]> {
  const known = (await on.facts(LOAD)).filter(({ kind }) => kinds.includes(kind));
  const recorded = new Set(known.map(({ leaseId, token }) => `${leaseId} ${token}`));
  return said.filter(({ leaseId, token }) => !recorded.has(`${leaseId} ${token}`));
}

/** Grants of one key, in order, whose token is not greater than the one before. */
export function tokensThatDidNotGrow(granted: readonly Pick<Grant, 'key' | 'token'>[]): string[] {
  const latest = new Map<string, bigint>();
  return granted.flatMap(({ key, token }) => {
    const before = latest.get(key) ?? 0n;
    latest.set(key, BigInt(token));
    return BigInt(token) > before ? [] : [`${key}: ${token} after ${String(before)}`];
  });
}
