/**
 * Gateway tokens: JSON Web Tokens, signed with Ed25519. Pure, so that a gateway, which has no database, verifies
 * them with the public keys that its controller has told it.
 */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { compactVerify, importJWK, SignJWT } from 'jose';
import type { GatewayKey, GatewayRevocation, GatewayTokenClaims } from '../kernel/gateway.ts';
import { LIMITS } from '../kernel/limits.ts';
import { isWithinNamespace } from '../kernel/resource.ts';

/** The only algorithm. A token that names another one is refused, whatever its key is. */
const ALGORITHM = 'EdDSA';

/** An imported key, as `jose` makes it. */
type ImportedKey = Awaited<ReturnType<typeof importJWK>>;

/** A key that tokens are signed with. It stays in the controllers and their database. */
export interface GatewaySigningKey extends GatewayKey {
  /** Ed25519, base64url, as the member `d` of a JSON Web Key. */
  readonly d: string;
}

/** A new key, at random. */
export function createSigningKey(kid: string): GatewaySigningKey {
  // The key is read again before it is exported. Node waits for itself if, during an export, it collects the job that has
  // made the same key.
  const { privateKey } = generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const { x = '', d = '' } = createPrivateKey(privateKey).export({ format: 'jwk' });
  return { kid, x, d };
}

/** Prepares a key for {@link signGatewayToken}: once for many tokens. */
export async function importSigningKey({ kid, x, d }: GatewaySigningKey): Promise<SigningKey> {
  return { kid, key: await importJWK({ kty: 'OKP', crv: 'Ed25519', x, d }, ALGORITHM) };
}

/** A prepared key of {@link importSigningKey}. */
export interface SigningKey {
  readonly kid: string;
  readonly key: ImportedKey;
}

export function signGatewayToken(
  claims: GatewayTokenClaims,
  { kid, key }: SigningKey,
): Promise<string> {
  return new SignJWT({ ...claims }).setProtectedHeader({ alg: ALGORITHM, kid }).sign(key);
}

/** Public keys that were prepared for {@link verifyGatewayToken}, by their ids. */
export type GatewayKeys = ReadonlyMap<string, ImportedKey>;

/** Prepares public keys: once for many tokens. */
export async function importGatewayKeys(keys: readonly GatewayKey[]): Promise<GatewayKeys> {
  const imported = keys.map(
    async ({ kid, x }) =>
      [kid, await importJWK({ kty: 'OKP', crv: 'Ed25519', x }, ALGORITHM)] as const,
  );
  return new Map(await Promise.all(imported));
}

/** Why a token is refused. `unknown_key` may only mean that the keys are older than the token. */
export type GatewayTokenProblem = 'malformed' | 'unknown_key' | 'forged' | 'expired';

export type VerifiedGatewayToken =
  | { readonly outcome: 'valid'; readonly claims: GatewayTokenClaims }
  | { readonly outcome: 'refused'; readonly reason: GatewayTokenProblem };

/**
 * Whether a token was signed by one of the keys and is not over at `nowMs`, an instant of the database's clock.
 * At equality it is over. What it says of its key, and whether it was revoked, is for the caller to judge:
 * {@link isGatewayTokenFor}, {@link isRevoked}. Never throws, for any text.
 */
export async function verifyGatewayToken(
  token: string,
  { keys, nowMs }: { readonly keys: GatewayKeys; readonly nowMs: number },
): Promise<VerifiedGatewayToken> {
  const kid = kidOf(token);
  if (kid === undefined) return refused('malformed');
  const key = keys.get(kid);
  if (key === undefined) return refused('unknown_key');
  let payload: Uint8Array;
  try {
    ({ payload } = await compactVerify(token, key, { algorithms: [ALGORITHM] }));
  } catch {
    return refused('forged');
  }
  const claims = claimsOf(payload);
  if (claims === undefined) return refused('malformed');
  return nowMs >= millisecondsOf(claims.exp) ? refused('expired') : { outcome: 'valid', claims };
}

function refused(reason: GatewayTokenProblem): VerifiedGatewayToken {
  return { outcome: 'refused', reason };
}

/** Three parts, of which the first begins as `{"kid` or `{"alg` does. */
const SHAPE = /^(eyJ[\w-]*)\.[\w-]+\.[\w-]+$/u;

/**
 * The id of the key that a token names; undefined for what is no token of ours. Anybody sends texts as fast as it
 * goes: for those that are no tokens nothing is decoded, and no error is made.
 */
export function kidOf(token: string): string | undefined {
  if (token.length > LIMITS.gatewayTokenBytesMax) return undefined;
  const [, head] = SHAPE.exec(token) ?? [];
  if (head === undefined) return undefined;
  try {
    const said = JSON.parse(Buffer.from(head, 'base64url').toString()) as Record<string, unknown>;
    return said['alg'] === ALGORITHM && typeof said['kid'] === 'string' ? said['kid'] : undefined;
  } catch {
    return undefined;
  }
}

const TEXTS = ['sub', 'ns', 'key', 'tag', 'jti'] as const;
const OPTIONAL_TEXTS = ['grant', 'start'] as const;

/** Only a controller signs, so this finds what another version has signed, and not what somebody made up. */
function claimsOf(payload: Uint8Array): GatewayTokenClaims | undefined {
  let read: unknown;
  try {
    read = JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const said = read as Record<string, unknown>;
  const { claims } = said;
  const isWhole =
    TEXTS.every((name) => typeof said[name] === 'string') &&
    OPTIONAL_TEXTS.every((name) => said[name] === undefined || typeof said[name] === 'string') &&
    [said['iat'], said['exp']].every((instant) => Number.isFinite(instant)) &&
    (claims === undefined || (typeof claims === 'object' && claims !== null));
  return isWhole ? (read as GatewayTokenClaims) : undefined;
}

/** A numeric date of a token, in whole milliseconds: its fraction is not exact. */
export function millisecondsOf(seconds: number): number {
  return Math.round(seconds * 1_000);
}

/** Whether a token is for this key. */
export function isGatewayTokenFor(
  claims: Pick<GatewayTokenClaims, 'ns' | 'key'>,
  key: { readonly namespace: string; readonly name: string },
): boolean {
  return claims.ns === key.namespace && claims.key === key.name;
}

/**
 * Whether a revocation refuses a token: one that was issued at that very moment too. A name is that of one key; without
 * one the children of the namespace are included.
 */
export function isRevoked(
  { sub, ns, key, grant, iat }: GatewayTokenClaims,
  { namespace, name, user, leaseId, at }: GatewayRevocation,
): boolean {
  return (
    millisecondsOf(iat) <= at &&
    (name === null ? isWithinNamespace(ns, namespace) : ns === namespace && name === key) &&
    (user === null || user === sub) &&
    (leaseId === null || leaseId === grant)
  );
}
