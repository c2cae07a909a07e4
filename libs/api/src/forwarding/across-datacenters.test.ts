import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import { askedOf } from './across-datacenters.ts';
import type { CalledContext } from './elsewhere.ts';

/** A call in dc1, where dc2 answers every request with this error. */
function contextWith(error: LeaseError): CalledContext {
  const datacenters = {
    peers: ['dc2'],
    away: () => undefined,
    call: () => Promise.reject(error),
  };
  return {
    procedure: 'keys.list',
    isForwarded: false,
    services: { datacenter: 'dc1', datacenters },
  } as unknown as CalledContext;
}

const ask = (code: ErrorCode): Promise<unknown> =>
  askedOf(contextWith(new LeaseError(code)), 'dc2', {});

test.each(['store.unavailable', 'request.deadline', 'request.rate_limited'] as const)(
  'a datacenter that answers %s is reported as unreachable',
  async (code) => {
    expect(await ask(code)).toEqual({
      outcome: 'unreachable',
      unreachable: { datacenter: 'dc2', since: null, code },
    });
  },
);

test.each(['request.invalid', 'auth.forbidden'] as const)(
  'an error that the caller has caused is passed on: %s',
  async (code) => {
    await expect(ask(code)).rejects.toMatchObject({ code });
  },
);
