import { expect, test } from 'vitest';
import type { ContentionView } from '@leasehold/keys-core/leases';
import { chainsOf, linesOf } from './waits-tab.tsx';

const SINCE = '2026-11-21T12:00:00.000Z';

const waiting = (
  name: string,
  waiter: string,
  place: number,
  face: ContentionView['face'] = 'lease',
  waitsFor?: string,
): ContentionView => ({
  face,
  namespace: 'n',
  name,
  waiter,
  since: SINCE,
  waitedMs: 1,
  place,
  mode: null,
  action: null,
  together: null,
  holders: [
    {
      holder: `${name}-holder`,
      mode: null,
      since: SINCE,
      remainingMs: 1,
      waitsFor:
        waitsFor === undefined
          ? null
          : { face: 'lease', namespace: 'n', name: waitsFor, since: SINCE },
    },
  ],
  holderCount: 1,
  permits: null,
  totalUsed: null,
  datacenter: 'fra',
});

test('waiters are grouped by resource; the longest wait comes first', () => {
  const lines = linesOf([waiting('b', 'w1', 1), waiting('a', 'w2', 1), waiting('b', 'w3', 2)]);

  expect(lines.map(({ name, waiters }) => [name, waiters.map(({ waiter }) => waiter)])).toEqual([
    ['b', ['w1', 'w3']],
    ['a', ['w2']],
  ]);
  expect(lines[0]).toMatchObject({ holders: [{ holder: 'b-holder' }], before: 0 });
});

test('a key and a lease of the same name have a line each', () => {
  const lines = linesOf([waiting('a', 'w1', 1), waiting('a', 'w2', 1, 'key')]);

  expect(lines.map(({ face, waiters }) => [face, waiters.length])).toEqual([
    ['lease', 1],
    ['key', 1],
  ]);
});

test('a line that began on the previous page says how many waiters came before', () => {
  expect(linesOf([waiting('b', 'w', 201)])).toMatchObject([{ before: 200 }]);
});

test('a chain goes from holder to holder, to what is on no line of the page, and says that it is a circle', () => {
  const lines = linesOf([
    waiting('a', 'w1', 1, 'lease', 'b'),
    waiting('b', 'a-holder', 1, 'lease', 'elsewhere'),
    waiting('x', 'w2', 1, 'lease', 'y'),
    waiting('y', 'x-holder', 1, 'lease', 'x'),
    waiting('free', 'w3', 1),
  ]);
  const chains = lines.map((line) =>
    chainsOf(line, lines).map((hops) =>
      hops.map(({ who, wants, isCircle }) => `${who} ${wants.name}${isCircle ? '!' : ''}`),
    ),
  );

  expect(chains).toEqual([
    [['a-holder b', 'b-holder elsewhere']],
    [['b-holder elsewhere']],
    [['x-holder y', 'y-holder x!']],
    [['y-holder x', 'x-holder y!']],
    [],
  ]);
});
