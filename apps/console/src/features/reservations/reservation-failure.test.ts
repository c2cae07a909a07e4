import { expect, test } from 'vitest';
import { ApiError } from '~/lib/api/api-error.ts';
import { reservationFailure } from './reservation-failure.ts';

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
