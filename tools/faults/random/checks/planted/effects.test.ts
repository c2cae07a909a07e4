import { describe, expect, test } from 'vitest';
import type { Connect, TicketSeen } from '../../history.ts';
import type { TestimonyLine } from '../../../stage/testimony.ts';
import { cancelled, event, fault, found, hold, RESOURCE, revoked } from './fixture.ts';

describe('the judge of a fenced sink', () => {
  const times = { begunAtMs: 10, knownAtMs: 20 };
  const write = { entry: '2:x', token: '2', outcome: 'accepted', ...times } as const;

  test('I3 finds a smaller token that was accepted later', () => {
    expect(found({ sink: ['1:a', '3:b', '2:c'] })).toEqual(['I3']);
    expect(found({ sink: ['1:a', '2:x', '2:y'], writes: [write] })).toEqual([]);
  });

  test('I3 finds a write that was acknowledged and is gone, and one that was refused and is there', () => {
    expect(found({ sink: ['1:a'], writes: [write] })).toEqual(['I3']);
    expect(found({ sink: ['2:x'], writes: [{ ...write, outcome: 'refused' }] })).toEqual(['I3']);
    expect(found({ sink: ['1:a'], writes: [{ ...write, outcome: 'unknown' }] })).toEqual([]);
  });
});

describe('the judge of signals', () => {
  test('I4 finds a signal after the holder’s own deadline, unless the process had no turn', () => {
    expect(found({ holds: [hold('1', 10, 2_000, { lateMs: 300 })] })).toEqual(['I4']);
    expect(found({ holds: [hold('1', 10, 2_000, { lateMs: 300, stallMs: 400 })] })).toEqual([]);
  });

  test('I15 finds a connected holder that was told of a revoke too late', () => {
    const operations = [revoked('1', [100, 110])];
    const late = hold('1', 10, 1_500, {});

    expect(found({ operations, holds: [late] })).toEqual(['I15']);
    expect(found({ operations, holds: [{ ...late, untilMs: 900 }] })).toEqual([]);
    expect(found({ operations, holds: [late], faults: [fault(50, 300)] })).toEqual([]);
  });
});

describe('the judge of the queue', () => {
  const ticket = (id: number, seenAtMs: number): TicketSeen => {
    const place = { resource: RESOURCE, id, ticketId: `ticket-${String(id)}` };
    return { ...place, seenAtMs, seenByMs: seenAtMs + 20, validUntilMs: seenAtMs + 900 };
  };

  test('I9 finds a grant over an earlier ticket that was valid all the time', () => {
    const events = [event('granted', '1', 600)];
    const tickets = [ticket(1, 100), ticket(1, 700)];

    expect(found({ events, tickets })).toEqual(['I9']);
    expect(found({ events, tickets: tickets.slice(0, 1) })).toEqual([]);
    const own = event('granted', '1', 600, { leaseId: 'ticket-1' });
    expect(found({ events: [own], tickets })).toEqual([]);
    const lapsed = { ...ticket(1, 100), validUntilMs: 150 };
    expect(found({ events, tickets: [lapsed, ticket(1, 700)] })).toEqual([]);
    const steps = [{ fromMs: 200, untilMs: 260 }];
    expect(found({ events, tickets, steps })).toEqual([]);
    const again = { ...ticket(3, 650), ticketId: 'ticket-0' };
    const first = { ...ticket(0, 100), ticketId: 'ticket-0' };
    const turn = event('granted', '1', 600, { leaseId: 'ticket-0' });
    expect(found({ events: [turn], tickets: [...tickets, first, again] })).toEqual([]);
  });

  test('I9 finds a request that was granted after it was given up, and one that was left granted', () => {
    const operations = [cancelled('1', [50, 60])];

    expect(found({ operations, events: [event('granted', '1', 200)] })).toEqual(['I9']);
    expect(found({ operations, events: [event('granted', '1', 20)] })).toEqual(['I9']);
    const events = [event('granted', '1', 20), event('released', '1', 55)];
    expect(found({ operations, events })).toEqual([]);
  });

  test('I10 finds a lease that stays free while somebody waits, outside of faults', () => {
    const idle = [{ resource: RESOURCE, sinceMs: 1_000, untilMs: 3_000 }];

    expect(found({ idle })).toEqual(['I10']);
    expect(found({ idle, faults: [fault(500, 1_800)] })).toEqual([]);
  });
});

describe('the judge of the event stream', () => {
  const events = [event('granted', '1', 10), event('released', '1', 20)];
  const stream = { reader: 'r', fromId: 0, throughId: 30 };

  test('I12 finds a missing, a repeated, a late and an invented event', () => {
    const idsOf = (...ids: number[]) => found({ events, streams: [{ ...stream, ids }] });

    expect(idsOf(10, 20)).toEqual([]);
    expect(idsOf(20)).toEqual(['I12']);
    expect(idsOf(10, 10, 20)).toEqual(['I12']);
    expect(idsOf(20, 10)).toEqual(['I12']);
    expect(idsOf(10, 15, 20)).toEqual(['I12']);
  });
});

describe('the judge of homes', () => {
  const connect = (datacenter: string): Connect => ({
    id: 'c',
    process: 'p',
    resource: 'k',
    calledAtMs: 1,
    repliedAtMs: 2,
    kind: 'connect',
    answer: { outcome: 'connected', backendId: 'b', leaseId: 'lease-1', token: '1', datacenter },
  });
  const events = [event('granted', '1', 1)];

  test('I14 finds a key with two homes, and a caller that was led elsewhere', () => {
    const home = { key: 'k', datacenter: 'dc1' };

    expect(found({ homes: [home, { ...home, datacenter: 'dc2' }] })).toEqual(['I14']);
    expect(found({ events, homes: [home], operations: [connect('dc2')] })).toEqual(['I14']);
    expect(found({ events, homes: [home], operations: [connect('dc1')] })).toEqual([]);
  });
});

describe('the judge of backends', () => {
  const line = (backend: string, token: string, atMs: number): TestimonyLine => {
    return { kind: 'beat', key: 'k', token, backend, pid: '1', atMs };
  };

  test('I1 finds two backends that lived at once, unless the older one has just been woken', () => {
    const testimony = [line('a', '1', 10), line('b', '2', 2_000), line('a', '1', 2_900)];
    const faults = [fault(15, 2_910, { name: 'F8' })];

    expect(found({ testimony })).toEqual(['I1']);
    expect(found({ testimony, faults })).toEqual([]);
    expect(found({ testimony: [...testimony, line('a', '1', 2_100)], faults })).toEqual(['I1']);
  });

  test('I16 finds a backend that is called alive without a grant', () => {
    const bare = [{ backendId: 'a', sinceMs: 1_000, untilMs: 4_000 }];

    expect(found({ bare })).toEqual(['I16']);
    expect(found({ bare, faults: [fault(500, 2_500)] })).toEqual([]);
  });
});

describe('the judge of recoveries', () => {
  test('finds a fault that took too long, counted from the end of the last one that was in the way', () => {
    const slow = fault(1_000, 2_000, { recoveredAtMs: 9_000 });

    expect(found({ faults: [slow] })).toEqual(['recovery']);
    const starved = [{ fromMs: 2_000, untilMs: 6_000, waitedMs: 3_000 }];
    expect(found({ faults: [slow], starved })).toEqual([]);
    expect(found({ faults: [slow, fault(3_000, 5_000, { recoveredAtMs: 6_000 })] })).toEqual([]);
  });
  test('finds a service that ended by itself', () => {
    expect(found({ crashes: [{ process: 'sharer-0.7', atMs: 500, exit: '1' }] })).toEqual([
      'crash',
    ]);
  });
});
