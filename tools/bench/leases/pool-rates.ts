import type { Figure } from '../rig/figures.ts';
import { perSecond, times } from '../rig/quantities.ts';
import type { Rig } from '../rig/rig.ts';
import { compareRates, median, rateOf, takeTurns } from '../rig/rounds.ts';
import type { Pairs } from '../services/floors.ts';
import { startPools } from '../services/leasehold-service.ts';
import { startRedisSemaphore } from '../services/redis-services.ts';

/** There is room for every caller: what is measured is the way, and not the wait. */
const PERMITS = 256;
const SETTINGS: readonly Setting[] = [
  { callerCount: 1, keyCount: 1 },
  { callerCount: 32, keyCount: 1 },
  { callerCount: 256, keyCount: 1 },
  { callerCount: 256, keyCount: 64 },
];

interface Setting {
  readonly callerCount: number;
  /** Among how many keys they divide. */
  readonly keyCount: number;
}

/** Acquire and release of leases that several hold at once, beside a semaphore of Redis. */
export async function measurePoolRates(rig: Rig): Promise<Figure[]> {
  const { ways } = await startPools(rig, 'bench_pools', PERMITS);
  const peer = await startRedisSemaphore(rig, PERMITS);
  const sides = peer === undefined ? ways : [...ways, peer];
  const figures: Figure[] = [];
  for (const setting of SETTINGS) figures.push(...(await ratesOf(rig, sides, setting)));
  return figures;
}

async function ratesOf(
  rig: Rig,
  sides: readonly Pairs[],
  { callerCount, keyCount }: Setting,
): Promise<Figure[]> {
  const rates = await takeTurns(
    sides.map(({ name, take }) => ({
      name,
      round: () =>
        rateOf(callerCount, rig.isQuick ? 200 : 1_200, async (caller) => {
          // Exclusive callers have a key each: the same work without anybody beside it.
          const key = name === 'exclusive' ? caller : caller % keyCount;
          const held = await take(`pool-${String(key)}`);
          await held.release();
        }),
    })),
    rig.isQuick ? 2 : 5,
  );
  const keys = keyCount === 1 ? 'one key' : `${String(keyCount)} keys`;
  const who = `${callerCount === 1 ? '1 caller' : `${String(callerCount)} callers`} of ${keys}`;
  const peerRates = rates[sides.findIndex(({ name }) => name === 'redis-semaphore')];
  return sides.flatMap(({ name }, place): Figure[] => {
    const own = rates[place] ?? [];
    const rate: Figure = {
      what: `acquire + release, ${who}: ${name}`,
      result: perSecond(median(own)),
      bar: { chart: 'Acquire + release of leases that several hold, per second', group: who, name },
    };
    if (peerRates === undefined || own === peerRates) return [rate];
    const { ours, theirs, ratio } = compareRates(own, peerRates);
    return [
      rate,
      {
        what: `acquire + release, ${who}: ${name} / redis-semaphore`,
        ours: perSecond(ours),
        theirs: perSecond(theirs),
        peer: 'redis-semaphore',
        result: times(ratio),
      },
    ];
  });
}
