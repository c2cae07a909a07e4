import { expect, test } from 'vitest';
import { subjectOf } from './oidc-claims.ts';

const OIDC = { issuer: 'https://id.example.com', clientId: 'leasehold' };
const CLAIMS = { iss: OIDC.issuer, sub: 'ada', aud: OIDC.clientId, nonce: 'n' };

/** A token whose signature was checked before. */
function tokenWith(claims: Record<string, unknown>): string {
  const part = Buffer.from(JSON.stringify({ ...CLAIMS, ...claims })).toString('base64url');
  return `e30.${part}.signature`;
}

test.each([
  {},
  { iss: `${OIDC.issuer}/` },
  { aud: [OIDC.clientId] },
  { azp: OIDC.clientId },
  { aud: [OIDC.clientId, 'another'], azp: OIDC.clientId },
])('an id_token that is for us names its subject: %j', (claims) => {
  expect(subjectOf(tokenWith(claims), OIDC)).toBe('ada');
});

test.each([
  { iss: 'https://id.example.com.evil.example' },
  { iss: undefined },
  { iss: 'https://other.example.com' },
  { azp: 'another' },
  { azp: null },
  { aud: [OIDC.clientId, 'another'] },
  { nonce: undefined },
  { sub: undefined },
  { sub: '' },
  { sub: 7 },
])('any other is refused: %j', (claims) => {
  expect(() => subjectOf(tokenWith(claims), OIDC)).toThrow('The id_token');
});

test.each([undefined, '', 'opaque', 'a.b.c'])('so is a text that is no token: %j', (token) => {
  expect(() => subjectOf(token, OIDC)).toThrow(/id_token/u);
});
