import { describe, expect, test } from 'vitest';
import { moveProgress, type FollowedMove, type ObservedMove } from './move-progress.ts';

const MOVE: FollowedMove = {
  key: ['rooms', 'room-1'],
  fromId: 'dc1.a',
  fromDatacenter: 'dc1',
  toDatacenter: 'dc2',
  reason: 'Closer to its players',
  waitsFor: { leaseId: 'l1', holder: 'drone-1', isRevoked: true, stopsBy: null },
};
const FREE: FollowedMove = { ...MOVE, waitsFor: null };

const home = { reservationId: 'dc1.a', datacenter: 'dc1', state: 'active' } as const;
const left = { ...home, state: 'moved' } as const;
const arrived = { reservationId: 'dc2.b', datacenter: 'dc2', state: 'active' } as const;
const held = { leaseId: 'l1', phase: 'held', holder: 'drone-1' } as const;

const nextOf = (move: FollowedMove, observed: ObservedMove) => moveProgress(move, observed).next;
const doneOf = (move: FollowedMove, observed: ObservedMove): string[] =>
  moveProgress(move, observed).stages.flatMap(({ label, isDone }) => (isDone ? [label] : []));

describe('a move of a held key', () => {
  test('waits for the very grant that was revoked, then can be made', () => {
    expect(nextOf(MOVE, {})).toBe('wait');
    expect(nextOf(MOVE, { links: [home] })).toBe('wait');
    expect(nextOf(MOVE, { links: [home], grant: held })).toBe('wait');
    expect(nextOf(MOVE, { links: [home], grant: { ...held, phase: 'expiring' } })).toBe('wait');
    expect(nextOf(MOVE, { links: [home], grant: { ...held, phase: 'free' } })).toBe('move');
    expect(nextOf(MOVE, { links: [home], grant: null })).toBe('move');
  });

  test('reports it when somebody else was granted the key first, and does not move it', () => {
    const grant = { leaseId: 'l2', phase: 'held', holder: 'drone-2' } as const;
    expect(moveProgress(MOVE, { links: [home], grant })).toMatchObject({
      next: 'taken',
      text: expect.stringContaining('drone-2 was granted it') as string,
    });
  });
});

test('the stages follow the chain, so that a reload shows the same', () => {
  expect(doneOf(MOVE, { links: [home], grant: held })).toEqual(['Revoke asked']);
  expect(doneOf(MOVE, { links: [home], grant: null })).toEqual(['Revoke asked', 'Backend stopped']);
  const sealed = [left, { ...arrived, state: 'pending' as const }];
  expect(doneOf(MOVE, { links: sealed, grant: null })).toEqual([
    'Revoke asked',
    'Backend stopped',
    'Sealed and left dc1',
  ]);
  expect(doneOf(FREE, { links: [left, arrived] })).toEqual([
    'Asked for',
    'Sealed and left dc1',
    'Active in dc2',
  ]);
});

test('a move that was cut short asks to be finished, and one that is over is over', () => {
  const unheard = { ...arrived, state: 'unreachable' } as const;
  expect(nextOf(FREE, { links: [left, unheard] })).toBe('finish');
  expect(nextOf(FREE, { links: [left, arrived] })).toBe('done');
  const onward = { reservationId: 'dc3.c', datacenter: 'dc3', state: 'active' } as const;
  expect(nextOf(FREE, { links: [left, { ...arrived, state: 'moved' }, onward] })).toBe('done');
  expect(nextOf(FREE, { links: [left, onward] })).toBe('elsewhere');
});
