import { repetitions } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { attackRooms, FAULTS } from './testing/room-attack.ts';
import { Rooms } from './testing/rooms.ts';

let rooms: Rooms;
beforeAll(async () => {
  rooms = await Rooms.open();
});
afterAll(() => rooms.close());

const REQUESTS = repetitions({ short: 200_000, long: 2_000_000 });

test('of 200,000 requests and 1,000 WebSockets none is answered by a backend whose grant another one had followed', async () => {
  const { judge, counts } = await attackRooms(rooms, {
    keys: 50,
    drones: 4,
    requests: REQUESTS,
    sockets: 1_000,
    clients: 64,
    faults: FAULTS,
    pauseMs: 2_000,
    thinkMs: 1,
  });

  expect(await judge.wrong(rooms)).toEqual([]);
  expect(counts.grants).toBeGreaterThan(50);
  expect(counts.answered).toBeGreaterThanOrEqual(REQUESTS);
  expect(counts.answered).toBeGreaterThan(counts.refused);
  expect(counts.messages).toBeGreaterThan(1_000);
}, 7_200_000);
