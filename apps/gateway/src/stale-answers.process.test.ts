import { afterAll, beforeAll, expect, test } from 'vitest';
import { attackRooms } from './testing/room-attack.ts';
import { Rooms } from './testing/rooms.ts';

let rooms: Rooms;
beforeAll(async () => {
  rooms = await Rooms.open();
});
afterAll(() => rooms.close());

test('no answer and no message is of a backend whose grant another one had followed', async () => {
  const { judge, counts } = await attackRooms(rooms, {
    keys: 4,
    drones: 2,
    requests: 100,
    sockets: 8,
    clients: 4,
    faults: ['revoke', 'freeze_gateway', 'kill_drone', 'revoke'],
    pauseMs: 500,
    thinkMs: 10,
  });

  expect(await judge.wrong(rooms)).toEqual([]);
  expect(counts.grants).toBeGreaterThan(4);
  expect(counts.answered).toBeGreaterThan(counts.refused);
  expect(counts.messages).toBeGreaterThan(0);
}, 120_000);
