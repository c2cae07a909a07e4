import { describe, expect, test } from 'vitest';
import { acquired, cancelled, event, fault, found, refused, released, renewed } from './fixture.ts';

const FIRST = [event('granted', '1', 10), event('released', '1', 130)];
const HELD = [acquired('1', [5, 12]), released('1', [125, 135])];

describe('the judge of what clients observed', () => {
  test('accepts replies that some order of the requests explains', () => {
    const operations = [
      ...HELD,
      refused('1', [8, 140]),
      renewed('1', [60, 70]),
      refused('1', [127, 128]),
      released('1', [131, 160], 'already_released'),
    ];

    expect(found({ events: FIRST, operations })).toEqual([]);
  });

  test('linear finds a refusal by a holder whose release was acknowledged before', () => {
    expect(found({ events: FIRST, operations: [...HELD, refused('1', [140, 150])] })).toEqual([
      'linear',
    ]);
  });

  test('linear finds a refusal after a wait that names whose release was acknowledged before it began', () => {
    const waited = (from: number) => refused('1', [from, from + 500], 500);

    expect(found({ events: FIRST, operations: [...HELD, waited(100)] })).toEqual([]);
    expect(found({ events: FIRST, operations: [...HELD, waited(140)] })).toEqual(['linear']);
  });

  test('linear finds a release that reports an end before there was one', () => {
    const early = released('1', [60, 70], 'expired');

    expect(found({ events: FIRST, operations: [...HELD, early] })).toEqual(['linear']);
  });

  test('linear finds a grant that was acknowledged before the former one can have ended', () => {
    const events = [...FIRST, event('granted', '2', 140), event('released', '2', 150)];
    const early = acquired('2', [60, 70]);

    expect(found({ events, operations: [...HELD, early] })).toContain('linear');
  });

  test('a release whose outcome is unknown explains what comes later, and what does not', () => {
    const unknown = { ...released('1', [20, Infinity]), answer: { outcome: 'unknown' as const } };
    const begin = [acquired('1', [5, 12]), unknown];

    expect(found({ events: FIRST, operations: [...begin, refused('1', [140, 150])] })).toEqual([]);
    const events = [...FIRST, event('granted', '2', 140)];
    expect(found({ events, operations: [...begin, acquired('2', [138, 145])] })).toEqual([]);
  });

  test('a replay is explained by its first call, also a refusal that is given again', () => {
    const first = refused('1', [8, 20]);
    const again = { ...first, id: 'again', calledAtMs: 300, repliedAtMs: 310 };

    expect(found({ events: FIRST, operations: [...HELD, first, again] })).toEqual([]);
  });

  test('what was granted to a caller that fell silent may be given back, unless the caller was told', () => {
    const events = [
      event('granted', '1', 10),
      event('failed', '1', 100),
      event('granted', '2', 120),
      event('released', '2', 200),
    ];
    const promises = [{ leaseId: 'lease-1', seenAtMs: 20, expiresAtMs: 1_000 }];
    const next = [acquired('2', [110, 130]), released('2', [190, 210])];

    expect(found({ events, promises, operations: next })).toEqual([]);
    expect(found({ events, promises, operations: [acquired('1', [5, 12]), ...next] })).toEqual([
      'linear',
    ]);
  });

  test('a repeated request that is told of a grant of before its call is promised nothing', () => {
    const events = [event('granted', '1', 10), event('expired', '1', 400)];
    const told = acquired('1', [5, 12], 390);
    const late = { ...acquired('1', [500, 510], 500), id: 'late' };
    const after = { ...released('1', [450, 460], 'expired'), id: 'after' };

    expect(found({ events, operations: [told, after, late] })).toEqual([]);
    const wrong = { ...late, answer: { ...told.answer, loseAtMs: 900 } } as typeof told;
    expect(found({ events, operations: [told, after, wrong] })).toContain('linear');
  });

  test('a grant may end by its expiry, a cancel, or a step of the database clock, and not before', () => {
    const events = [
      event('granted', '1', 10),
      event('expired', '1', 1_100),
      event('taken_over', '2', 1_101),
    ];
    const taken = acquired('2', [1_050, 1_110]);
    const untold = released('1', [600, 610], 'expired');

    expect(found({ events, operations: [acquired('1', [5, 12]), taken] })).toEqual([]);
    expect(found({ events, operations: [acquired('1', [5, 12]), taken, untold] })).toEqual([
      'linear',
    ]);
    const faults = [fault(500, 500, { name: 'F7b' })];
    expect(found({ events, operations: [acquired('1', [5, 12]), taken, untold], faults })).toEqual(
      [],
    );
    const given = [event('granted', '1', 10), event('released', '1', 605)];
    const cancel = cancelled('1', [590, 608]);
    expect(found({ events: given, operations: [acquired('1', [5, 12]), cancel, untold] })).toEqual(
      [],
    );
  });
});
