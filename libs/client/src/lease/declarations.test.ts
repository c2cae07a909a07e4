import { expect, test } from 'vitest';
import { setUpLeases } from '../testing/lease-setup.ts';
import { Declarations } from './lease-faces.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;

test('a number of permits is declared once, and again before it is used a day later', async () => {
  const { clock, background, define } = setUpLeases();
  let sentCount = 0;
  const mutate = (): Promise<{ declared: number }> => {
    sentCount += 1;
    return Promise.resolve({ declared: 1 });
  };
  const machine = { clock, uuid: () => 'id', random: () => 0.5 };
  const declarations = new Declarations({
    api: { leases: { declare: { mutate } } },
    machine,
    background,
  });
  const definition = define({ permits: 2 });
  const sentAfter = async (ms: number): Promise<number> => {
    clock.jump(ms);
    await declarations.whenDeclared(definition);
    return sentCount;
  };

  expect([await sentAfter(0), await sentAfter(DAY_MS / 2)]).toEqual([1, 1]);
  expect([await sentAfter(DAY_MS / 2), await sentAfter(1)]).toEqual([2, 2]);
});
