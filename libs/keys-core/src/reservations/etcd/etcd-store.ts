import type { IKeyValue } from 'etcd3';
import { invariant } from '../../kernel/errors.ts';
import type { ReservationKey, ReservationPointer } from '../../kernel/reservation.ts';
import type { ReservationStore } from '../reservation-store.ts';
import {
  createEtcdCalls,
  DATACENTER_ROWS,
  type EtcdCalls,
  type EtcdCallsOptions,
  type EtcdRows,
  POINTER_ROWS,
  RESERVATION_ROWS,
  witnessKeyOf,
} from './etcd-calls.ts';
import { createEtcdGivenUp, type EtcdGivenUp } from './etcd-given-up.ts';

/** The reservation store of several datacenters, and what a start needs of it besides. */
export interface EtcdReservationStore extends ReservationStore {
  readonly kind: 'etcd';
  /** Which etcd this is. Linearizable. */
  clusterId(): Promise<string>;
  /** From now on answers of any other etcd are not believed: `reservation.store_unreachable`. */
  expectCluster(clusterId: string): void;
  /**
   * Writes a row of this process, under a name of its own, unless it has done so a moment ago. Nothing is
   * written from here to an etcd that was put back to before that. Linearizable.
   */
  beat(name: string): Promise<void>;
  /** Registers a datacenter's name, unless it is registered. @returns the cluster that has it. */
  register(datacenter: string, clusterId: string): Promise<string>;
  /** The datacenters that were given up. */
  readonly givenUp: EtcdGivenUp;
  /** Every key that is reserved, in pages, with its first reservation. */
  reservations(): AsyncIterable<readonly { key: ReservationKey; reservationId: string }[]>;
  /** Every pointer, in pages. */
  pointers(): AsyncIterable<readonly ReservationPointer[]>;
}

const PAGE_ROWS_MAX = 1_000;
/** Each of them is a revision of etcd, which keeps it until it is compacted. */
const BEAT_EVERY_MS = 15_000;

/**
 * Reservations in etcd. Unlike Epoxy it has a leader: a fresh reservation costs every datacenter
 * but the leader's one more round trip. What is known is read from the nearest member alone.
 *
 * Every write is put-if-absent in one transaction, and may be carried out twice: when it is sent
 * again after a lost answer, it finds what it wrote before, and reports it as its own. This is how
 * a write whose outcome is unknown is read back linearizably.
 *
 * Every call ends within about three seconds; a store that cannot answer throws
 * `reservation.store_unreachable`, and never says "nothing".
 */
export function createEtcdReservationStore(options: EtcdCallsOptions): EtcdReservationStore {
  const calls = createEtcdCalls(options);

  const { clock } = options;
  let beatAtMs = -Infinity;

  const { range } = calls;
  /** What the nearest member knows; if no member answers by itself, a linearizable read. */
  const nearby: EtcdCalls['range'] = (request) =>
    calls.rangeNearby(request).catch(() => range(request));

  async function clusterId(): Promise<string> {
    const { header } = await range({ key: Buffer.from(DATACENTER_ROWS.prefix), limit: 1 });
    return header.cluster_id;
  }

  return {
    kind: 'etcd',
    async put(key, reservationId) {
      const held = await putAbsent(calls, RESERVATION_ROWS, key, reservationId);
      return {
        outcome: held === reservationId ? 'reserved' : 'existing',
        reservationId: held,
      };
    },
    readNearby: (key) => readRow(nearby, RESERVATION_ROWS, key),
    read: (key) => readRow(range, RESERVATION_ROWS, key),
    putPointer: (pointer) => putAbsent(calls, POINTER_ROWS, pointer.fromId, pointer),
    readPointerNearby: (fromId) => readRow(nearby, POINTER_ROWS, fromId),
    readPointer: (fromId) => readRow(range, POINTER_ROWS, fromId),
    clusterId,
    async beat(name) {
      const nowMs = clock.nowMs();
      if (nowMs - beatAtMs < BEAT_EVERY_MS) {
        await clusterId();
        return;
      }
      const key = Buffer.from(witnessKeyOf(name));
      await calls.txn({ success: [{ request_put: { key, value: Buffer.from(name) } }] });
      beatAtMs = nowMs;
    },
    givenUp: createEtcdGivenUp(calls),
    expectCluster: calls.expectCluster,
    register: (datacenter, clusterId) => putAbsent(calls, DATACENTER_ROWS, datacenter, clusterId),
    async *reservations() {
      for await (const page of pagesOf(calls, RESERVATION_ROWS)) {
        yield page.map(({ name, value }) => ({ key: name, reservationId: value }));
      }
    },
    async *pointers() {
      for await (const page of pagesOf(calls, POINTER_ROWS)) {
        yield page.map(({ value }) => value);
      }
    },
    close() {
      calls.close();
      return Promise.resolve();
    },
  };
}

/** Put-if-absent. @returns what is there then. */
async function putAbsent<Name, Value>(
  calls: EtcdCalls,
  rows: EtcdRows<Name, Value>,
  name: Name,
  value: Value,
): Promise<Value> {
  const key = Buffer.from(rows.keyOf(name));
  const { succeeded, responses } = await calls.txn({
    compare: [{ key, target: 'Create', result: 'Equal', create_revision: 0 }],
    success: [{ request_put: { key, value: Buffer.from(rows.write(value)) } }],
    failure: [{ request_range: { key } }],
  });
  if (succeeded) return value;
  const held = valueOf(rows, name, responses[0]?.response_range.kvs);
  invariant(held !== undefined, 'etcd reports that a row exists, but does not return it');
  return held;
}

async function readRow<Name, Value>(
  ask: EtcdCalls['range'],
  rows: EtcdRows<Name, Value>,
  name: Name,
): Promise<Value | undefined> {
  const { kvs } = await ask({ key: Buffer.from(rows.keyOf(name)), limit: 1 });
  return valueOf(rows, name, kvs);
}

/** All rows of a kind, in the order of their keys. Rows never change: a page need not know the others. */
async function* pagesOf<Name, Value>(calls: EtcdCalls, rows: EtcdRows<Name, Value>) {
  const end = endOf(rows.prefix);
  let start = Buffer.from(rows.prefix);
  for (;;) {
    const { kvs, more } = await calls.range({ key: start, range_end: end, limit: PAGE_ROWS_MAX });
    yield kvs.map(({ key, value }) => {
      const name = rows.nameOf(key.toString());
      return { name, value: rows.read(value.toString(), name) };
    });
    const last = kvs.at(-1);
    if (!more || last === undefined) return;
    start = Buffer.concat([last.key, Buffer.of(0)]);
  }
}

/** The first key after all that begin with a prefix, which ends with a slash. */
function endOf(prefix: string): Buffer {
  return Buffer.from(`${prefix.slice(0, -1)}0`);
}

function valueOf<Name, Value>(
  rows: EtcdRows<Name, Value>,
  name: Name,
  kvs: readonly IKeyValue[] | undefined,
): Value | undefined {
  const text = kvs?.[0]?.value.toString();
  return text === undefined ? undefined : rows.read(text, name);
}
