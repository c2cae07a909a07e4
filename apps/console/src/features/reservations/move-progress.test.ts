import { describe, expect, test } from 'vitest';
import { type FollowedMove, moveProgress, type ObservedMove } from './move-progress.ts';

const MOVE: FollowedMove = {
  key: ['rooms', 'room-1'],
  fromId: 'dc1.a',
  fromDatacenter: 'dc1',
  toDatacenter: 'dc2',
};

const home = { reservationId: 'dc1.a', datacenter: 'dc1', state: 'active' } as const;
const left = { ...home, state: 'moved' } as const;
const arrived = { reservationId: 'dc2.b', datacenter: 'dc2', state: 'active' } as const;
const free = { toDatacenter: 'dc2', heldBy: null, failure: null };
const held = { ...free, heldBy: { holder: 'drone-1' } };

const nextOf = (observed: ObservedMove) => moveProgress(MOVE, observed).next;
const doneOf = (observed: ObservedMove): string[] =>
  moveProgress(MOVE, observed).stages.flatMap(({ label, isDone }) => (isDone ? [label] : []));

describe('a move', () => {
  test('waits while somebody holds the key, then is made', () => {
    expect(nextOf({})).toBe('look');
    expect(nextOf({ links: [home] })).toBe('look');
    expect(nextOf({ links: [home], request: held })).toBe('wait');
    expect(nextOf({ links: [home], request: free })).toBe('move');
  });

  test('whose request has just ended is checked again until the chain shows the result', () => {
    expect(nextOf({ links: [home], request: null })).toBe('look');
  });

  test.each([
    ['reservation.key_held', 'was granted before'],
    ['cancelled', 'was cancelled'],
    ['reservation.chain_too_long', 'reservation.chain_too_long'],
  ])('that has ended with %s says why', (failure, text) => {
    expect(moveProgress(MOVE, { links: [home], request: { ...free, failure } })).toMatchObject({
      next: 'failed',
      text: expect.stringContaining(text) as string,
    });
  });
});

test('the stages follow request and chain, so that a reload shows the same', () => {
  expect(doneOf({ links: [home], request: held })).toEqual(['Requested']);
  expect(doneOf({ links: [home], request: free })).toEqual(['Requested', 'Nobody holds it']);
  const sealed = [left, { ...arrived, state: 'pending' as const }];
  expect(doneOf({ links: sealed })).toEqual([
    'Requested',
    'Nobody holds it',
    'Sealed and left dc1',
  ]);
  expect(doneOf({ links: [left, arrived] })).toHaveLength(4);
});

test('a move that has left arrives when its target answers; a finished move stays finished', () => {
  expect(nextOf({ links: [left, { ...arrived, state: 'unreachable' }] })).toBe('arrive');
  expect(nextOf({ links: [left, arrived] })).toBe('done');
  const onward = { reservationId: 'dc3.c', datacenter: 'dc3', state: 'active' } as const;
  expect(nextOf({ links: [left, { ...arrived, state: 'moved' }, onward] })).toBe('done');
  expect(nextOf({ links: [left, onward] })).toBe('elsewhere');
  expect(nextOf({ links: [home], request: { ...free, toDatacenter: 'dc3' } })).toBe('elsewhere');
});
