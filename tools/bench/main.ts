import { measureConnect } from './connect.ts';
import { measureDroneMemory } from './drone-memory.ts';
import { measureExpiry } from './expiry.ts';
import { tableOf, type Figure } from './rig/figures.ts';
import { measureGrants } from './grants.ts';
import { measureHandover } from './handover.ts';
import { measureLeaseRates } from './lease-rates.ts';
import { measureLists } from './lists.ts';
import { measureReservations } from './reservations/reservations.ts';
import { openRig, type Rig } from './rig/rig.ts';
import { measureRenewals } from './renewals.ts';
import { measureTableSize } from './rig/table-size.ts';
import { measureWaiters } from './waiters.ts';

/** All measurements by the name that selects them, in the order in which they run. */
const MEASUREMENTS: Record<string, (rig: Rig) => Promise<Figure[]>> = {
  renewals: measureRenewals,
  grants: measureGrants,
  'table-size': measureTableSize,
  connect: measureConnect,
  lists: measureLists,
  'drone-memory': measureDroneMemory,
  'lease-expiry': measureExpiry,
  'lease-waiters': measureWaiters,
  'lease-rates': measureLeaseRates,
  handover: measureHandover,
  reservations: measureReservations,
};

async function main(args: readonly string[]): Promise<void> {
  const names = args.filter((arg) => arg !== '--quick');
  const unknown = names.filter((name) => MEASUREMENTS[name] === undefined);
  if (unknown.length > 0) {
    throw new Error(
      `unknown: ${unknown.join(' ')}; there are ${Object.keys(MEASUREMENTS).join(' ')}`,
    );
  }
  const rig = await openRig(args.includes('--quick'));
  const figures: Figure[] = [];
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      interrupted.abort();
    });
  }
  try {
    for (const [name, measure] of Object.entries(MEASUREMENTS)) {
      if (names.length > 0 && !names.includes(name)) continue;
      process.stderr.write(`${name} …\n`);
      figures.push(...(await orInterrupted(measure(rig), interrupted.signal)));
      await rig.clear();
    }
  } finally {
    await rig.close();
  }
  process.stdout.write(`${tableOf(figures)}\n`);
}

function orInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(new Error('interrupted'));
      });
    }),
  ]);
}

await main(process.argv.slice(2));
