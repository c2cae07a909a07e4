import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import type { GatewayRevocation, GatewayTokenClaims } from '../kernel/gateway.ts';
import {
  createSigningKey,
  importGatewayKeys,
  importSigningKey,
  isGatewayTokenFor,
  isRevoked,
  signGatewayToken,
  verifyGatewayToken,
} from './gateway-tokens.ts';

const NOW_MS = 1_700_000_000_123;

const KEY = createSigningKey('k1');
const OTHER = createSigningKey('k2');

const CLAIMS: GatewayTokenClaims = {
  sub: 'ada',
  ns: 'team.a',
  key: 'doc',
  tag: '',
  claims: { name: 'Ada' },
  iat: NOW_MS / 1_000,
  exp: (NOW_MS + 60_000) / 1_000,
  jti: 'j1',
};

const signed = async (claims: GatewayTokenClaims = CLAIMS, key = KEY): Promise<string> =>
  signGatewayToken(claims, await importSigningKey(key));

async function outcomeOf(token: string, nowMs = NOW_MS, known = [KEY]): Promise<string> {
  const verified = await verifyGatewayToken(token, { keys: await importGatewayKeys(known), nowMs });
  return verified.outcome === 'valid' ? 'valid' : verified.reason;
}

const encoded = (value: unknown): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url');
const partsOf = (token: string): string[] => token.split('.');

test('a token says what was signed', async () => {
  const keys = await importGatewayKeys([OTHER, KEY]);

  expect(await verifyGatewayToken(await signed(), { keys, nowMs: NOW_MS })).toEqual({
    outcome: 'valid',
    claims: CLAIMS,
  });
});

test('a token is over at its very millisecond, and not one before it', async () => {
  const token = await signed();

  expect(await outcomeOf(token, NOW_MS + 59_999)).toBe('valid');
  expect(await outcomeOf(token, NOW_MS + 60_000)).toBe('expired');
  expect(await outcomeOf(token, NOW_MS + 60_001)).toBe('expired');
});

test('a token of a key that is not known is refused, and one that names the id of another too', async () => {
  expect(await outcomeOf(await signed(CLAIMS, OTHER))).toBe('unknown_key');
  expect(await outcomeOf(await signed(CLAIMS, { ...OTHER, kid: KEY.kid }))).toBe('forged');
});

test('a token whose content was changed is refused', async () => {
  const [head, , signature] = partsOf(await signed());
  const changed = encoded({ ...CLAIMS, sub: 'eve' });

  expect(await outcomeOf([head, changed, signature].join('.'))).toBe('forged');
});

test.each([
  ['none', { alg: 'none', kid: 'k1' }, ''],
  ['none, with a signature', { alg: 'none', kid: 'k1' }, 'AAAA'],
  ['a critical extension', { alg: 'EdDSA', kid: 'k1', crit: ['b64'], b64: false }, 'AAAA'],
  ['no key', { alg: 'EdDSA' }, 'AAAA'],
  ['a key that is no text', { alg: 'EdDSA', kid: { k: 1 } }, 'AAAA'],
])('a token with %s in its header is refused', async (_what, header, signature) => {
  expect(await outcomeOf(`${encoded(header)}.${encoded(CLAIMS)}.${signature}`)).not.toBe('valid');
});

test('the public key is no secret of HS256', async () => {
  const said = `${encoded({ alg: 'HS256', kid: KEY.kid })}.${encoded(CLAIMS)}`;
  for (const secret of [KEY.x, Buffer.from(KEY.x, 'base64url')]) {
    const signature = createHmac('sha256', secret).update(said).digest('base64url');

    expect(await outcomeOf(`${said}.${signature}`)).toBe('malformed');
  }
});

test('a signature over the same text by a header with another algorithm is refused', async () => {
  const [, payload, signature] = partsOf(await signed());

  expect(
    await outcomeOf([encoded({ alg: 'ES256', kid: 'k1' }), payload, signature].join('.')),
  ).toBe('malformed');
});

test.each(['', '.', '..', 'a.b.c', 'x'.repeat(100_000), '\0', 'ey.ey.ey', '💥.💥.💥'])(
  'a text that is no token is refused, and nothing is thrown',
  async (text) => {
    expect(await outcomeOf(text)).toBe('malformed');
  },
);

test.each([
  ['no user', { ...CLAIMS, sub: undefined }],
  ['an end that is a text', { ...CLAIMS, exp: 'never' }],
  ['no end', { ...CLAIMS, exp: undefined }],
  ['a list', []],
  ['null', null],
])(
  'a signed token with %s is refused: no controller of this version has made it',
  async (_what, payload) => {
    // Signed as it is.
    const token = await signed(payload as unknown as GatewayTokenClaims);

    expect(await outcomeOf(token)).toBe('malformed');
  },
);

test('a token is for one key', () => {
  expect(isGatewayTokenFor(CLAIMS, { namespace: 'team.a', name: 'doc' })).toBe(true);
  expect(isGatewayTokenFor(CLAIMS, { namespace: 'team', name: 'doc' })).toBe(false);
  expect(isGatewayTokenFor(CLAIMS, { namespace: 'team.a', name: 'doc2' })).toBe(false);
});

const REVOCATION: GatewayRevocation = {
  id: 'r1',
  namespace: '',
  name: null,
  user: 'ada',
  leaseId: null,
  at: NOW_MS,
};

test.each<[string, Partial<GatewayRevocation>, boolean]>([
  ['its user', {}, true],
  ['another user', { user: 'ad' }, false],
  ['its key', { user: null, name: 'doc', namespace: 'team.a' }, true],
  ['another key', { user: null, name: 'doc2', namespace: 'team.a' }, false],
  ['a key of the same name in the root', { user: null, name: 'doc' }, false],
  ['a key of the same name in a parent', { user: null, name: 'doc', namespace: 'team' }, false],
  ['its user, of its key', { name: 'doc', namespace: 'team.a' }, true],
  ['its user, of a key of the same name in the root', { name: 'doc' }, false],
  ['its user in a parent of its namespace', { namespace: 'team' }, true],
  ['its user in a namespace that is named alike', { namespace: 'tea' }, false],
  ['its user in a child of its namespace', { namespace: 'team.a.b' }, false],
  ['its user, of another key', { name: 'doc2', namespace: 'team.a' }, false],
  ['its grant', { user: null, leaseId: 'l1' }, true],
  ['another grant', { user: null, leaseId: 'l2' }, false],
  ['a moment before it was issued', { at: NOW_MS - 1 }, false],
  ['a later moment', { at: NOW_MS + 1 }, true],
])('a revocation of %s', (_what, change, isRefused) => {
  expect(isRevoked({ ...CLAIMS, grant: 'l1' }, { ...REVOCATION, ...change })).toBe(isRefused);
});

test('a revocation of a grant leaves tokens that are for no grant', () => {
  expect(isRevoked(CLAIMS, { ...REVOCATION, user: null, leaseId: 'l1' })).toBe(false);
});
