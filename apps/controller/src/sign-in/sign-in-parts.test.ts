import { expect, test } from 'vitest';
import { createPasswordGate } from './sign-in-parts.ts';

test('two passwords are checked at a time, the others in turn, and too many are refused', async () => {
  const atGate = createPasswordGate();
  const begun: number[] = [];
  const finish: (() => void)[] = [];
  const work = (i: number): Promise<number> =>
    atGate(async () => {
      begun.push(i);
      await new Promise<void>((resolve) => finish.push(resolve));
      return i;
    });

  const all = Array.from({ length: 34 }, (_, i) => work(i));
  await expect(work(34)).rejects.toMatchObject({ code: 'request.rate_limited' });
  expect(begun).toEqual([0, 1]);

  while (finish.length > 0) {
    finish.shift()?.();
    await new Promise(setImmediate);
  }

  expect(await Promise.all(all)).toEqual(begun);
});

test('a check that fails gives its place to the next', async () => {
  const atGate = createPasswordGate();
  const failures = Array.from({ length: 5 }, () =>
    atGate(() => Promise.reject(new Error('wrong'))).catch((error: unknown) => error),
  );

  await Promise.all(failures);

  expect(await atGate(() => Promise.resolve('right'))).toBe('right');
});
