import { perSecond, times, type Figure } from './rig/figures.ts';
import type { LockService } from './services/lock-service.ts';
import { openLockServices } from './services/lock-services.ts';
import type { Rig } from './rig/rig.ts';
import { compareRates, median, rateOf, takeTurns } from './rig/rounds.ts';

const CALLER_COUNTS = [1, 32, 256];

/** Acquire and release of leases through the client, each caller with a key of its own. */
export async function measureLeaseRates(rig: Rig): Promise<Figure[]> {
  const { ours, peers } = await openLockServices(rig, 'bench_lease_rates');
  const figures: Figure[] = [];
  for (const callerCount of CALLER_COUNTS) {
    const what = `lease acquire + release, ${callersOf(callerCount)}`;
    const [ourRates = [], ...peerRates] = await takeTurns(
      [ours, ...peers].map((service) => ({
        name: service.name,
        round: () => rateOfPairs(service, callerCount, rig.isQuick ? 200 : 1_200),
      })),
      rig.isQuick ? 2 : 5,
    );
    if (peers.length === 0) {
      figures.push({ what, ours: perSecond(median(ourRates)), theirs: '', result: '' });
    }
    for (const [place, { name }] of peers.entries()) {
      const compared = compareRates(ourRates, peerRates[place] ?? []);
      figures.push({
        what: `${what}, against ${name}`,
        ours: perSecond(compared.ours),
        theirs: perSecond(compared.theirs),
        result: times(compared.ratio),
      });
    }
  }
  return figures;
}

function rateOfPairs(service: LockService, callerCount: number, durationMs: number) {
  return rateOf(callerCount, durationMs, async (caller) => {
    const held = await service.take(`pair-${String(caller)}`);
    await held.release();
  });
}

function callersOf(count: number): string {
  return count === 1 ? '1 caller' : `${String(count)} callers`;
}
