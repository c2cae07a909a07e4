import { expect, test } from 'vitest';
import { ApiError } from '~/lib/api/api.ts';
import { heldKeyForTest } from '~/resources/grant-for-test.ts';
import type { GrantView } from '~/resources/grant-view.ts';
import { moveConsequences, moveFailure, reservationFailure } from './reservation-dialogs.tsx';

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

const refused = (code: string, details: Record<string, unknown> = {}) =>
  reservationFailure(
    new ApiError('Refused.', { code, isRetryable: true, incidentId: 'i-1', details }),
  );

test('a refusal keeps the controller’s message and adds what to do', () => {
  expect(refused('reservation.key_held', { holder: 'drone-1', remainingMs: 12_000 })).toMatchObject(
    {
      code: 'reservation.key_held',
      incidentId: 'i-1',
      message: expect.stringMatching(
        /^Refused\. drone-1 holds it for 12 s more.* Revoke it/u,
      ) as string,
    },
  );
  expect(refused('reservation.moved_meanwhile', { datacenter: 'dc3' })?.message).toContain(
    'Its home is dc3 now.',
  );
  expect(refused('reservation.unknown_datacenter', { known: ['dc1', 'dc2'] })?.message).toContain(
    'dc1, dc2',
  );
});

test('a failure without known advice keeps its message', () => {
  expect(refused('auth.forbidden')?.message).toBe('Refused.');
  expect(reservationFailure(null)).toBeNull();
});

test('a move whose revoke failed says that it stays requested', () => {
  const failed = refused('grant.hold_off');
  const revoke = refused('request.outcome_unknown');

  expect(moveFailure({ request: null, revoke })).toMatchObject({
    code: 'request.outcome_unknown',
    incidentId: 'i-1',
    message: 'The move is requested and waits. Refused.',
  });
  expect(moveFailure({ request: failed, revoke: null })?.message).toMatch(/^Refused\./u);
  expect(moveFailure({ request: null, revoke: null })).toBeNull();
});
