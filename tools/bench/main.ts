import { parseArgs } from 'node:util';
import { measureConnect } from './connect.ts';
import { measureDroneMemory } from './drone-memory.ts';
import { measureGateway } from './gateway.ts';
import { measureIdleMemory } from './idle-memory.ts';
import { measureOverload } from './leases/overload.ts';
import { measureProfile } from './leases/profile.ts';
import { measureSoak } from './leases/soak.ts';
import { readCommit, readMachine, sectionOf, writeReport } from './report/report.ts';
import type { Section } from './report/report-types.ts';
import { tableOf, type Figure } from './rig/figures.ts';
import { measureGrants } from './grants.ts';
import { measureHandover } from './leases/handover.ts';
import { measureLeaseRates } from './leases/lease-rates.ts';
import { measurePoolRates } from './leases/pool-rates.ts';
import { openRig, type Rig } from './rig/rig.ts';
import { measureRenewals } from './renewals.ts';
import { measureTableSize } from './table-size.ts';
import { measureWaiters } from './leases/waiters.ts';

/** All measurements by the name that selects them, in the order in which they run: ratios to peers first. */
const MEASUREMENTS: Record<string, (rig: Rig) => Promise<Figure[]>> = {
  'lease-rates': measureLeaseRates,
  'pool-rates': measurePoolRates,
  profile: measureProfile,
  handover: measureHandover,
  renewals: measureRenewals,
  connect: measureConnect,
  gateway: measureGateway,
  'lease-waiters': measureWaiters,
  'table-size': measureTableSize,
  grants: measureGrants,
  overload: measureOverload,
  soak: measureSoak,
  'idle-memory': measureIdleMemory,
  'drone-memory': measureDroneMemory,
};

/** How the peers are configured: as durable as PostgreSQL, except where a measurement says otherwise. */
const PEER_DURABILITY = {
  Redis: 'appendonly yes, appendfsync always, one instance',
  etcd: 'its defaults (fsync of every write), one member',
  'Advisory locks': 'none: in memory',
};

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals: names } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { quick: { type: 'boolean', default: false } },
  });
  const unknown = names.filter((name) => MEASUREMENTS[name] === undefined);
  if (unknown.length > 0) {
    throw new Error(
      `unknown: ${unknown.join(' ')}; there are ${Object.keys(MEASUREMENTS).join(' ')}`,
    );
  }
  const startedAt = new Date();
  const rig = await openRig({ isQuick: values.quick });
  const sections: Section[] = [];
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
      sections.push(sectionOf(name, await orInterrupted(measure(rig), interrupted.signal)));
      await rig.clear();
    }
  } finally {
    await rig.close();
  }
  for (const { name, figures } of sections) {
    process.stdout.write(`\n${name}\n${tableOf(figures)}\n`);
  }
  const files = await writeReport({
    startedAt: startedAt.toISOString(),
    tookS: (Date.now() - startedAt.getTime()) / 1_000,
    commit: readCommit(),
    command: ['npm run bench --', ...args].join(' '),
    isQuick: rig.isQuick,
    machine: readMachine(rig.postgresVersion),
    durability: { ...rig.durability, ...PEER_DURABILITY },
    sections,
  });
  process.stdout.write(`\nwritten: ${files.join(', ')}\n`);
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
