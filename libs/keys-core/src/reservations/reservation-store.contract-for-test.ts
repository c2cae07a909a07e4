import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  reservationIdOf,
  type ReservationKey,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import type { ReservationStore } from './reservation-store.ts';

export function anId(datacenter = 'dc1'): string {
  return reservationIdOf(datacenter, randomUUID());
}

export function aKey(): ReservationKey {
  return ['test', randomUUID()];
}

export function aPointer(): ReservationPointer {
  return { fromId: anId(), toId: anId('dc2'), tokenFloor: '1700000000000' };
}

/** What a reservation store promises, whatever it is made of. `open` gives another client of one store. */
export function describeReservationStore(
  what: string,
  open: () => Promise<ReservationStore>,
): void {
  describe(`a reservation store of ${what}`, () => {
    test('C37 sets a value if absent, accepts the same value again, and returns the winner’s to the loser', async () => {
      const [store, other] = [await open(), await open()];
      const key = aKey();
      const [mine, theirs] = [anId(), anId('dc2')];

      expect(await store.put(key, mine)).toEqual({ outcome: 'reserved', reservationId: mine });
      expect(await store.put(key, mine)).toEqual({ outcome: 'reserved', reservationId: mine });
      expect(await other.put(key, theirs)).toEqual({ outcome: 'existing', reservationId: mine });
      expect(await other.read(key)).toBe(mine);
    });

    test('C38 a value that somebody else committed is reported as not mine', async () => {
      const [store, other] = [await open(), await open()];
      const key = aKey();
      const theirs = anId('dc2');
      await other.put(key, theirs);

      const put = await store.put(key, anId());

      expect(put).toEqual({ outcome: 'existing', reservationId: theirs });
    });

    test('C39 concurrent reservers converge on one value, and one of them reserved it', async () => {
      const clients = await Promise.all(['dc1', 'dc2', 'dc3'].map(() => open()));
      const keys = Array.from({ length: 20 }, aKey);

      for (const key of keys) {
        const puts = await Promise.all(
          clients.map((client, index) => client.put(key, anId(`dc${String(index + 1)}`))),
        );

        expect(new Set(puts.map((put) => put.reservationId)).size).toBe(1);
        expect(puts.filter((put) => put.outcome === 'reserved')).toHaveLength(1);
      }
    });

    test('C40 every client reads a value that was put, wherever it reads', async () => {
      const [store, other] = [await open(), await open()];
      const key = aKey();
      const id = anId();
      await store.put(key, id);

      expect(await other.read(key)).toBe(id);
      // What is nearby may be behind, and is never wrong.
      expect([undefined, id]).toContain(await other.readNearby(key));
      expect(await other.read(aKey())).toBeUndefined();
      expect(await other.readNearby(aKey())).toBeUndefined();
    });

    test('a pointer is written once: the second writer learns the first', async () => {
      const [store, other] = [await open(), await open()];
      const pointer = aPointer();
      const later = { ...pointer, toId: anId('dc3'), tokenFloor: '9' };

      expect(await store.putPointer(pointer)).toEqual(pointer);
      expect(await store.putPointer(pointer)).toEqual(pointer);
      expect(await other.putPointer(later)).toEqual(pointer);
      expect(await other.readPointer(pointer.fromId)).toEqual(pointer);
      expect(await store.readPointerNearby(pointer.fromId)).toEqual(pointer);
      expect(await store.readPointer(anId())).toBeUndefined();
    });

    test('keys that look alike are not confused, whatever they are made of', async () => {
      const store = await open();
      const unique = randomUUID();
      const alike: ReservationKey[] = [
        [`${unique}a/b`],
        [`${unique}a`, 'b'],
        [`${unique}a`, 'b', ''],
        [`${unique}a"`, `b`],
        [`${unique}a","b`],
        [`${unique}a\\`, 'b'],
        [`${unique}ä`],
        [`${unique}a\u0308`],
        [`${unique}A/B`],
        [`${unique}%_*`],
        [`${unique}😀 中文`],
        [unique + 'x'.repeat(1_024 - unique.length)],
        [unique.slice(0, 1)],
      ];
      const ids: string[] = [];

      // A key of one byte may be there from an earlier test: what counts is whose value it has.
      for (const key of alike) ids.push((await store.put(key, anId())).reservationId);

      expect(new Set(ids).size).toBe(alike.length);
      expect(await Promise.all(alike.map((key) => store.read(key)))).toEqual(ids);
    });
  });
}
