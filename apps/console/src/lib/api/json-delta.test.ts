import { seed } from '@leasehold/testing/chance';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyDelta, deltaBetween } from './json-delta.ts';

const overTheWire = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

function made(before: unknown, after: unknown): unknown {
  const delta = deltaBetween(before, after);
  return delta === undefined ? before : applyDelta(before, overTheWire(delta));
}

const row = (name: string, more: object = {}) => ({
  name,
  holder: `drone-${name}`,
  leaseId: `0198c0de-0000-7000-8000-${name.padStart(12, '0')}`,
  expiresAt: '2026-01-01T00:00:00.000Z',
  ...more,
});

describe('a delta', () => {
  test('makes the later value of the earlier one, whatever both are', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (before, after) => {
        expect(JSON.stringify(made(overTheWire(before), overTheWire(after)))).toBe(
          JSON.stringify(after),
        );
      }),
      { seed: seed() },
    );
  });

  test('makes lists whose elements came, went, moved, changed and are twice there', () => {
    const name = fc.constantFrom('a', 'b', 'c', 'd');
    const rows = fc.array(fc.tuple(name, fc.nat(2)).map(([of, at]) => row(of, { at })));
    fc.assert(
      fc.property(rows, rows, (before, after) => {
        expect(JSON.stringify(made({ items: before }, { items: after }))).toBe(
          JSON.stringify({ items: after }),
        );
      }),
      { seed: seed() },
    );
  });

  test('of a list names the rows that stay by their place, and of a changed one what changed', () => {
    const before = { asOf: '1', items: ['a', 'b', 'c', 'd'].map((name) => row(name)) };
    const after = {
      asOf: '2',
      items: [row('x'), row('a'), row('b', { expiresAt: 'later' }), row('c')],
    };

    expect(deltaBetween(before, after)).toEqual({
      o: {
        asOf: { v: '2' },
        items: {
          a: [{ v: row('x') }, [0, 1], { i: 1, d: { o: { expiresAt: { v: 'later' } } } }, [2, 1]],
        },
      },
    });
  });

  test('keeps the identity of what stays, so that it is not drawn again', () => {
    const before = { items: [row('a'), row('b')] };
    const after = made(before, { items: [row('x'), row('a'), row('b')] }) as typeof before;

    expect(after.items[1]).toBe(before.items[0]);
    expect(after.items[2]).toBe(before.items[1]);
  });

  test('does not exist between equal values', () => {
    expect(deltaBetween([row('a')], [row('a')])).toBeUndefined();
    expect(deltaBetween({ list: [] }, { list: [] })).toBeUndefined();
  });

  test('a field that is called as the prototype stays a field', () => {
    const of = (value: number): unknown => JSON.parse(`{"__proto__":{"a":${String(value)}},"b":1}`);

    expect(JSON.stringify(made(of(1), of(2)))).toBe(JSON.stringify(of(2)));
  });
});
