import { TRPCClientError } from '@trpc/client';
import { describe, expect, test, vi } from 'vitest';
import { actFailure, ApiError, isUnanswered, sendAgain, toApiError } from './api.ts';

function refusal(code: string): ApiError {
  return new ApiError('Refused.', { code, isRetryable: false, incidentId: null });
}

const ADA = { personId: 'ada', email: 'ada@example.com', name: 'Ada', signInMethods: [] };

/** The session of a page that shows Ada, where `personId` is signed in now. */
function sessionOf(personId: string) {
  return {
    personId: ADA.personId,
    read: vi.fn(() => Promise.resolve({ person: { ...ADA, personId }, csrfToken: 'new' })),
    setCsrfToken: vi.fn<(token: string | null) => void>(),
    reload: vi.fn<() => void>(),
  };
}

describe('an act that is refused for its CSRF token', () => {
  test('is sent once more with the token of the present session', async () => {
    const session = sessionOf('ada');
    const send = vi.fn<() => Promise<string>>();
    send.mockRejectedValueOnce(refusal('auth.csrf')).mockResolvedValueOnce('done');

    await expect(sendAgain(send, session)).resolves.toBe('done');
    expect(session.setCsrfToken).toHaveBeenCalledWith('new');
    expect(session.reload).not.toHaveBeenCalled();
  });

  test('is not sent a third time', async () => {
    const session = sessionOf('ada');
    const send = vi.fn<() => Promise<string>>().mockRejectedValue(refusal('auth.csrf'));

    await expect(sendAgain(send, session)).rejects.toMatchObject({ code: 'auth.csrf' });
    expect(send).toHaveBeenCalledTimes(2);
    expect(session.read).toHaveBeenCalledTimes(1);
  });

  test('is never finished by another person: the page is loaded again', async () => {
    const session = sessionOf('ben');
    const send = vi.fn<() => Promise<string>>().mockRejectedValue(refusal('auth.csrf'));

    await expect(sendAgain(send, session)).rejects.toMatchObject({ code: 'auth.csrf' });
    expect(send).toHaveBeenCalledTimes(1);
    expect(session.setCsrfToken).not.toHaveBeenCalled();
    expect(session.reload).toHaveBeenCalledTimes(1);
  });
});

test('only a failure without an answer is blamed on the controller being away', () => {
  const isBlamed = (code: string, details: Record<string, unknown> = {}) =>
    isUnanswered({ code, details });
  for (const code of ['network', 'request.unreachable']) expect(isBlamed(code)).toBe(true);
  for (const code of ['internal', 'rate.limited']) expect(isBlamed(code)).toBe(false);
  // The console's server has lost the controller, or the controller its database.
  expect(isBlamed('request.outcome_unknown', { by: 'console' })).toBe(true);
  expect(isBlamed('request.outcome_unknown')).toBe(false);
});

test('what an act without an answer did is unknown: it is not reported as one that never arrived', () => {
  const lost = TRPCClientError.from(new TypeError('Failed to fetch'));

  expect(toApiError(lost)).toMatchObject({ code: 'network' });
  const failure = actFailure(lost);
  expect(failure).toMatchObject({ code: 'request.outcome_unknown', isRetryable: false });
  expect((failure as ApiError).message).toMatch(/unknown\. Look before you try again/u);
  for (const code of ['request.unreachable', 'grant.gone']) {
    expect(actFailure(refusal(code))).toMatchObject({ code, message: 'Refused.' });
  }
});

test('any other refusal stays what it is, and the session is not read', async () => {
  const session = sessionOf('ada');
  const send = vi.fn<() => Promise<string>>().mockRejectedValue(refusal('auth.forbidden'));

  await expect(sendAgain(send, session)).rejects.toMatchObject({ code: 'auth.forbidden' });
  expect(send).toHaveBeenCalledTimes(1);
  expect(session.read).not.toHaveBeenCalled();
});
