import { describe, expect, test } from 'vitest';
import type { Hold, TicketSeen } from '../../history.ts';
import { ENVIRONMENT, FROZEN_ENVIRONMENT } from '../../world/workers/settings.ts';
import { event, found, hold } from './fixture.ts';

const PERMIT = 'lease proof.permits/a';
const OTHER_PERMIT = 'lease proof.permits/b';
const SHARED = 'lease proof.shared/a';

const released = (
  resource: string,
  token: string,
  [fromMs, untilMs]: readonly [number, number],
  of: Partial<Hold> = {},
) => hold(token, fromMs, untilMs, { resource, end: 'released', ...of });

describe('the judge of what several hold', () => {
  test('accepts as many holders as there are permits, and finds one more of a key', () => {
    const two = [released(PERMIT, '1', [10, 100]), released(PERMIT, '2', [20, 100])];

    expect(found({ holds: [...two, released(PERMIT, '3', [100, 200])] })).toEqual([]);
    expect(found({ holds: [...two, released(PERMIT, '3', [99, 200])] })).toEqual(['permits']);
  });

  test('finds one more than there are permits of all keys', () => {
    const three = ['1', '2'].map((token) => released(PERMIT, token, [10, 100]));
    const other = released(OTHER_PERMIT, '3', [20, 100]);

    expect(found({ holds: [...three, other] })).toEqual([]);
    expect(found({ holds: [...three, other, released(OTHER_PERMIT, '4', [30, 40])] })).toEqual([
      'permits',
    ]);
  });

  test('finds a reader beside a writer, and none beside a reader or one that was revoked', () => {
    const reader = released(SHARED, '1', [10, 100], { mode: 'shared' });
    const writer = released(SHARED, '2', [50, 80]);
    const revoked = event('revoked', '1', 4, { resource: SHARED });
    const granted = event('granted', '1', 2, { resource: SHARED });

    expect(found({ holds: [reader, { ...writer, mode: 'shared' }] })).toEqual([]);
    expect(found({ holds: [reader, writer] })).toEqual(['shared']);
    expect(found({ holds: [reader, writer], events: [granted, revoked] })).toEqual([]);
  });

  test('I2 finds a token that is not larger than all before it', () => {
    const events = [
      event('granted', '2', 10, { resource: SHARED }),
      event('granted', '1', 20, { resource: SHARED }),
    ];

    expect(found({ events })).toEqual(['I2']);
  });
});

test('the judge of several at once finds an attempt that was granted some of them', () => {
  const of = (name: string, leaseId: string) => ({
    ...{ resource: `lease proof.group/${name}`, holder: 'request 2', leaseId },
  });
  const half = [event('granted', '1', 10, of('a', 'aa40'))];
  const all = [...half, event('granted', '2', 11, of('b', 'aa41'))];
  const ends = [
    event('released', '1', 12, of('a', 'aa40')),
    event('released', '2', 13, of('b', 'aa41')),
  ];
  // Its client has lost the first one, and asks again.
  const again = [
    event('granted', '3', 20, of('a', 'bb40')),
    event('granted', '4', 21, of('b', 'bb41')),
  ];

  expect(found({ events: [...all, ...ends, ...again] })).toEqual([]);
  expect(found({ events: half })).toEqual(['together']);
});

describe('the judge of environments', () => {
  const ticket = (id: number, seenByMs: number): TicketSeen => ({
    ...{ resource: ENVIRONMENT, id, ticketId: `lease-${String(id)}`, seenAtMs: seenByMs - 5 },
    ...{ seenByMs, validUntilMs: seenByMs + 30_000 },
  });
  const granted = event('granted', '1', 100, { resource: ENVIRONMENT });
  const promise = (seenAtMs: number, expiresAtMs: number) => ({
    ...{ leaseId: 'lease-1', seenAtMs, expiresAtMs },
  });

  test('finds one that is renewed after a newer request has superseded it', () => {
    const history = { events: [granted], tickets: [ticket(2, 1_000)] };
    const first = promise(110, 1_600);

    expect(found({ ...history, promises: [first, promise(1_200, 2_700)] })).toEqual([]);
    expect(found({ ...history, promises: [first, promise(1_600, 3_100)] })).toEqual(['superseded']);
  });

  test('finds one that is granted after a newer request has superseded it', () => {
    const late = event('granted', '1', 2_000, { resource: ENVIRONMENT });

    expect(found({ events: [late], tickets: [ticket(1, 500)] })).toEqual([]);
    expect(found({ events: [late], tickets: [ticket(1, 500), ticket(2, 1_000)] })).toEqual([
      'superseded',
    ]);
  });

  test('finds a grant within a freeze', () => {
    const freezes = [{ resource: FROZEN_ENVIRONMENT, fromMs: 1_000, untilMs: 2_500 }];
    const at = (atMs: number) => [event('granted', '1', atMs, { resource: FROZEN_ENVIRONMENT })];

    expect(found({ freezes, events: at(1_010) })).toEqual([]);
    expect(found({ freezes, events: at(1_500) })).toEqual(['frozen']);
    expect(found({ freezes, events: at(2_600) })).toEqual([]);
  });
});
