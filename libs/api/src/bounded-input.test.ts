import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PROCEDURES } from './app-router.ts';
import { bounded } from './bounded-input.ts';

const longList = z
  .strictObject({
    name: z.string(),
    items: z
      .array(z.strictObject({ n: z.string().transform(Number) }))
      .max(9_000)
      .refine((all) => new Set(all.map(({ n }) => n)).size === all.length, 'once'),
  })
  .refine(({ name }) => name !== '', { path: ['name'] });

/** An object with many fields, and a count of those that were read. */
function counted(fields: object): { value: unknown; read: () => number } {
  let count = 0;
  const value = new Proxy(fields, {
    get: (of, name) => {
      count += 1;
      return Reflect.get(of, name) as unknown;
    },
  });
  return { value, read: () => count };
}

const many = <T>(count: number, make: (nth: number) => T): T[] =>
  Array.from({ length: count }, (_, nth) => make(nth));

describe('an input is refused at the first thing that makes it too large', () => {
  const schema = z.strictObject({
    name: z.string().optional(),
    inner: z.strictObject({ items: z.array(z.string()).max(3).default([]) }).optional(),
  });

  test('unknown fields: the first is named, and no field is read', () => {
    const unknown = counted(Object.fromEntries(many(1_000, (nth) => [`x${String(nth)}`, nth])));

    expect(issuesOf(schema, unknown.value)).toMatchObject([
      { code: 'unrecognized_keys', keys: ['x0'] },
    ]);
    expect(unknown.read()).toBe(0);
  });

  test('unknown fields further inside', () => {
    expect(issuesOf(schema, { inner: { items: [], x: 1, y: 2 } })).toMatchObject([
      { code: 'unrecognized_keys', keys: ['x'], path: ['inner'] },
    ]);
  });

  test('a list that is too long: no item is read', () => {
    const items = counted(many(100_000, () => 1));

    expect(issuesOf(schema, { inner: { items: items.value } })).toMatchObject([
      { code: 'too_big', path: ['inner', 'items'] },
    ]);
    expect(items.read()).toBeLessThan(10);
  });

  test('a thousand wrong items: the first few are named', () => {
    const list = z.array(z.string()).max(1_000);

    expect(
      issuesOf(
        list,
        many(1_000, () => 1),
      ),
    ).toHaveLength(10);
  });

  test('a list of thousands is checked in parts, and others are served in between', async () => {
    const items = many(5_000, (nth) => ({ n: String(nth) }));
    let turns = 0;
    let ticker = setImmediate(function count() {
      turns += 1;
      ticker = setImmediate(count);
    });

    const parsed = await bounded(longList).parse({ name: 'x', items });
    clearImmediate(ticker);

    expect(parsed).toEqual({ name: 'x', items: items.map(({ n }) => ({ n: Number(n) })) });
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test.each([
    ['an item', (items: object[]) => items.with(4_321, { n: 1 }), ['items', 4_321, 'n']],
    ['the list', (items: object[]) => items.with(1, { n: '2' }), ['items']],
  ])('a list of thousands has its problems where they are: %s', async (_what, change, path) => {
    const items = change(many(5_000, (nth) => ({ n: String(nth) })));

    const failure = (await Promise.resolve(bounded(longList).parse({ name: 'x', items })).catch(
      (error: unknown) => error,
    )) as z.ZodError;

    expect(failure.issues).toMatchObject([{ path }]);
  });

  test('what is right passes, with its defaults', () => {
    expect(bounded(schema).parse({ inner: {} })).toEqual({ inner: { items: [] } });
  });
});

test.each([...PROCEDURES].filter(([, { inputs }]) => inputs.length > 0))(
  '%s refuses a thousand unknown fields at the first',
  (_path, { inputs: [schema] }) => {
    const fields = Object.fromEntries(many(1_000, (nth) => [`x${String(nth)}`, nth]));

    // Also: each list in it has a bound, or this throws before.
    const issues = issuesOf(schema as z.ZodType, fields);

    expect(issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['x0'] }]);
  },
);

function issuesOf(schema: z.ZodType, value: unknown): readonly unknown[] {
  try {
    void bounded(schema).parse(value);
    return [];
  } catch (error) {
    return (error as z.ZodError).issues;
  }
}
