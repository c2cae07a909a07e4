import { expect, test } from 'vitest';
import { heldKeyForTest } from '~/resources/grant-for-test.ts';
import type { GrantView } from '~/resources/grant-view.ts';
import { moveConsequences } from './move-consequences.ts';

const NOW_MS = Date.parse('2026-11-21T14:00:20.000Z');
const HELD = heldKeyForTest();

const of = (grant: GrantView | null | undefined) =>
  moveConsequences({ from: 'dc1', to: 'dc2', grant }, NOW_MS);

test('a free key is sealed and taken over at once', () => {
  const { holder, steps } = of(null);

  expect(holder).toBe('Nobody holds it.');
  expect(steps[0]).toContain('dc1 seals it');
  expect(steps[1]).toContain('dc2 takes it over');
});

test('a held key says who holds it, that it is revoked first, and how long that can take', () => {
  const { holder, steps, worstCase } = of(HELD);

  expect(holder).toContain('Drone drone-1 holds it');
  expect(holder).toContain('revoked first');
  expect(steps.join(' ')).toMatch(/SIGTERM now.*dc1 seals it/u);
  expect(worstCase).toContain('within 50 s at worst');
});

test('a key that is held back after a forced revoke moves when that is over', () => {
  const { holder, worstCase } = of({
    ...HELD,
    phase: 'expiring',
    endReason: 'revoked',
    stopsBy: '2026-11-21T14:00:50.000Z',
  });

  expect(holder).toContain('held back');
  expect(worstCase).toContain('within 30 s at worst');
});
