import { describe, expect, test } from 'vitest';
import { acquired, event, fault, found, hold, released, renewed, RESOURCE } from './fixture.ts';

const FIRST = [event('granted', '1', 10), event('released', '1', 30)];
const SECOND = [event('granted', '2', 40), event('released', '2', 50)];

describe('the judge of grants', () => {
  test('accepts grants that follow each other, with their answers and rows', () => {
    const operations = [
      acquired('1', [5, 12]),
      released('1', [25, 35]),
      acquired('2', [38, 45]),
      released('2', [48, 55]),
    ];
    const rows = [{ resource: RESOURCE, leaseId: 'lease-2', token: '2', isEnded: true }];

    expect(found({ events: [...FIRST, ...SECOND], operations, rows })).toEqual([]);
  });

  test('I1 finds a grant beside another one', () => {
    const events = [event('granted', '1', 10), ...SECOND, event('released', '1', 60)];

    expect(found({ events })).toContain('I1');
  });

  test('I1 finds a grant beside another one in another datacenter', () => {
    const events = [event('granted', '1', 10), event('granted', '2', 40, { datacenter: 'other' })];

    expect(found({ events })).toContain('I1');
  });

  test('I2 finds a token that did not grow', () => {
    const again = event('granted', '1', 40, { leaseId: 'lease-x', holder: 'x' });

    expect(found({ events: [...FIRST, again] })).toContain('I2');
  });

  test('I5 finds a grant before the end of what a reply had promised to the former holder', () => {
    const events = [
      event('granted', '1', 10),
      event('expired', '1', 400),
      event('taken_over', '2', 401),
    ];

    expect(found({ events, operations: [acquired('1', [5, 12], 1_000)] })).toContain('I5');
    expect(found({ events, operations: [acquired('1', [5, 12], 390)] })).toEqual([]);
  });

  test('I5 finds a grant while the client library still lets the former holder work', () => {
    const events = [
      event('granted', '1', 10),
      event('expired', '1', 400),
      event('taken_over', '2', 401),
    ];

    expect(found({ events, holds: [hold('1', 10, 600, {})] })).toEqual(['I5']);
    const woken = hold('1', 10, 600, { lateMs: 250, stallMs: 500 });
    expect(found({ events, holds: [woken] })).toEqual([]);
  });

  test('I6 finds a renewal after the end of the grant', () => {
    const late = { events: FIRST, operations: [acquired('1', [5, 12]), renewed('1', [70, 80])] };

    expect(found(late)).toContain('I6');
  });

  test('I6 finds a renewal with a token that the grant never had', () => {
    const wrong = { ...renewed('7', [15, 20]), leaseId: 'lease-1' };

    expect(found({ events: FIRST, operations: [acquired('1', [5, 12]), wrong] })).toContain('I6');
  });

  test('I6 finds an expiry that became earlier, unless it was ended by force or the clock was stepped', () => {
    const promise = { leaseId: 'lease-1', seenAtMs: 15 };
    const promises = [
      { ...promise, expiresAtMs: 900 },
      { ...promise, seenAtMs: 16, expiresAtMs: 800 },
    ];

    expect(found({ events: FIRST, promises })).toEqual(['I6']);
    const events = [event('granted', '1', 10), event('revoked', '1', 15)];
    expect(found({ events, promises })).toEqual([]);
    expect(found({ events: FIRST, promises, steps: [{ fromMs: 2, untilMs: 16 }] })).toEqual([]);
  });

  test('I7 finds a request that was granted twice, and one with two answers', () => {
    const twice = event('granted', '2', 40, { holder: 'holder-1' });
    const events = [...FIRST, twice, event('released', '2', 50)];

    expect(found({ events, operations: [acquired('1', [5, 12])] })).toContain('I7');
    const operations = [acquired('1', [5, 12]), { ...acquired('2', [38, 45]), holder: 'holder-1' }];
    expect(found({ events: [...FIRST, ...SECOND], operations })).toContain('I7');
  });

  test('I8 finds a reply that names a deadline after every expiry', () => {
    const promise = { leaseId: 'lease-1', expiresAtMs: 500 };
    const promises = [{ ...promise, seenAtMs: 20 }];

    expect(found({ events: FIRST, operations: [acquired('1', [5, 12], 600)], promises })).toEqual([
      'I8',
    ]);
    expect(found({ events: FIRST, operations: [acquired('1', [5, 12], 490)], promises })).toEqual(
      [],
    );
  });

  test('I8 leaves out a reply whose expiry was only read after a step of the database clock', () => {
    const history = {
      events: FIRST,
      operations: [acquired('1', [5, 12], 600)],
      promises: [{ leaseId: 'lease-1', seenAtMs: 5_000, expiresAtMs: -2_100 }],
    };
    const stepped = (fromMs: number) => found({ ...history, steps: [{ fromMs, untilMs: 5_010 }] });

    // The database was down from its grant on, and its clock was stepped as soon as it was back.
    expect(stepped(4)).toEqual([]);
    // It was read again before the step, without that grant.
    expect(stepped(4_000)).toEqual(['I8']);
  });

  test('I8 leaves out a reply whose deadline was before its request: nobody can act by it', () => {
    const promises = [{ leaseId: 'lease-1', expiresAtMs: 500, seenAtMs: 1_020 }];
    const told = (loseAtMs: number) =>
      found({ events: FIRST, operations: [acquired('1', [1_000, 1_010], loseAtMs)], promises });

    expect(told(750)).toEqual([]);
    expect(told(1_050)).toContain('I8');
  });

  test('I11 finds a grant that was recorded as expired before its expiry', () => {
    const events = [event('granted', '1', 10), event('expired', '1', 300)];
    const promise = { leaseId: 'lease-1', seenAtMs: 20 };

    expect(found({ events, promises: [{ ...promise, expiresAtMs: 900 }] })).toEqual(['I11']);
    expect(found({ events, promises: [{ ...promise, expiresAtMs: 290 }] })).toEqual([]);
    const later = { ...promise, seenAtMs: 30, expiresAtMs: 290 };
    const steps = [{ fromMs: 22, untilMs: 30 }];
    expect(found({ events, promises: [{ ...promise, expiresAtMs: 900 }, later], steps })).toEqual(
      [],
    );
    const faults = [fault(200, 7_200, { name: 'F7b' })];
    expect(found({ events, promises: [{ ...promise, expiresAtMs: 900 }], faults })).toEqual([]);
  });

  test('I13 finds two ends of one grant', () => {
    expect(found({ events: [...FIRST, event('expired', '1', 60)] })).toEqual(['I13']);
  });

  test('I13 finds an answer without an event, and a row that the events do not explain', () => {
    expect(found({ operations: [acquired('1', [5, 12])] })).toContain('I13');
    const operations = [acquired('1', [5, 12]), released('1', [25, 35])];
    expect(found({ events: [event('granted', '1', 10)], operations })).toContain('I13');
    const row = { resource: RESOURCE, leaseId: 'lease-1', token: '1', isEnded: false };
    expect(found({ events: FIRST, rows: [row] })).toEqual(['I13']);
  });

  test('I13 accepts the raised token of a grant that was ended by force', () => {
    const events = [event('granted', '1', 10), event('revoked', '2', 20, { leaseId: 'lease-1' })];
    const row = { resource: RESOURCE, leaseId: 'lease-1', token: '2', isEnded: true };

    expect(found({ events, rows: [row] })).toEqual([]);
  });
});
