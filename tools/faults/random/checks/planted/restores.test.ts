import { describe, expect, test } from 'vitest';
import type { LostDatabase } from '../../history.ts';
import {
  acquired,
  event,
  found,
  hold,
  notRenewed,
  refused,
  released,
  renewed,
  RESOURCE,
} from './fixture.ts';

const FIRST = [event('granted', '1', 10), event('released', '1', 50)];
const LOST = event('granted', '2', 120);
/** Of the restored database: its event has the number of one that was lost. */
const AFTER = event('granted', '3', 4_000, { id: 120 });

/** A backup of 100 ms, a restore at 1 s: what was recorded in between is lost. */
const DATABASE: LostDatabase = {
  events: [...FIRST, LOST],
  sink: [],
  streams: [],
  backupFromMs: 100,
  endsFromMs: 1_000,
  endedAtMs: 1_010,
};
const lost = [DATABASE];
const BEFORE = [acquired('1', [5, 12]), released('1', [45, 60])];

describe('the judge of a run whose database was put back to an earlier state', () => {
  test('accepts that what was acknowledged after the backup is lost, and starts over after a hold-off', () => {
    const operations = [
      ...BEFORE,
      acquired('2', [115, 130], 1_200),
      renewed('2', [990, 1_500]),
      notRenewed('2', [2_000, 2_010]),
      acquired('3', [3_900, 4_010]),
      refused('3', [4_020, 4_030]),
    ];

    expect(found({ lost, events: [...FIRST, AFTER], operations })).toEqual([]);
  });

  test('I2 finds a token that somebody had seen in the lost part', () => {
    const again = event('granted', '2', 4_000, { leaseId: 'other', holder: 'x', id: 120 });

    expect(found({ lost, events: [...FIRST, again] })).toEqual(['I2']);
  });

  test('I1 finds a grant while a holder may still act on a grant that was lost', () => {
    const events = [...FIRST, AFTER];

    expect(found({ lost, events, operations: [acquired('2', [115, 130], 4_500)] })).toEqual(['I1']);
    expect(found({ lost, events, holds: [hold('2', 130, 4_500, {})] })).toEqual(['I1']);
    const ended = [{ ...DATABASE, events: [...FIRST, LOST, event('released', '2', 200)] }];
    const given = [acquired('2', [115, 130], 4_500), released('2', [190, 210])];
    expect(found({ lost: ended, events, operations: given })).toEqual([]);
  });

  test('I6 finds a renewal of a grant that was lost', () => {
    const operations = [acquired('2', [115, 130], 1_200), renewed('2', [2_000, 2_010])];

    expect(found({ lost, events: [...FIRST, AFTER], operations })).toContain('I6');
  });

  test('I13 and I3 find what was acknowledged before the backup and is not in it', () => {
    const write = { entry: '1:x', token: '1', outcome: 'accepted' } as const;
    const writes = [{ ...write, begunAtMs: 20, knownAtMs: 30 }];
    const full = [{ ...DATABASE, sink: ['1:x'] }];

    expect(found({ lost, events: [AFTER], operations: BEFORE })).toContain('I13');
    expect(found({ lost: full, events: FIRST, writes })).toEqual(['I3']);
    expect(found({ lost: full, events: FIRST, writes, sink: ['1:x'] })).toEqual([]);
    const late = [{ ...write, begunAtMs: 200, knownAtMs: 210 }];
    expect(found({ lost: full, events: FIRST, writes: late })).toEqual([]);
  });

  test('I13 finds what was acknowledged before the restore and was never recorded, or after it', () => {
    const events = [...FIRST, AFTER];

    expect(found({ lost, events, operations: [acquired('7', [200, 210])] })).toContain('I13');
    expect(found({ lost, events, operations: [acquired('7', [2_000, 2_010])] })).toContain('I13');
    expect(found({ lost, events, operations: [acquired('7', [900, 2_010])] })).toContain('I13');
  });

  test('linear finds a refusal of after the restore by a holder whom it has forgotten', () => {
    const operations = [acquired('2', [115, 130], 1_200), acquired('3', [3_900, 4_010])];
    const events = [...FIRST, AFTER, event('released', '3', 4_100)];
    const given = [...operations, released('3', [4_090, 4_110])];

    expect(found({ lost, events, operations: [...given, refused('3', [4_200, 4_210])] })).toEqual([
      'linear',
    ]);
  });

  test('I1, I9 and I12 are judged in each database by itself', () => {
    const beside = event('granted', '4', 4_100, { id: 130 });
    const stream = { reader: 'r', ids: [10], fromId: 10, throughId: 50 };
    const ticket = { resource: RESOURCE, id: 1, ticketId: 'ticket-1' };
    const seen = (atMs: number) => ({
      ...ticket,
      seenAtMs: atMs,
      seenByMs: atMs + 20,
      validUntilMs: atMs + 500,
    });

    expect(found({ lost, events: [...FIRST, AFTER, beside] })).toEqual(['I1']);
    expect(found({ lost: [{ ...DATABASE, streams: [stream] }], events: FIRST })).toEqual(['I12']);
    const tickets = [seen(3_600), seen(4_100)];
    expect(found({ lost, events: [...FIRST, AFTER], tickets })).toEqual(['I9']);
    expect(found({ lost, events: [...FIRST, AFTER], tickets: [seen(900), seen(4_100)] })).toEqual(
      [],
    );
  });
});
