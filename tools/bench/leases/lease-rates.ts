import { invariant } from '@leasehold/keys-core';
import { Meter } from '../rig/meter.ts';
import { atLeast, atMost, milliseconds, perSecond, times } from '../rig/quantities.ts';
import type { Bound, Figure } from '../rig/figures.ts';
import { readProcessorTime, type ProcessorTime } from '../rig/processor-time.ts';
import type { Rig } from '../rig/rig.ts';
import { compareRates, median, quantile, rateOf, takeTurns } from '../rig/rounds.ts';
import type { LockService } from '../services/lock-service.ts';
import { openFloor, openKernelAlone } from '../services/floors.ts';
import { openLockServices } from '../services/lock-services.ts';

const CALLER_COUNTS = [1, 32, 256] as const;
type CallerCount = (typeof CALLER_COUNTS)[number];

/** What is required of our rate against a peer's, and what we want. */
const RATIOS: Record<
  string,
  { required: Record<CallerCount, number>; goal: Record<CallerCount, number> }
> = {
  'the floor': { required: { 1: 0.6, 32: 0.6, 256: 1 }, goal: { 1: 0.8, 32: 0.8, 256: 1.3 } },
  'our kernel alone': {
    required: { 1: 0.75, 32: 0.75, 256: 0.75 },
    goal: { 1: 0.9, 32: 0.9, 256: 0.9 },
  },
  redlock: { required: { 1: 0.35, 32: 0.33, 256: 0.4 }, goal: { 1: 0.5, 32: 0.5, 256: 0.5 } },
  etcd3: { required: { 1: 1.8, 32: 8, 256: 9 }, goal: { 1: 2.5, 32: 11, 256: 13 } },
};
/** The median acquire of one caller against the floor's. */
const LATENCY_TO_FLOOR = { required: atMost(1.7), goal: atMost(1.3) };
/** Processor time of each acquire and release at 256 callers, in microseconds. */
const COSTS: Record<keyof ProcessorTime, { required: Bound; goal: Bound }> = {
  client: { required: atMost(15), goal: atMost(8) },
  controller: { required: atMost(25), goal: atMost(15) },
  postgres: { required: atMost(50), goal: atMost(40) },
};
const CORES_REQUIRED = 1.8;

/** Acquire and release of leases through the client, each caller with a key of its own. */
export async function measureLeaseRates(rig: Rig): Promise<Figure[]> {
  const { ours, controllerPids, peers: locks } = await openLockServices(rig, 'bench_lease_rates');
  const floor = await openFloor(rig, 'bench_lease_floor');
  const peers = [floor, await openKernelAlone(rig), ...locks];
  const latencies = new Map([ours, ...peers].map(({ name }) => [name, new Latencies()]));
  const figures: Figure[] = [];
  // Code that has just been loaded is slow, and one caller would take minutes to have it compiled.
  for (const service of [ours, ...peers]) {
    await rateOfPairs(service, { callerCount: 256, durationMs: rig.isQuick ? 200 : 3_000 });
  }
  for (const callerCount of CALLER_COUNTS) {
    const read = (): ProcessorTime =>
      readProcessorTime({ controllerPids, postgresFolder: rig.folder });
    const meter = new Meter(read);
    const meterOfFloor = new Meter(read);
    const durationMs = rig.isQuick ? 200 : 1_200;
    const [ourRates = [], ...peerRates] = await takeTurns(
      [ours, ...peers].map((service) => ({
        name: service.name,
        round: () => {
          const took = callerCount === 1 ? latencies.get(service.name) : undefined;
          const round = (): Promise<number> =>
            rateOfPairs(service, { callerCount, durationMs, took });
          if (service === floor) return meterOfFloor.during(round);
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
    figures.push(...costFigures(meter, callerCount), floorFigure(meterOfFloor, callerCount));
  }
  return [...figures, ...latencyFigures(latencies, ours.name)];
}

function rateOfPairs(
  service: Pick<LockService, 'take'>,
  of: { callerCount: number; durationMs: number; took?: Latencies | undefined },
) {
  const { took } = of;
  return rateOf(of.callerCount, of.durationMs, async (caller) => {
    const beganAtMs = performance.now();
    const held = await service.take(`pair-${String(caller)}`);
    const takenAtMs = performance.now();
    await held.release();
    took?.acquire.push(takenAtMs - beganAtMs);
    took?.release.push(performance.now() - takenAtMs);
  });
}

/** What one caller waited for each of its calls, in milliseconds. */
class Latencies {
  readonly acquire: number[] = [];
  readonly release: number[] = [];
}

function latencyFigures(latencies: ReadonlyMap<string, Latencies>, ours: string): Figure[] {
  const figures = [...latencies].flatMap(([name, took]) =>
    (['acquire', 'release'] as const).flatMap((call) =>
      [0.5, 0.99].map((share): Figure => ({
        what: `${call}, one caller, p${String(share * 100)}: ${name}`,
        result: milliseconds(quantile(took[call], share)),
      })),
    ),
  );
  const p50 = (name: string): number => median(latencies.get(name)?.acquire ?? []);
  return [
    ...figures,
    {
      what: 'acquire, one caller, p50: leasehold / the floor',
      ours: milliseconds(p50(ours)),
      theirs: milliseconds(p50('the floor')),
      peer: 'the floor',
      result: times(p50(ours) / p50('the floor')),
      ...LATENCY_TO_FLOOR,
    },
  ];
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
    goal: wanted && atLeast(wanted.goal[callerCount]),
  };
}

function costFigures(meter: Meter, callerCount: CallerCount): Figure[] {
  const isLimited = callerCount === 256;
  const callers = callersOf(callerCount);
  const what = `processor time for each acquire + release, ${callers}`;
  const costs = meter
    .eachCall(what, isLimited ? COSTS : {})
    .map(({ party, ...figure }): Figure => ({
      ...figure,
      bar: {
        chart: 'Processor time for each acquire + release, in microseconds',
        group: callers,
        name: party,
        isStacked: true,
      },
    }));
  const inUse = meter.coresInUse(`cores in use, ${callers}`);
  return [...costs, callerCount === 1 ? inUse : { ...inUse, required: atLeast(CORES_REQUIRED) }];
}

/** What the same PostgreSQL takes without our promises. */
function floorFigure(meter: Meter, callerCount: CallerCount): Figure {
  const what = `processor time for each acquire + release, ${callersOf(callerCount)}: postgres`;
  const [figure] = meter.eachCall(what).filter(({ party }) => party === 'postgres');
  invariant(figure !== undefined, 'PostgreSQL is a party');
  return { what: `${what}, for the floor`, result: figure.result };
}

function callersOf(count: number): string {
  return count === 1 ? '1 caller' : `${String(count)} callers`;
}
