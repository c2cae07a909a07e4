import { describe, expect, test } from 'vitest';
import { eventSentence, eventText, refusalsOf } from './event-texts.ts';

const EVENT: Parameters<typeof eventSentence>[0] = {
  kind: 'granted',
  face: 'key',
  fencingToken: '42',
  at: '2026-11-21T10:00:03.000Z',
  actor: 'web-shop',
  reason: null,
  detail: { holder: 'drone-fra-2' },
};

test('what cannot be seen in a text is escaped, once', () => {
  const event = { ...EVENT, kind: 'revoked', actor: 'a\u202eb', detail: {} } as const;
  expect(eventText(event)).toBe(String.raw`a\u{202e}b revoked the key`);
  expect(eventSentence(event)[0]?.text).toBe('a\u202eb');
});

describe('an event in words', () => {
  test.each([
    [{}, 'drone-fra-2 was granted the key with token 42, asked for by web-shop'],
    [
      {
        face: 'environment',
        actor: 'ci',
        detail: { holder: 'ci', action: 'deploy', comment: 'v2' },
      },
      'ci was granted the environment with token 42, for deploy: v2',
    ],
    [
      { kind: 'taken_over' },
      'drone-fra-2 took over the key with token 42; the grant before it had expired, asked for by web-shop',
    ],
    [{ kind: 'released', actor: 'drone:drone-fra-2' }, 'drone-fra-2 released the key'],
    [{ kind: 'failed', reason: 'exit 1' }, 'web-shop released the key after a failure: exit 1'],
    [{ kind: 'expired', actor: 'leasehold' }, 'The grant expired without a renewal'],
    [
      { kind: 'revoked', actor: 'ada', detail: { mode: 'force' }, reason: 'hangs' },
      'ada revoked the key by force: hangs',
    ],
    [
      { kind: 'renewal_blocked', actor: 'ada', reason: 'old image' },
      'ada blocked the renewal of the grant: old image',
    ],
    [
      { kind: 'updated', actor: 'web-shop', detail: { holder: 'web-shop', metadata: { port: 1 } } },
      'web-shop changed the metadata of the grant',
    ],
    [{ kind: 'removed', actor: 'leasehold' }, 'Leasehold removed the key'],
  ])('%j', (change, text) => {
    expect(eventText({ ...EVENT, ...change } as never)).toBe(text);
  });

  test.each([
    [
      { reason: 'expired', detail: { holder: 'd', count: 1, endedAt: '2026-11-21T10:00:00Z' } },
      'The renewal by d was refused: the grant had expired 3 s before',
    ],
    [
      { reason: 'superseded', detail: { holder: 'd', count: 7, nextHolder: 'e', nextToken: '43' } },
      '7 renewals by d were refused: e holds the key now, with token 43',
    ],
    [
      { reason: 'superseded', detail: { holder: 'd', count: 1, askedToken: '41' } },
      'The renewal by d was refused: it came with token 41, and the grant has 42',
    ],
    [
      { reason: 'renewal_blocked', detail: { holder: 'd', count: 1 } },
      'The renewal by d was refused: its renewal is blocked',
    ],
  ])('a refused renewal says why: %j', (change, text) => {
    expect(eventText({ ...EVENT, kind: 'renewal_refused', ...change } as never)).toBe(text);
  });

  test('links a drone to its page, and knows who is a person', () => {
    expect(eventSentence(EVENT)[0]?.href).toBe('/drones/detail?id=drone-fra-2');
    expect(eventSentence({ ...EVENT, kind: 'revoked', actor: 'ada' })[0]?.isActor).toBe(true);
    expect(eventSentence({ ...EVENT, face: 'lease' })[0]?.href).toBeUndefined();
  });

  test('a refused renewal stands for its number of refusals', () => {
    expect(refusalsOf({ kind: 'renewal_refused', detail: { count: 7 } })).toBe(7);
    expect(refusalsOf({ kind: 'renewal_refused', detail: null })).toBe(1);
    expect(refusalsOf({ kind: 'granted', detail: null })).toBeUndefined();
  });
});
