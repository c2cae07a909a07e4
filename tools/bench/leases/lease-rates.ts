import { cores, atLeast, atMost, microseconds, perSecond, times } from '../rig/quantities.ts';
import type { Bound, Figure } from '../rig/figures.ts';
import { readProcessorTime, type ProcessorTime } from '../rig/processor-time.ts';
import type { Rig } from '../rig/rig.ts';
import { compareRates, median, rateOf, takeTurns } from '../rig/rounds.ts';
import type { LockService } from '../services/lock-service.ts';
import { openInsertCalls, openInserts } from '../services/insert-calls.ts';
import { openLockServices } from '../services/lock-services.ts';

const CALLER_COUNTS = [1, 32, 256] as const;
type CallerCount = (typeof CALLER_COUNTS)[number];

/** What is required of our rate against a peer's, and what we want. */
const RATIOS: Record<string, { required: Record<CallerCount, number>; goal: number }> = {
  redlock: { required: { 1: 0.3, 32: 0.4, 256: 0.5 }, goal: 1 },
  etcd3: { required: { 1: 1.5, 32: 8, 256: 15 }, goal: 20 },
};
/** Processor time of each acquire and release at 256 callers, in microseconds. */
const COSTS: Record<keyof ProcessorTime, { required: Bound; goal: Bound }> = {
  client: { required: atMost(60), goal: atMost(20) },
  controller: { required: atMost(50), goal: atMost(20) },
  postgres: { required: atMost(60), goal: atMost(40) },
};
const CORES_REQUIRED = 1.8;

/** Acquire and release of leases through the client, each caller with a key of its own. */
export async function measureLeaseRates(rig: Rig): Promise<Figure[]> {
  const { ours, controllerPids, peers: locks } = await openLockServices(rig, 'bench_lease_rates');
  const peers = [...locks, await openInserts(rig), await openInsertCalls(rig)];
  const figures: Figure[] = [];
  for (const callerCount of CALLER_COUNTS) {
    const meter = new Meter(() =>
      readProcessorTime({ controllerPids, postgresFolder: rig.folder }),
    );
    const durationMs = rig.isQuick ? 200 : 1_200;
    const [ourRates = [], ...peerRates] = await takeTurns(
      [ours, ...peers].map((service) => ({
        name: service.name,
        round: () => {
          const round = (): Promise<number> => rateOfPairs(service, callerCount, durationMs);
          return service === ours ? meter.during(round) : round();
        },
      })),
      rig.isQuick ? 2 : 5,
    );
    figures.push(rateFigure(callerCount, ours.name, ourRates));
    for (const [place, { name }] of peers.entries()) {
      const rates = peerRates[place] ?? [];
      figures.push(rateFigure(callerCount, name, rates));
      figures.push(ratioFigure(callerCount, name, compareRates(ourRates, rates)));
    }
    figures.push(...meter.figures(callerCount));
  }
  return figures;
}

function rateOfPairs(service: Pick<LockService, 'take'>, callerCount: number, durationMs: number) {
  return rateOf(callerCount, durationMs, async (caller) => {
    const held = await service.take(`pair-${String(caller)}`);
    await held.release();
  });
}

function rateFigure(callerCount: CallerCount, name: string, rates: readonly number[]): Figure {
  return {
    what: `acquire + release, ${callersOf(callerCount)}: ${name}`,
    result: perSecond(median(rates)),
    bar: { chart: 'Acquire + release per second', group: callersOf(callerCount), name },
  };
}

function ratioFigure(
  callerCount: CallerCount,
  name: string,
  { ours, theirs, ratio }: ReturnType<typeof compareRates>,
): Figure {
  const wanted = RATIOS[name];
  return {
    what: `acquire + release, ${callersOf(callerCount)}: leasehold / ${name}`,
    ours: perSecond(ours),
    theirs: perSecond(theirs),
    peer: name,
    result: times(ratio),
    required: wanted && atLeast(wanted.required[callerCount]),
    goal: wanted && atLeast(wanted.goal),
  };
}

/** Adds up what our side takes during its rounds. */
class Meter {
  readonly #read: () => ProcessorTime;
  readonly #usedUs = { client: 0, controller: 0, postgres: 0 };
  #pairCount = 0;
  #tookUs = 0;

  constructor(read: () => ProcessorTime) {
    this.#read = read;
  }

  async during(round: () => Promise<number>): Promise<number> {
    const before = this.#read();
    const startedAtMs = performance.now();
    const rate = await round();
    const tookMs = performance.now() - startedAtMs;
    const after = this.#read();
    for (const party of ['client', 'controller', 'postgres'] as const) {
      this.#usedUs[party] += after[party] - before[party];
    }
    this.#tookUs += tookMs * 1_000;
    this.#pairCount += (rate * tookMs) / 1_000;
    return rate;
  }

  figures(callerCount: CallerCount): Figure[] {
    const isLimited = callerCount === 256;
    const costs = (['client', 'controller', 'postgres'] as const).map((party): Figure => ({
      what: `processor time for each acquire + release, ${callersOf(callerCount)}: ${party}`,
      result: microseconds(this.#usedUs[party] / this.#pairCount),
      ...(isLimited ? COSTS[party] : {}),
      bar: {
        chart: 'Processor time for each acquire + release, in microseconds',
        group: callersOf(callerCount),
        name: party,
        isStacked: true,
      },
    }));
    const { client, controller, postgres } = this.#usedUs;
    return [
      ...costs,
      {
        what: `cores in use, ${callersOf(callerCount)}`,
        result: cores((client + controller + postgres) / this.#tookUs),
        ...(callerCount === 1 ? {} : { required: atLeast(CORES_REQUIRED) }),
      },
    ];
  }
}

function callersOf(count: number): string {
  return count === 1 ? '1 caller' : `${String(count)} callers`;
}
