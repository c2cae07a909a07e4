import { describeError, errorBody, type AppRouter } from '@leasehold/api';
import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { createTRPCClient, httpLink } from '@trpc/client';
import { describe, expect, test } from 'vitest';
import { peerFailure, type PeerFailure } from './peer-client.ts';

/** The failure of a call that dc2 answers with this code before any procedure has seen it. */
async function failureOf(
  code: ErrorCode,
  details: Readonly<Record<string, unknown>> = {},
): Promise<PeerFailure> {
  const answer = describeError(new LeaseError(code, undefined, { details }));
  const api = createTRPCClient<AppRouter>({
    links: [
      httpLink({
        url: 'http://192.0.2.1/trpc',
        fetch: () =>
          Promise.resolve(Response.json(errorBody(answer), { status: answer.httpStatus })),
      }),
    ],
  });
  const thrown: unknown = await api.peer.ping.query().catch((error: unknown) => error);
  return peerFailure(thrown, { datacenter: 'dc2', isRepeatable: false });
}

describe('what another datacenter answers', () => {
  test.each([
    'store.unavailable',
    'grant.hold_off',
    'request.rate_limited',
    'request.deadline',
    'reservation.store_unreachable',
  ] as const)('%s is reported as a state of that datacenter, which is reachable', async (code) => {
    expect(await failureOf(code)).toMatchObject({
      kind: 'answered',
      error: { code, details: { datacenter: 'dc2' } },
    });
  });

  test('about a third one is reported with the name of the third one', async () => {
    expect(
      await failureOf('reservation.datacenter_unreachable', { datacenter: 'dc3' }),
    ).toMatchObject({ kind: 'answered', error: { details: { datacenter: 'dc3' } } });
  });

  test('about the request alone is reported unchanged', async () => {
    const { error } = await failureOf('request.invalid', { field: 'key' });

    expect(error).toMatchObject({ code: 'request.invalid', details: { field: 'key' } });
    expect(error.details).not.toHaveProperty('datacenter');
  });

  test.each(['auth.required', 'peer.refused'] as const)(
    '%s shows that it refuses this one',
    async (code) => {
      expect(await failureOf(code)).toMatchObject({
        kind: 'refused',
        error: { code: 'peer.refused', details: { datacenter: 'dc2' } },
      });
    },
  );
});
