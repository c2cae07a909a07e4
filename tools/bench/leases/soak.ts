import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import { startControllers } from '../controllers.ts';
import { startChild, type Child } from '../rig/child.ts';
import type { Course, Figure } from '../rig/figures.ts';
import { residentBytes } from '../rig/processes.ts';
import { readProcessorTime, usedUs } from '../rig/processor-time.ts';
import { atMost, bytes, count, cores, megabytes, microseconds, times } from '../rig/quantities.ts';
import type { Rig } from '../rig/rig.ts';
import { median } from '../rig/rounds.ts';
import type { Holding } from '../rig/soak-client.ts';

const CLIENT_COUNT = 10;
const TTL_MS = 30_000;
const WATCHED_MS = 180_000;
const LOOK_MS = 2_000;
/** The last third of a flat course is not this much above its first third. */
const GROWTH_MAX = 1.1;

/** Many leases that are held and renewed for minutes: what each costs, and whether memory stays flat. */
export async function measureSoak(rig: Rig): Promise<Figure[]> {
  const leaseCount = rig.isQuick ? 5_000 : 100_000;
  const database = await rig.database('bench_soak');
  const { urls, pids, token } = await startControllers(rig, database, 1);
  const clients = await Promise.all(
    Array.from({ length: CLIENT_COUNT }, (_, place) =>
      startClient(rig, [
        urls[0] ?? '',
        token,
        `client-${String(place)}`,
        String(leaseCount / CLIENT_COUNT),
        String(TTL_MS),
      ]),
    ),
  );
  const read = async () => ({
    time: readProcessorTime({ controllerPids: pids, postgresFolder: rig.folder }),
    clientUs: clients.reduce((sum, { pid }) => sum + usedUs(pid), 0),
    walBytes: Number(
      (
        await database.pool.query<{ at: string }>(
          `select (pg_current_wal_lsn() - '0/0')::text as at`,
        )
      ).rows[0]?.at,
    ),
  });
  // The leases were acquired at once; by the second round of renewals they are spread.
  await pause(rig.isQuick ? 1_000 : TTL_MS);
  const before = await read();
  const startedAtMs = performance.now();
  const controller = new Samples(() => residentBytes(pids[0] ?? Number.NaN));
  const client = new Samples(() => residentBytes(clients[0]?.pid ?? Number.NaN));
  const watchedMs = rig.isQuick ? 10_000 : WATCHED_MS;
  while (performance.now() - startedAtMs < watchedMs) {
    const atS = (performance.now() - startedAtMs) / 1_000;
    controller.look(atS);
    client.look(atS);
    await pause(LOOK_MS);
  }
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const after = await read();
  const leaseSeconds = leaseCount * seconds;
  const lostCount = clients.reduce((sum, { latest }) => sum + latest().lostCount, 0);
  const what = `soak of ${String(leaseCount)} leases of 30 s`;
  const controllerUs = after.time.controller - before.time.controller;
  const postgresUs = after.time.postgres - before.time.postgres;
  const clientUs = after.clientUs - before.clientUs;
  return [
    { what: `${what}: lost`, result: count(lostCount), required: atMost(0) },
    each(`${what}: processor time for each lease and second, client`, clientUs / leaseSeconds),
    each(
      `${what}: processor time for each lease and second, controller`,
      controllerUs / leaseSeconds,
    ),
    each(`${what}: processor time for each lease and second, postgres`, postgresUs / leaseSeconds),
    {
      what: `${what}: cores in use`,
      result: cores((clientUs + controllerUs + postgresUs) / 1e6 / seconds),
    },
    {
      what: `${what}: write-ahead log for each lease and second`,
      result: bytes((after.walBytes - before.walBytes) / leaseSeconds),
    },
    controller.figure(`${what}: memory of the controller`),
    controller.flatness(`${what}: memory of the controller, last third / first third`),
    client.figure(`${what}: memory of a client`),
    client.flatness(`${what}: memory of a client, last third / first third`),
  ];
}

function each(what: string, us: number): Figure {
  return { what, result: microseconds(us) };
}

interface Client extends Pick<Child<Holding>, 'pid'> {
  readonly latest: () => Holding;
}

async function startClient(rig: Rig, args: readonly string[]): Promise<Client> {
  const child = await startChild<Holding>('soak-client', args);
  rig.onClose(() => child.stop());
  let latest = child.ready;
  child.onMessage((message) => (latest = message));
  invariant(latest.lostCount === 0, 'a client acquires its leases');
  return { pid: child.pid, latest: () => latest };
}

/** The memory of one process over time. */
class Samples {
  readonly #atS: number[] = [];
  readonly #values: number[] = [];
  readonly #read: () => number;

  constructor(read: () => number) {
    this.#read = read;
  }

  look(atS: number): void {
    this.#atS.push(atS);
    this.#values.push(this.#read() / 1e6);
  }

  figure(what: string): Figure {
    const course: Course = { atS: this.#atS, values: this.#values };
    return { what, result: megabytes(median(this.#values) * 1e6), course };
  }

  flatness(what: string): Figure {
    const third = Math.ceil(this.#values.length / 3);
    const ratio = median(this.#values.slice(-third)) / median(this.#values.slice(0, third));
    return { what, result: times(ratio), required: atMost(GROWTH_MAX) };
  }
}
