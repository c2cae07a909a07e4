import { randomUUID } from 'node:crypto';
import {
  createEtcdReservationStore,
  createPostgresReservationStore,
  type ReservationStore,
} from '@leasehold/keys-core/reservations';
import { createBootClock } from '@leasehold/service-kit';
import { startEtcd, type TestEtcd } from '@leasehold/testing/stack';
import type pg from 'pg';
import type { Figure } from '../rig/figures.ts';
import { bytes, perSecond, times } from '../rig/quantities.ts';
import type { Rig } from '../rig/rig.ts';
import { compare, rateOf } from '../rig/rounds.ts';

const CALLER_COUNTS = [1, 32, 256];
const MEMBERS_COUNT = 3;
const SIZED_CALLERS_COUNT = 256;

/** Fresh reservations in etcd beside those in PostgreSQL, and the room that each takes. */
export async function measureReservationStores(rig: Rig): Promise<Figure[]> {
  const { store, pool } = await rig.database('bench_reservations');
  const etcd = await startEtcd({ membersCount: MEMBERS_COUNT });
  rig.onClose(() => etcd.stop());
  const inPostgres = createPostgresReservationStore(store);
  const leader = (await etcd.leader()) ?? 0;
  const [nearest = '', ...others] = [
    ...etcd.endpoints.slice(leader),
    ...etcd.endpoints.slice(0, leader),
  ];
  const clock = createBootClock();
  const inEtcd = createEtcdReservationStore({ endpoints: [nearest, ...others], clock });
  rig.onClose(() => inEtcd.close());
  const figures: Figure[] = [];
  for (const callersCount of CALLER_COUNTS) {
    const durationMs = rig.isQuick ? 200 : 1_500;
    const compared = await compare(
      { name: 'etcd', round: () => rateOfFresh(inEtcd, callersCount, durationMs) },
      { name: 'postgres', round: () => rateOfFresh(inPostgres, callersCount, durationMs) },
      rig.isQuick ? 2 : 5,
    );
    figures.push({
      what: `fresh reservations, callers: ${String(callersCount)}; etcd of three, against PostgreSQL`,
      ours: perSecond(compared.ours),
      theirs: perSecond(compared.theirs),
      result: times(compared.ratio),
    });
  }
  const count = rig.isQuick ? 2_000 : 50_000;
  return [...figures, await sizes(count, { inEtcd, inPostgres, etcd, pool })];
}

function rateOfFresh(store: ReservationStore, callersCount: number, durationMs: number) {
  return rateOf(callersCount, durationMs, () => reserve(store));
}

async function reserve(store: ReservationStore): Promise<void> {
  await store.put(['rooms.europe', `room-${randomUUID()}`], `dc1.${randomUUID()}`);
}

async function sizes(
  count: number,
  of: {
    readonly inEtcd: ReservationStore;
    readonly inPostgres: ReservationStore;
    readonly etcd: TestEtcd;
    readonly pool: pg.Pool;
  },
): Promise<Figure> {
  const { inEtcd, inPostgres, etcd, pool } = of;
  const etcdBefore = await etcdBytes(etcd);
  await reserveMany(inEtcd, count);
  const etcdEach = ((await etcdBytes(etcd)) - etcdBefore) / count;
  const postgresBefore = await postgresBytes(pool);
  await reserveMany(inPostgres, count);
  const postgresEach = ((await postgresBytes(pool)) - postgresBefore) / count;
  return {
    what: `room of a reservation, of ${String(count)}: etcd, against PostgreSQL with its index`,
    ours: bytes(etcdEach),
    theirs: bytes(postgresEach),
    result: times(etcdEach / postgresEach),
  };
}

async function reserveMany(store: ReservationStore, count: number): Promise<void> {
  let left = count;
  const loop = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await reserve(store);
    }
  };
  await Promise.all(Array.from({ length: SIZED_CALLERS_COUNT }, loop));
}

/** The size of a member's database, as the member reports it. */
async function etcdBytes({ endpoints }: TestEtcd): Promise<number> {
  const answer = await fetch(`${endpoints[0] ?? ''}/metrics`);
  const [, bytes] =
    /^etcd_mvcc_db_total_size_in_use_in_bytes (\S+)$/mu.exec(await answer.text()) ?? [];
  return Number(bytes);
}

async function postgresBytes(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    `select pg_total_relation_size('reservation_home') as bytes`,
  );
  return Number(rows[0]?.bytes);
}
