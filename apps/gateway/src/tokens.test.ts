import type { GatewayRevocation, GatewayTokenClaims } from '@leasehold/keys-core';
import { createSigningKey } from '@leasehold/keys-core/gateway-tokens';
import { expect, test } from 'vitest';
import { Tokens, VerifiedToken } from './tokens.ts';

const NOW_MS = 1_000_000;
const CLAIMS: GatewayTokenClaims = {
  ...{ sub: 'anna', ns: 'team.eu', key: 'room', tag: '', jti: 'one' },
  ...{ iat: NOW_MS / 1_000 - 60, exp: NOW_MS / 1_000 + 60 },
};
const NAMING_NOTHING = {
  id: 'r',
  namespace: '',
  name: null,
  user: null,
  leaseId: null,
  at: NOW_MS,
};

/** Why a token is refused while these revocations are in force. */
async function problemOf(
  revocations: readonly GatewayRevocation[],
  claims: Partial<GatewayTokenClaims> = {},
): Promise<string | undefined> {
  const { kid, x } = createSigningKey('gk-1');
  const tokens = new Tokens({ nowMs: () => NOW_MS }, () => undefined);
  const keys = [{ kid, x }];
  await tokens.learn({ keys, revocations: [...revocations], revision: 'r1', asOf: NOW_MS }, NOW_MS);
  return tokens.problemOf(new VerifiedToken('text', kid, { ...CLAIMS, ...claims }));
}

const grant = 'a0000000-0000-4000-8000-000000000000';

test.each([
  ['its user', { user: 'anna' }],
  ['its user in its namespace', { user: 'anna', namespace: 'team' }],
  ['its key', { namespace: 'team.eu', name: 'room' }],
  ['its grant', { leaseId: grant }],
  ['its user and its key', { user: 'anna', namespace: 'team.eu', name: 'room' }],
  ['its user and its grant', { user: 'anna', leaseId: grant }],
  ['all of these', { user: 'anna', namespace: 'team.eu', name: 'room', leaseId: grant }],
])('a token is revoked by what names %s', async (_what, named) => {
  expect(await problemOf([{ ...NAMING_NOTHING, ...named }], { grant })).toBe(
    'gateway.token_revoked',
  );
});

test.each([
  ['another user', { user: 'ben' }],
  ['its user in another namespace', { user: 'anna', namespace: 'other' }],
  ['a key of its name in another namespace', { namespace: 'team', name: 'room' }],
  ['a grant, which it does not', { leaseId: grant }],
  ['its key and another user', { user: 'ben', namespace: 'team.eu', name: 'room' }],
  ['its user and another key', { user: 'anna', namespace: 'team.eu', name: 'other' }],
])('a token is not revoked by what names %s', async (_what, named) => {
  expect(await problemOf([{ ...NAMING_NOTHING, ...named }])).toBeUndefined();
});

test('a token is not compared with the revocations of others, however many there are', async () => {
  let compared = 0;
  const others = Array.from({ length: 1_000 }, (_other, at) => ({
    ...NAMING_NOTHING,
    ...[{ user: `u${String(at)}` }, { name: `k${String(at)}`, user: 'anna' }][at % 2],
    get at() {
      compared += 1;
      return NOW_MS;
    },
  }));
  const own = { ...NAMING_NOTHING, user: 'anna' };
  expect(await problemOf([...others, own])).toBe('gateway.token_revoked');
  expect(compared).toBe(0);
});
