import { expect, test } from 'vitest';
import { removeAll, type RetentionPass } from './retention-pass.ts';

function aPass(nowMs: () => number): RetentionPass & { readonly failures: string[] } {
  const failures: string[] = [];
  return {
    clock: { nowMs },
    failures,
    onFailure: (kind, error) => failures.push(`${kind}: ${String(error)}`),
  };
}

test('a backlog is removed until a statement finds fewer rows than it may remove', async () => {
  const found = [1_000, 1_000, 7, 5];

  const total = await removeAll(
    aPass(() => 0),
    'rows',
    () => Promise.resolve(found.shift() ?? 0),
  );

  expect([total, found]).toEqual([2_007, [5]]);
});

test('a backlog that does not end is left for the next round', async () => {
  let nowMs = 0;
  const remove = (): Promise<number> => {
    nowMs += 400;
    return Promise.resolve(1_000);
  };

  expect(
    await removeAll(
      aPass(() => nowMs),
      'rows',
      remove,
    ),
  ).toBe(3_000);
});

test('a kind that cannot be removed is reported, and does not prevent the next kinds', async () => {
  const pass = aPass(() => 0);

  expect(await removeAll(pass, 'rows', () => Promise.reject(new Error('locked')))).toBe(0);
  expect(pass.failures).toEqual(['rows: Error: locked']);
});
