import { describe, expect, test } from 'vitest';
import type { Hold, Nested, Wait } from './sql/waits.ts';
import { blockersOf, oppositeOrders } from './why.ts';

const WINDOW = { from: 0, asOf: 1_000 };

function hold(holder: string, beganAt: number, endedAt: number | null): Hold {
  return {
    leaseId: `${holder} ${String(beganAt)}`,
    holder,
    actor: 'ci',
    mode: null,
    beganAt,
    endedAt,
    remainingMs: null,
  };
}

function wait(beganAt: number, endedAt: number | null): Wait {
  return {
    ticketId: 't',
    waiter: 'w',
    beganAt,
    endedAt,
    outcome: endedAt === null ? null : 'granted',
  };
}

describe('who made others wait', () => {
  test('a wait counts for each who held it meanwhile, for as long as both lasted', () => {
    const holds = [hold('ann', 0, 100), hold('bob', 100, 400), hold('ann', 400, 500)];
    const waits = [wait(50, 400), wait(300, 450)];

    expect(blockersOf(holds, waits, WINDOW)).toEqual([
      { holder: 'bob', actor: 'ci', grants: 1, waitedMs: 300 + 100, longestMs: 300 },
      { holder: 'ann', actor: 'ci', grants: 2, waitedMs: 50 + 50, longestMs: 50 },
    ]);
  });

  test('what lasts counts up to now, and what began before the window from its beginning', () => {
    expect(blockersOf([hold('ann', -500, null)], [wait(-200, null)], WINDOW)).toMatchObject([
      { holder: 'ann', waitedMs: 1_000 },
    ]);
  });

  test('nobody made others wait without a wait, before one, or after one', () => {
    const holds = [hold('ann', 0, 100), hold('bob', 200, 300)];

    expect(blockersOf(holds, [], WINDOW)).toEqual([]);
    expect(blockersOf(holds, [wait(100, 200)], WINDOW)).toEqual([]);
  });

  test('nobody made itself wait by the grant that its wait became', () => {
    const own = hold('ann', 90, null);

    expect(blockersOf([own], [{ ...wait(0, 100), ticketId: own.leaseId }], WINDOW)).toEqual([]);
  });

  test('of several who held it at once each made others wait, also one that began long before', () => {
    const holds = [hold('ann', 0, null), hold('bob', 10, 20), hold('cem', 30, 40)];

    expect(
      blockersOf(holds, [wait(35, 100)], WINDOW).map(({ holder, waitedMs }) => [holder, waitedMs]),
    ).toEqual([
      ['ann', 65],
      ['cem', 5],
    ]);
  });
});

/** Grants and releases as `+a` and `-a`, by holder, in the order in which they happened. */
function history(
  ...steps: readonly (readonly [holder: string, what: string, transaction?: string])[]
): Nested[] {
  const grants: (Nested & { endId: number | null })[] = [];
  for (const [index, [holder, what, transaction = `t${String(index)}`]] of steps.entries()) {
    const name = what.slice(1);
    if (what.startsWith('+')) {
      const of = {
        face: 'lease',
        namespace: 'n',
        name,
        principal: 'p',
        holder,
        actor: 'ci',
      } as const;
      grants.push({ ...of, id: index, endId: null, transaction, at: index });
      continue;
    }
    const open = grants.find(
      (one) => one.holder === holder && one.name === name && one.endId === null,
    );
    grants[grants.indexOf(open as (typeof grants)[number])] = { ...(open as Nested), endId: index };
  }
  return grants;
}

const namesOf = (grants: readonly Nested[]): string[] =>
  oppositeOrders(grants).map(({ one, other }) => [one.name, other.name].sort().join(' '));

describe('opposite orders', () => {
  test('are found though nobody has waited, with who took which while holding the other', () => {
    const found = oppositeOrders(
      history(
        ['ann', '+a'],
        ['ann', '+b'],
        ['ann', '-b'],
        ['ann', '-a'],
        ['bob', '+b'],
        ['bob', '+a'],
      ),
    );

    const resource = (name: string) => ({ face: 'lease', namespace: 'n', name });
    expect(found).toEqual([
      {
        one: resource('a'),
        other: resource('b'),
        oneFirst: {
          times: 1,
          lastAt: '1970-01-01T00:00:00.001Z',
          by: [{ holder: 'ann', actor: 'ci' }],
        },
        otherFirst: {
          times: 1,
          lastAt: '1970-01-01T00:00:00.005Z',
          by: [{ holder: 'bob', actor: 'ci' }],
        },
      },
    ]);
  });

  test('the same order is not one, however often, nor is one lease after the other', () => {
    const nested = [['+a'], ['+b'], ['-b'], ['-a']] as const;
    const by = (holder: string) => nested.map(([what]) => [holder, what] as const);

    expect(namesOf(history(...by('ann'), ...by('bob'), ...by('ann')))).toEqual([]);
    expect(
      namesOf(
        history(
          ['ann', '+a'],
          ['ann', '+b'],
          ['bob', '+b'],
          ['ann', '-a'],
          ['bob', '-b'],
          ['bob', '+a'],
        ),
      ),
    ).toEqual([]);
  });

  test('leases of different holders, or of one transaction, are in no order', () => {
    expect(namesOf(history(['ann', '+a'], ['bob', '+b'], ['bob', '+a'], ['ann', '+b']))).toEqual([
      'a b',
    ]);
    expect(namesOf(history(['ann', '+a'], ['bob', '+b'], ['cem', '+a'], ['dan', '+b']))).toEqual(
      [],
    );
    expect(
      namesOf(
        history(['ann', '+a', 't'], ['ann', '+b', 't'], ['bob', '+b', 'u'], ['bob', '+a', 'u']),
      ),
    ).toEqual([]);
  });

  test('a holder that does many things at once shows no order', () => {
    const many = ['+c', '+d', '+e', '+f'].map((what) => ['ann', what] as const);

    expect(
      namesOf(history(...many, ['ann', '+a'], ['ann', '+b'], ['bob', '+b'], ['bob', '+a'])),
    ).toEqual([]);
  });

  test('only those of one lease are told where one is asked for', () => {
    const grants = history(
      ['ann', '+a'],
      ['ann', '+b'],
      ['bob', '+b'],
      ['bob', '+a'],
      ['cem', '+c'],
      ['cem', '+d'],
      ['dan', '+d'],
      ['dan', '+c'],
    );
    const of = (name: string) =>
      oppositeOrders(grants, { face: 'lease', namespace: 'n', name }).map(
        ({ one, other }) => one.name + other.name,
      );

    expect(namesOf(grants)).toEqual(['a b', 'c d']);
    expect([of('a'), of('d'), of('x')]).toEqual([['ab'], ['cd'], []]);
  });
});
